"""The remote store: objects with a name, written once. A folder is the first kind; `s3` is another.

Invariants: `put` returns when the object is complete and survives a power failure of the store. An object that is visible is complete. A name is written
once, so a reader never sees two contents. Used by the helper process only, because every call may block. Does not contain: what the objects mean.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

PUT_CHUNK_BYTES = 1024 * 1024
"""Bytes of one write of an upload; the copy quota is applied between two of them."""
Spend = Callable[[int], None]
"""Waits until the quota allows this number of bytes."""


class StoreUnavailable(Exception):
    """The store did not respond, or answered with a temporary error."""


class ObjectMissing(Exception):
    """The store has no object of this name."""


class ObjectStore(Protocol):
    """Names have `/` between their parts. Every call raises StoreUnavailable."""

    def put_file(self, name: str, path: Path, size: int, spend: Spend) -> None:
        """Store the first `size` bytes of a local file. Raises OSError for an error of the local file."""

    def put_bytes(self, name: str, data: bytes) -> None: ...

    def get(self, name: str, position: int, length: int) -> bytes:
        """Up to `length` bytes in one request; fewer at the end of the object. Raises ObjectMissing."""

    def delete(self, name: str) -> None:
        """Delete the object. A missing object is no error."""

    def names(self, prefix: str) -> Iterator[str]:
        """The names of the objects below a prefix that ends with `/`."""


class FolderStore:
    """A folder of a local or shared file system. It must exist: a folder that is created here would hide that the file system is not mounted."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def _check_mounted(self) -> None:
        if not self.root.is_dir():
            raise StoreUnavailable(f"{self.root} does not exist: create it, or mount its file system")

    def _path(self, name: str) -> Path:
        return self.root / name

    def put_file(self, name: str, path: Path, size: int, spend: Spend) -> None:
        with open(path, "rb") as source:

            def write(target: int) -> None:
                left = size
                while left:
                    data = source.read(min(left, PUT_CHUNK_BYTES))
                    if not data:
                        raise OSError(f"{path}: {left} of {size} bytes are missing")
                    spend(len(data))
                    _write_all(target, data)
                    left -= len(data)

            self._write_object(name, write)

    def put_bytes(self, name: str, data: bytes) -> None:
        self._write_object(name, lambda target: _write_all(target, data))

    def _write_object(self, name: str, write: Callable[[int], None]) -> None:
        self._check_mounted()
        path = self._path(name)
        partial = path.with_name(path.name + ".partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            target = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                write(target)
                os.fsync(target)
            finally:
                os.close(target)
            os.rename(partial, path)
            _sync_folders(path.parent, self.root)
        except OSError as e:
            with suppress(OSError):
                partial.unlink()
            raise StoreUnavailable(f"{path}: {e.strerror or e}") from e

    def get(self, name: str, position: int, length: int) -> bytes:
        path = self._path(name)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as e:
            self._check_mounted()
            raise ObjectMissing(name) from e
        except OSError as e:
            raise StoreUnavailable(f"{path}: {e.strerror}") from e
        try:
            out = bytearray()
            while len(out) < length and (data := os.pread(fd, length - len(out), position + len(out))):
                out += data
            return bytes(out)
        except OSError as e:
            raise StoreUnavailable(f"{path}: {e.strerror}") from e
        finally:
            os.close(fd)

    def delete(self, name: str) -> None:
        self._check_mounted()
        path = self._path(name)
        try:
            path.unlink(missing_ok=True)
            for folder in path.parents:
                if folder == self.root:
                    break
                folder.rmdir()  # raises OSError when other objects are in it
        except FileNotFoundError:
            pass
        except OSError as e:
            if path.exists():
                raise StoreUnavailable(f"{path}: {e.strerror}") from e

    def names(self, prefix: str) -> Iterator[str]:
        self._check_mounted()
        for folder, _, files in os.walk(self.root / prefix):
            for file in sorted(files):
                yield str((Path(folder) / file).relative_to(self.root))


def _write_all(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]


def _sync_folders(folder: Path, root: Path) -> None:
    """Flush the names of the object and of the folders that may be new."""
    for one in (folder, *folder.parents):
        fd = os.open(one, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        if one == root:
            return
