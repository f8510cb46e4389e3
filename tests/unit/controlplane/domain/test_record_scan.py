"""The scan: the merge in both directions, budgets, positions, partitions with problems. Random logs are compared with a sorted list."""

from __future__ import annotations

import heapq
import random
from collections.abc import Mapping, Sequence
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerd.wire.records import Record
from controlplane.domain.record_filter import Matcher
from controlplane.domain.record_scan import (
    FETCHES_WITHOUT_PROGRESS_MAX,
    Chunk,
    FetchRange,
    PartitionProblem,
    Scan,
    ScanBudget,
    ScanRange,
    StopReason,
    run,
)

Logs = dict[int, list[Record]]
WIDE = ScanBudget(limit=10**9, seconds=10**9, bytes=10**12, response_bytes=10**12)


class LogReader:
    """Chunks of `step` records from logs in memory; offsets without a record are gaps. `problems`: partitions that cannot be read."""

    def __init__(self, logs: Logs, step: int = 3) -> None:
        self.logs, self.step = logs, step
        self.problems: dict[int, PartitionProblem] = {}
        self.log_starts: dict[int, int] = {}
        self.fetches = 0

    def fetch(self, ranges: Mapping[int, FetchRange]) -> dict[int, Chunk]:
        self.fetches += 1
        assert ranges, "a fetch of nothing"
        return {p: self._chunk(p, r) for p, r in ranges.items()}

    def _chunk(self, partition: int, fetch_ranges: FetchRange) -> Chunk:
        if partition in self.problems:
            return Chunk(fetch_ranges.offset, problem=self.problems[partition])
        log_start = self.log_starts.get(partition, 0)
        if fetch_ranges.offset < log_start:
            return Chunk(log_start, log_start=log_start)
        found = [r for r in self.logs[partition] if fetch_ranges.offset <= r.offset < fetch_ranges.upto][: self.step]
        following = found[-1].offset + 1 if len(found) == self.step else fetch_ranges.upto
        return Chunk(following, found, 10 * len(found), log_start=log_start)


def record(offset: int, timestamp: int) -> Record:
    return Record(offset, timestamp, None, b"value")


def ranges(logs: Logs, *, backward: bool = False) -> list[ScanRange]:
    ends = {p: log[-1].offset + 1 if log else 0 for p, log in logs.items()}
    return [ScanRange(p, 0, end, end if backward else 0) for p, end in ends.items()]


def run_scan(
    logs: Logs, budget: ScanBudget = WIDE, matcher: Matcher | None = None, *, backward: bool = False, step: int = 3
) -> Scan:
    scan = Scan(ranges(logs, backward=backward), budget, matcher, backward=backward)
    run(scan, LogReader(logs, step), lambda: 0.0)
    return scan


def partitions_and_offsets(scan: Scan) -> list[tuple[int, int]]:
    return [(p, r.offset) for p, r in scan.found]


def merge_logs(logs: Logs, *, backward: bool = False) -> list[tuple[int, int]]:
    """The expected order, by a merge of whole logs."""
    sign = -1 if backward else 1
    rows = [
        [(sign * r.timestamp, p, i, r.offset) for i, r in enumerate(reversed(log) if backward else log)]
        for p, log in logs.items()
    ]
    return [(p, offset) for _, p, _, offset in heapq.merge(*rows, key=lambda row: row[:2])]


def random_logs(seed: int) -> Logs:
    chance = random.Random(seed)
    logs: Logs = {}
    for p in range(chance.randint(1, 4)):
        at = chance.randint(0, 20)
        logs[p] = []
        for offset in range(chance.randint(0, 60)):
            at += chance.randint(-1, 4)
            if chance.random() < 0.8:  # others are compacted
                logs[p].append(record(offset, at))
    return logs


@given(st.integers(0, 10**6), st.booleans(), st.integers(1, 9))
def test_every_record_is_found_in_the_order_of_the_merge(seed: int, backward: bool, step: int) -> None:
    logs = random_logs(seed)
    scan = run_scan(logs, backward=backward, step=step)
    assert partitions_and_offsets(scan) == merge_logs(logs, backward=backward)
    assert scan.scanned == sum(map(len, logs.values())) and scan.complete


