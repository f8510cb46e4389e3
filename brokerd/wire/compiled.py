"""Selects modules of the request path that Cython has compiled (`compile`), where they were built (decision 044).

Invariants: the Python source is the reference. A module compiled from another version of the source or of its C types is not used.
"""

from __future__ import annotations

import importlib
from hashlib import sha256
from pathlib import Path
from types import ModuleType


def compiled_name(source: ModuleType) -> str:
    """The path of the compiled module: next to the source, with the suffix of this Python's extension modules. Its name differs from the name of the source,
    because otherwise an outdated module would be imported."""
    return "_" + source.__name__.rpartition(".")[2]


def source_path(source: ModuleType) -> Path:
    assert source.__file__ is not None
    return Path(source.__file__)


def source_digest(source: ModuleType) -> str:
    """The digest of the source and, where it is installed, of its C types."""
    path = source_path(source)
    types = path.with_suffix(".pxd")
    return sha256(path.read_bytes() + (types.read_bytes() if types.exists() else b"")).hexdigest()


def find_compiled(source: ModuleType) -> ModuleType | None:
    """The compiled module, if one exists that was compiled from exactly this source."""
    try:
        found = importlib.import_module(f"{__package__}.{compiled_name(source)}")
        return found if source_digest(source) == found.SOURCE_DIGEST else None
    except (ImportError, OSError, AttributeError):
        return None
