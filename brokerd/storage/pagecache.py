"""Page cache: Linux system calls that Python lacks.

`resident`, `pread_cached` and `open_cached` never block. `load` blocks and is called by jobs. `preadv` with RWF_NOWAIT is not used for
`resident`: for a missing page it starts read-ahead, which took 4 ms in the caller's thread.
"""

from __future__ import annotations

import ctypes
import errno
import os

PAGE = os.sysconf("SC_PAGESIZE")
_NR_OPENAT2, _NR_CACHESTAT = 437, 451
_AT_FDCWD = -100
_RESOLVE_CACHED = 0x20
_PROT_READ, _MAP_SHARED = 1, 1
_MAP_FAILED = ctypes.c_void_p(-1).value
# PyDLL keeps the GIL. The calls take microseconds; releasing the GIL could cost milliseconds.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
_PRESENT = bytes(i & 1 for i in range(256))


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _CacheStat(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cache", "dirty", "writeback", "evicted", "recently_evicted"))


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


_range, _stat, _how = _Range(), _CacheStat(), _How(os.O_RDWR | os.O_CLOEXEC, 0, _RESOLVE_CACHED)
_range_at, _stat_at, _how_at = ctypes.byref(_range), ctypes.byref(_stat), ctypes.byref(_how)


def resident(fd: int, position: int, length: int, *, pending: bool = True) -> int:
    """Return the number of bytes from `position` on, up to `length`, that can be read without waiting. `pending`: some pages may be loading.
    cachestat (Linux 6.5)
    counts those; mincore does not and takes ten times as long. Loop's thread only, because the buffers are shared."""
    first = position - position % PAGE
    pages = (position + length - first + PAGE - 1) // PAGE
    _range.offset, _range.length = first, pages * PAGE
    if not _libc.syscall(_NR_CACHESTAT, fd, _range_at, _stat_at, 0):
        if not _stat.cache:
            return _up_to_end(fd, position, length, 0)
        if _stat.cache >= pages and not pending:
            return length
    return _up_to_end(fd, position, length, _prefix(fd, first, pages) - (position - first))


def cached_bytes(fd: int, position: int, length: int) -> int:
    """Bytes of the pages of the range that are in the page cache or being loaded. All of them if the kernel cannot tell. Loop's thread only."""
    first = position - position % PAGE
    pages = (position + length - first + PAGE - 1) // PAGE
    _range.offset, _range.length = first, pages * PAGE
    if _libc.syscall(_NR_CACHESTAT, fd, _range_at, _stat_at, 0):
        return pages * PAGE
    return int(_stat.cache) * PAGE


def _prefix(fd: int, first: int, pages: int) -> int:
    """Number of bytes from the page boundary `first` on that are in memory. All of them if the kernel cannot tell."""
    size = pages * PAGE
    address = _libc.mmap(None, size, _PROT_READ, _MAP_SHARED, fd, first)
    if address == _MAP_FAILED:
        return size
    try:
        present = ctypes.create_string_buffer(pages)
        if _libc.mincore(address, size, present):
            return size
    finally:
        _libc.munmap(address, size)
    missing = present.raw[:pages].translate(_PRESENT).find(b"\0")
    return size if missing < 0 else missing * PAGE


def _up_to_end(fd: int, position: int, length: int, resident: int) -> int:
    """Bytes beyond the end of the file are not missing."""
    if resident >= length:
        return length
    return length if position + max(0, resident) >= os.fstat(fd).st_size else max(0, resident)


def disable_read_ahead(fd: int) -> None:
    """Reads of this descriptor load the requested pages only, and `load` the requested range. Raises OSError."""
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)


def pread_cached(fd: int, length: int, position: int) -> bytes | None:
    """Read up to `length` bytes that `resident` has found. Returns None if the first of them is being loaded, and fewer bytes if a later one is. Without
    support of the file system the call may block. Raises OSError."""
    buffer = bytearray(length)
    try:
        size = os.preadv(fd, (buffer,), position, os.RWF_NOWAIT)
    except BlockingIOError:
        return None
    except OSError as e:
        if e.errno != errno.EOPNOTSUPP:
            raise
        return os.pread(fd, length, position)
    return bytes(buffer) if size == length else bytes(memoryview(buffer)[:size])


def load(fd: int, position: int, length: int, beyond: int = 0) -> None:
    """Load the range into the page cache. Blocks. Starts read-ahead of `beyond` further bytes. Raises OSError."""
    end = min(position + length, os.fstat(fd).st_size)
    while position < end:
        # Again in each round: the kernel may shorten the request to the size that suits the device.
        os.posix_fadvise(fd, position, end + beyond - position, os.POSIX_FADV_WILLNEED)
        os.pread(fd, 1, position)  # waits for this page; the following pages are loading
        first = position - position % PAGE
        position = first + max(PAGE, _prefix(fd, first, (end - first + PAGE - 1) // PAGE))


def open_cached(path: str) -> int | None:
    """A descriptor for reading and writing. None if opening the file could wait for the device. Raises OSError."""
    _how.flags = os.O_RDWR | os.O_CLOEXEC
    fd: int = _libc.syscall(_NR_OPENAT2, _AT_FDCWD, os.fsencode(path), _how_at, ctypes.sizeof(_how))
    if fd >= 0:
        return fd
    error = ctypes.get_errno()
    if error == errno.EAGAIN:
        return None
    if error in (errno.ENOSYS, errno.EPERM, errno.EINVAL):  # a kernel before 5.12, or a sandbox without openat2
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    raise OSError(error, os.strerror(error), path)
