"""The disk as the log sees it: few verbs, so that a simulation can stand in for it.

Laws: no space is DiskFull and may pass; any other failure is DiskFailed and is never retried (after an EIO from fsync the kernel
may have dropped the pages). Called by storage and partitions. Must not come in: formats.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class DiskFailed(Exception):
    """The folder or its device failed; the replica goes offline."""


class DiskFull(Exception):
    """No space left; what was written of the append has been cut off again."""


class Space(NamedTuple):
    total: int
    free: int


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"{what}: no space left on the device") from e
        raise DiskFailed(f"{what}: {e.strerror}") from e


class File:
    """An open file. Closed when the last reference goes, so that a region under way to a client outlives a deletion."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: Path, fd: int) -> None:
        self.path, self._fd = path, fd

    def fileno(self) -> int:
        return self._fd

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def pread(self, length: int, position: int) -> bytes:
        with _translated(f"reading {self.path}"):
            return os.pread(self._fd, length, position)

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of `data` or raise; a short write is taken up again, so that its cause is learnt."""
        view = memoryview(data)
        with _translated(f"writing {self.path}"):
            while view:
                n = os.pwrite(self._fd, view, position)
                view, position = view[n:], position + n

    def truncate(self, size: int) -> None:
        with _translated(f"truncating {self.path}"):
            os.ftruncate(self._fd, size)

    def fsync(self) -> None:
        with _translated(f"flushing {self.path}"):
            os.fdatasync(self._fd)

    def __del__(self) -> None:
        os.close(self._fd)


class Disk:
    """The real one."""

    def open(self, path: Path, *, create: bool = False) -> File:
        with _translated(f"opening {path}"):
            return File(path, os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644))

    def exists(self, path: Path) -> bool:
        return path.exists()

    def isdir(self, path: Path) -> bool:
        return path.is_dir()

    def listdir(self, path: Path) -> list[str]:
        return sorted(os.listdir(path))

    def mkdir(self, path: Path) -> None:
        with _translated(f"creating {path}"):
            path.mkdir(parents=True, exist_ok=True)

    def rename(self, old: Path, new: Path) -> None:
        with _translated(f"renaming {old}"):
            os.replace(old, new)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def rmtree(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)

    def read(self, path: Path) -> bytes | None:
        """The whole file, or None when it is not there."""
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as e:
            raise DiskFailed(f"reading {path}: {e.strerror}") from e

    def replace(self, path: Path, data: bytes, *, durable: bool = False) -> None:
        """Put `data` in the place of `path` whole: a reader sees the old file or the new one."""
        temporary = path.with_name(path.name + ".tmp")
        with _translated(f"writing {path}"):
            with open(temporary, "wb") as out:
                out.write(data)
                if durable:
                    out.flush()
                    os.fdatasync(out.fileno())
            os.replace(temporary, path)

    def space(self, path: Path) -> Space:
        s = os.statvfs(path)
        return Space(s.f_blocks * s.f_frsize, s.f_bavail * s.f_frsize)
