"""A front partition of delayed messages with its log and its target partition in memory: reading, delivery, leader changes, deletion."""

from __future__ import annotations

import random

import pytest

from brokerd.cluster.model import Now
from brokerd.delivery.delay_lookup import PendingQuery
from brokerd.delivery.delayed_front import DelayedFront
from brokerd.delivery.delayed_records import key_digest
from brokerd.delivery.limits import DEFAULT_LIMITS
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import Record
from brokerd.wire.steps import run_now
from tests.unit.delivery.front_bench import START_MS, Bench

HOUR_MS = 3_600_000


class DelayBench(Bench):
    def write(self, value: str | None, delay_ms: int | None, key: str = "k", producer_id: int = -1) -> None:
        headers = () if delay_ms is None else (("x-delay-ms", b"%d" % delay_ms),)
        content = None if value is None else value.encode()
        record = Record(0, self.now.wall_ms, key.encode(), content, headers)
        self.append(
            records.build(
                [record],
                base_offset=self.end_offset,
                producer_id=producer_id,
                transactional=producer_id >= 0,
                producer_epoch=min(producer_id, 0),
                base_sequence=min(producer_id, 0),
            )
        )

    def lead(self) -> DelayedFront:
        return DelayedFront(self, lambda: 77)

    def skip_hours(self, hours: int) -> None:
        self.now = Now(self.now.mono_ms + hours * HOUR_MS, self.now.wall_ms + hours * HOUR_MS)

    def pending(self, front: DelayedFront, key: str | None = None) -> list[int]:
        """The offsets that a look-up finds, in the order of their delivery."""
        query = PendingQuery(10_000, None if key is None else key_digest(key.encode()))
        return [r.offset for r in run_now(front.look_up(query, lambda: False)).records]


def test_records_are_delivered_at_their_time_in_order() -> None:
    bench = DelayBench()
    front = bench.lead()
    for value, delay in (("late", 2_000), ("a", 500), ("b", 500), ("now", 0)):
        bench.write(value, delay)
    bench.pass_ms(front, 300)
    assert bench.values == ["now"]
    bench.pass_ms(front, 400)
    assert bench.values == ["now", "a", "b"]
    bench.pass_ms(front, 2_000)
    assert bench.values == ["now", "a", "b", "late"]
    assert [r.timestamp - START_MS for r in bench.target] == [0, 500, 500, 2_000]
    assert front.delivered == 4 and front.waiting == 0


def test_a_tombstone_cancels_and_delivered_records_are_deleted() -> None:
    bench = DelayBench()
    front = bench.lead()
    bench.write("x", 1_000, key="x")
    bench.write("y", 1_000, key="y")
    bench.write(None, None, key="x")
    bench.pass_ms(front, 500)
    assert front.waiting == 2 and bench.start_offset == 0
    bench.pass_ms(front, 3 * DEFAULT_LIMITS.log_start_ms)
    assert bench.values == ["y"] and front.cancelled == 1
    assert bench.start_offset == bench.end_offset, "the journal is deleted with its records"


def test_a_new_leader_sends_the_open_batch_again_and_nothing_twice() -> None:
    bench = DelayBench()
    first = bench.lead()
    for i in range(10):
        bench.write(f"v{i}", 100 * i)
    bench.pass_ms(first, 500)
    bench.pass_ms(first, 300, responses=False)  # a batch is on its way
    assert bench.sent
    first.close()
    second = bench.lead()
    while bench.sent:
        bench.respond()
    bench.pass_ms(second, 3_000)
    assert bench.values == [f"v{i}" for i in range(10)]


