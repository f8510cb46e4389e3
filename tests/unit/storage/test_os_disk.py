"""The disk of the operating system: deletions on another thread, and reads of pages that are not in memory or may still be arriving."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from brokerd.storage import os_disk, pagecache
from brokerd.storage.found_bytes import VALID_SECONDS
from brokerd.storage.nonblocking import NotInPageCache, nonblocking_reads
from brokerd.storage.os_disk import OsDisk
from brokerd.storage.pending_page_reads import PENDING_S


def test_a_discarded_file_is_unlinked_on_the_requested_thread(tmp_path: Path) -> None:
    later = []
    disk = OsDisk(background=later.append)
    disk.replace(tmp_path / "a", b"1")
    disk.discard(tmp_path / "a")
    assert disk.listdir(tmp_path) == ["a.deleted"] and len(later) == 1
    later[0]()
    assert disk.listdir(tmp_path) == []


def test_pages_that_another_handle_loads_may_still_be_arriving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job of the scrub reads through a separate file handle. cachestat counts pages that are still being read."""
    requested: list[bool] = []
    monkeypatch.setattr(pagecache, "resident", lambda fd, position, length, *, pending: requested.append(pending) or 0)
    disk, path = OsDisk(), tmp_path / "segment"
    file = disk.open(path, create=True)
    file.pwrite(b"x" * 100, 0)
    file.resident(0, 100)
    disk.open(path).pread(10, 0)
    file.resident(0, 100)
    monkeypatch.setattr(os_disk.time, "monotonic", lambda now=time.monotonic(): now + PENDING_S + 1)
    file.resident(0, 100)
    assert requested == [False, True, False]


def test_pages_that_were_found_in_memory_are_no_longer_arriving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requested: list[bool] = []
    monkeypatch.setattr(
        pagecache, "resident", lambda fd, position, length, *, pending: requested.append(pending) or length
    )
    file = OsDisk().open(tmp_path / "segment", create=True)
    file.load(0, 100)
    file.resident(0, 100)
    monkeypatch.setattr(os_disk.time, "monotonic", lambda now=time.monotonic(): now + VALID_SECONDS)
    file.resident(0, 100)
    assert requested == [True, False]


def test_a_read_of_pages_that_are_still_being_loaded_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel counts such pages as cached, and read-ahead of another handle may have started their load."""
    file = OsDisk().open(tmp_path / "segment", create=True)
    file.pwrite(b"0123456789", 0)
    available = {0: b"0123"}
    monkeypatch.setattr(pagecache, "pread_cached", lambda fd, length, position: available.get(position))
    with nonblocking_reads(), pytest.raises(NotInPageCache, match="at 4") as missing:
        file.pread(10, 0)
    missing.value.load()
    available[4] = b"456789"
    with nonblocking_reads():
        assert file.pread(10, 0) == b"0123456789"


def test_bytes_that_were_just_found_are_checked_again_after_an_eviction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[int] = []
    monkeypatch.setattr(
        pagecache, "resident", lambda fd, position, length, *, pending: checked.append(position) or length
    )
    file = OsDisk().open(tmp_path / "segment", create=True)
    file.pwrite(bytes(200), 0)
    now = time.monotonic()
    monkeypatch.setattr(os_disk.time, "monotonic", lambda: now)
    assert [file.resident(0, 100), file.resident(0, 100), file.resident(20, 80), file.resident(100, 100)] == [
        100,
        100,
        80,
        100,
    ]
    assert checked == [0, 100]
    file.evict(0, 100)
    file.resident(0, 100)
    file.truncate(100)
    file.resident(0, 100)
    assert checked == [0, 100, 0, 0]
