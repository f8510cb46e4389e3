"""Logs that start in the middle of another log: the transaction and producer state at the start offset survives a
crash, a truncation and a power failure."""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import pytest

from brokerd.storage import observer_bootstrap
from brokerd.storage.disk import DiskFull
from brokerd.storage.log import Log
from brokerd.storage.producers import ACCEPTED, Duplicate
from brokerd.wire import records
from brokerd.wire.records import BatchHeader, Record
from tests.simulation.disk import Crashed, SimDisk
from tests.unit.storage.test_log import EVERYTHING, NOW, append, batch, config, open_log, sim
from tests.unit.storage.test_transaction_index import end, read_bytes, read_committed_values, write

THEIRS = Path("/data/theirs-0")


def leader(disk: SimDisk | None = None) -> Log:
    """A log with an open transaction (7), an aborted one (8) and an idempotent producer (9), in epochs 0 and 3."""
    disk = disk or sim()
    disk.mkdir(THEIRS)
    log = Log.open(THEIRS, config(), disk, NOW)
    append(log, idempotent(9, 0), 0)
    write(log, 7, value=b"open")
    write(log, 8, leader_epoch=3)
    end(log, 8, commit=False, leader_epoch=3)
    return log


def idempotent(producer: int, sequence: int) -> bytearray:
    return bytearray(
        records.build(
            [Record(0, NOW.wall_ms, None, b"v")], producer_id=producer, producer_epoch=0, base_sequence=sequence
        )
    )


def header(data: bytearray) -> BatchHeader:
    return next(h for _, h in records.batches(data))


def snapshot_of(log: Log) -> bytes:
    offset = observer_bootstrap.roll_for_bootstrap(log, NOW)
    assert offset == log.end_offset == log.segments[-1].base_offset
    snapshot = observer_bootstrap.bootstrap_snapshot_at(log, offset)
    assert snapshot is not None
    return snapshot


def follow(theirs: Log, ours: Log) -> None:
    data = read_bytes(theirs)
    at = next((p for p, h in records.batches(data) if h.base_offset >= ours.end_offset), None)
    if at is not None:
        ours.append_fetched(memoryview(data)[at:], NOW)


def test_a_log_starts_at_an_offset_with_producer_epoch_and_transaction_state() -> None:
    theirs, ours = leader(), open_log()
    append(ours)  # of another history: it is removed
    begun = observer_bootstrap.begin(ours, snapshot_of(theirs), NOW)
    assert (ours.start_offset, ours.end_offset, ours.last_epoch) == (begun, begun, 3) == (4, 4, 3)
    assert ours.producers.open == {7: 1}
    assert ours.last_stable(ours.end_offset) == 4, "what is undecided since before its beginning keeps readers there"
    assert isinstance(ours.producers.check(header(idempotent(9, 0))), Duplicate)
    assert ours.producers.check(header(idempotent(9, 1))) is ACCEPTED
    write(theirs, 7, sequence=1, leader_epoch=3, value=b"more of it")
    append(theirs, idempotent(9, 1), 3)
    end(theirs, 7, commit=False, leader_epoch=3)
    follow(theirs, ours)
    assert read_bytes(ours) == read_bytes(theirs)[-len(read_bytes(ours)) :]
    assert [e[:2] for e in ours.aborted.overlapping(4, EVERYTHING)] == [(7, 1)], (
        "with the offset where it began, below ours"
    )
    assert read_committed_values(ours) == [b"v"] and ours.last_stable(ours.end_offset) == ours.end_offset


@pytest.mark.parametrize("cut", [False, True], ids=["killed", "power cut"])
def test_a_crash_at_any_step_leaves_a_complete_initial_state_or_none(cut: bool) -> None:
    snapshot = snapshot_of(leader())
    before = sim()
    append(open_log(before), idempotent(5, 0))
    steps = 0
    for step in range(1, 60):
        disk = before.killed()
        log = open_log(disk)
        disk.crash_at = disk.steps + step
        try:
            observer_bootstrap.begin(log, snapshot, NOW)
        except Crashed:
            steps += 1
        again = open_log(disk.power_cut(random.Random(step)) if cut else disk.killed(), deep=cut)
        if again.end_offset >= 4:
            assert again.start_offset == again.end_offset == 4
            assert not observer_bootstrap.has_bootstrap_snapshot(again) or (
                again.producers.open == {7: 1} and again.last_epoch == 3
            )
        observer_bootstrap.begin(again, snapshot, NOW)
        assert observer_bootstrap.has_bootstrap_snapshot(again) and again.producers.open == {7: 1}
    assert 3 <= steps < 59, "the crash came at every step, and the beginning has an end"


def test_the_initial_state_is_kept_after_flushes_and_truncations_to_it() -> None:
    theirs, disk = leader(), sim()
    ours = open_log(disk, segment_bytes="300")
    observer_bootstrap.begin(ours, snapshot_of(theirs), NOW)
    for i in range(1, 30):
        append(theirs, idempotent(9, i), 3)
    follow(theirs, ours)
    ours.flush()
    ours = open_log(disk.killed(), segment_bytes="300")
    ours.flush()
    ours.truncate_to(6)
    assert ours.producers.open == {7: 1} and ours.producers.known[9].batches[-1][1] == 2
    ours.truncate_to(4)
    assert ours.end_offset == 4 and observer_bootstrap.has_bootstrap_snapshot(ours)
    assert ours.producers.open == {7: 1} and ours.producers.known[9].batches[-1][1] == 0


