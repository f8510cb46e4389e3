"""A live tail of records: the next offsets, the filter, and which of the matching records are shown. Pure.

Invariant: a record after the start of the tail is counted as scanned or as unread. A scanned record that matches is shown, dropped or, during a pause,
passed over. Does not contain: sockets, clocks, permissions (`services.record_tails`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from brokerd.wire.records import Record
from controlplane.domain.record_expression import EvaluationErrors, ExpressionFilter, batch_of
from controlplane.domain.record_filter import Matcher
from controlplane.domain.record_scan import Chunk, FetchRange, PartitionProblem

ROWS_PER_SECOND_MAX = 50
"""Maximum number of records that a tail shows in a second: more cannot be read."""

SLOW_BATCHES_MAX = 2
"""Maximum number of batches of a filter expression that used up their time, in one poll. The records after them are not read."""

OFFSET_MAX = 2**62
"""The end offset of a fetch without a limit."""


class TailEnd(StrEnum):
    """The reason why a tail ended. `hidden`: its page was not visible. `closed`: its connection was. `denied`: the permission was taken away."""

    STOPPED = "stopped"
    HIDDEN = "hidden"
    CLOSED = "closed"
    DENIED = "denied"
    FAILED = "failed"


@dataclass(slots=True)
class TailCounts:
    """Records since the start. `scanned`: compared with the filter. `dropped`: matched above the limits of rows or bytes. `passed_over`: matched
    during the pause, the last one or the current. `unread`: skipped because more arrive than a tail reads, or because they could not be read.
    `not_evaluated`: scanned, but the filter expression could not be evaluated."""

    scanned: int = 0
    shown: int = 0
    dropped: int = 0
    passed_over: int = 0
    unread: int = 0
    not_evaluated: int = 0


class RecordTail:
    """Alternate `partitions_without_offset` and `place`, `ranges` and `add`; then `skip_behind`, and `take` once per update."""

    def __init__(
        self, partitions: Iterable[int], matcher: Matcher | None = None, expression: ExpressionFilter | None = None
    ) -> None:
        self.matcher = matcher
        self.evaluation_errors = EvaluationErrors()
        self._expression = expression
        self._slow_batches = 0
        self.counts = TailCounts()
        self.problems: dict[int, PartitionProblem] = {}
        self.paused = False
        self._unplaced = set(partitions)
        self._positions: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._matched: deque[tuple[int, Record]] = deque(maxlen=ROWS_PER_SECOND_MAX)
        self._matched_count = 0
        self._allowance = float(ROWS_PER_SECOND_MAX)

    # -- offsets -----------------------------------------------------------------------------------------------------------------

    def partitions_without_offset(self) -> list[int]:
        """Partitions that need the offset of their end before they can be fetched."""
        return sorted(self._unplaced)

    def place(self, ends: Mapping[int, int], problems: Mapping[int, PartitionProblem]) -> None:
        """Start or continue partitions at their ends."""
        for partition, end in ends.items():
            self.counts.unread += max(0, end - self._positions.get(partition, end))
            self._positions[partition] = self._ends[partition] = end
            self._unplaced.discard(partition)
            self.problems.pop(partition, None)
        self.problems |= problems

    def ranges(self) -> dict[int, FetchRange]:
        return {p: FetchRange(at, OFFSET_MAX) for p, at in self._positions.items() if p not in self._unplaced}

    def behind(self) -> dict[int, FetchRange]:
        """The part of `ranges` with records that are not fetched yet."""
        return {p: r for p, r in self.ranges().items() if r.offset < self._ends[p] and p not in self.problems}

    def add(self, chunks: Mapping[int, Chunk]) -> None:
        self._slow_batches = 0
        for partition, chunk in chunks.items():
            if partition in self._positions:
                self._add(partition, chunk)

    def skip_behind(self) -> None:
        """Continue at the ends: a tail that is behind shows old records."""
        for partition, at in self.behind().items():
            self.counts.unread += self._ends[partition] - at.offset
            self._positions[partition] = self._ends[partition]

    def _add(self, partition: int, chunk: Chunk) -> None:
        at = self._positions[partition]
        if chunk.problem is not None:
            self.problems[partition] = chunk.problem
            if chunk.problem is PartitionProblem.UNREADABLE:
                self._unplaced.add(partition)
            return
        self.problems.pop(partition, None)
        if chunk.next_offset >= OFFSET_MAX:  # the log is shorter than before: records were lost with a leader
            self._positions.pop(partition)
            self._unplaced.add(partition)
            return
        if chunk.end is None:  # no records: they were deleted, or the leader moved
            self.counts.unread += max(0, chunk.next_offset - at)
        else:
            self._ends[partition] = chunk.end
        self._positions[partition] = max(at, chunk.next_offset)
        matcher = self.matcher
        passed = [record for record in chunk.records if matcher is None or matcher(record)]
        self.counts.scanned += len(chunk.records)
        if self._expression is not None:
            passed = self._matching_records(partition, passed, self._expression)
        self._matched.extend((partition, record) for record in passed)
        self._matched_count += len(passed)

    def _matching_records(
        self, partition: int, records: Sequence[Record], expression: ExpressionFilter
    ) -> list[Record]:
        """Return the records for which the expression is true."""
        found: list[Record] = []
        rest = list(records)
        while rest and self._slow_batches < SLOW_BATCHES_MAX:
            batch = batch_of(rest)
            results = expression.evaluate(partition, batch)
            self._slow_batches += len(results) < len(batch)
            for record, result in zip(batch, results, strict=False):
                if isinstance(result, str):
                    self.evaluation_errors.add(result)
                elif result:
                    found.append(record)
            rest = rest[len(results) :]
        self.counts.scanned -= len(rest)
        self.counts.unread += len(rest)
        self.counts.not_evaluated = self.evaluation_errors.total
        return found

    # -- records -----------------------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        if not self.paused:
            self.paused, self.counts.passed_over = True, 0

    def resume(self) -> None:
        self.paused = False

    def take(self, elapsed_s: float) -> list[tuple[int, Record]]:
        """The newest matching records since the last call, newest first, as (partition, record), as many as the rate permits."""
        found = sorted(self._matched, key=lambda m: (m[1].timestamp, m[0], m[1].offset), reverse=True)
        count, self._matched_count = self._matched_count, 0
        self._matched.clear()
        self._allowance = min(ROWS_PER_SECOND_MAX, self._allowance + elapsed_s * ROWS_PER_SECOND_MAX)
        if self.paused:
            self.counts.passed_over += count
            return []
        found = found[: int(self._allowance)]
        self._allowance -= len(found)
        self.counts.shown += len(found)
        self.counts.dropped += count - len(found)
        return found

    def drop(self, count: int) -> None:
        """Records of the last `take` that are not shown."""
        self.counts.shown -= count
        self.counts.dropped += count
