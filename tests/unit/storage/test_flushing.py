"""Flushes of a log: their time, the offsets that they cover, and flushes that complete after a truncation."""

from __future__ import annotations

import pytest

from brokerd.cluster.model import Now
from brokerd.storage.disk import DiskFull
from brokerd.storage.log import Log
from brokerd.storage.log_start import LOG_START
from tests.unit.storage.test_log import NOW, append, batch, open_log, sim


def flush(log: Log, **options: bool) -> None:
    plan = log.flushing.plan(NOW, **options)
    assert plan is not None
    plan.run()
    log.flushing.on_finished(plan)


def log_with_flushed_record(**configs: str) -> Log:
    """A log with one flushed record."""
    log = open_log(**configs)
    append(log)
    flush(log)
    return log


def test_a_new_log_is_flushed_as_soon_as_it_has_records() -> None:
    log = open_log()
    assert not log.flushing.due(NOW)
    append(log)
    assert log.flushing.due(NOW)
    flush(log)
    assert log.flushing.offset == 1 and not log.flushing.due(NOW) and log.flushing.plan() is None


def test_a_flush_is_due_by_the_number_of_records() -> None:
    log = log_with_flushed_record(flush_messages="3")
    for due in (False, False, True):
        append(log)
        assert log.flushing.due(NOW) is due


def test_a_flush_is_due_by_time_only_with_unflushed_records() -> None:
    log = log_with_flushed_record(flush_ms="500")
    later = Now(NOW.mono_ms + 500, NOW.wall_ms)
    assert not log.flushing.due(later)
    append(log)
    assert log.flushing.due(later) and not log.flushing.due(Now(NOW.mono_ms + 499, NOW.wall_ms))


def test_records_are_acknowledged_only_up_to_the_allowed_number_of_unflushed_ones() -> None:
    log = log_with_flushed_record(flush_messages="1")
    append(log, batch(3))
    before = log.flushing.acknowledgeable_end
    flush(log)
    assert before < log.end_offset == log.flushing.acknowledgeable_end == 4
    free = log_with_flushed_record()
    append(free, batch(3))
    assert free.flushing.acknowledgeable_end == 4


def test_a_flush_that_a_truncation_overtook_is_ignored() -> None:
    log = log_with_flushed_record()
    append(log, batch(5))
    plan = log.flushing.plan(NOW)
    assert plan is not None and plan.end_offset == 6
    log.truncate_to(1)
    plan.run()
    log.flushing.on_finished(plan)
    assert (log.end_offset, log.flushing.offset) == (1, 0), "the truncation itself is not flushed"


def test_a_closed_segment_makes_a_flush_with_a_snapshot_due() -> None:
    log = log_with_flushed_record(segment_bytes="400")
    while len(log.segments) < 3:
        append(log, batch(2))
    assert log.flushing.due(NOW)
    flush(log)
    assert log.snapshots.flushed_offset == log.end_offset and not log.flushing.due(NOW)


def test_on_a_full_disk_the_records_are_flushed_without_a_snapshot(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    disk = sim()
    log = open_log(disk)
    append(log)

    def raise_disk_full(*_: object, **__: object) -> None:
        raise DiskFull("full")

    plan = log.flushing.plan(NOW, snapshot=True)
    assert plan is not None and plan.snapshot is not None
    monkeypatch.setattr(type(plan.snapshots), "prepare", raise_disk_full)
    plan.run()
    log.flushing.on_finished(plan)
    assert log.flushing.offset == 1 and "flushed without producer snapshot" in caplog.text


def test_a_lowered_log_start_offset_is_flushed_before_the_records_behind_it() -> None:
    log = log_with_flushed_record()
    log.stored_start.lower()
    append(log)
    plan = log.flushing.plan(NOW)
    assert plan is not None and plan.before == (log.folder / LOG_START,)
    log.stored_start.lowered = False
    plan = log.flushing.plan(NOW)
    assert plan is not None and plan.before == ()
