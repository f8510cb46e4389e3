"""The scan of a read of records: partitions merged by timestamp, a filter, budgets, and the position to continue from. Pure.

`run` drives a `Scan` with a `RecordReader`. A forward scan takes the oldest of the partitions' next records, a backward scan the newest. Records of one
partition keep the order of their offsets. Invariants: every record before the position of its partition was compared with the filter, so a read that
is continued neither repeats nor skips a record. A partition with a problem stops, the others continue. Does not contain: sockets, clocks, the meaning
of a start position (`domain.record_query`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Protocol

from brokerd.wire.records import Record
from controlplane.domain.record_expression import EvaluationErrors, ExpressionFilter, batch_of
from controlplane.domain.record_filter import Matcher

WINDOW_RECORDS_FIRST, WINDOW_RECORDS_MAX = 32, 8_192
"""Offsets of one window of a backward scan. The first is small, because the size of the records is not known yet."""

WINDOW_BYTES = 512 * 1024
"""Bytes of a window, once the size of the records is known."""

FETCHES_WITHOUT_PROGRESS_MAX = 3
"""Maximum number of consecutive fetches of a partition without a batch. A new leader may be elected during this time."""

RECORD_OVERHEAD_BYTES = 256
"""Bytes of a record in a response in addition to its key, value and headers."""


class PartitionProblem(StrEnum):
    NO_LEADER = "no_leader"
    LEADER_UNREACHABLE = "leader_unreachable"
    NO_PARTITION = "no_partition"
    DENIED = "denied"
    UNREADABLE = "unreadable"
    STORAGE = "storage"
    NO_PROGRESS = "no_progress"


class StopReason(StrEnum):
    """The reason why a scan or a look-up ended. `end`: all records of the range were compared. `remote`: older records are in the remote tier, which no look-up
    searches."""

    END = "end"
    LIMIT = "limit"
    TIME = "time"
    BYTES = "bytes"
    RESPONSE_BYTES = "response_bytes"
    REMOTE = "remote"


@dataclass(frozen=True, slots=True)
class FetchRange:
    """The records [offset, upto) of a partition; a fetch returns the first of them. `size`: their estimated bytes, as sent; None = unknown."""

    offset: int
    upto: int
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """The result of one fetch of one partition: `records` in offset order, `next_offset` after the last batch (markers of transactions and
    compacted records are gaps), `size` in bytes as sent, `read_size`: without the bytes after the requested range, None = all. `log_start`: the
    partition's log start offset, `end`: its last stable offset."""

    next_offset: int
    records: Sequence[Record] = ()
    size: int = 0
    read_size: int | None = None
    log_start: int = 0
    end: int | None = None
    problem: PartitionProblem | None = None


class RecordReader(Protocol):
    def fetch(self, ranges: Mapping[int, FetchRange]) -> Mapping[int, Chunk]:
        """A chunk for each partition of `ranges`."""
        ...


@dataclass(frozen=True, slots=True)
class ScanBudget:
    """`limit`: records found. `bytes`: fetched, as sent. `response_bytes`: keys, values and headers of the found records."""

    limit: int
    seconds: float
    bytes: int
    response_bytes: int


@dataclass(frozen=True, slots=True)
class ScanRange:
    """Offsets [start, end) of a partition. `position`: forward the first offset that was not compared, backward the end of those."""

    partition: int
    start: int
    end: int
    position: int


@dataclass(slots=True)
class _Progress:
    """`ready`: fetched records, the next one last. `fetch_at`: the next offset to fetch. `window`: the range of a backward scan that is fetched, as
    a whole, before its records are compared; `gathered`: its records. `offset_bytes`: bytes of an offset in the window before. `results`: of the filter expression, by offset, for records that are next."""

    partition: int
    start: int
    end: int
    position: int
    fetch_at: int
    ready: list[Record] = field(default_factory=list)
    window: tuple[int, int] | None = None
    gathered: list[Record] = field(default_factory=list)
    window_records: int = WINDOW_RECORDS_FIRST
    window_bytes: int = 0
    offset_bytes: int | None = None
    results: dict[int, bool | str] = field(default_factory=dict)
    fruitless: int = 0
    problem: PartitionProblem | None = None


