"""Imports the compiled modules of the request path in place of their Python sources (decision 096).

Invariants: the Python sources are the reference. Compiled modules are used all together or not at all: only if they were compiled from exactly the
sources of `brokerd` and `weir_common` that this process would import.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

from brokerd.compiled.modules import MODULES

GROUP = "brokerd_request_path"
"""mypyc puts the code of all modules into one library with this name."""
LIBRARY = f"{GROUP}__mypyc"
DIGEST_FILE = "sources.sha256"
ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("brokerd", "weir_common")
_SUFFIX = EXTENSION_SUFFIXES[0]


def compiled_directory() -> Path:
    """The directory of the modules for this Python version."""
    cache_tag = sys.implementation.cache_tag or "python"
    return Path(__file__).with_name("modules-" + cache_tag)


def module_path(directory: Path, name: str) -> Path:
    return directory / (name + _SUFFIX)


def source_digest(root: Path = ROOT) -> str:
    """The digest of all Python sources: compiled code also depends on the types of modules that are not compiled."""
    digest = sha256()
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()


class CompiledModuleFinder(MetaPathFinder):
    """Finds the compiled modules in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._paths = {name: module_path(directory, name) for name in (LIBRARY, *MODULES)}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        found = self._paths.get(fullname)
        if found is None:
            return None
        return spec_from_file_location(fullname, found, loader=ExtensionFileLoader(fullname, str(found)))


def is_current(directory: Path) -> bool:
    """Return whether the modules in `directory` were compiled from the current sources."""
    try:
        return (directory / DIGEST_FILE).read_text() == source_digest()
    except OSError:
        return False


def install() -> bool:
    """Returns whether the compiled modules will be imported. Call it before the first import of one of them."""
    directory = compiled_directory()
    if not is_current(directory):
        return False
    sys.meta_path.insert(0, CompiledModuleFinder(directory))
    return True


def is_installed() -> bool:
    return any(isinstance(finder, CompiledModuleFinder) for finder in sys.meta_path)
