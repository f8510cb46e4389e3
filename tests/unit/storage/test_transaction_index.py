"""Transactions in a log: open transactions, aborted transactions, and that crash, truncation, retention and compaction lose neither."""

from __future__ import annotations

import copy
import random
from pathlib import Path

import pytest

from brokerd.cluster.model import Now
from brokerd.storage import cleaner, transaction_index
from brokerd.storage.log import Log
from brokerd.storage.producers import (
    ACCEPTED,
    ProducerRejected,
)
from brokerd.storage.transaction_index import AbortedTxn
from brokerd.wire import end_transaction_marker, records
from brokerd.wire.end_transaction_marker import Marker
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import BatchHeader, Record
from tests.simulation.disk import Crashed, SimDisk
from tests.unit.storage.test_cleaner import COMPACT, live
from tests.unit.storage.test_log import EVERYTHING, FOLDER, NOW, append, batch, open_log, sim

HOUR = 3_600_000


def write(
    log: Log,
    producer: int,
    sequence: int = 0,
    count: int = 1,
    epoch: int = 0,
    leader_epoch: int = 0,
    key: bytes = b"k",
    value: bytes | None = b"v",
    size: int = 0,
) -> int:
    data = records.build(
        [Record(i, NOW.wall_ms, key, None if value is None else value + bytes(size)) for i in range(count)],
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    return append(log, bytearray(data), leader_epoch)


def end(
    log: Log, producer: int, commit: bool, epoch: int = 0, coordinator_epoch: int = 0, leader_epoch: int = 0
) -> int:
    data = end_transaction_marker.marker(producer, epoch, Marker(commit, coordinator_epoch), NOW.wall_ms)
    return log.append(data, list(records.batches(data)), leader_epoch, NOW).base_offset


def read_bytes(log: Log) -> bytes:
    out, at = b"", log.segments[0].base_offset
    while at < log.end_offset:
        data = log.read(at, EVERYTHING, EVERYTHING).bytes()
        out += data
        at = [h.next_offset for _, h in records.batches(data)][-1]
    return out


def truth(log: Log) -> tuple[dict[int, int], list[tuple[int, int, int]]]:
    """({producer: first offset} of open transactions, [(producer, first, last) aborted]), from a plain read of the whole log."""
    data = read_bytes(log)
    begun: dict[int, int] = {}
    gone: list[tuple[int, int, int]] = []
    for pos, header in records.batches(data):
        if header.is_control:
            said = end_transaction_marker.marker_of(data, pos, header)
            first = begun.pop(header.producer_id, None)
            if said is not None and first is not None and not said.commit:
                gone.append((header.producer_id, first, header.base_offset))
        elif header.is_transactional:
            begun.setdefault(header.producer_id, header.base_offset)
    return begun, gone


def check_index(log: Log) -> None:
    begun, gone = truth(log)
    assert log.producers.open == begun
    assert [e[:3] for e in log.aborted.overlapping(log.segments[0].base_offset, log.end_offset)] == gone


def read_committed_values(log: Log, upto: int | None = None) -> list[bytes | None]:
    """The records that a read_committed consumer returns: it skips by the list of aborted transactions, as Kafka's does."""
    stable = log.last_stable(log.end_offset if upto is None else upto)
    reported = sorted(log.aborted.overlapping(log.start_offset, stable), key=lambda e: e.first_offset)
    data, skipping, out = read_bytes(log), set[int](), list[bytes | None]()
    for pos, header in records.batches(data):
        if header.next_offset > stable:
            break
        while reported and reported[0].first_offset <= header.last_offset:
            skipping.add(reported.pop(0).producer_id)
        if header.is_control:
            said = end_transaction_marker.marker_of(data, pos, header)
            if said is not None and not said.commit:
                skipping.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipping):
            out += [r.value for r in records.records_of(data, pos, header) if r.offset >= log.start_offset]
    return out


