"""A histogram of produce request latencies on this broker. The control plane uses it to limit the rate of moves.

Counts only grow, so two readings give the interval between them. DescribeLogDirs reports it. Pure."""

from __future__ import annotations

from bisect import bisect_left

from brokerd.cluster.latency_buckets import BOUNDS_MS


class ProduceLatency:
    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_MS) + 1)

    def add(self, ms: int) -> None:
        """Count a request whose response was sent `ms` after the event loop read it."""
        self.counts[bisect_left(BOUNDS_MS, ms)] += 1

    @property
    def total(self) -> int:
        """The number of answered requests."""
        return sum(self.counts)
