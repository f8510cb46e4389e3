"""A live tail: every record is counted once, the rate bounds what is shown, and a tail that is behind continues at the end."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from brokerd.wire.records import Record
from controlplane.domain.record_scan import Chunk, PartitionProblem
from controlplane.domain.record_tail import OFFSET_MAX, ROWS_PER_SECOND_MAX, RecordTail


def records(first: int, count: int, key: bytes = b"k") -> list[Record]:
    return [Record(o, 1_000 + o, key, b"v") for o in range(first, first + count)]


def chunk(first: int, count: int, end: int | None = None) -> Chunk:
    after = first + count
    return Chunk(after, records(first, count), 100, end=after if end is None else end)


def placed_tail(*partitions: int, at: int = 10) -> RecordTail:
    tail = RecordTail(partitions)
    tail.place(dict.fromkeys(partitions, at), {})
    return tail


def test_a_tail_starts_at_the_end_of_each_partition() -> None:
    tail = RecordTail([0, 1])
    assert tail.partitions_without_offset() == [0, 1] and not tail.ranges()
    tail.place({0: 10}, {1: PartitionProblem.NO_LEADER})
    assert tail.partitions_without_offset() == [1] and tail.problems == {1: PartitionProblem.NO_LEADER}
    assert {p: r.offset for p, r in tail.ranges().items()} == {0: 10} and not tail.behind()
    tail.place({1: 5}, {})
    assert not tail.problems and tail.counts.unread == 0


def test_new_records_are_shown_newest_first() -> None:
    tail = placed_tail(0, 1)
    tail.add({0: chunk(10, 2), 1: chunk(10, 3)})
    shown = [(p, r.offset) for p, r in tail.take(1.0)]
    assert shown == [(1, 12), (1, 11), (0, 11), (1, 10), (0, 10)]
    assert tail.take(1.0) == [] and {p: r.offset for p, r in tail.ranges().items()} == {0: 12, 1: 13}


def test_records_that_do_not_match_are_scanned_only() -> None:
    tail = RecordTail([0], lambda r: r.offset % 2 == 0)
    tail.place({0: 0}, {})
    tail.add({0: chunk(0, 5)})
    assert [r.offset for _, r in tail.take(1.0)] == [4, 2, 0]
    assert (tail.counts.scanned, tail.counts.shown, tail.counts.dropped) == (5, 3, 0)


def test_more_than_the_rate_is_dropped_and_counted() -> None:
    tail = placed_tail(0)
    tail.add({0: chunk(10, 200)})
    shown = tail.take(0.0)
    assert len(shown) == ROWS_PER_SECOND_MAX and shown[0][1].offset == 209
    tail.add({0: chunk(210, 100)})
    assert len(tail.take(0.5)) == ROWS_PER_SECOND_MAX // 2
    tail.drop(5)
    assert (tail.counts.shown, tail.counts.dropped) == (70, 230) and tail.counts.scanned == 300


def test_a_pause_counts_the_records_that_it_passes_over_and_does_not_show_them() -> None:
    tail = placed_tail(0)
    tail.pause()
    tail.add({0: chunk(10, 7)})
    assert tail.take(1.0) == []
    tail.pause()
    tail.add({0: chunk(17, 3)})
    assert tail.take(1.0) == [] and tail.counts.passed_over == 10
    tail.resume()
    tail.add({0: chunk(20, 1)})
    assert [r.offset for _, r in tail.take(1.0)] == [20] and tail.counts.passed_over == 10
    tail.pause()
    assert tail.counts.passed_over == 0


def test_a_tail_that_is_behind_continues_at_the_end() -> None:
    tail = placed_tail(0)
    tail.add({0: chunk(10, 5, end=1_000)})
    assert {p: r.offset for p, r in tail.behind().items()} == {0: 15}
    tail.skip_behind()
    assert tail.counts.unread == 985 and tail.ranges()[0].offset == 1_000 and not tail.behind()


def test_a_partition_with_a_problem_is_asked_again_and_loses_nothing() -> None:
    tail = placed_tail(0)
    tail.add({0: Chunk(10, problem=PartitionProblem.LEADER_UNREACHABLE)})
    assert tail.problems and tail.ranges()[0].offset == 10
    tail.add({0: chunk(10, 2)})
    assert not tail.problems and tail.counts.scanned == 2


def test_an_unreadable_batch_is_skipped() -> None:
    tail = placed_tail(0)
    tail.add({0: Chunk(10, problem=PartitionProblem.UNREADABLE)})
    assert tail.partitions_without_offset() == [0] and not tail.ranges()
    tail.place({0: 13}, {})
    assert tail.counts.unread == 3 and tail.ranges()[0].offset == 13


def test_deleted_records_and_a_shorter_log() -> None:
    tail = placed_tail(0, 1)
    tail.add({0: Chunk(25), 1: Chunk(OFFSET_MAX)})
    assert tail.counts.unread == 15 and tail.ranges()[0].offset == 25
    assert tail.partitions_without_offset() == [1]
    tail.place({1: 4}, {})
    assert tail.ranges()[1].offset == 4 and tail.counts.unread == 15


@given(st.lists(st.tuples(st.integers(0, 120), st.booleans(), st.floats(0, 3)), max_size=20))
def test_every_scanned_record_is_shown_dropped_or_passed_over(steps: list[tuple[int, bool, float]]) -> None:
    tail, at, passed = placed_tail(0, at=0), 0, 0
    for count, paused, elapsed_s in steps:
        passed += 0 if tail.paused or not paused else tail.counts.passed_over
        if paused:
            tail.pause()
        else:
            tail.resume()
        tail.add({0: chunk(at, count)})
        at += count
        shown = tail.take(elapsed_s)
        assert len({r.offset for _, r in shown}) == len(shown) <= ROWS_PER_SECOND_MAX
    counts = tail.counts
    assert counts.scanned == at == counts.shown + counts.dropped + counts.passed_over + passed


class SlowFilter:
    """A filter expression that evaluates one record at a time."""

    def evaluate(self, partition: int, records: Sequence[Record]) -> list[bool | str]:
        return [True if records[0].offset % 2 else "no such field a"]


def test_records_that_a_slow_expression_does_not_reach_are_unread() -> None:
    tail = RecordTail([0], None, SlowFilter())
    tail.place({0: 10}, {})
    tail.add({0: chunk(10, 5)})
    assert (tail.counts.scanned, tail.counts.unread, tail.counts.not_evaluated) == (2, 3, 1)
    assert [r.offset for _, r in tail.take(1.0)] == [11]
