"""The disk as the log sees it: few verbs, so that a simulation can stand in for it.

Laws: no space is DiskFull and may pass; any other failure is DiskFailed and is never retried (after an EIO from fsync the kernel
may have dropped the pages). `OsDisk` is the real one, tests/simulation/disk.py the other; one conformance test holds both.
Called by storage, partitions and identity. Must not come in: formats.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from brokerd.storage.openfiles import OpenFiles

DISCARDED = ".deleted"
"""Suffix of files that are given up and wait to be unlinked; leftovers go at the next opening."""
Bytes = bytes | bytearray | memoryview
_libc = ctypes.CDLL(None, use_errno=True)


DEVICE_ERRORS = frozenset(
    {errno.EIO, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.ESTALE, errno.EUCLEAN, errno.ETIMEDOUT, errno.EREMOTEIO}
)
"""What says something about every file of a directory, and not about one."""


class DiskFailed(Exception):
    """A file or its device failed; the replica goes offline, and with `of_device` all of its directory."""

    def __init__(self, text: str, *, of_device: bool = False) -> None:
        super().__init__(text)
        self.of_device = of_device


class DiskFull(Exception):
    """No space left; what was written of the append has been cut off again."""


class Space(NamedTuple):
    """Bytes."""

    total: int
    free: int


class File(ABC):
    """An open file. It stays readable while somebody holds it, so that a region under way to a client outlives a deletion."""

    __slots__ = ("__weakref__", "path")
    path: Path

    @abstractmethod
    def fileno(self) -> int:
        """The descriptor, for sendfile. A simulated file has none and raises OSError: read it by `pread`."""

    @abstractmethod
    def size(self) -> int: ...

    @abstractmethod
    def pread(self, length: int, position: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""

    @abstractmethod
    def pwrite(self, data: Bytes, position: int) -> None:
        """Write all of `data` or raise; after DiskFull a part may stand there."""

    @abstractmethod
    def truncate(self, size: int) -> None: ...

    @abstractmethod
    def fsync(self) -> None:
        """Return when the content (and the file's name, if it is new) survives a power cut."""


class Disk(ABC):
    """The port. What is not abstract is made of what is."""

    open_files: OpenFiles | None = None
    """The bound on segment files kept open; None where nobody counts (tools, tests)."""

    @abstractmethod
    def open(self, path: Path, *, create: bool = False) -> File:
        """For reading and writing. Raises DiskFailed when it is not there and `create` is not asked for."""

    @abstractmethod
    def exists(self, path: Path) -> bool: ...

    @abstractmethod
    def isdir(self, path: Path) -> bool: ...

    @abstractmethod
    def size(self, path: Path) -> int:
        """Bytes of the file, without opening it; -1 when it is not there."""

    @abstractmethod
    def listdir(self, path: Path) -> list[str]:
        """Names, sorted."""

    @abstractmethod
    def mkdir(self, path: Path) -> None:
        """With its parents; one that is there already is fine."""

    @abstractmethod
    def rename(self, old: Path, new: Path) -> None:
        """Atomic; a file at `new` is replaced."""

    @abstractmethod
    def unlink(self, path: Path) -> None:
        """One that is not there is fine."""

    @abstractmethod
    def rmtree(self, path: Path) -> None: ...

    @abstractmethod
    def sync_folder(self, path: Path) -> None:
        """Return when the names in `path` survive a power cut."""

    @abstractmethod
    def sync_all(self, path: Path) -> None:
        """Return when everything written so far to the file system of folder `path` survives a power cut: cheaper than thousands of fsyncs."""

    @abstractmethod
    def space(self, path: Path) -> Space: ...

    def read(self, path: Path) -> bytes | None:
        """The whole file, or None when it is not there."""
        size = self.size(path)
        return None if size < 0 else self.open(path).pread(size, 0)

    def replace(self, path: Path, data: bytes, *, durable: bool = False) -> None:
        """Put `data` in the place of `path` whole: a reader sees the old file or the new one."""
        temporary = path.with_name(path.name + ".tmp")
        file = self.open(temporary, create=True)
        file.truncate(0)
        file.pwrite(data, 0)
        if durable:
            file.fsync()
        self.rename(temporary, path)
        if durable:
            self.sync_folder(path.parent)

    def discard(self, path: Path) -> None:
        """Take the file's name away now; its blocks may go later (unlinking a gigabyte takes long)."""
        self.unlink(path)

    def discard_tree(self, path: Path) -> None:
        """Remove a folder with all it holds, now or soon: give it a name first under which nobody looks for it."""
        self.rmtree(path)


@contextmanager
def _translated(what: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise _translation(what, path, e) from e


def _translation(what: str, path: Path, e: OSError) -> DiskFull | DiskFailed:
    if e.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"{what} {path}: no space left on the device")
    return DiskFailed(f"{what} {path}: {e.strerror}", of_device=e.errno in DEVICE_ERRORS)


class OsFile(File):
    """Closed when the last reference goes."""

    __slots__ = ("_fd",)

    def __init__(self, path: Path, fd: int) -> None:
        self.path, self._fd = path, fd

    def fileno(self) -> int:
        return self._fd

    def size(self) -> int:
        with _translated("looking at", self.path):
            return os.fstat(self._fd).st_size

    def pread(self, length: int, position: int) -> bytes:
        try:
            data = os.pread(self._fd, length, position)
        except OSError as e:
            raise _translation("reading", self.path, e) from e
        if 0 < len(data) < length:
            # Linux cuts single reads at 2 GiB and may at signals; the end of the file is told by an empty one.
            return data + self.pread(length - len(data), position + len(data))
        return data

    def pwrite(self, data: Bytes, position: int) -> None:
        n = 0
        try:
            n = os.pwrite(self._fd, data, position)
        except OSError as e:
            raise _translation("writing", self.path, e) from e
        if n < len(data):
            # A short write is taken up again, so that its cause is learnt.
            self.pwrite(memoryview(data)[n:], position + n)

    def truncate(self, size: int) -> None:
        with _translated("truncating", self.path):
            os.ftruncate(self._fd, size)

    def fsync(self) -> None:
        with _translated("flushing", self.path):
            os.fdatasync(self._fd)

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self._fd)


