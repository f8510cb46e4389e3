"""The disk of the operating system: system calls for files and directories, their error numbers as errors of the disk interface, and reads that do not wait.

Invariants: a failure of the device is distinguished from that of one file. In non-blocking mode no read and no name waits for the device: it raises NotInPageCache.
Does not contain: the interface (`disk`), residency of pages (`pagecache`), file formats.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from brokerd.storage import nonblocking, pagecache
from brokerd.storage.disk import DISCARDED, Bytes, Disk, DiskFailed, DiskFull, File, FileMissing, Space
from brokerd.storage.found_bytes import NOTHING_FOUND
from brokerd.storage.nonblocking import NotInPageCache
from brokerd.storage.pending_page_reads import READ_AHEAD_BYTES, PendingPageReads

_libc = ctypes.CDLL(None, use_errno=True)

STATX_BYTES, STATX_BTIME = 256, 0x800
AT_FDCWD = -100
_STATX_MASK = struct.Struct("@I")
_STATX_TIME = struct.Struct("@qI")
_STATX_BTIME_AT = 80
"""Linux's `struct statx` (statx(2)). Python's os.stat does not read the birth time before 3.15."""


DEVICE_ERRORS = frozenset(
    {errno.EIO, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.ESTALE, errno.EUCLEAN, errno.ETIMEDOUT, errno.EREMOTEIO}
)
"""Error numbers that mean that the whole device failed, not one file."""


@contextmanager
def _translate_errors(what: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise _translation(what, path, e) from e


def _translation(what: str, path: Path, e: OSError) -> DiskFull | DiskFailed:
    if e.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(f"{what} {path}: no space left on the device")
    if e.errno == errno.ENOENT:
        return FileMissing(f"{what} {path}: {e.strerror}")
    return DiskFailed(f"{what} {path}: {e.strerror}", of_device=e.errno in DEVICE_ERRORS)


_pending = PendingPageReads()


class OsFile(File):
    """A file that is closed with its last reference."""

    __slots__ = ("_fd", "_kernel_reads_ahead", "_name", "_resident_range")

    def __init__(self, path: Path, fd: int) -> None:
        self.path, self._fd = path, fd
        self._kernel_reads_ahead = True  # for the reads of this handle
        self._name = str(path)
        self._resident_range = NOTHING_FOUND

    def fileno(self) -> int:
        return self._fd

    def size(self) -> int:
        with _translate_errors("looking at", self.path):
            return os.fstat(self._fd).st_size

    def resident(self, position: int, length: int) -> int:
        now_s = time.monotonic()
        if self._resident_range.contains(position, length, now_s):
            return length
        pending = _pending.contains(self._name, position, length, now_s)
        found = pagecache.resident(self._fd, position, length, pending=pending)
        if found:
            self._resident_range = self._resident_range.with_range(position, found, now_s)
            if pending:
                _pending.on_cached(self._name, position, found, now_s)
        return found

    def cached_bytes(self, position: int, length: int) -> int:
        return pagecache.cached_bytes(self._fd, position, length)

    def load(self, position: int, length: int, beyond: int = 0) -> None:
        _pending.add(self._name, position, length + beyond, time.monotonic())
        with _translate_errors("reading", self.path):
            if self._kernel_reads_ahead:
                # The pages of a read-ahead would be on their way from the device without being in `_pending`, for every later read and sendfile.
                pagecache.disable_read_ahead(self._fd)
                self._kernel_reads_ahead = False
            pagecache.load(self._fd, position, length, beyond)

    def evict(self, position: int, length: int) -> None:
        self._resident_range = NOTHING_FOUND
        with _translate_errors("evicting", self.path):
            first = (
                position - position % pagecache.PAGE
            )  # the first byte of the page belongs to a range that was evicted before
            os.posix_fadvise(self._fd, first, length + position - first, os.POSIX_FADV_DONTNEED)

    def pread(self, length: int, position: int) -> bytes:
        read: Callable[[int, int, int], bytes | None] = os.pread
        if not nonblocking.are_reads_nonblocking():
            _pending.add(self._name, position, length + READ_AHEAD_BYTES, time.monotonic())
        elif self.resident(position, length) < length:
            raise self._not_in_page_cache(position, length)
        else:
            read = pagecache.pread_cached
        try:
            data = read(self._fd, length, position)
        except OSError as e:
            raise _translation("reading", self.path, e) from e
        if data is None:
            raise self._not_in_page_cache(position, length)
        if 0 < len(data) < length:
            # Linux limits a read to 2 GiB and may interrupt it at a signal. An empty read is the end of the file.
            return data + self.pread(length - len(data), position + len(data))
        return data

    def _not_in_page_cache(self, position: int, length: int) -> NotInPageCache:
        return NotInPageCache(f"{self.path} at {position}", partial(self.load, position, length))

    def pwrite(self, data: Bytes, position: int) -> None:
        n = 0
        try:
            n = os.pwrite(self._fd, data, position)
        except OSError as e:
            raise _translation("writing", self.path, e) from e
        if n < len(data):
            # Retry after a short write, to get the error.
            self.pwrite(memoryview(data)[n:], position + n)

    def truncate(self, size: int) -> None:
        self._resident_range = NOTHING_FOUND
        with _translate_errors("truncating", self.path):
            os.ftruncate(self._fd, size)

    def fsync(self) -> None:
        with _translate_errors("flushing", self.path):
            os.fdatasync(self._fd)

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self._fd)


class OsDisk(Disk):
    """The real disk. `background` runs deletions on another thread. Without it they run synchronously."""

    def __init__(self, background: Callable[[Callable[[], None]], object] | None = None) -> None:
        self._background = background

    # At the start these methods are called for every file of ten thousand partitions. They use no context manager, which would cost as much as the system call.
    def open(self, path: Path, *, create: bool = False) -> File:
        try:
            if not create and nonblocking.are_reads_nonblocking():
                return self._open_cached(path)
            return OsFile(path, os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644))
        except OSError as e:
            raise _translation("opening", path, e) from e

    def _open_cached(self, path: Path) -> OsFile:
        """Raises OSError, NotInPageCache."""
        fd = pagecache.open_cached(str(path))
        if fd is None:
            raise NotInPageCache(f"the name of {path}", partial(self.exists, path))
        return OsFile(path, fd)

    def read(self, path: Path) -> bytes | None:
        try:
            file = (
                self._open_cached(path)
                if nonblocking.are_reads_nonblocking()
                else OsFile(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            )
        except FileNotFoundError:
            return None
        except OSError as e:
            raise _translation("opening", path, e) from e
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
        with _translate_errors("looking at", path):
            return path.is_dir()

    def size(self, path: Path) -> int:
        found = self._stat(path)
        return -1 if found is None else found.st_size

    def listdir(self, path: Path) -> list[str]:
        with _translate_errors("listing", path):
            return sorted(os.listdir(path))

    def mkdir(self, path: Path) -> None:
        with _translate_errors("creating", path):
            path.mkdir(parents=True, exist_ok=True)

    def rename(self, old: Path, new: Path) -> None:
        with _translate_errors("renaming", old):
            os.replace(old, new)

    def unlink(self, path: Path) -> None:
        with _translate_errors("removing", path):
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
        with _translate_errors("flushing", path):
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
        with _translate_errors("looking at", path):
            s = os.statvfs(path)
        return Space(s.f_blocks * s.f_frsize, s.f_bavail * s.f_frsize)

    def file_id(self, path: Path) -> str:
        found = self._stat(path)
        return "" if found is None else f"{found.st_dev}:{found.st_ino}:{_birth_time(path)}"


def _birth_time(path: Path) -> str:
    """The birth time of a file in nanoseconds, which distinguishes files that reuse an inode number. Empty if the file system does not store it."""
    buffer = ctypes.create_string_buffer(STATX_BYTES)
    statx = getattr(_libc, "statx", None)
    if statx is None or statx(AT_FDCWD, os.fsencode(path), 0, STATX_BTIME, buffer) != 0:
        return ""
    (mask,) = _STATX_MASK.unpack_from(buffer.raw)
    if not mask & STATX_BTIME:
        return ""
    seconds, nanoseconds = _STATX_TIME.unpack_from(buffer.raw, _STATX_BTIME_AT)
    return str(seconds * 1_000_000_000 + nanoseconds)
