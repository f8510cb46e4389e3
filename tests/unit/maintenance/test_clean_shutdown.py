"""Clean shutdown: the next start needs no recovery, and a log whose flush fails is not marked as clean."""

from __future__ import annotations

import random

import pytest

from brokerd.maintenance import clean_shutdown
from brokerd.storage.disk import DiskFailed
from tests.simulation.disk import SimDisk
from tests.unit.replication.test_relocations import Harness


def harness_with_flush_limit(monkeypatch: pytest.MonkeyPatch, *, each_max: int) -> tuple[Harness, SimDisk]:
    monkeypatch.setattr(clean_shutdown, "FLUSH_EACH_MAX", each_max)
    disk = SimDisk()
    harness = Harness(disk)
    harness.append(5)
    return harness, disk


@pytest.mark.parametrize("each_max", [64, 0], ids=["each log", "the file system"])
def test_a_cleanly_closed_log_survives_a_power_cut_without_recovery(
    monkeypatch: pytest.MonkeyPatch, each_max: int
) -> None:
    harness, disk = harness_with_flush_limit(monkeypatch, each_max=each_max)
    clean_shutdown.close_all(harness.replica_manager)
    again = Harness(disk.power_cut(random.Random(1)))
    assert again.replica.log.end_offset == 5 and again.replica.log.flushing.offset == 5


def test_a_log_that_cannot_be_flushed_goes_offline_and_the_others_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    harness, _ = harness_with_flush_limit(monkeypatch, each_max=64)

    def raise_disk_failed() -> None:
        raise DiskFailed("EIO")

    monkeypatch.setattr(type(harness.replica.log), "flush", lambda log: raise_disk_failed())
    clean_shutdown.close_all(harness.replica_manager)
    assert harness.replica.offline_reason is not None


def test_a_failed_flush_of_the_file_system_is_followed_by_a_flush_of_each_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    harness, disk = harness_with_flush_limit(monkeypatch, each_max=0)

    def raise_disk_failed(path: object) -> None:
        raise DiskFailed("EIO")

    monkeypatch.setattr(disk, "sync_all", raise_disk_failed)
    clean_shutdown.close_all(harness.replica_manager)
    assert "file system flush failed" in caplog.text
    assert harness.replica.log.flushing.offset == 5 and harness.replica.offline_reason is None
