"""History of the log end offset of a partition: lag in time without reading records. Pure.

Invariants: a lag older than the first observation is a lower bound and is marked as one. Between two observations the log end offset is
interpolated, so a gap (a restart of the web process) costs little accuracy. Does not contain: clocks (times are arguments, wall clock
milliseconds), rows.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from controlplane.domain.limits import SAMPLE_GAP_MS

HISTORY_MAX = 900
"""Maximum number of observations of one log end in memory. At the maximum, every second one of the older half is dropped."""

STORED_MAX = 60
"""Maximum number of consecutive observations. They interpolate a lag of hours to within a minute and need about 1.5 kB."""


@dataclass(frozen=True, slots=True)
class RecordAge:
    """Age of a record. `at_least`: the record is older than the first observation, so its true age may be larger."""

    ms: int
    at_least: bool = False


@dataclass(slots=True)
class LogEndHistory:
    """Observed log end offsets, oldest first. `ends` never decreases. `gapless_ms`: time of the first observation after the last gap; a rate begins there."""

    ats: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    gapless_ms: int = 0

    def add(self, at_ms: int, end: int) -> None:
        if self.ends and end < self.ends[-1]:
            self.ats.clear()  # the log was truncated or recreated: earlier observations refer to other records
            self.ends.clear()
        if self.ats and at_ms < self.ats[-1]:
            return  # the wall clock was set back
        if self.ats and at_ms - self.ats[-1] > SAMPLE_GAP_MS:
            self.gapless_ms = at_ms
        if len(self.ends) > 1 and self.ends[-1] == self.ends[-2] == end and self.ats[-2] >= self.gapless_ms:
            self.ats[-1] = at_ms  # an unchanged end needs its first and last observation only
            return
        self.ats.append(at_ms)
        self.ends.append(end)
        if len(self.ends) > HISTORY_MAX:
            kept = [i for i in range(len(self.ends)) if i % 2 == 0 or i > HISTORY_MAX // 2]
            self.ats, self.ends = [self.ats[i] for i in kept], [self.ends[i] for i in kept]

    def age(self, offset: int, now_ms: int) -> RecordAge | None:
        """Age of the record at `offset`, the first unread record of a group that committed this offset. 0 if the log ends there; None without an
        observation."""
        if not self.ends:
            return None
        if offset >= self.ends[-1]:
            return RecordAge(0)
        after = bisect_right(self.ends, offset)
        if after == 0:
            return RecordAge(max(0, now_ms - self.ats[0]), at_least=True)
        before = after - 1
        share = (offset - self.ends[before]) / (self.ends[after] - self.ends[before])
        appended = self.ats[before] + share * (self.ats[after] - self.ats[before])
        return RecordAge(max(0, round(now_ms - appended)))

    def rate(self, now_ms: int, window_ms: int) -> float | None:
        """Records per second appended within the last `window_ms`. None with less than a second of observations without a gap."""
        if not self.ends:
            return None
        first = max(bisect_right(self.ats, now_ms - window_ms) - 1, bisect_left(self.ats, self.gapless_ms))
        first = min(max(0, first), len(self.ats) - 1)
        span = self.ats[-1] - self.ats[first]
        return None if span < 1000 else (self.ends[-1] - self.ends[first]) * 1000 / span

    def to_stored(self, offset: int) -> list[list[int]]:
        """The values of a row, so that ages from `offset` on survive a restart: at most STORED_MAX observations."""
        first = max(0, bisect_right(self.ends, offset) - 1)
        count = len(self.ends) - first
        if count <= STORED_MAX:
            chosen: Iterable[int] = range(first, len(self.ends))
        else:
            chosen = sorted({first + round(i * (count - 1) / (STORED_MAX - 1)) for i in range(STORED_MAX)})
        return [[self.ats[i], self.ends[i]] for i in chosen]

    @staticmethod
    def from_stored(stored: Iterable[Iterable[int]]) -> LogEndHistory:
        out = LogEndHistory()
        for at_ms, end in stored:
            out.add(at_ms, end)
        out.gapless_ms = 0  # stored observations are thinned
        return out