class OsDisk(Disk):
    """The real one. `background` runs a deletion elsewhere (a thread pool's submit); without it, it happens at once."""

    def __init__(self, background: Callable[[Callable[[], None]], object] | None = None) -> None:
        self._background = background

    # What a start does for every file of ten thousand partitions does without a context manager, which costs as much as the call.
    def open(self, path: Path, *, create: bool = False) -> File:
        try:
            return OsFile(path, os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644))
        except OSError as e:
            raise _translation("opening", path, e) from e

    def read(self, path: Path) -> bytes | None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as e:
            raise _translation("opening", path, e) from e
        file = OsFile(path, fd)
        return file.pread(file.size(), 0)

    def exists(self, path: Path) -> bool:
        return self._stat(path) is not None

    @staticmethod
    def _stat(path: Path) -> os.stat_result | None:
        try:
            return os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as e:
            raise _translation("looking at", path, e) from e

    def isdir(self, path: Path) -> bool:
        with _translated("looking at", path):
            return path.is_dir()

    def size(self, path: Path) -> int:
        found = self._stat(path)
        return -1 if found is None else found.st_size

    def listdir(self, path: Path) -> list[str]:
        with _translated("listing", path):
            return sorted(os.listdir(path))

    def mkdir(self, path: Path) -> None:
        with _translated("creating", path):
            path.mkdir(parents=True, exist_ok=True)

    def rename(self, old: Path, new: Path) -> None:
        with _translated("renaming", old):
            os.replace(old, new)

    def unlink(self, path: Path) -> None:
        with _translated("removing", path):
            path.unlink(missing_ok=True)

    def rmtree(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)

    def sync_folder(self, path: Path) -> None:
        self._on_folder(path, os.fsync)

    def sync_all(self, path: Path) -> None:
        def syncfs(fd: int) -> None:
            if _libc.syncfs(fd):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))

        self._on_folder(path, syncfs)

    @staticmethod
    def _on_folder(path: Path, flush: Callable[[int], None]) -> None:
        with _translated("flushing", path):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                flush(fd)
            finally:
                os.close(fd)

    def discard(self, path: Path) -> None:
        if self._background is None:
            self.unlink(path)
            return
        gone = path.with_name(path.name + DISCARDED)
        try:
            os.replace(path, gone)
        except FileNotFoundError:
            return
        except OSError as e:
            raise _translation("renaming", path, e) from e
        self._background(lambda: gone.unlink(missing_ok=True))

    def discard_tree(self, path: Path) -> None:
        if self._background is None:
            self.rmtree(path)
        else:
            self._background(lambda: self.rmtree(path))

    def space(self, path: Path) -> Space:
        with _translated("looking at", path):
            s = os.statvfs(path)
        return Space(s.f_blocks * s.f_frsize, s.f_bavail * s.f_frsize)
