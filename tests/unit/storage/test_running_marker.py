"""The running marker in a log directory: when the tails of its logs are not trusted after a start, and the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.cluster.broker_lives import DirectoryDoubt
from brokerd.storage.running_marker import CLEAN, RUNNING, clean_marker, closed_cleanly, find_doubt, mark_running
from tests.simulation.disk import SimDisk

DATA = Path("/data")
META = {"life.id": "life-1", "boot.id": "boot-1"}


def doubt(disk: SimDisk, folder: Path, meta: dict[str, str], boot: str) -> DirectoryDoubt | None:
    return find_doubt(disk, folder, meta, boot, clean=closed_cleanly(disk, folder, meta))


@pytest.fixture
def disk() -> SimDisk:
    out = SimDisk()
    out.mkdir(DATA)
    return out


def test_a_directory_that_was_killed_under_the_same_kernel_is_trusted(disk: SimDisk) -> None:
    mark_running(disk, DATA)
    assert doubt(disk, DATA, META, "boot-1") is None


@pytest.mark.parametrize("boot", ["boot-2", ""])
def test_a_kill_and_a_reboot_are_an_unclean_shutdown(disk: SimDisk, boot: str) -> None:
    mark_running(disk, DATA)
    assert doubt(disk, DATA, META, boot) is DirectoryDoubt.UNCLEAN


def test_a_clean_shutdown_of_the_last_life_is_trusted_after_a_reboot(disk: SimDisk) -> None:
    disk.replace(DATA / CLEAN, clean_marker(5, "life-1"))
    assert doubt(disk, DATA, META, "boot-2") is None


@pytest.mark.parametrize("data", [clean_marker(5, "life-0"), b"{}", b"[]", b"", b"\xff"])
def test_a_clean_shutdown_marker_of_another_life_or_an_unreadable_one_is_ignored(disk: SimDisk, data: bytes) -> None:
    mark_running(disk, DATA)
    disk.replace(DATA / CLEAN, data)
    assert doubt(disk, DATA, META, "boot-2") is DirectoryDoubt.UNCLEAN


def test_a_recorded_loss_outweighs_a_clean_shutdown(disk: SimDisk) -> None:
    disk.replace(DATA / CLEAN, clean_marker(5, "life-1"))
    assert doubt(disk, DATA, {**META, "tail.intact": "lost"}, "boot-1") is DirectoryDoubt.NOTED


def test_a_copy_of_the_directory_is_detected_by_the_id_of_its_marker_file(disk: SimDisk) -> None:
    mark_running(disk, DATA)
    data = disk.read(DATA / RUNNING)
    assert data is not None
    disk.unlink(DATA / RUNNING)
    disk.replace(DATA / RUNNING, data)
    assert doubt(disk, DATA, META, "boot-1") is DirectoryDoubt.COPIED


def test_a_missing_marker_under_the_same_kernel_is_a_copy(disk: SimDisk) -> None:
    assert doubt(disk, DATA, META, "boot-1") is DirectoryDoubt.COPIED
    assert doubt(disk, DATA, META, "boot-2") is DirectoryDoubt.UNCLEAN, "it may not have been flushed"


def test_without_running_markers_only_a_reboot_without_clean_shutdown_is_unclean(disk: SimDisk) -> None:
    assert doubt(disk, DATA, {"boot.id": "boot-1"}, "boot-1") is None
    assert doubt(disk, DATA, {"boot.id": "boot-1"}, "boot-2") is DirectoryDoubt.UNCLEAN
    disk.replace(DATA / CLEAN, b"")
    assert doubt(disk, DATA, {"boot.id": "boot-1"}, "boot-2") is None


def test_a_disk_attached_as_another_device_is_distinguished_from_a_copy(disk: SimDisk) -> None:
    mark_running(disk, DATA)
    disk.device += 1
    assert doubt(disk, DATA, META, "boot-1") is DirectoryDoubt.REATTACHED
