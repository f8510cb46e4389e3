"""Records per second of topics, from the sums of the log end offsets of their partitions.

Invariants: a rate is the average over at most RATE_WINDOW_MS and one sample, without a gap. Does not contain: offsets (`samples`), rates of bytes (`traffic`).
"""

from __future__ import annotations

from collections import deque

from controlplane.domain.limits import SAMPLE_GAP_MS

RATE_WINDOW_MS = 10_000
"""Milliseconds over which records per second are averaged."""
SPAN_MS_MIN = 500
"""Minimum milliseconds between the two samples of a rate."""


class RecordRates:
    def __init__(self) -> None:
        self._totals: dict[str, deque[tuple[int, int]]] = {}

    def forget(self, topic: str) -> None:
        """The topic is gone, or a leader does not respond."""
        self._totals.pop(topic, None)

    def add(self, topic: str, total: int, now_ms: int) -> float | None:
        """The rate with this sum of the log end offsets. None: not enough samples yet."""
        totals = self._totals.setdefault(topic, deque())
        if totals and (total < totals[-1][1] or now_ms - totals[-1][0] > SAMPLE_GAP_MS):
            totals.clear()
        totals.append((now_ms, total))
        while len(totals) > 2 and totals[1][0] <= now_ms - RATE_WINDOW_MS:
            totals.popleft()
        span = now_ms - totals[0][0]
        return None if span < SPAN_MS_MIN else round((total - totals[0][1]) * 1000 / span, 1)