@given(st.integers(0, 10**6), st.booleans(), st.integers(1, 7), st.integers(1, 20))
def test_pages_together_are_the_whole_read(seed: int, backward: bool, limit: int, size: int) -> None:
    logs = random_logs(seed)
    at, found = ranges(logs, backward=backward), []
    for _ in range(10_000):
        scan = Scan(at, ScanBudget(limit, 10**9, size, 10**12), lambda r: r.offset % 3 != 1, backward=backward)
        run(scan, LogReader(logs), lambda: 0.0)
        found += partitions_and_offsets(scan)
        at = scan.ranges
        if scan.stopped is StopReason.END:
            break
    assert found == [(p, o) for p, o in merge_logs(logs, backward=backward) if o % 3 != 1]


def test_the_newest_records_are_found_without_a_scan_of_the_whole_log() -> None:
    logs = {p: [record(o, 10 * o + p) for o in range(100_000)] for p in range(3)}
    scan = run_scan(logs, ScanBudget(20, 10**9, 10**12, 10**12), backward=True, step=10_000)
    assert partitions_and_offsets(scan) == merge_logs({p: log[-20:] for p, log in logs.items()}, backward=True)[:20]
    assert scan.stopped is StopReason.LIMIT and scan.scanned == 20


class WholeFetchReader(LogReader):
    """A broker: a fetch is `fetch_size` bytes, or less if the range has an estimated size; it does not end where the range ends. A record has 100 bytes."""

    fetch_size = 100_000

    def _chunk(self, partition: int, fetch_ranges: FetchRange) -> Chunk:
        estimated = self.fetch_size if fetch_ranges.size is None else fetch_ranges.size
        sent = self.logs[partition][fetch_ranges.offset :][: min(self.fetch_size, estimated) // 100]
        found = [r for r in sent if r.offset < fetch_ranges.upto]
        return Chunk(found[-1].offset + 1, found, 100 * len(sent), 100 * len(found))


def test_windows_of_a_backward_scan_keep_their_size_when_a_fetch_returns_more_than_its_window() -> None:
    logs = {p: [record(o, 10 * o + p) for o in range(20_000)] for p in range(2)}
    scan, reader = Scan(ranges(logs, backward=True), WIDE, backward=True), WholeFetchReader(logs)
    run(scan, reader, lambda: 0.0)
    assert partitions_and_offsets(scan) == merge_logs(logs, backward=True)
    assert scan.bytes_fetched < 1.2 * 100 * 40_000, "the bytes of the records, and those after the small first windows"
    assert reader.fetches < 60, "not a fetch for every few records"


def test_the_newest_matches_are_found_across_partitions_of_different_rates() -> None:
    """Partition 0 is a thousand times faster: its last records are all newer than those of partition 1."""
    logs = {0: [record(o, 900_000 + o) for o in range(5_000)], 1: [record(o, 1_000 * o) for o in range(1_000)]}
    scan = run_scan(
        logs, ScanBudget(4, 10**9, 10**12, 10**12), lambda r: r.offset in (100, 950), backward=True, step=1_000
    )
    assert partitions_and_offsets(scan) == [(1, 950), (0, 950), (0, 100), (1, 100)]


def test_a_limit_that_the_last_record_reaches_is_the_end() -> None:
    scan = run_scan({0: [record(0, 1), record(1, 2)]}, ScanBudget(2, 10**9, 10**12, 10**12))
    assert scan.stopped is StopReason.END and scan.complete


def test_budgets_stop_a_scan_with_their_reason() -> None:
    logs = {0: [record(o, o) for o in range(100)], 1: [record(o, o) for o in range(100)]}
    assert run_scan(logs, ScanBudget(5, 10**9, 10**12, 10**12)).stopped is StopReason.LIMIT
    assert run_scan(logs, ScanBudget(10**9, 10**9, 100, 10**12)).stopped is StopReason.BYTES
    assert run_scan(logs, ScanBudget(10**9, 10**9, 10**12, 1_000)).stopped is StopReason.RESPONSE_BYTES
    scan, clock = Scan(ranges(logs), ScanBudget(10**9, 2.5, 10**12, 10**12)), count()
    reader = LogReader(logs)
    run(scan, reader, lambda: float(next(clock)))
    assert scan.stopped is StopReason.TIME and reader.fetches == 4 and not scan.complete


@pytest.mark.parametrize("backward", [False, True])
def test_a_partition_with_a_problem_does_not_stop_the_others(backward: bool) -> None:
    logs = {p: [record(o, o) for o in range(10)] for p in range(3)}
    scan, reader = Scan(ranges(logs, backward=backward), WIDE, backward=backward), LogReader(logs)
    reader.problems[1] = PartitionProblem.LEADER_UNREACHABLE
    run(scan, reader, lambda: 0.0)
    assert scan.problems == {1: PartitionProblem.LEADER_UNREACHABLE}
    assert {p for p, _ in scan.found} == {0, 2} and len(scan.found) == 20
    assert scan.stopped is StopReason.END and not scan.complete
    # The next page reads it from the start of its range.
    later = Scan(scan.ranges, WIDE, backward=backward)
    run(later, LogReader(logs), lambda: 0.0)
    assert len(later.found) == 10 and {p for p, _ in later.found} == {1} and later.complete


def test_a_partition_without_progress_has_a_problem() -> None:
    class SilentReader:
        fetches = 0

        def fetch(self, fetch_ranges: Mapping[int, FetchRange]) -> dict[int, Chunk]:
            self.fetches += 1
            return {p: Chunk(r.offset) for p, r in fetch_ranges.items()}

    scan, reader = Scan([ScanRange(0, 0, 10, 0)], WIDE), SilentReader()
    run(scan, reader, lambda: 0.0)
    assert scan.problems == {0: PartitionProblem.NO_PROGRESS} and reader.fetches == FETCHES_WITHOUT_PROGRESS_MAX


@pytest.mark.parametrize("backward", [False, True])
def test_records_that_retention_deletes_during_the_read_are_a_gap(backward: bool) -> None:
    logs = {0: [record(o, o) for o in range(1_000)]}
    scan, reader = Scan(ranges(logs, backward=backward), WIDE, backward=backward), LogReader(logs, 100)
    reader.log_starts[0] = 990
    run(scan, reader, lambda: 0.0)
    assert sorted(o for _, o in partitions_and_offsets(scan)) == list(range(990, 1_000)) and scan.complete


def test_a_shorter_log_of_a_new_leader_ends_the_range() -> None:
    class ShorterReader(LogReader):
        def _chunk(self, partition: int, fetch_ranges: FetchRange) -> Chunk:
            found = [r for r in self.logs[partition] if fetch_ranges.offset <= r.offset]
            return Chunk(found[-1].offset + 1 if found else fetch_ranges.offset, found, end=5)

    logs = {0: [record(o, o) for o in range(5)]}
    scan = Scan([ScanRange(0, 0, 8, 0)], WIDE)
    run(scan, ShorterReader(logs), lambda: 0.0)
    assert len(scan.found) == 5 and scan.complete


class OddOffsetsFilter:
    """A filter expression: odd offsets match, each tenth cannot be evaluated. Three results at a time."""

    def evaluate(self, partition: int, records: Sequence[Record]) -> list[bool | str]:
        return ["no such field a" if r.offset % 10 == 0 else r.offset % 2 == 1 for r in records][:3]


@pytest.mark.parametrize("backward", [False, True])
def test_a_filter_expression_is_compared_in_batches(backward: bool) -> None:
    logs = {p: [record(o, o) for o in range(40)] for p in (0, 1)}
    scan = Scan(
        ranges(logs, backward=backward), WIDE, lambda r: r.offset < 30, expression=OddOffsetsFilter(), backward=backward
    )
    run(scan, LogReader(logs), lambda: 0.0)
    expected = [(p, o) for p, o in merge_logs(logs, backward=backward) if o < 30 and o % 2]
    assert partitions_and_offsets(scan) == expected and scan.scanned == 80 and scan.complete
    assert [(e.reason, e.records) for e in scan.evaluation_errors.rows()] == [("no such field a", 6)]