class Scan:
    """Alternate `fetch_ranges`, `add` and `advance` until `stopped` is set. `found` has the matching records as (partition, record)."""

    def __init__(
        self,
        ranges: Sequence[ScanRange],
        budget: ScanBudget,
        matcher: Matcher | None = None,
        *,
        expression: ExpressionFilter | None = None,
        backward: bool = False,
    ) -> None:
        self.budget, self.backward = budget, backward
        self.found: list[tuple[int, Record]] = []
        self.scanned = 0
        """Records compared with the filter."""
        self.bytes_fetched = 0
        self.stopped: StopReason | None = None
        self.evaluation_errors = EvaluationErrors()
        """Errors in the evaluation of compared records. A record that cannot be evaluated does not match."""
        self._matcher = matcher
        self._expression = expression
        self._slow = False
        """The evaluation used up its time: `advance` returns, so that the caller looks at the clock."""
        self._response_bytes = 0
        self._moved = False
        self._sign = -1 if backward else 1
        self._all = {r.partition: _Progress(r.partition, r.start, r.end, r.position, r.position) for r in ranges}
        self._heap: list[tuple[int, int]] = []
        self._empty = set(self._all)
        """Partitions that need a fetch before the merge can go on."""
        for progress in self._all.values():
            self._finish_range(progress)
        self._end_if_over()

    # -- the loop ----------------------------------------------------------------------------------------------------------------

    def fetch_ranges(self) -> dict[int, FetchRange]:
        """The partitions to fetch before the next `advance`."""
        fetch_ranges = {}
        for partition in self._empty:
            progress = self._all[partition]
            upto, size = progress.end, None
            if progress.window is not None:
                upto = progress.window[1]
                if progress.offset_bytes is not None:
                    size = progress.offset_bytes * (upto - progress.fetch_at)
            fetch_ranges[partition] = FetchRange(progress.fetch_at, upto, size)
        return fetch_ranges

    def add(self, chunks: Mapping[int, Chunk]) -> None:
        for partition, chunk in chunks.items():
            if partition in self._empty:
                self._add(self._all[partition], chunk)
        if self.bytes_fetched >= self.budget.bytes:
            self.stop(StopReason.BYTES)
        self._end_if_over()

    def advance(self) -> None:
        """Compare records in the order of the merge, until a partition needs a fetch or a budget is used up."""
        heap, sign = self._heap, self._sign
        self._slow = False
        while heap and not self._empty and not self._slow and self.stopped in (None, StopReason.BYTES):
            _, partition = heapq.heappop(heap)
            progress = self._all[partition]
            ready = progress.ready
            following = heap[0] if heap else None
            while True:
                if self._compare(progress, ready.pop()) or not ready or self._slow:
                    break
                key = (sign * ready[-1].timestamp, partition)
                if following is not None and key > following:
                    break
            self._requeue(progress)
        self._end_if_over()

    def stop(self, reason: StopReason) -> None:
        """Stop, but not before a position has moved: a read that is continued makes progress."""
        if self.stopped is None and self._moved:
            self.stopped = reason

    # -- results -----------------------------------------------------------------------------------------------------------------

    @property
    def problems(self) -> dict[int, PartitionProblem]:
        return {p.partition: p.problem for p in self._all.values() if p.problem is not None}

    @property
    def ranges(self) -> list[ScanRange]:
        """The ranges with the positions to continue from."""
        return [ScanRange(p.partition, p.start, p.end, p.position) for p in self._all.values()]

    @property
    def complete(self) -> bool:
        return self.stopped is StopReason.END and not self.problems

    # -- details -----------------------------------------------------------------------------------------------------------------

    def _compare(self, progress: _Progress, record: Record) -> bool:
        """Return whether the scan must stop after this record."""
        self.scanned += 1
        progress.position = record.offset if self.backward else record.offset + 1
        self._moved = True
        if not self._matches(progress, record):
            return False
        self.found.append((progress.partition, record))
        self._response_bytes += RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
        self._response_bytes += sum(len(name) + len(value or b"") for name, value in record.headers)
        if len(self.found) >= self.budget.limit:
            self.stopped = StopReason.LIMIT
        elif self._response_bytes >= self.budget.response_bytes:
            self.stopped = StopReason.RESPONSE_BYTES
        else:
            return False
        return True

    def _matches(self, progress: _Progress, record: Record) -> bool:
        if self._matcher is not None and not self._matcher(record):
            return False
        if self._expression is None:
            return True
        if record.offset not in progress.results:
            self._evaluate(progress, record, self._expression)
        result = progress.results.pop(record.offset)
        if isinstance(result, str):
            self.evaluation_errors.add(result)
        return result is True

    def _evaluate(self, progress: _Progress, record: Record, expression: ExpressionFilter) -> None:
        """Results for this record and for those after it: a batch costs little more than one record."""
        matcher = self._matcher
        following = (r for r in reversed(progress.ready) if matcher is None or matcher(r))
        batch = batch_of(chain([record], following))
        results = expression.evaluate(progress.partition, batch)
        self._slow = len(results) < len(batch)
        progress.results = {r.offset: result for r, result in zip(batch, results, strict=False)}

    def _requeue(self, progress: _Progress) -> None:
        if progress.ready:
            heapq.heappush(self._heap, (self._sign * progress.ready[-1].timestamp, progress.partition))
        else:
            self._finish_range(progress)

    def _finish_range(self, progress: _Progress) -> None:
        """All fetched records were compared: the position moves over the gaps behind them, and the next range is chosen."""
        before = progress.position
        if self.backward:
            if progress.window is not None:
                progress.position = progress.window[0]
            progress.window = None
            self._moved = self._moved or progress.position != before
            if progress.position > progress.start and progress.problem is None:
                first = max(progress.start, progress.position - progress.window_records)
                progress.window, progress.fetch_at = (first, progress.position), first
                progress.gathered, progress.window_bytes = [], 0
                self._empty.add(progress.partition)
                return
        else:
            progress.position = min(progress.fetch_at, progress.end)
            self._moved = self._moved or progress.position != before
            if progress.position < progress.end and progress.problem is None:
                self._empty.add(progress.partition)
                return
        self._empty.discard(progress.partition)

    def _add(self, progress: _Progress, chunk: Chunk) -> None:
        self.bytes_fetched += chunk.size
        if chunk.problem is not None:
            progress.problem = chunk.problem
            progress.gathered = []
            self._empty.discard(progress.partition)
            return
        if chunk.end is not None and chunk.end < progress.end and not self.backward:
            progress.end = max(chunk.end, progress.position)  # a new leader has fewer records
        progress.start = max(progress.start, min(chunk.log_start, progress.position))
        progress.fruitless = progress.fruitless + 1 if chunk.next_offset <= progress.fetch_at else 0
        if progress.fruitless >= FETCHES_WITHOUT_PROGRESS_MAX:
            progress.problem = PartitionProblem.NO_PROGRESS
            self._empty.discard(progress.partition)
            return
        fetched_from, progress.fetch_at = progress.fetch_at, max(progress.fetch_at, chunk.next_offset)
        upto = progress.end if progress.window is None else progress.window[1]
        records = [r for r in chunk.records if fetched_from <= r.offset < upto]
        if progress.window is None:
            progress.ready = records[::-1]
        else:
            progress.gathered += records
            # Bytes after the window say nothing about the size of its records: windows of one record and fetches of a mebibyte would follow.
            progress.window_bytes += chunk.size if chunk.read_size is None else chunk.read_size
            if progress.fetch_at < upto:
                return
            progress.ready, progress.gathered = progress.gathered, []
            self._resize_window(progress)
        self._empty.discard(progress.partition)
        self._requeue(progress)

    def _resize_window(self, progress: _Progress) -> None:
        """About WINDOW_BYTES for the next window, at most four times this one."""
        size = max(1, progress.window_bytes // max(1, len(progress.ready)))
        fitting = max(1, WINDOW_BYTES // size)
        if progress.window is not None:
            first, upto = progress.window
            progress.offset_bytes = -(-progress.window_bytes // (upto - first))
        progress.window_records = min(fitting, 4 * progress.window_records, WINDOW_RECORDS_MAX)

    def _end_if_over(self) -> None:
        if not self._heap and not self._empty:
            self.stopped = StopReason.END


def run(scan: Scan, reader: RecordReader, elapsed_s: Callable[[], float]) -> None:
    """Scan until a budget is used up or the range ends. `elapsed_s`: seconds since the read began."""
    while scan.stopped is None:
        if fetch_ranges := scan.fetch_ranges():
            scan.add(reader.fetch(fetch_ranges))
        scan.advance()
        if elapsed_s() >= scan.budget.seconds:
            scan.stop(StopReason.TIME)
