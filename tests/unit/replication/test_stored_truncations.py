"""Truncations survive a restart, a failed log directory and a slow disk."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from brokerd.cluster.model import TopicPartition
from brokerd.replication.stored_truncations import FILE, StoredTruncations, decode, encode
from brokerd.replication.truncations import Truncation
from brokerd.storage.disk import DiskFull
from brokerd.storage.log_dirs import LogDirs
from tests.simulation.disk import SimDisk
from tests.unit.storage.test_log_dirs import Lane

A, B = Path("/a"), Path("/b")


def truncation(first: int, at_ms: int = 1_000) -> Truncation:
    return Truncation(TopicPartition(UUID(int=7), 2), first, first + 5, first + 3, 4, at_ms)


def log_dirs(disk: SimDisk) -> LogDirs:
    for path in (A, B):
        disk.mkdir(path)
    return LogDirs((A, B), disk)


def test_a_restarted_broker_has_the_truncations_of_the_last_process() -> None:
    disk = SimDisk()
    stored = StoredTruncations(log_dirs(disk))
    for first in (40, 10):
        stored.add(truncation(first, at_ms=first))
    again = StoredTruncations(log_dirs(disk.killed()))
    assert list(again) == [truncation(10, at_ms=10), truncation(40, at_ms=40)], "the oldest first: it is dropped first"


def test_one_readable_log_directory_is_enough() -> None:
    disk = SimDisk()
    StoredTruncations(log_dirs(disk)).add(truncation(10))
    disk.unlink(A / FILE)
    assert list(StoredTruncations(log_dirs(disk))) == [truncation(10)]
    disk.replace(A / FILE, b"damaged")
    assert list(StoredTruncations(log_dirs(disk))) == [truncation(10)]


def test_a_slow_disk_gets_one_write_at_a_time_and_the_last_one_has_all() -> None:
    disk = SimDisk()
    dirs = log_dirs(disk)
    lane = dirs.all[0].lane = Lane()
    stored = StoredTruncations(dirs)
    for first in (10, 20, 30):
        stored.add(truncation(first))
    assert len(lane.jobs) == 1 and not disk.exists(A / FILE)
    lane.complete()
    assert len(lane.jobs) == 1, "the two that were added meanwhile"
    lane.complete()
    assert not lane.jobs
    assert decode(disk.read(A / FILE) or b"") == [truncation(first) for first in (10, 20, 30)]


def test_a_full_disk_is_not_a_failed_one_and_the_next_truncation_writes_all(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimDisk()
    dirs = log_dirs(disk)
    stored = StoredTruncations(dirs)
    disk.fail_at[disk.steps + 1] = DiskFull("no space")
    stored.add(truncation(10))
    assert "truncation checkpoint not written: path=/a" in caplog.text and not dirs.any_failed
    stored.add(truncation(20))
    disk.unlink(B / FILE)
    assert list(StoredTruncations(log_dirs(disk))) == [truncation(10), truncation(20)]


@pytest.mark.parametrize("damage", [b"", b"1\n0\n", b"0\n2\n", b"0\nx\n", b"0\n1\nnot a truncation\n", b"\xff"])
def test_damaged_data_is_an_error(damage: bytes) -> None:
    assert decode(encode([])) == []
    with pytest.raises(ValueError, match=r".*"):
        decode(damage)