def test_a_power_cut_that_loses_the_initial_state_is_detected() -> None:
    theirs, disk = leader(), sim()
    ours = open_log(disk)
    observer_bootstrap.begin(ours, snapshot_of(theirs), NOW)
    append(theirs, batch(), 3)
    follow(theirs, ours)
    for file in list(disk.names):
        if file.suffix == ".snapshot":
            disk.unlink(file)
    again = open_log(disk.killed())
    assert again.end_offset > 4 and not observer_bootstrap.has_bootstrap_snapshot(again)


def test_the_flushed_initial_state_survives_a_power_cut() -> None:
    theirs, disk = leader(), sim()
    ours = open_log(disk)
    observer_bootstrap.begin(ours, snapshot_of(theirs), NOW)
    end(theirs, 7, commit=False, leader_epoch=3)
    follow(theirs, ours)
    ours.flush()
    again = open_log(disk.power_cut(random.Random(1)), deep=True)
    assert again.start_offset == 4 and [e[:2] for e in again.aborted.overlapping(0, EVERYTHING)] == [(7, 1)]
    again.aborted.rebuild()
    assert [e[:2] for e in again.aborted.overlapping(0, EVERYTHING)] == [(7, 1)], "its transaction began below the log"


def test_a_leader_keeps_the_initial_state_for_observers_until_its_log_start_passes_it() -> None:
    theirs = leader()
    snapshot = snapshot_of(theirs)
    for _ in range(4):
        append(theirs, batch(), 3)
        theirs.roll(NOW)
    assert observer_bootstrap.bootstrap_snapshot_at(theirs, 4) == snapshot
    theirs.raise_start(6)
    theirs.roll(NOW)
    append(theirs, batch(), 3)
    theirs.roll(NOW)
    assert observer_bootstrap.bootstrap_snapshot_at(theirs, 4) is None


@pytest.mark.parametrize(
    "snapshot", [b"", b"no snapshot", zlib.compress(b"00000000\n{}"), zlib.compress(b"12345678\n{}")]
)
def test_a_malformed_initial_state_changes_nothing(snapshot: bytes) -> None:
    log = open_log()
    append(log)
    with pytest.raises(ValueError):
        observer_bootstrap.begin(log, snapshot, NOW)
    assert log.end_offset == 1


def test_a_log_stays_readable_and_closable_if_its_initial_state_cannot_be_written() -> None:
    """The replica is offline by then. Checkpoints and a clean stop still read the log, and that ended the broker."""
    snapshot = snapshot_of(leader())
    for step in range(1, 40):
        disk = sim()
        log = open_log(disk)
        append(log)
        disk.fail_at[disk.steps + step] = DiskFull("no space")
        try:
            observer_bootstrap.begin(log, snapshot, NOW)
        except DiskFull:
            log.close()
            again = open_log(disk.killed())
            assert again.end_offset in (0, 1) or (
                again.end_offset == 4 and observer_bootstrap.has_bootstrap_snapshot(again)
            )
            continue
        assert log.end_offset == 4 and step > 3
        return
    raise AssertionError("it never came to an end")


def test_a_leader_with_a_full_disk_proposes_a_log_start_when_it_has_space() -> None:
    """Seed 3309 of tails with transactions: the observer's fetch failed with an exception."""
    disk = sim()
    theirs = leader(disk)
    before = read_bytes(theirs)
    disk.fail_at[disk.steps + 1] = DiskFull("no space")
    assert observer_bootstrap.roll_for_bootstrap(theirs, NOW) is None and read_bytes(theirs) == before
    offered = observer_bootstrap.roll_for_bootstrap(theirs, NOW)
    assert offered == theirs.end_offset and observer_bootstrap.bootstrap_snapshot_at(theirs, offered) is not None
    append(theirs, idempotent(9, 1), 3)


def test_the_initial_state_outlives_its_snapshot() -> None:
    """The snapshot is dropped before another bootstrap, which does not follow: the observer has become a replica. It is truncated later."""
    theirs, disk = leader(), sim()
    ours = open_log(disk)
    observer_bootstrap.begin(ours, snapshot_of(theirs), NOW)
    append(theirs, idempotent(9, 1), 3)
    follow(theirs, ours)
    ours.flush()
    assert ours.forget_flushed(-1) and not ours.snapshots.offsets
    ours.flushed_snapshots_forgotten()
    assert 9 in open_log(disk.killed()).producers.known, "also after a restart"
    ours.truncate_to(4)
    assert ours.producers.open == {7: 1} and ours.producers.known[9].batches[-1][1] == 0
    assert open_log(disk.killed()).producers.open == {7: 1}


def test_a_truncation_below_the_snapshots_keeps_the_producers_of_deleted_records() -> None:
    log = leader()
    for i in range(6):
        log.roll(NOW)
        append(log, idempotent(10, i), 3)
    log.raise_start(6)
    log.truncate_to(7)
    assert min(log.snapshots.offsets, default=7) >= 7, "no older snapshot helps"
    assert isinstance(log.producers.check(header(idempotent(9, 0))), Duplicate)
    assert log.producers.known[10].batches[-1][1] == 2
