"""Reads of a log file report which bytes are not in the page cache. They never wait for the disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerd.storage import cold, pagecache
from brokerd.storage.cold import NotInPageCache, not_waiting, waiting
from brokerd.storage.disk import OsDisk

BUILD = Path(__file__).resolve().parents[3] / "build"


MB = 1024 * 1024


# -- the kernel's page cache -------------------------------------------------------------------------------------------------
@pytest.fixture
def big() -> Iterator[Path]:
    """On the disk of this repository: /tmp may be a file system that keeps its pages in memory."""
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        path = Path(folder) / "big"
        path.write_bytes(bytes(range(256)) * 4096 * 4)
        yield path


def drop(path: Path) -> None:
    fd = os.open(path, os.O_RDWR)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def test_resident_bytes_are_counted_without_a_read(big: Path) -> None:
    file = OsDisk().open(big)
    assert file.resident(0, 4 * MB) == 4 * MB
    assert file.resident(4 * MB - 10, 1000) == 1000, "bytes beyond the end are not missing"
    drop(big)
    assert file.resident(0, 1) == 0 and file.resident(5_000, MB) == 0, "to ask has read nothing"
    file.load(0, MB)
    assert MB <= file.resident(0, 4 * MB) < 4 * MB
    assert file.resident(MB // 2, 100) == 100


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


def test_a_cached_name_is_opened_without_blocking(big: Path) -> None:
    disk = OsDisk()
    with not_waiting():
        assert disk.open(big).size() == 4 * MB
        with pytest.raises(NotInPageCache) as unknown:
            disk.read(big.with_name("absent"))
        unknown.value.load()
        assert disk.read(big.with_name("absent")) is None
        assert len(disk.read(big) or b"") == 4 * MB


def test_without_the_newer_system_call_the_result_is_the_same(big: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsDisk().open(big)
    monkeypatch.setattr(pagecache, "_NR_CACHESTAT", 100_000)
    monkeypatch.setattr(pagecache, "_NR_OPENAT2", 100_000)
    assert file.resident(10, MB) == MB
    with not_waiting():
        assert OsDisk().open(big).size() == 4 * MB
    drop(big)
    assert file.resident(10, MB) == 0