# -- open transactions -------------------------------------------------------------------------------------------------
def test_the_last_stable_offset_is_the_first_open_transaction_until_its_marker_is_replicated() -> None:
    log = open_log()
    append(log)
    first = write(log, 7)
    write(log, 8)
    append(log)
    assert (log.last_stable(log.end_offset), log.last_stable(1)) == (first, 1)
    end(log, 8, True)
    assert log.last_stable(log.end_offset) == first
    marker = end(log, 7, True)
    assert log.last_stable(marker) == first, "the marker is not replicated"
    assert log.last_stable(marker + 1) == marker + 1


def test_a_transaction_that_started_below_the_log_start_does_not_block_readers() -> None:
    log = open_log()
    for i in range(4):
        write(log, 7, i)
    log.raise_start(2)
    assert log.last_stable(log.end_offset) == 2


def header(sequence: int = 0, epoch: int = 0, attributes: int = records.TRANSACTIONAL) -> BatchHeader:
    return BatchHeader(0, 61, 0, 2, 0, attributes, 0, 0, 0, 7, epoch, sequence, 1)


def rejection(verdict: object) -> int:
    assert isinstance(verdict, ProducerRejected)
    return verdict.error


def test_a_producer_with_an_open_transaction_appends_only_transactional_batches() -> None:
    log = open_log()
    write(log, 7)
    assert rejection(log.check_producer(header(1, attributes=0), NOW)) == ErrorCode.INVALID_TXN_STATE
    assert log.check_producer(header(1), NOW) is ACCEPTED
    end(log, 7, True)
    assert log.check_producer(header(1, attributes=0), NOW) is ACCEPTED


