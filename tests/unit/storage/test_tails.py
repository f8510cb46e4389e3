"""Logs that begin in the middle of another one: what was known there goes with them, whatever a crash, a cut or a power cut does."""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import pytest

from brokerd.storage import tails
from brokerd.storage.disk import DiskFull
from brokerd.storage.log import Log
from brokerd.storage.producers import ACCEPTED, Duplicate
from brokerd.wire import records
from brokerd.wire.records import BatchHeader, Record
from tests.simulation.disk import Crashed, SimDisk
from tests.unit.storage.test_log import EVERYTHING, NOW, append, batch, config, opened, sim
from tests.unit.storage.test_transactions import end, raw, seen, write

THEIRS = Path("/data/theirs-0")


def leader(disk: SimDisk | None = None) -> Log:
    """A log with an open transaction (7), one that was aborted (8), an idempotent producer (9), of epochs 0 and 3."""
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


def seed_of(log: Log) -> bytes:
    offset = tails.roll_for_seed(log, NOW)
    assert offset == log.end_offset == log.segments[-1].base_offset
    seed = tails.seed_at(log, offset)
    assert seed is not None
    return seed


def follow(theirs: Log, ours: Log) -> None:
    data = raw(theirs)
    at = next((p for p, h in records.batches(data) if h.base_offset >= ours.end_offset), None)
    if at is not None:
        ours.append_fetched(memoryview(data)[at:], NOW)


def test_a_log_begins_in_the_middle_and_knows_producers_epochs_and_transactions() -> None:
    theirs, ours = leader(), opened()
    append(ours)  # of another time: it goes
    begun = tails.begin(ours, seed_of(theirs), NOW)
    assert (ours.start_offset, ours.end_offset, ours.last_epoch) == (begun, begun, 3) == (4, 4, 3)
    assert ours.producers.open == {7: 1}
    assert ours.last_stable(ours.end_offset) == 4, "what is undecided since before its beginning keeps readers there"
    assert isinstance(ours.producers.check(header(idempotent(9, 0))), Duplicate)
    assert ours.producers.check(header(idempotent(9, 1))) is ACCEPTED
    write(theirs, 7, sequence=1, leader_epoch=3, value=b"more of it")
    append(theirs, idempotent(9, 1), 3)
    end(theirs, 7, commit=False, leader_epoch=3)
    follow(theirs, ours)
    assert raw(ours) == raw(theirs)[-len(raw(ours)) :]
    assert [e[:2] for e in ours.aborted.between(4, EVERYTHING)] == [(7, 1)], (
        "with the offset where it began, below ours"
    )
    assert seen(ours) == [b"v"] and ours.last_stable(ours.end_offset) == ours.end_offset


@pytest.mark.parametrize("cut", [False, True], ids=["killed", "power cut"])
def test_wherever_a_crash_comes_the_log_has_begun_with_everything_or_has_not_begun(cut: bool) -> None:
    seed = seed_of(leader())
    before = sim()
    append(opened(before), idempotent(5, 0))
    steps = 0
    for step in range(1, 60):
        disk = before.killed()
        log = opened(disk)
        disk.crash_at = disk.steps + step
        try:
            tails.begin(log, seed, NOW)
        except Crashed:
            steps += 1
        again = opened(disk.power_cut(random.Random(step)) if cut else disk.killed(), deep=cut)
        if again.end_offset >= 4:
            assert again.start_offset == again.end_offset == 4
            assert not tails.seeded(again) or (again.producers.open == {7: 1} and again.last_epoch == 3)
        tails.begin(again, seed, NOW)
        assert tails.seeded(again) and again.producers.open == {7: 1}
    assert 3 <= steps < 59, "the crash came at every step, and the beginning has an end"


