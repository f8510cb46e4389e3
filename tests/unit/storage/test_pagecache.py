"""The kernel's page cache: resident bytes are counted without a read, cached names are opened without blocking, on older kernels too."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from brokerd.storage import pagecache
from brokerd.storage.nonblocking import NotInPageCache, nonblocking_reads
from brokerd.storage.os_disk import OsDisk
from tests.unit.storage.test_nonblocking import MB, drop


def test_resident_bytes_are_counted_without_a_read(big_file: Path) -> None:
    file = OsDisk().open(big_file)
    assert file.resident(0, 4 * MB) == 4 * MB
    assert file.resident(4 * MB - 10, 1000) == 1000, "bytes beyond the end are not missing"
    drop(big_file)
    file = OsDisk().open(big_file)  # a handle that has not found these bytes a moment ago
    assert file.resident(0, 1) == 0 and file.resident(5_000, MB) == 0, "to ask has read nothing"
    file.load(0, MB)
    assert MB <= file.resident(0, 4 * MB) < 4 * MB
    assert file.resident(MB // 2, 100) == 100


def test_without_read_ahead_only_the_requested_bytes_are_loaded(big_file: Path) -> None:
    fd = os.open(big_file, os.O_RDONLY)
    try:
        drop(big_file)
        pagecache.disable_read_ahead(fd)
        for position in range(0, 10 * pagecache.PAGE, pagecache.PAGE):
            os.pread(fd, 10, position)  # sequential reads, which the kernel would read ahead
        assert pagecache.cached_bytes(fd, 0, 4 * MB) == 10 * pagecache.PAGE
        pagecache.load(fd, 2 * MB, MB)
        assert pagecache.cached_bytes(fd, 0, 4 * MB) == 10 * pagecache.PAGE + MB
    finally:
        os.close(fd)


def test_bytes_in_memory_are_read_without_waiting(big_file: Path) -> None:
    file = OsDisk().open(big_file)
    assert pagecache.pread_cached(file.fileno(), MB, 4 * MB - 10) == file.pread(10, 4 * MB - 10)
    drop(big_file)
    assert pagecache.pread_cached(file.fileno(), 10, 0) is None, "the read would wait for the device"


def test_a_file_system_without_such_reads_blocks(big_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_not_supported(*args: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "not supported")

    monkeypatch.setattr(os, "preadv", raise_not_supported)
    file = OsDisk().open(big_file)
    with nonblocking_reads():
        assert len(file.pread(MB, 0)) == MB


def test_a_cached_name_is_opened_without_blocking(big_file: Path) -> None:
    disk = OsDisk()
    with nonblocking_reads():
        assert disk.open(big_file).size() == 4 * MB
        with pytest.raises(NotInPageCache) as unknown:
            disk.read(big_file.with_name("absent"))
        unknown.value.load()
        assert disk.read(big_file.with_name("absent")) is None
        assert len(disk.read(big_file) or b"") == 4 * MB


def test_without_the_newer_system_call_the_result_is_the_same(big_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsDisk().open(big_file)
    monkeypatch.setattr(pagecache, "_NR_CACHESTAT", 100_000)
    monkeypatch.setattr(pagecache, "_NR_OPENAT2", 100_000)
    assert file.resident(10, MB) == MB
    with nonblocking_reads():
        assert OsDisk().open(big_file).size() == 4 * MB
    drop(big_file)
    assert OsDisk().open(big_file).resident(10, MB) == 0