def test_a_marker_of_a_newer_epoch_fences_the_producer_and_resets_its_sequences() -> None:
    log = open_log()
    write(log, 7, 0, 3)
    end(log, 7, False, epoch=1, coordinator_epoch=4)
    assert rejection(log.check_producer(header(3), NOW)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert rejection(log.check_producer(header(5, epoch=1), NOW)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.check_producer(header(0, epoch=1), NOW) is ACCEPTED
    assert rejection(log.producers.check_marker(7, 0, 9)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert rejection(log.producers.check_marker(7, 1, 3)) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert log.producers.check_marker(7, 1, 4) is None
    assert log.producers.check_marker(1234, 0, 0) is None


def test_a_newer_producer_epoch_keeps_the_start_of_the_open_transaction() -> None:
    log = open_log()
    first = write(log, 7)
    write(log, 7, epoch=1)
    assert log.last_stable(log.end_offset) == first
    end(log, 7, False, epoch=2)
    assert log.aborted.overlapping(0, EVERYTHING) == [AbortedTxn(7, first, 2, 3)]


def test_a_producer_with_an_open_transaction_does_not_expire() -> None:
    log = open_log()
    write(log, 7)
    write(log, 8)
    end(log, 8, True)
    log.release_idle(Now(0, NOW.wall_ms + 30 * 24 * HOUR))
    assert set(log.producers.known) == {7}


# -- aborted transactions ----------------------------------------------------------------------------------------------
def test_a_read_returns_the_aborted_transactions_of_its_range() -> None:
    log = open_log(segment_bytes="400")
    for i in range(12):
        write(log, i % 3, i // 3, size=50)
        end(log, i % 3, i % 2 == 0)
    check_index(log)
    everything = log.aborted.overlapping(0, EVERYTHING)
    assert [e.first_offset for e in everything] == list(range(2, 24, 4))
    assert log.aborted.overlapping(7, 11) == [e for e in everything if e.last_offset >= 7 and e.first_offset < 11]
    assert len(log.segments) > 3
    assert read_committed_values(log) == [b"v" + bytes(50)] * 6


def test_index_entries_have_kafkas_format_and_the_last_stable_offset() -> None:
    disk = sim()
    log = open_log(disk)
    write(log, 7)
    write(log, 8)
    end(log, 7, False)
    log.close()
    data = disk.read(FOLDER / "00000000000000000000.txnindex")
    assert data == transaction_index.ENTRY.pack(0, 7, 0, 2, 1) and len(data) == 34


def fill(log: Log, rng: random.Random, steps: int, leader_epoch: int = 0, keys: int = 5) -> None:
    """Producers 1 to 4 write, commit and abort; 9 writes outside transactions."""
    for _ in range(steps):
        producer = rng.randint(1, 4)
        known = log.producers.known.get(producer)
        epoch = known.epoch if known is not None else 0
        sequence = known.batches[-1][1] + 1 if known is not None and known.batches else 0
        what = rng.random()
        key = b"key-%d" % rng.randrange(keys)
        if what < 0.5:
            value = None if rng.random() < 0.15 else b"%d" % log.end_offset
            write(
                log,
                producer,
                sequence,
                rng.randint(1, 3),
                epoch,
                leader_epoch,
                key,
                value,
                rng.randint(0, 60) if value else 0,
            )
        elif what < 0.9:
            end(log, producer, rng.random() < 0.5, epoch + (rng.random() < 0.2), leader_epoch=leader_epoch)
        else:
            append(log, bytearray(records.build([Record(0, NOW.wall_ms, key, b"%d" % log.end_offset)])), leader_epoch)


@pytest.mark.parametrize("seed", range(40))
def test_the_transaction_index_survives_restarts_truncation_retention_and_lost_files(seed: int) -> None:
    rng = random.Random(seed)
    disk = sim()
    log = open_log(disk, segment_bytes="900")
    for turn in range(12):
        fill(log, rng, rng.randint(1, 12), turn)
        if rng.random() < 0.3:
            log.flush()
        if rng.random() < 0.3:
            log.release_idle(NOW)
        if rng.random() < 0.25:
            log.truncate_to(rng.randint(log.start_offset, log.end_offset))
        if rng.random() < 0.15 and len(log.segments) > 2:
            log.raise_start(log.segments[1].base_offset)
        how = rng.random()
        if how < 0.5:
            if how < 0.25:
                log.close()
            disk = disk.killed()
            for name in [n for n in disk.names if n.suffix == transaction_index.SUFFIX and rng.random() < 0.2]:
                damage(disk, name, rng)
            log = Log.open(FOLDER, log.config, disk, NOW, deep=rng.random() < 0.3)
        if log.start_offset == log.segments[0].base_offset == 0:
            check_index(log)
        else:
            begun, gone = truth(log)
            assert begun.keys() <= log.producers.open.keys()
            assert {g[2] for g in gone} <= {e.last_offset for e in log.aborted.overlapping(0, EVERYTHING)}


def damage(disk: SimDisk, name: Path, rng: random.Random) -> None:
    if rng.random() < 0.4:
        del disk.names[name]
    else:
        del disk.names[name].live[rng.randrange(len(disk.names[name].live)) :]


def test_the_transaction_index_is_correct_after_a_power_cut() -> None:
    for seed in range(150):
        rng = random.Random(seed)
        disk = sim()
        log = open_log(disk, segment_bytes="900")
        for turn in range(6):
            fill(log, rng, rng.randint(1, 10), turn)
            if rng.random() < 0.4:
                log.flush()
            if rng.random() < 0.2:
                log.close()
            if rng.random() < 0.2:
                log.truncate_to(rng.randint(0, log.end_offset))
        again = Log.open(FOLDER, log.config, disk.power_cut(rng), NOW, deep=True)
        check_index(again)


def test_a_transaction_index_deleted_while_the_log_is_open_is_rebuilt() -> None:
    disk = sim()
    log = open_log(disk, segment_bytes="400")
    for i in range(6):
        write(log, 1, i, size=100)
        end(log, 1, False)
    log.release_idle(NOW)
    for name in [n for n in disk.names if n.suffix == transaction_index.SUFFIX]:
        disk.names[name].live[5] ^= 0xFF
    check_index(log)


def test_a_follower_builds_the_same_transaction_index() -> None:
    log = open_log()
    fill(log, random.Random(3), 60)
    follower = open_log()
    follower.append_fetched(memoryview(read_bytes(log)), NOW)
    assert follower.producers.open == log.producers.open
    assert follower.aborted.overlapping(0, EVERYTHING) == log.aborted.overlapping(0, EVERYTHING)
    check_index(follower)


def history(disk: SimDisk) -> None:
    log = open_log(disk, segment_bytes="700", retention_bytes="3000")
    rng = random.Random(5)
    fill(log, rng, 12, 0)
    log.flush()
    fill(log, rng, 8, 1)
    log.truncate_to(log.end_offset - 3)
    fill(log, rng, 8, 2)
    log.close()
    log.truncate_to(log.end_offset - 9)
    fill(log, rng, 4, 3)
    log.close()


def test_the_transaction_index_is_correct_after_a_crash_at_any_step() -> None:
    clean = sim()
    history(clean)
    for step in range(1, clean.steps + 1):
        for cut in (None, random.Random(step)):
            disk = sim()
            disk.crash_at = step
            with pytest.raises(Crashed):
                history(disk)
            log = open_log(
                disk.killed() if cut is None else disk.power_cut(cut), deep=cut is not None, segment_bytes="700"
            )
            check_index(log)
            fill(log, random.Random(step), 6, 9)
            check_index(log)


# -- compaction --------------------------------------------------------------------------------------------------------
def newest_committed_values(log: Log) -> dict[bytes, bytes]:
    """The newest committed value of each key."""
    _, gone = truth(log)
    stable = log.last_stable(log.end_offset)
    found = []
    data = read_bytes(log)
    for pos, h in records.batches(data):
        hidden = any(p == h.producer_id and f <= h.base_offset <= last for p, f, last in gone)
        if not h.is_control and not hidden and h.next_offset <= stable:
            found += list(records.records_of(data, pos, h))
    return live(found)


@pytest.mark.parametrize("seed", range(25))
def test_compaction_keeps_the_newest_committed_value_of_each_key(seed: int) -> None:
    rng = random.Random(seed)
    disk = sim()
    log = open_log(disk, **COMPACT, delete_retention_ms="1000")
    now = NOW
    for turn in range(6):
        fill(log, rng, 25, turn)
        before = newest_committed_values(log)
        cleaner.clean(log, now, log.end_offset, force=True)
        assert newest_committed_values(log) == before
        reported = {e.last_offset for e in log.aborted.overlapping(0, EVERYTHING)}
        assert {last for _, _, last in truth(log)[1]} <= reported
        now = Now(0, now.wall_ms + rng.choice([100, 2_000]))
        if rng.random() < 0.5:
            if rng.random() < 0.5:
                log.close()
            disk = disk.killed()
            log = Log.open(FOLDER, log.config, disk, NOW, deep=rng.random() < 0.3)
            assert newest_committed_values(log) == before
        follower = open_log()
        follower.append_fetched(memoryview(read_bytes(log)), NOW)
        assert sorted(map(str, read_committed_values(follower))) == sorted(map(str, read_committed_values(log)))


def test_r17_markers_and_aborted_records_are_removed_after_delete_retention_ms() -> None:
    """KAFKA-8335, KIP-534."""
    log = open_log(**COMPACT, delete_retention_ms="1000")
    write(log, 1, key=b"a", value=b"old", size=300)
    end(log, 1, True)
    write(log, 2, key=b"a", value=b"never", size=300)
    end(log, 2, False)
    write(log, 3, key=b"a", value=b"new", size=300)
    end(log, 3, True)
    for producer in (1, 2):  # they write again: no older record is kept for the sequence number
        write(log, producer, 1, key=b"else", size=300)
        end(log, producer, True)
    append(log, batch(1, size=600))
    append(log, batch(1))

    def remaining_batches(at_ms: int) -> list[tuple[int, bool]]:
        cleaner.clean(log, Now(0, NOW.wall_ms + at_ms), log.end_offset, force=True)
        append(log, batch(1, size=600))
        return [(h.base_offset, h.is_control) for h in log.headers(0) if h.base_offset < 6 and h.record_count]

    def aborted_last_offsets() -> list[int]:
        return [e.last_offset for e in log.aborted.overlapping(0, EVERYTHING)]

    assert remaining_batches(0) == [
        (1, True),
        (3, True),
        (4, False),
        (5, True),
    ]  # first seen in this pass: the markers stay
    assert aborted_last_offsets() == [3]
    assert remaining_batches(1) == [(1, True), (3, True), (4, False), (5, True)]  # delete.retention.ms starts now
    assert remaining_batches(900) == [(1, True), (3, True), (4, False), (5, True)]
    assert aborted_last_offsets() == [3], "an entry goes with its marker"
    assert remaining_batches(1_002) == [(4, False), (5, True)]
    assert aborted_last_offsets() == []


def test_later_records_of_a_producer_are_not_aborted_by_a_removed_marker() -> None:
    log = open_log(**COMPACT, delete_retention_ms="0")
    write(log, 1, key=b"a", size=500)
    end(log, 1, False)
    write(log, 1, 1, key=b"b", size=500)
    end(log, 1, True)
    append(log, batch(1, size=600))
    append(log, batch(1))
    for turn in range(4):
        cleaner.clean(log, Now(0, NOW.wall_ms + turn), log.end_offset, force=True)
        append(log, batch(1, size=600))
        assert b"v" + bytes(500) in read_committed_values(log)
    assert log.aborted.overlapping(0, EVERYTHING) == []


def test_open_transactions_are_not_compacted() -> None:
    log = open_log(**COMPACT)
    write(log, 1, key=b"a", size=500)
    write(log, 2, key=b"a", size=500)
    end(log, 2, True)
    append(log, batch(1, size=600))
    append(log, batch(1))
    assert cleaner.clean(log, NOW, log.end_offset, force=True) is None
    end(log, 1, True)
    append(log, batch(1, size=600))
    append(log, batch(1))
    assert cleaner.clean(log, NOW, log.end_offset, force=True) is not None


def test_a_crash_at_any_step_of_a_compaction_keeps_committed_records() -> None:
    ready = sim()
    log = open_log(ready, **COMPACT, delete_retention_ms="0")
    fill(log, random.Random(11), 24)
    log.flush()
    cleaner.clean(log, NOW, log.end_offset, force=True)
    fill(log, random.Random(12), 16)
    log.flush()
    expected, config, shown = (
        newest_committed_values(log),
        log.config,
        sorted(map(str, set(read_committed_values(log)))),
    )
    whole = copy.deepcopy(ready)
    log = Log.open(FOLDER, config, whole, NOW)
    start = whole.steps
    cleaner.clean(log, NOW, log.end_offset, force=True)
    assert whole.steps - start > 20 and sorted(map(str, set(read_committed_values(log)))) != shown
    for step in range(1, whole.steps - start + 1):
        for cut in (None, random.Random(step)):
            disk = copy.deepcopy(ready)
            log = Log.open(FOLDER, config, disk, NOW)
            disk.crash_at = disk.steps + step
            with pytest.raises(Crashed):
                cleaner.clean(log, NOW, log.end_offset, force=True)
            again = Log.open(
                FOLDER, config, disk.killed() if cut is None else disk.power_cut(cut), NOW, deep=cut is not None
            )
            assert newest_committed_values(again) == expected, disk.story[-1]
            assert {last for _, _, last in truth(again)[1]} <= {
                e.last_offset for e in again.aborted.overlapping(0, EVERYTHING)
            }
            cleaner.clean(again, NOW, again.end_offset, force=True)
            assert newest_committed_values(again) == expected
