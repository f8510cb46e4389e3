"""Opens the delay index file of a segment, on the thread of the caller. Does not contain: the format (`delay_index`), the build."""

from __future__ import annotations

from pathlib import Path

from brokerd.storage import delay_index
from brokerd.storage.delay_index import IndexContents, InvalidDelayIndex
from brokerd.storage.disk import Disk, DiskFailed
from brokerd.storage.key_index import LogFile


def open_delay_index(disk: Disk, path: Path, base_offset: int, size: int, bucket_ms: int) -> IndexContents:
    """The index of the segment at `path`, of `size` bytes. Blocks. Its groups are read later, from the file that has this name then. Raises
    InvalidDelayIndex, also when there is none or it cannot be read."""
    index_path = path.with_suffix(delay_index.SUFFIX)

    def read(length: int, position: int) -> bytes:
        try:
            return disk.open(index_path).pread(length, position)
        except DiskFailed as e:
            raise InvalidDelayIndex(str(e)) from e

    try:
        log = LogFile(disk.open(path).pread, base_offset, size)
        return delay_index.open_contents(read, disk.size(index_path), log, bucket_ms)
    except DiskFailed as e:
        raise InvalidDelayIndex(str(e)) from e
