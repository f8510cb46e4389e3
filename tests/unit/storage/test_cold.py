"""Reads of a log file report which bytes are not in the page cache. They never wait for the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from brokerd.storage import cold
from brokerd.storage.cold import NotInPageCache, not_waiting, waiting
from brokerd.storage.disk import OsDisk

MB = 1024 * 1024


def drop(path: Path) -> None:
    fd = os.open(path, os.O_RDWR)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def test_a_read_that_would_block_is_refused_with_a_load_function(big: Path) -> None:
    disk = OsDisk()
    file = disk.open(big)
    drop(big)
    with not_waiting(), pytest.raises(NotInPageCache) as missing:
        file.pread(100, 2 * MB)
    assert not cold.refused()
    missing.value.load()
    with not_waiting():
        assert file.pread(100, 2 * MB) == (bytes(range(256)) * 4)[:100]
        with waiting():
            assert len(file.pread(100, 0)) == 100
        assert cold.refused()
