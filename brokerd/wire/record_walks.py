"""Selects `record_walk`: the Python source, or the same source compiled with mypyc by `record_walk_build` (decision 044).

Invariants: the source is the reference. A module compiled from another version of the source is not used.
"""

from __future__ import annotations

import importlib
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

from brokerd.wire import record_walk

COMPILED_NAME = "_record_walk"
"""The compiled module is beside the source, with the suffix of this Python's extension modules. It has another name than the source, because it
would otherwise be imported even when it is outdated."""


def source_digest() -> str:
    return sha256(Path(record_walk.__file__).read_bytes()).hexdigest()


def compiled() -> ModuleType | None:
    """The compiled module, if one exists that was compiled from exactly this source."""
    try:
        found = importlib.import_module(f"{__package__}.{COMPILED_NAME}")
        return found if source_digest() == found.SOURCE_DIGEST else None
    except (ImportError, OSError):
        return None


_used = compiled() or record_walk
COMPILED = _used is not record_walk
Progress = _used.Progress
walk = _used.walk
batch_is_valid = _used.batch_is_valid
large_batch_is_valid = _used.large_batch_is_valid
walk_view: Any = record_walk.walk
"""The Python source also reads memoryviews; the compiled module reads only bytes."""
INVALID = (_used.Invalid, record_walk.Invalid)
"""Exceptions of a walk over unreadable records."""
