"""Lag: arithmetic and verdicts, pure. After Burrow, mended: idle groups are not stopped ones, and lag goes on growing when a consumer stops.

Law: unknown is None, never zero; a verdict rests on a window of samples, not on one. Called by the observer. Must not come in: clocks
(times are passed in, milliseconds), rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

WINDOW_MS = 30_000
"""Milliseconds of samples that a verdict rests on: three commits of a client that commits every 5 s, with room."""

WINDOW_LEAST_MS = 10_000
"""Below this much history nothing is called STALL or WARN."""

HISTORY_MAX = 900
"""Samples of a partition's end kept for lag in time: thinned when full, so that old ones lie further apart."""

OK, IDLE, WARN, STALL, STOP, REWIND, OVERTAKEN, UNKNOWN = (
    "OK", "IDLE", "WARN", "STALL", "STOP", "REWIND", "OVERTAKEN", "UNKNOWN",
)  # fmt: skip

SEVERITY = (IDLE, OK, UNKNOWN, REWIND, WARN, STALL, STOP, OVERTAKEN)
"""From calm to grave: a group is as ill as its worst partition."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at a group's place: `end` is the partition's, `committed` the group's next offset to read."""

    at_ms: int
    committed: int
    end: int


def lag_records(committed: int | None, end: int | None) -> int | None:
    """Records still to be read. None when either side is not known; never below zero (an end read before a commit)."""
    if committed is None or end is None or committed < 0:
        return None
    return max(0, end - committed)


@dataclass(slots=True)
class Ends:
    """When a partition's end was where: gives lag in time without reading records."""

    samples: deque[tuple[int, int]] = field(default_factory=deque)

    def add(self, at_ms: int, end: int) -> None:
        if self.samples and self.samples[-1][1] == end and len(self.samples) > 1 and self.samples[-2][1] == end:
            self.samples[-1] = (at_ms, end)  # the end stands still: its first and its last sight are enough
            return
        if self.samples and end < self.samples[-1][1]:
            self.samples.clear()  # truncated or recreated: older sights mean nothing now
        self.samples.append((at_ms, end))
        if len(self.samples) > HISTORY_MAX:
            thinned = [s for i, s in enumerate(self.samples) if i % 2 == 0 or i > HISTORY_MAX // 2]
            self.samples = deque(thinned)

    def behind_ms(self, committed: int, now_ms: int) -> int | None:
        """How long ago the end was last at or below `committed`: the age of the first record not yet read, as seen. 0 when all is read;
        at least the age of the oldest sight when it lies before; None without a sight."""
        if not self.samples:
            return None
        if committed >= self.samples[-1][1]:
            return 0
        for at, end in reversed(self.samples):
            if end <= committed:
                return max(0, now_ms - at)
        return max(0, now_ms - self.samples[0][0])


@dataclass(slots=True)
class Place:
    """A group's recent samples in one partition, and the verdict over them."""

    samples: deque[Sample] = field(default_factory=deque)
    rewound_ms: int | None = None
    overtaken_ms: int | None = None

    def add(self, sample: Sample, log_start: int | None) -> None:
        last = self.samples[-1] if self.samples else None
        if last is not None and sample.committed < last.committed:
            self.rewound_ms = sample.at_ms
            self.samples.clear()
        if log_start is not None and sample.committed < log_start:
            self.overtaken_ms = sample.at_ms
        self.samples.append(sample)
        while len(self.samples) > 2 and self.samples[1].at_ms < sample.at_ms - WINDOW_MS:
            self.samples.popleft()

    def verdict(self, has_members: bool, now_ms: int) -> str:
        """One word for this partition. REWIND and OVERTAKEN stay for a window, so that nobody misses them."""
        if not self.samples:
            return UNKNOWN
        if self.overtaken_ms is not None and now_ms - self.overtaken_ms < WINDOW_MS:
            return OVERTAKEN
        if self.rewound_ms is not None and now_ms - self.rewound_ms < WINDOW_MS:
            return REWIND
        first, last = self.samples[0], self.samples[-1]
        lag = max(0, last.end - last.committed)
        if not has_members:
            return STOP if lag else IDLE
        if lag == 0 or any(s.end - s.committed <= 0 for s in self.samples):
            return OK
        if last.at_ms - first.at_ms < WINDOW_LEAST_MS:
            return OK
        if last.committed == first.committed:
            return STALL
        lags = [s.end - s.committed for s in self.samples]
        # Growing at every look is WARN; a lag that also shrinks now and then is a consumer that keeps up.
        if lags[-1] > lags[0] and all(b >= a for a, b in pairwise(lags)):
            return WARN
        return OK


def worst(verdicts: Iterable[str]) -> str:
    """The gravest of these; UNKNOWN when there are none."""
    found = [SEVERITY.index(v) for v in verdicts]
    return SEVERITY[max(found)] if found else UNKNOWN
