"""A front partition of delayed messages with its log and its target partition in memory: reading, delivery, leader changes, deletion."""

from __future__ import annotations

from brokerd.cluster.model import Now
from brokerd.delivery.delayed_front import DelayedFront
from brokerd.delivery.front_partition import LOG_START_MS
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import Record
from tests.unit.delivery.front_bench import START_MS, Bench


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
    bench.pass_ms(front, 3 * LOG_START_MS)
    assert bench.values == ["y"] and front.cancelled == 1
    assert bench.start_offset == bench.end_offset, "the journal is deleted with its records"


def test_a_new_leader_sends_the_open_batch_again_and_nothing_twice() -> None:
    bench = DelayBench()
    first = bench.lead()
    for i in range(10):
        bench.write(f"v{i}", 100 * i)
    bench.pass_ms(first, 500)
    bench.pass_ms(first, 300, answers=False)  # a batch is on its way
    assert bench.sent
    first.close()
    second = bench.lead()
    while bench.sent:
        bench.answer()
    bench.pass_ms(second, 3_000)
    assert bench.values == [f"v{i}" for i in range(10)]


def test_a_refused_batch_is_sent_again() -> None:
    bench = DelayBench()
    front = bench.lead()
    bench.write("v", 0)
    bench.pass_ms(front, 200, answers=False)
    bench.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
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
        bench.pass_ms(front, 100, answers=False)
        if bench.sent:
            sizes.append(len(bench.sent[0][1]))
            bench.answer()
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
    bench.pass_ms(front, 2_000, answers=False)
    assert (front.pending, front.due) == (0, 1) and front.last_sent is not None
    due, sent = front.last_sent
    assert due == START_MS + 500 and due <= sent <= bench.now.wall_ms
    bench.pass_ms(front, 100)
    assert front.due == 0 and front.delivered == 1