def test_a_rejected_batch_is_sent_again() -> None:
    bench = DelayBench()
    front = bench.lead()
    bench.write("v", 0)
    bench.pass_ms(front, 200, responses=False)
    bench.respond(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert front.blocked is ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.pass_ms(front, 500)
    assert bench.values == ["v"] and front.blocked is None


def test_aborted_records_are_never_delivered_and_ongoing_ones_wait() -> None:
    bench = DelayBench()
    front = bench.lead()
    bench.write("aborted", 0, producer_id=5)
    bench.aborts = [(5, 0, 0)]
    bench.write("open", 0, producer_id=6)
    bench.stable = 1
    bench.pass_ms(front, 500)
    assert bench.values == []
    bench.stable = None
    bench.pass_ms(front, 500)
    assert bench.values == ["open"]


def test_batches_respect_the_size_of_the_topic() -> None:
    bench = DelayBench()
    bench.batch_bytes_max = 1_000
    front = bench.lead()
    for i in range(20):
        bench.write(f"{i}" * 150, 0)
    sizes = []
    for _ in range(60):
        bench.pass_ms(front, 100, responses=False)
        if bench.sent:
            sizes.append(len(bench.sent[0][1]))
            bench.respond()
    assert len(bench.target) == 20 and max(sizes) <= 1_000 and len(sizes) > 3


def test_records_of_later_buckets_are_delivered_too() -> None:
    bench = DelayBench()
    front = bench.lead()
    for i in range(5_000):
        bench.write(f"{i}", 3_600_000 + i % 7)
    bench.pass_ms(front, 1_000)
    assert front.waiting == 5_000
    bench.now = Now(bench.now.mono_ms + 3_600_000, bench.now.wall_ms + 3_600_000)
    bench.pass_ms(front, 10_000)
    assert sorted(map(int, bench.values)) == list(range(5_000))


def test_records_deleted_by_a_client_are_not_delivered() -> None:
    bench = DelayBench()
    front = bench.lead()
    bench.write("deleted", 1_000)
    bench.write("kept", 1_000)
    bench.pass_ms(front, 300)
    bench.start_offset = 1
    bench.pass_ms(front, 2_000)
    assert bench.values == ["kept"] and front.waiting == 0


def test_a_record_that_is_due_counts_until_it_is_acknowledged() -> None:
    bench = DelayBench()
    front = bench.lead()
    bench.write("a", 500)
    bench.pass_ms(front, 400)
    assert (front.pending, front.due, front.last_sent) == (1, 0, None)
    bench.pass_ms(front, 2_000, responses=False)
    assert (front.pending, front.due) == (0, 1) and front.last_sent is not None
    due, sent = front.last_sent
    assert due == START_MS + 500 and due <= sent <= bench.now.wall_ms
    bench.pass_ms(front, 100)
    assert front.due == 0 and front.delivered == 1


# -- indexes ---------------------------------------------------------------------------------------------------------------
def test_a_new_leader_reads_indexed_segments_from_their_indexes_only() -> None:
    bench = DelayBench()
    for i in range(10):
        bench.write(f"v{i}", HOUR_MS, key=f"k{i}")
    bench.index(0, 5)
    bench.index(5, 9)
    first_unindexed = 9
    read, offsets = bench.read, []

    def read_and_record(offset: int, bytes_max: int, upto: int) -> bytes | None:
        offsets.append(offset)
        return read(offset, bytes_max, upto)

    bench.read = read_and_record  # type: ignore[method-assign]
    front = bench.lead()
    bench.pass_ms(front, 300)
    assert front.waiting == front.pending == 10 and front.earliest_ms == START_MS + HOUR_MS
    assert min(offsets) == first_unindexed
    assert bench.pending(front) == list(range(10)) and bench.pending(front, "k3") == [3]
    bench.skip_hours(1)
    bench.pass_ms(front, 2_000)
    assert bench.values == [f"v{i}" for i in range(10)] and front.waiting == 0


def test_records_and_tombstones_of_indexed_segments_count_as_read() -> None:
    bench = DelayBench()
    first = bench.lead()
    bench.write("sent", 100)
    bench.write("cancelled", HOUR_MS, key="x")
    bench.write("left", HOUR_MS, key="y")
    bench.write(None, None, key="x")
    bench.write("again", HOUR_MS, key="x")
    bench.pass_ms(first, 2_000)
    assert bench.values == ["sent"]
    first.close()
    bench.index(0, bench.end_offset)
    second = bench.lead()
    bench.pass_ms(second, 300)
    assert second.waiting == 3 and second.ready
    bench.skip_hours(1)
    bench.pass_ms(second, 2_000)
    assert bench.values == ["sent", "left", "again"] and second.cancelled == 1


def test_records_that_were_transferred_are_never_taken_from_an_index() -> None:
    """Also those of buckets in the future: the clock of the earlier leader was ahead."""
    bench = DelayBench()
    first = bench.lead()
    for i in range(300):
        bench.write(f"v{i}", HOUR_MS if i % 3 else 0, key=f"k{i % 7}")
    bench.index(0, 200)
    bench.pass_ms(first, 1_000)
    bench.skip_hours(2)
    bench.pass_ms(first, 300)
    sent = len(bench.values)
    assert sent > 100
    first.close()
    bench.skip_hours(-2)
    second = bench.lead()
    bench.pass_ms(second, 1_000)
    waiting = second.waiting
    assert waiting == 300 - len(bench.values) == len(bench.pending(second))
    bench.skip_hours(2)
    bench.pass_ms(second, 3_000)
    assert sorted(bench.values) == sorted(f"v{i}" for i in range(300))


def test_an_index_replaces_the_records_in_memory() -> None:
    bench = DelayBench()
    front = bench.lead()
    for i in range(100):
        bench.write(f"v{i}", HOUR_MS + i % 3 * HOUR_MS, key=f"k{i}")
    bench.write("near", 60_000)
    bench.pass_ms(front, 300)
    bench.index(0, 60)
    bench.index(60, 101)
    bench.pass_ms(front, 2 * DEFAULT_LIMITS.index_interval_ms)
    assert front.memory_bytes == 0 and front.pending == 101
    bench.write("more", HOUR_MS, key="k5")
    bench.pass_ms(front, 300)
    assert bench.pending(front, "k5") == [101, 5]
    for _ in range(4):
        bench.skip_hours(1)
        bench.pass_ms(front, 2_000)
    assert bench.values[:2] == ["near", "v0"] and sorted(bench.values) == sorted(
        ["near", "more", *(f"v{i}" for i in range(100))]
    )


def test_an_index_that_does_not_have_the_records_of_the_leader_is_not_used() -> None:
    bench = DelayBench()
    front = bench.lead()
    for i in range(10):
        bench.write(f"v{i}", HOUR_MS, key=f"k{i}")
    bench.pass_ms(front, 300)
    bench.aborts = [(-1, 0, 0)]
    bench.write("aborted later", HOUR_MS, producer_id=5)
    bench.pass_ms(front, 300)
    bench.aborts = [(5, 10, 11)]
    bench.index(0, 11)
    bench.pass_ms(front, 2 * DEFAULT_LIMITS.index_interval_ms)
    assert len(bench.pending(front)) == 11


@pytest.mark.parametrize("damaged", ["header", "directory", "records", "missing", "another segment"])
def test_without_a_valid_index_the_segment_is_read(damaged: str) -> None:
    bench = DelayBench()
    for i in range(20):
        bench.write(f"v{i}", HOUR_MS + i * 1_000, key=f"k{i}")
    bench.index(0, 10)
    path = bench.path(0).with_suffix(".delayindex")
    file = bench.disk.open(path)
    if damaged == "missing":
        bench.disk.unlink(path)
    elif damaged == "another segment":
        bench.index(10, 20)
        bench.disk.rename(bench.path(10).with_suffix(".delayindex"), path)
        bench.segments.pop()
    else:
        position = {"header": 10, "directory": file.size() - 60, "records": 120}[damaged]
        file.pwrite(b"\xff\xee", position)
    front = bench.lead()
    bench.pass_ms(front, 500)
    assert front.waiting == 20
    bench.skip_hours(1)
    bench.pass_ms(front, 25_000)
    assert bench.values == [f"v{i}" for i in range(20)]
    assert bench.discarded == [0]


def test_records_of_a_bucket_that_is_being_read_are_late_but_in_order() -> None:
    bench = DelayBench()
    for i in range(10):
        bench.write(f"v{i}", HOUR_MS, key=f"k{i}")
    bench.index(0, 5)
    front = bench.lead()
    bench.pass_ms(front, 300)
    bench.skip_hours(1)
    bench.pass_ms(front, 500, works=False)
    assert bench.values == [] and bench.jobs and (front.pending, front.due) == (10, 0)
    assert front.earliest_ms is not None and front.earliest_ms < bench.now.wall_ms, "it shows that they are overdue"
    assert bench.pending(front) == list(range(10)), "a look-up meanwhile finds them"
    bench.pass_ms(front, 2_000)
    assert bench.values == [f"v{i}" for i in range(10)]


def test_results_of_jobs_of_an_earlier_leader_are_ignored() -> None:
    bench = DelayBench()
    for i in range(10):
        bench.write(f"v{i}", HOUR_MS)
    bench.index(0, 10)
    front = bench.lead()
    bench.pass_ms(front, 300, works=False)
    assert bench.jobs and not front.ready
    front.close()
    bench.run_jobs()
    assert front.waiting == 0


@pytest.mark.parametrize("seed", range(6))
def test_each_record_arrives_once_whatever_is_indexed_when(seed: int) -> None:
    """Random histories: writes, tombstones, segments that close, indexes that come late or are lost, leaders that change, also while jobs run."""
    rng, bench = random.Random(seed), DelayBench()
    front, closed = bench.lead(), 0
    times: dict[str, int] = {}
    cancelled: set[str] = set()
    for _ in range(150):
        for _ in range(rng.randrange(4)):
            value = f"v{len(times)}"
            delay = rng.choice((0, 500, 5_000, HOUR_MS // 6, HOUR_MS // 3, HOUR_MS))
            times[value] = bench.now.wall_ms + delay
            bench.write(value, delay, key=value)
        if rng.random() < 0.2 and times:
            value = rng.choice(list(times))
            if times[value] > bench.now.wall_ms + 10_000:
                cancelled.add(value)
                bench.write(None, None, key=value)
        bench.pass_ms(front, rng.choice((100, 400)), works=rng.random() < 0.8, responses=rng.random() < 0.8)
        if rng.random() < 0.3 and bench.end_offset > closed:
            bench.index(closed, bench.end_offset)
            closed = bench.end_offset
        if rng.random() < 0.1 and bench.segments:
            bench.disk.unlink(bench.path(rng.choice(bench.segments).base_offset).with_suffix(".delayindex"))
        if rng.random() < 0.15:
            front.close()
            front = bench.lead()
        if rng.random() < 0.05:
            bench.now = Now(bench.now.mono_ms + HOUR_MS // 4, bench.now.wall_ms + HOUR_MS // 4)
        bench.segments = [s for s in bench.segments if s.end_offset > bench.start_offset]
    for _ in range(3):
        bench.skip_hours(1)
        bench.pass_ms(front, 20_000)
    assert sorted(bench.values) == sorted({*times} - cancelled)
    assert front.waiting == 0 and bench.start_offset == bench.end_offset
