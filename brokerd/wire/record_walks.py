"""Selects `record_walk`: the Python source, or the same source compiled with Cython by `record_walk_build` (decision 044).

Invariants: the source is the reference. A module compiled from another version of the source or of its C types is not used.
"""

from __future__ import annotations

import importlib
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from brokerd.wire import record_columns, record_walk

COMPILED_NAME = "_record_walk"
"""The compiled module is beside the source, with the suffix of this Python's extension modules. It has another name than the source, because it
would otherwise be imported even when it is outdated."""


def source_digest() -> str:
    """The digest of the source and, where it is installed, of its C types."""
    source = Path(record_walk.__file__)
    types = source.with_suffix(".pxd")
    return sha256(source.read_bytes() + (types.read_bytes() if types.exists() else b"")).hexdigest()


def compiled() -> ModuleType | None:
    """The compiled module, if one exists that was compiled from exactly this source."""
    try:
        found = importlib.import_module(f"{__package__}.{COMPILED_NAME}")
        return found if source_digest() == found.SOURCE_DIGEST else None
    except (ImportError, OSError, AttributeError):
        return None


_used = compiled() or record_walk
COMPILED = _used is not record_walk
Progress = _used.Progress
walk = _used.walk
_whole: Any = _used if COMPILED else record_columns
batch_is_valid = _whole.batch_is_valid
plain_records = _whole.plain_records
RUNS = None if COMPILED else record_columns.run
"""The argument `runs` of a walk: compiled, a record costs less alone than in a run."""
INVALID = (_used.Invalid, record_walk.Invalid)
"""Exceptions of a walk over unreadable records."""
