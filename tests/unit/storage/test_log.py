"""The log: append, read of whole batches, timestamps, producers, disk failures."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from brokerd.cluster.configs import TopicConfig
from brokerd.cluster.model import Now
from brokerd.storage.disk import DiskFailed, DiskFull
from brokerd.storage.log import FetchRejected, Log
from brokerd.storage.os_disk import OsDisk
from brokerd.storage.producers import ACCEPTED, Duplicate, ProducerRejected
from brokerd.wire import records
from brokerd.wire.records import Record
from brokerd.wire.steps import run_now
from tests.simulation.disk import SimDisk

NOW = Now(0, 1_000_000)
FOLDER = Path("/data/t-0")
EVERYTHING = 1 << 60


def config(**overrides: str) -> TopicConfig:
    return TopicConfig.from_overrides({k.replace("_", "."): v for k, v in overrides.items()})


def sim() -> SimDisk:
    disk = SimDisk()
    disk.mkdir(FOLDER)
    return disk


def open_log(disk: SimDisk | None = None, *, deep: bool = False, **overrides: str) -> Log:
    return Log.open(FOLDER, config(**overrides), disk or sim(), NOW, deep=deep)


def batch(count: int = 1, size: int = 50, timestamp: int = 1_000_000, **kw: int) -> bytearray:
    return bytearray(records.build([Record(i, timestamp, b"k", bytes(size)) for i in range(count)], **kw))


def append(log: Log, data: bytearray | None = None, epoch: int = 0, now: Now = NOW) -> int:
    data = batch() if data is None else data
    return log.append(data, records.check(data), epoch, now).base_offset


def offsets(log: Log, at: int = 0, bytes_max: int = EVERYTHING, upto: int = EVERYTHING) -> list[int]:
    return [r.offset for r in records.iterate(log.read(at, bytes_max, upto).bytes())]


def read_all(log: Log) -> list[Record]:
    out: list[Record] = []
    at = log.start_offset
    while at < log.end_offset:
        data = log.read(at, 1_000, EVERYTHING).bytes()
        out += [r for r in records.iterate(data) if r.offset >= at]
        at = [h.next_offset for _, h in records.batches(data)][-1]
    return out


# -- appending and reading ---------------------------------------------------------------------------------------------
def test_appended_batches_get_consecutive_offsets_and_the_leader_epoch() -> None:
    log = open_log()
    assert [append(log, batch(3)), append(log, batch(2) + batch(4), epoch=5), append(log)] == [0, 3, 9]
    assert log.end_offset == 10 and log.last_epoch == 5
    assert offsets(log) == list(range(10))
    assert [h.partition_leader_epoch for h in log.headers(0)] == [0, 5, 5, 0]


def test_a_read_starts_with_the_batch_that_contains_the_offset() -> None:
    log = open_log()
    for _ in range(5):
        append(log, batch(10))
    assert offsets(log, 25, bytes_max=1) == list(range(20, 30))
    assert offsets(log, 50) == []


def test_a_read_ends_at_a_batch_boundary_below_its_limit() -> None:
    log = open_log(index_interval_bytes="300")
    sizes = []
    for count in (1, 5, 2, 9, 1, 1, 4):
        data = batch(count)
        append(log, data)
        sizes.append((count, len(data)))
    edges = [sum(c for c, _ in sizes[:i]) for i in range(len(sizes) + 1)]
    for first, edge in enumerate(edges[:-1]):
        for upto in range(edge + 1, log.end_offset + 1):
            expected = [e for e in edges if edge <= e <= upto][-1]
            assert offsets(log, edge, upto=upto) == list(range(edge, expected))
        for limit in range(0, 1_500, 70):
            length = log.read(edge, limit, EVERYTHING).size
            fits = [sum(s for _, s in sizes[first:i]) for i in range(first, len(sizes) + 1)]
            assert length == max([s for s in fits if s <= limit and s] or [sizes[first][1]])


def test_the_first_batch_exceeds_the_limit_only_on_request() -> None:
    log = open_log()
    append(log, batch(1, size=5_000))
    assert log.read(0, 10, EVERYTHING).size > 5_000
    assert log.read(0, 10, EVERYTHING, at_least_one=False).size == 0


def test_a_batch_that_crosses_the_upper_offset_is_not_returned() -> None:
    log = open_log()
    append(log, batch(10))
    assert offsets(log, 0, upto=9) == []
    assert offsets(log, 0, upto=10) == list(range(10))


def test_a_read_continues_in_the_next_segment() -> None:
    log = open_log(segment_bytes="400")
    for _ in range(20):
        append(log, batch(2))
    assert len(log.segments) > 5
    assert [r.offset for r in read_all(log)] == list(range(40))
    for at in range(40):
        assert offsets(log, at, bytes_max=1)[-1] in (at, at + 1)


def test_a_follower_keeps_offsets_epochs_and_gaps() -> None:
    leader, follower = open_log(), open_log()
    append(leader, batch(3), epoch=1)
    append(leader, batch(3), epoch=4)
    fetched = leader.read(0, EVERYTHING, EVERYTHING).bytes()
    partial = fetched + fetched[:30]
    assert follower.append_fetched(memoryview(partial), NOW) == (0, 5, -1)
    assert follower.epochs.entries == [(1, 0), (4, 3)]
    gap = bytearray(batch(1))
    records.stamp(gap, 0, 100, 4)
    follower.append_fetched(memoryview(gap), NOW)
    assert follower.end_offset == 101
    assert offsets(follower, 6) == [100]


@pytest.mark.parametrize("what", ["offset", "epoch", "crc"])
def test_a_fetched_batch_with_a_wrong_offset_is_rejected_and_not_written(what: str) -> None:
    log = open_log()
    append(log, batch(3), epoch=3)
    data = batch(1)
    records.stamp(data, 0, 2 if what == "offset" else 3, 2 if what == "epoch" else 3)
    if what == "crc":
        data[-1] ^= 1
    with pytest.raises(FetchRejected):
        log.append_fetched(memoryview(data), NOW)
    assert log.end_offset == 3


def test_a_replica_that_starts_within_a_batch_starts_with_that_batch() -> None:
    """DeleteRecords set the log start offset within a batch. The leader sends the whole batch, with older records."""
    leader, follower = open_log(), open_log()
    append(leader, batch(5))
    append(leader, batch(5))
    leader.raise_start(7)
    follower.reset_to(7, NOW)
    data = memoryview(leader.read(7, EVERYTHING, EVERYTHING).bytes())
    assert follower.append_fetched(data, NOW) == (5, 9, -1)
    follower.raise_start(7)
    assert (follower.start_offset, follower.end_offset) == (7, 10)
    with pytest.raises(FetchRejected):
        follower.append_fetched(data, NOW)  # batches that the log has are not appended again


def test_log_append_time_is_stamped() -> None:
    log = open_log(message_timestamp_type="LogAppendTime")
    append(log, batch(2, timestamp=5), now=Now(0, 777))
    assert {r.timestamp for r in read_all(log)} == {777}
    assert run_now(log.max_timestamp()) == (0, 777)


# -- disk failures -----------------------------------------------------------------------------------------------------
def test_an_append_on_a_full_disk_is_undone_and_the_log_continues() -> None:
    disk = sim()
    log = open_log(disk)
    append(log, batch(3))
    disk.bytes_max = disk.used() + 40
    with pytest.raises(DiskFull):
        append(log, batch(3))
    assert log.end_offset == 3 and disk.size(FOLDER / f"{0:020d}.log") == log.size_bytes
    disk.bytes_max = 1 << 40
    assert append(log, batch(2)) == 3
    assert [r.offset for r in read_all(log)] == list(range(5))


def test_a_device_error_is_reported_and_nothing_counts_as_written() -> None:
    disk = sim()
    log = open_log(disk)
    append(log)
    disk.fail_at[disk.steps + 1] = DiskFailed("writing: Input/output error")
    with pytest.raises(DiskFailed):
        append(log)
    assert log.end_offset == 1
    disk.reads_fail = True
    with pytest.raises(DiskFailed):
        log.read(0, 10, 10).bytes()


def test_the_disk_distinguishes_full_from_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsDisk().open(tmp_path / "f", create=True)
    for number, kind in ((errno.ENOSPC, DiskFull), (errno.EIO, DiskFailed)):

        def raise_os_error(*_: object, number: int = number) -> int:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "pwrite", raise_os_error)
        with pytest.raises(kind):
            file.pwrite(b"x", 0)


# -- producers ---------------------------------------------------------------------------------------------------------
def batch_with_sequence(sequence: int, count: int = 1, epoch: int = 0, producer_id: int = 7) -> bytearray:
    return batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def test_a_duplicate_batch_returns_its_first_offset_also_after_a_restart_and_on_a_follower() -> None:
    disk = sim()
    log = open_log(disk)
    for i in range(4):
        append(log, batch_with_sequence(i * 2, 2))
    follower = open_log()
    follower.append_fetched(memoryview(log.read(0, EVERYTHING, EVERYTHING).bytes()), NOW)
    for holder in (log, open_log(disk.killed()), follower):
        repeat = records.peek(batch_with_sequence(4, 2))
        assert holder.check_producer(repeat, NOW) == Duplicate(4, 5)
        assert holder.check_producer(records.peek(batch_with_sequence(8)), NOW) is ACCEPTED
        assert isinstance(holder.check_producer(records.peek(batch_with_sequence(9)), NOW), ProducerRejected)


def test_inactive_producers_expire_by_the_wall_clock() -> None:
    log = open_log()
    append(log, batch_with_sequence(0), now=Now(0, 1_000))
    log.release_idle(Now(0, 1_000 + log.producer_expiration_ms))
    assert 7 in log.producers.known
    log.release_idle(Now(0, 1_001 + log.producer_expiration_ms))
    assert 7 not in log.producers.known
