"""Slices of a segment for the jobs that build its index files.

A job reads a segment a slice at a time, with a file handle of its own, and checks every batch before its records count.
"""

from __future__ import annotations

from pathlib import Path

from brokerd.storage.disk import Disk, FileDamaged
from brokerd.wire import records
from brokerd.wire.records import BatchHeader


def read_slice(disk: Disk, path: Path, position: int, size: int, slice_bytes: int) -> bytes:
    """Read about `slice_bytes` from `position` on of a segment with `size` bytes: at least the whole first batch. The last batch may be incomplete. Raises
    DiskFailed."""
    file = disk.open(path)
    length = min(max(slice_bytes, records.HEADER_BYTES), size - position)
    data = file.pread(length, position)
    if len(data) >= records.HEADER_BYTES and (first := records.peek(data)).size > length:
        data = file.pread(min(first.size, size - position), position)
    return data


def check_batch(path: Path, position: int, data: bytes, at: int, header: BatchHeader) -> None:
    """`position`: that of the batch in the segment; it is at `at` in `data`. Raises DiskFailed."""
    if header.magic != records.MAGIC or not records.crc_is_right(data, at, header):
        raise FileDamaged(f"{path}: the batch at position {position} is damaged")
