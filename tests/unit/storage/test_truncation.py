"""Truncation of the end of a log: what remains agrees with the records that are left."""

from __future__ import annotations

import pytest

from brokerd.storage.producers import ACCEPTED, Duplicate
from brokerd.storage.segment import IndexFileState
from brokerd.wire import records
from tests.unit.storage.test_log import NOW, append, batch, batch_with_sequence, offsets, open_log, read_all, sim


@pytest.mark.parametrize("point", range(41))
def test_a_truncation_ends_at_a_batch_boundary_and_appends_continue(point: int) -> None:
    log = open_log(segment_bytes="500", index_interval_bytes="0")
    for i in range(10):
        append(log, batch(4), epoch=i // 3)
    log.truncate_to(point)
    end = point - point % 4 if point < 40 else 40
    assert log.end_offset == end
    assert [r.offset for r in read_all(log)] == list(range(end))
    assert all(start < end for _, start in log.epochs.entries)
    append(log, batch(2), epoch=9)
    assert [r.offset for r in read_all(log)] == list(range(end + 2))
    assert log.epochs.end_offset_for(9) == (9, end + 2)


@pytest.mark.parametrize("clean", [True, False])
def test_an_epoch_checkpoint_from_before_a_truncation_is_not_used_for_later_records(clean: bool) -> None:
    disk = sim()
    log = open_log(disk)
    append(log, epoch=0)
    append(log, epoch=1)
    log.close()  # the checkpoint on disk now contains epoch 1 at offset 1
    log = open_log(disk)
    log.truncate_to(0)
    if clean:
        log.close()
    log = open_log(disk)
    assert log.last_epoch == -1
    append(log, epoch=1)
    assert (log.epochs.epoch_at(0), log.epochs.end_offset_for(1)) == (1, (1, 1))


def test_a_reset_log_starts_at_the_new_offset() -> None:
    log = open_log(segment_bytes="400")
    for _ in range(9):
        append(log, batch(2))
    log.reset_to(500)
    assert (log.start_offset, log.end_offset, log.last_epoch, len(log.segments)) == (500, 500, -1, 1)
    append(log)
    assert offsets(log, 500) == [500]


def test_a_truncated_batch_is_removed_from_the_producer_state() -> None:
    log = open_log()
    for i in range(8):
        append(log, batch_with_sequence(i))
    log.truncate_to(2)
    assert log.check_producer(records.peek(batch_with_sequence(1)), NOW) == Duplicate(1, 1)
    assert log.check_producer(records.peek(batch_with_sequence(2)), NOW) is ACCEPTED


def test_cached_batch_positions_are_dropped_by_a_truncation() -> None:
    log = open_log()
    for _ in range(5):
        append(log, batch(2))
    log.truncate_to(4)
    append(log, batch(5))
    for at in range(9):
        assert offsets(log, at, upto=9)[0] <= at
    assert [offsets(log, at)[0] for at in range(4, 9)] == [4] * 5


@pytest.mark.parametrize(("depends", "left"), [(False, [True, True, False]), (True, [False, True, False])])
def test_delay_indexes_that_depend_on_the_deleted_part_are_deleted(depends: bool, left: list[bool]) -> None:
    log = open_log(segment_bytes="300")
    while len(log.segments) < 5:
        append(log)
    for segment in log.segments[:-1]:
        segment.disk.replace(segment.path.with_suffix(".delayindex"), b"index")
        segment.delay_index, segment.delay_index_decided = IndexFileState.CURRENT, segment.end_offset
    if depends:
        log.segments[0].delay_index_decided = log.segments[3].end_offset
    log.truncate_to(log.segments[3].base_offset)
    assert [s.delay_index is IndexFileState.CURRENT for s in log.segments] == left
    names = log.disk.listdir(log.folder)
    assert [s.path.with_suffix(".delayindex").name in names for s in log.segments] == left
    assert sum(name.endswith(".delayindex") for name in names) == sum(left)
