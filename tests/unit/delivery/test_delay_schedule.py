"""Delayed records: never early, ordered, cancelled by tombstones, with bounded memory, against a plain sorted list."""

from __future__ import annotations

import random

import pytest

from brokerd.delivery import delay_schedule as d
from brokerd.delivery.delay_schedule import BUCKET_MS, PendingRecord

MINUTE = 60_000


class Harness:
    """A schedule with its buckets in a dict. `due`: (time, offset) of each due record."""

    def __init__(self) -> None:
        self.schedule, self.now_ms, self.offset = d.DelaySchedule(), 10 * BUCKET_MS, 0
        self.buckets: dict[int, list[PendingRecord]] = {}
        self.loading: list[int] = []
        self.due: list[tuple[int, int]] = []
        self.cancelled: list[int] = []

    def run(self, event: d.DelayEvent) -> None:
        for effect in self.schedule.handle(event, self.now_ms):
            if isinstance(effect, d.StoreInBucket):
                self.buckets.setdefault(effect.bucket, []).extend(effect.records)
            elif isinstance(effect, d.LoadBucket):
                self.loading.append(effect.bucket)
            elif isinstance(effect, d.Cancelled):
                self.cancelled += effect.offsets
            else:
                self.due += [(self.now_ms, offset) for offset in effect.offsets]

    def add(self, delay_ms: int, key: bytes = b"") -> PendingRecord:
        record = PendingRecord(self.now_ms + delay_ms, self.offset, key)
        self.offset += 1
        self.run(d.DelayedAppended(record))
        return record

    def cancel(self, key: bytes) -> int:
        self.run(d.TombstoneAppended(key, self.offset))
        self.offset += 1
        return self.offset - 1

    def replicate(self) -> None:
        self.run(d.DelayedReplicated(self.offset))

    def load(self) -> None:
        while self.loading:
            bucket = self.loading.pop()
            self.run(d.BucketLoaded(bucket, tuple(self.buckets.pop(bucket, ()))))

    def check_metrics(self, added: list[PendingRecord]) -> None:
        gone = {offset for _, offset in self.due} | set(self.cancelled)
        pending = [r for r in added if r.offset not in gone]
        assert self.schedule.pending == len(pending)
        assert self.schedule.earliest_ms == min((r.deliver_at_ms for r in pending), default=None)
        bound = (self.now_ms // BUCKET_MS + 3) * BUCKET_MS
        before = sum(r.deliver_at_ms < bound for r in pending)
        assert self.schedule.counts([bound]) == [before, len(pending) - before]

    def tick(self, ms: int = 0, room: int = 100) -> None:
        self.now_ms += ms
        self.run(d.DelayTick(room))


def test_a_record_is_due_at_its_time_and_not_before() -> None:
    harness = Harness()
    harness.add(1_000)
    harness.replicate()
    harness.tick(999)
    assert harness.due == [] and harness.schedule.wake_at_ms(harness.now_ms) == harness.now_ms + 1
    harness.tick(1)
    assert [offset for _, offset in harness.due] == [0]
    assert harness.schedule.wake_at_ms(harness.now_ms) is None


def test_a_record_that_is_not_replicated_is_not_due() -> None:
    harness = Harness()
    harness.add(0)
    harness.tick(1)
    assert harness.due == []
    harness.replicate()
    harness.tick()
    assert len(harness.due) == 1


def test_a_tombstone_cancels_earlier_records_with_its_key_only() -> None:
    harness = Harness()
    harness.add(1_000, b"a")
    harness.add(1_000, b"b")
    harness.cancel(b"a")
    harness.add(1_000, b"a")
    harness.replicate()
    harness.tick(1_000)
    assert [offset for _, offset in harness.due] == [1, 3]


def test_later_records_are_stored_in_buckets_and_loaded_before_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(d, "SPILL_RECORDS", 10)
    harness = Harness()
    for i in range(95):
        harness.add(60 * MINUTE + i, b"k%d" % i)
    harness.replicate()
    assert harness.schedule.in_memory == 5 and sum(map(len, harness.buckets.values())) == 90
    harness.tick(48 * MINUTE)
    assert not harness.loading
    harness.tick(11 * MINUTE)
    assert harness.loading
    harness.tick(2 * MINUTE)
    assert harness.due == [], "a bucket that is still read can have earlier records"
    harness.load()
    harness.tick()
    assert [offset for _, offset in harness.due] == list(range(95)) and not harness.buckets


def test_at_most_as_many_records_are_due_as_there_is_room_for() -> None:
    harness = Harness()
    for _ in range(5):
        harness.add(0)
    harness.replicate()
    harness.tick(room=2)
    assert len(harness.due) == 2
    harness.tick(room=0)
    assert len(harness.due) == 2


@pytest.mark.parametrize("seed", range(100))
def test_each_record_is_due_once_in_order_and_never_early(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(d, "SPILL_RECORDS", 20)
    rng, harness = random.Random(seed), Harness()
    records: list[PendingRecord] = []
    tombstones: list[tuple[bytes, int, int]] = []
    for _ in range(400):
        step = rng.random()
        if step < 0.5:
            delay = rng.choice((0, 500, rng.randrange(5 * MINUTE), rng.randrange(600 * MINUTE)))
            records.append(harness.add(delay, b"%d" % rng.randrange(80)))
        elif step < 0.55:
            key = b"%d" % rng.randrange(80)
            tombstones.append((key, harness.cancel(key), harness.now_ms))
        elif step < 0.7:
            harness.replicate()
        elif step < 0.8:
            harness.load()
        else:
            harness.tick(rng.choice((0, 100, 10_000, 10 * MINUTE)), rng.choice((0, 3, 1_000)))
        harness.check_metrics(records)
    harness.replicate()
    for _ in range(2_000):
        harness.tick(5 * MINUTE, 1_000)
        harness.load()
    by_offset = {r.offset: r for r in records}
    times = {offset: at for at, offset in harness.due}
    assert len(times) == len(harness.due), "none twice"
    assert sorted([*times, *harness.cancelled]) == sorted(by_offset), "each is due or cancelled, once"
    assert all(at >= by_offset[offset].deliver_at_ms for offset, at in times.items()), "none early"
    for record in records:
        cancels = [at for key, offset, at in tombstones if key == record.key_digest and offset > record.offset]
        if not cancels:
            assert record.offset in times, "none never"
        elif record.offset in times:
            assert times[record.offset] <= min(cancels), "cancelled too late only"
    assert not harness.schedule.in_memory and not harness.buckets


def test_found_buckets_are_pending_until_they_are_loaded() -> None:
    harness = Harness()
    first = harness.now_ms + 30 * MINUTE
    bucket = first // BUCKET_MS
    found = [PendingRecord(first, 3, b"a"), PendingRecord(first + 1, 4, b"b")]
    harness.buckets[bucket] = found
    harness.offset = 5
    harness.run(d.BucketsFound(((bucket, 2, first), (bucket + 5, 7, first + 5 * BUCKET_MS))))
    harness.run(d.TombstonesFound({b"b": 4, b"a": 5}))
    harness.replicate()
    assert (harness.schedule.pending, harness.schedule.earliest_ms) == (9, first)
    assert harness.schedule.later_buckets() == {bucket, bucket + 5}
    harness.tick(30 * MINUTE)
    assert harness.due == [] and harness.schedule.pending == 9, "the bucket is being loaded"
    harness.load()
    harness.tick(1)
    assert [offset for _, offset in harness.due] == [4] and harness.cancelled == [3]
    assert harness.schedule.pending == 7


def test_records_of_later_buckets_are_stored_on_request() -> None:
    harness = Harness()
    record = harness.add(60 * MINUTE)
    harness.run(d.LaterRequested())
    assert harness.buckets == {record.bucket: [record]} and harness.schedule.in_memory == 0
