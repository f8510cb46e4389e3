"""Batches of a lane: their size, deleted records, and the end of a lane whose journal entry was rejected."""

from __future__ import annotations

from collections.abc import Sequence

from brokerd.delivery.front_log import FrontTarget
from brokerd.delivery.journal import JournalState, ProducerIdentity
from brokerd.delivery.offset_set import OffsetSet
from brokerd.delivery.record_cache import RecordCache
from brokerd.delivery.transfer_lane import TransferLane, next_batch, size_of
from brokerd.wire import records
from brokerd.wire.records import HEADER_BYTES, Record
from tests.unit.delivery.front_bench import Bench


def append_records(bench: Bench, count: int, size: int = 100) -> None:
    for _ in range(count):
        bench.append(records.build([Record(0, 1, b"k", b"v" * size)], base_offset=bench.end_offset))


def lane(bench: Bench, released: list[int]) -> TransferLane:
    def release(offsets: Sequence[int]) -> None:
        released.extend(offsets)

    found = TransferLane(
        bench, FrontTarget.TOPIC, lambda r, i, now: r._replace(offset=i), release, lambda now: found.tick(now)
    )
    found.begin(JournalState(None, 0, (), OffsetSet()), ProducerIdentity(7, 0), bench.now)
    return found


def test_the_size_is_an_upper_bound() -> None:
    one = Record(0, 1, b"k", b"v", (("x-delay-ms", b"1"), ("é" * 20, None)))
    assert len(records.build([one])) - HEADER_BYTES <= size_of(one)


def test_a_batch_ends_before_its_size_limit_and_skips_deleted_records() -> None:
    bench = Bench()
    append_records(bench, 10)
    cache = RecordCache(bench)
    bench.start_offset = 2
    assert cache.load(range(10))
    chosen, deleted = next_batch(range(10), cache, HEADER_BYTES + 3 * 165)
    assert (chosen, deleted) == ([2, 3, 4], [0, 1])
    assert next_batch([5], cache, 1)[0] == [5], "one record is a batch in any case"


def test_records_are_sent_after_their_journal_entry_is_replicated() -> None:
    bench, released = Bench(), list[int]()
    append_records(bench, 3)
    found = lane(bench, released)
    bench.replicated = 3
    found.due.extend((0, 2))
    assert found.select(bench.now) and not found.select(bench.now)
    found.tick(bench.now)
    assert not bench.sent
    bench.replicated = None
    found.tick(bench.now)
    bench.respond()
    assert released == [0, 2] and found.delivered == 2 and [r.offset for r in bench.target] == [0, 1]


def test_records_are_sent_immediately_if_the_partition_has_one_replica() -> None:
    bench = Bench()
    append_records(bench, 2)
    found = lane(bench, [])
    found.due.extend((0, 1))
    assert found.select(bench.now) and len(bench.sent) == 1


def test_cold_records_wait_and_deleted_ones_are_released() -> None:
    bench, released = Bench(), list[int]()
    append_records(bench, 3)
    found = lane(bench, released)
    found.due.extend((0, 1))
    bench.cold = True
    assert not found.select(bench.now)
    bench.cold, bench.start_offset = False, 1
    assert found.select(bench.now) and released == [0]


def test_a_lane_whose_journal_is_rejected_does_nothing_more() -> None:
    class RejectingBench(Bench):
        def append_journal(self, target: FrontTarget, values: list[bytes]) -> int | None:
            return None

    bench, released = RejectingBench(), list[int]()
    append_records(bench, 1)
    found = lane(bench, released)
    found.due.append(0)
    found.select(bench.now)
    assert found.failed and not found.capacity
    found.tick(bench.now)
    assert not bench.sent and not released