def test_what_a_log_began_with_is_kept_through_flushes_and_cuts_back_to_it() -> None:
    theirs, disk = leader(), sim()
    ours = opened(disk, segment_bytes="300")
    tails.begin(ours, seed_of(theirs), NOW)
    for i in range(1, 30):
        append(theirs, idempotent(9, i), 3)
    follow(theirs, ours)
    ours.flush()
    ours = opened(disk.killed(), segment_bytes="300")
    ours.flush()
    ours.truncate_to(6)
    assert ours.producers.open == {7: 1} and ours.producers.known[9].batches[-1][1] == 2
    ours.truncate_to(4)
    assert ours.end_offset == 4 and tails.seeded(ours)
    assert ours.producers.open == {7: 1} and ours.producers.known[9].batches[-1][1] == 0


def test_a_power_cut_that_takes_the_beginning_is_noticed() -> None:
    theirs, disk = leader(), sim()
    ours = opened(disk)
    tails.begin(ours, seed_of(theirs), NOW)
    append(theirs, batch(), 3)
    follow(theirs, ours)
    for file in list(disk.names):
        if file.suffix == ".snapshot":
            disk.unlink(file)
    again = opened(disk.killed())
    assert again.end_offset > 4 and not tails.seeded(again)


def test_what_a_log_began_with_outlives_a_power_cut_once_it_was_flushed() -> None:
    theirs, disk = leader(), sim()
    ours = opened(disk)
    tails.begin(ours, seed_of(theirs), NOW)
    end(theirs, 7, commit=False, leader_epoch=3)
    follow(theirs, ours)
    ours.flush()
    again = opened(disk.power_cut(random.Random(1)), deep=True)
    assert again.start_offset == 4 and [e[:2] for e in again.aborted.between(0, EVERYTHING)] == [(7, 1)]
    again.aborted.find_anew()
    assert [e[:2] for e in again.aborted.between(0, EVERYTHING)] == [(7, 1)], "its transaction began below the log"


def test_a_leader_keeps_what_others_begin_with_until_its_own_log_has_passed_it() -> None:
    theirs = leader()
    seed = seed_of(theirs)
    for _ in range(4):
        append(theirs, batch(), 3)
        theirs.roll(NOW)
    assert tails.seed_at(theirs, 4) == seed
    theirs.raise_start(6)
    theirs.roll(NOW)
    append(theirs, batch(), 3)
    theirs.roll(NOW)
    assert tails.seed_at(theirs, 4) is None


@pytest.mark.parametrize("seed", [b"", b"no seed", zlib.compress(b"00000000\n{}"), zlib.compress(b"12345678\n{}")])
def test_what_is_no_seed_changes_nothing(seed: bytes) -> None:
    log = opened()
    append(log)
    with pytest.raises(ValueError):
        tails.begin(log, seed, NOW)
    assert log.end_offset == 1


def test_a_disk_that_refuses_the_beginning_leaves_a_log_that_can_still_be_asked_and_closed() -> None:
    """Its replica is offline by then; checkpoints and a clean stop ask it all the same, which ended the broker."""
    seed = seed_of(leader())
    for step in range(1, 40):
        disk = sim()
        log = opened(disk)
        append(log)
        disk.fail_at[disk.steps + step] = DiskFull("no space")
        try:
            tails.begin(log, seed, NOW)
        except DiskFull:
            assert log.end_offset >= 0
            log.close()
            again = opened(disk.killed())
            assert again.end_offset in (0, 1) or (again.end_offset == 4 and tails.seeded(again))
            continue
        assert log.end_offset == 4 and step > 3
        return
    raise AssertionError("it never came to an end")


def test_a_leader_whose_disk_is_full_offers_no_beginning_and_does_once_there_is_room() -> None:
    """Seed 3309 of tails with transactions: the observer's fetch failed with an exception."""
    disk = sim()
    theirs = leader(disk)
    before = raw(theirs)
    disk.fail_at[disk.steps + 1] = DiskFull("no space")
    assert tails.roll_for_seed(theirs, NOW) is None and raw(theirs) == before
    offered = tails.roll_for_seed(theirs, NOW)
    assert offered == theirs.end_offset and tails.seed_at(theirs, offered) is not None
    append(theirs, idempotent(9, 1), 3)
