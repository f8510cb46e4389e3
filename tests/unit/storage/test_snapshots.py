"""Snapshot files of a log: validity, which ones are kept, flushed ones, and deletion before a truncation."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.storage.snapshots import Snapshot, Snapshots
from tests.simulation.disk import SimDisk

FOLDER = Path("/data/t-0")


def snapshot(offset: int, *, flushed: bool = False) -> Snapshot:
    return Snapshot(offset, 0, offset * 10, flushed, [(0, 0), (2, 5)], [[7, 0, 3]], [[1, 2]], [[0, 1, 99]])


@pytest.fixture
def snapshots() -> Snapshots:
    disk = SimDisk()
    disk.mkdir(FOLDER)
    return Snapshots(FOLDER, disk)


def test_a_snapshot_is_read_back(snapshots: Snapshots) -> None:
    snapshots.write(snapshot(5))
    assert snapshots.read(5) == snapshot(5)


@pytest.mark.parametrize("position", [0, 3, 8, 12, -1])
def test_a_snapshot_with_a_changed_byte_is_invalid(snapshots: Snapshots, position: int) -> None:
    snapshots.write(snapshot(5))
    data = bytearray(snapshots.disk.read(snapshots.path(5)) or b"")
    data[position] ^= 1
    snapshots.disk.replace(snapshots.path(5), bytes(data))
    assert snapshots.read(5) is None and list(snapshots.newest_first()) == []


def test_a_snapshot_under_the_name_of_another_offset_is_invalid(snapshots: Snapshots) -> None:
    snapshots.disk.replace(snapshots.path(9), snapshot(5).to_bytes())
    assert snapshots.read(9) is None


def test_two_newest_snapshots_the_newest_flushed_one_and_protected_ones_are_kept(snapshots: Snapshots) -> None:
    snapshots.kept_offsets.add(1)
    for offset in (1, 2, 3):
        snapshots.write(snapshot(offset))
    for offset in (4, 5):
        snapshots.prepare(snapshot(offset, flushed=True))
        snapshots.adopt(snapshot(offset, flushed=True), sound=True)
    for offset in (6, 7, 8):
        snapshots.write(snapshot(offset))
    assert [s.offset for s in snapshots.newest_first()] == [8, 7, 5, 1]
    assert snapshots.flushed_offset == 5


def test_a_prepared_snapshot_that_does_not_fit_the_log_any_more_is_deleted(snapshots: Snapshots) -> None:
    snapshots.prepare(snapshot(4, flushed=True))
    snapshots.adopt(snapshot(4, flushed=True), sound=False)
    assert snapshots.flushed_offset == -1 and snapshots.disk.listdir(FOLDER) == []


def test_before_a_truncation_later_snapshots_are_deleted_durably(snapshots: Snapshots) -> None:
    for offset in (4, 9):
        snapshots.prepare(snapshot(offset, flushed=True))
        snapshots.adopt(snapshot(offset, flushed=True), sound=True)
    assert snapshots.forget_flushed(4)
    snapshots.drop_above(4)
    assert [s.offset for s in snapshots.newest_first()] == [4] and not snapshots.unsynced
    assert not snapshots.forget_flushed(4), "no flushed snapshot is left above the offset"
