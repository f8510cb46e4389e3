"""How long producers wait for this broker: a histogram, for whoever paces copies by it. Law: a bucket per request and nothing else; counts only grow,
so that two looks give the seconds between. Filled by `apis/produce`, told in DescribeLogDirs. Pure."""

from __future__ import annotations

from bisect import bisect_left

BOUNDS_MS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000, 1500, 2000, 3000, 5000, 10000)
"""Upper bounds in ms, each bucket half as wide again as the one before; above the last there is one more."""


class ProduceTimes:
    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_MS) + 1)

    def add(self, ms: int) -> None:
        """One request was answered `ms` after the turn of the loop that read it."""
        self.counts[bisect_left(BOUNDS_MS, ms)] += 1
