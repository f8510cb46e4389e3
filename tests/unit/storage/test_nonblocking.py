"""Reads of a log file report which bytes are not in the page cache. They never wait for the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from brokerd.storage import nonblocking
from brokerd.storage.nonblocking import NotInPageCache, blocking_reads, nonblocking_reads
from brokerd.storage.os_disk import OsDisk

MB = 1024 * 1024


def drop(path: Path) -> None:
    fd = os.open(path, os.O_RDWR)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def test_a_read_that_would_block_is_rejected_with_a_load_function(big_file: Path) -> None:
    disk = OsDisk()
    file = disk.open(big_file)
    drop(big_file)
    with nonblocking_reads(), pytest.raises(NotInPageCache) as missing:
        file.pread(100, 2 * MB)
    assert not nonblocking.are_reads_nonblocking()
    missing.value.load()
    with nonblocking_reads():
        assert file.pread(100, 2 * MB) == (bytes(range(256)) * 4)[:100]
        with blocking_reads():
            assert len(file.pread(100, 0)) == 100
        assert nonblocking.are_reads_nonblocking()
