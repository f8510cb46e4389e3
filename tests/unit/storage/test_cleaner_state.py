"""The cleaner offset and the compacted files that will replace segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.storage.cleaner_state import CleanerState
from brokerd.storage.disk import DiskFull
from brokerd.storage.recovery import CLEANER_OFFSET
from tests.simulation.disk import SimDisk

FOLDER = Path("/data/t-0")


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.mkdir(FOLDER)
    return disk


def load_offset(disk: SimDisk, end_offset: int) -> int:
    state = CleanerState(FOLDER, disk)
    state.load(end_offset)
    return state.offset


def with_swaps(disk: SimDisk) -> CleanerState:
    state = CleanerState(FOLDER, disk)
    for base in (0, 100):
        state.swaps[base] = FOLDER / f"{base}.swap"
        disk.open(state.swaps[base], create=True)
    return state


def swaps_on(disk: SimDisk) -> list[str]:
    return sorted(n for n in disk.listdir(FOLDER) if n.endswith(".swap"))


def test_the_offset_survives_a_restart(disk: SimDisk) -> None:
    assert load_offset(disk, 1_000) == 0
    CleanerState(FOLDER, disk).record_cleaned(70)
    assert load_offset(disk, 1_000) == 70


def test_an_offset_above_the_log_end_is_discarded_for_good(disk: SimDisk) -> None:
    CleanerState(FOLDER, disk).record_cleaned(70)
    assert load_offset(disk, 69) == 0
    assert not disk.exists(FOLDER / CLEANER_OFFSET) and load_offset(disk, 1_000) == 0


def test_a_truncation_below_the_offset_discards_it_and_one_above_keeps_it(disk: SimDisk) -> None:
    state = CleanerState(FOLDER, disk)
    state.record_cleaned(70)
    state.before_truncation(70)
    assert state.offset == load_offset(disk, 1_000) == 70
    state.before_truncation(69)
    assert state.offset == load_offset(disk, 1_000) == 0


def test_a_truncation_deletes_all_compacted_files(disk: SimDisk) -> None:
    state = with_swaps(disk)
    state.before_truncation(1_000)
    assert not state.swaps and not swaps_on(disk)


def test_a_deleted_segment_takes_its_compacted_file_with_it(disk: SimDisk) -> None:
    state = with_swaps(disk)
    state.segment_deleted(100)
    state.segment_deleted(500)
    assert list(state.swaps) == [0] and swaps_on(disk) == ["0.swap"]


def test_a_full_disk_loses_the_hint_only(disk: SimDisk, caplog: pytest.LogCaptureFixture) -> None:
    disk.fail_at[disk.steps + 1] = DiskFull("no space left on the device")
    state = CleanerState(FOLDER, disk)
    state.record_cleaned(70)
    assert state.offset == 70 and "cleaner offset not written: partition=t-0" in caplog.text
    assert load_offset(disk, 1_000) == 0
