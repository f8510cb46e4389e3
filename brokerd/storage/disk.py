"""The disk interface of the storage layer: files, directories and the errors of a disk. It is small so that the simulation can implement it.

No space left raises DiskFull and may be temporary. Any other error raises DiskFailed and is never retried: after an EIO from fsync the kernel may have dropped
the pages. `os_disk.OsDisk` is the real implementation, tests/simulation/disk.py the simulated one. One test checks both. Does not contain: system calls
(`os_disk`), file formats.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import NamedTuple

from brokerd.storage.open_files import OpenFiles

DISCARDED = ".deleted"
"""Suffix of files that are waiting to be unlinked. Remaining ones are deleted when the log is opened."""
Bytes = bytes | bytearray | memoryview


class DiskFailed(Exception):
    """A file or its device failed. The replica goes offline; with `of_device` all replicas of the log directory."""

    def __init__(self, text: str, *, of_device: bool = False) -> None:
        super().__init__(text)
        self.of_device = of_device


class FileDamaged(DiskFailed):
    """The content of a file is invalid. The device reported no error."""


class FileMissing(DiskFailed):
    """There is no file or directory with this name."""


class DiskFull(Exception):
    """No space left on the device. A partial append has been truncated."""


class Space(NamedTuple):
    """Disk space in bytes."""

    total: int
    free: int


class File(ABC):
    """An open file. It stays readable while it is referenced, so that a response that is being sent survives a deletion."""

    __slots__ = ("__weakref__", "path")
    path: Path

    @abstractmethod
    def fileno(self) -> int:
        """The file descriptor, for sendfile. A simulated file raises OSError; read it with `pread`."""

    @abstractmethod
    def size(self) -> int: ...

    @abstractmethod
    def pread(self, length: int, position: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file. Raises NotInPageCache in non-blocking mode."""

    def resident(self, position: int, length: int) -> int:
        """Return the number of bytes from `position` on, at most `length`, that can be read without waiting for the device."""
        return length

    def cached_bytes(self, position: int, length: int) -> int:
        """Return how many of the bytes are in the page cache, or are being loaded, in whole pages. Never waits."""
        return length

    def load(self, position: int, length: int, beyond: int = 0) -> None:
        """Wait until the bytes are in the page cache. Starts read-ahead of `beyond` further bytes."""
        self.pread(length, position)

    def evict(self, position: int, length: int) -> None:
        """Let the kernel forget clean cached pages of the bytes. Unflushed data stays."""
        return

    @abstractmethod
    def pwrite(self, data: Bytes, position: int) -> None:
        """Write all of `data` or raise. After DiskFull a part may be written."""

    @abstractmethod
    def truncate(self, size: int) -> None: ...

    @abstractmethod
    def fsync(self) -> None:
        """Return when the content, and the name of a new file, survive a power failure."""


class Disk(ABC):
    """The disk interface."""

    open_files: OpenFiles | None = None
    """The limit of open segment files. None if unlimited (tools, tests)."""

    def limit_open_files(self, open_files: OpenFiles) -> None:
        self.open_files = open_files

    @abstractmethod
    def open(self, path: Path, *, create: bool = False) -> File:
        """Open for reading and writing. Raises DiskFailed if the file does not exist and `create` is false."""

    @abstractmethod
    def exists(self, path: Path) -> bool: ...

    @abstractmethod
    def isdir(self, path: Path) -> bool: ...

    @abstractmethod
    def size(self, path: Path) -> int:
        """Size of the file in bytes, -1 if it does not exist."""

    @abstractmethod
    def listdir(self, path: Path) -> list[str]:
        """Names, sorted."""

    @abstractmethod
    def mkdir(self, path: Path) -> None:
        """Create a directory with its parents. It may exist already."""

    @abstractmethod
    def rename(self, old: Path, new: Path) -> None:
        """Rename atomically. A file at `new` is replaced."""

    @abstractmethod
    def unlink(self, path: Path) -> None:
        """Delete a file. It may be missing."""

    @abstractmethod
    def rmtree(self, path: Path) -> None: ...

    @abstractmethod
    def sync_folder(self, path: Path) -> None:
        """Return when the names in directory `path` survive a power failure."""

    @abstractmethod
    def sync_all(self, path: Path) -> None:
        """Return when all data written to the file system of `path` survives a power failure. Cheaper than thousands of fsyncs."""

    @abstractmethod
    def space(self, path: Path) -> Space: ...

    @abstractmethod
    def file_id(self, path: Path) -> str:
        """`device:inode:birth time` of a file. A copy has another id; renaming and writing keep the id. Empty if the file does not exist."""

    def read(self, path: Path) -> bytes | None:
        """The content of the file, None if it does not exist."""
        size = self.size(path)
        return None if size < 0 else self.open(path).pread(size, 0)

    def replace(self, path: Path, data: bytes, *, durable: bool = False) -> None:
        """Replace `path` by `data` atomically: a reader sees the old file or the new one."""
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
        """Remove the name of the file now. Its blocks may be freed later, because unlinking a gigabyte takes long."""
        self.unlink(path)

    def discard_tree(self, path: Path) -> None:
        """Delete a directory with its content, now or later. The caller renames it first."""
        self.rmtree(path)
