"""The runs of a share partition in the order of their offsets: search, division, join.

Invariant: adjacent runs leave no gap. A group that keeps the order of each key has about one run per record in flight, so the cost of these methods is
the cost of the group. Does not contain: changes of delivery states (`share_partition`).
"""

from __future__ import annotations

from bisect import bisect_right

from brokerd.sharing.delivery import OffsetRun

JOIN_ABOVE = 16
"""Minimum number of runs at which runs are joined; they are joined when their number has doubled."""


class OffsetRuns:
    def __init__(self) -> None:
        self.runs: list[OffsetRun] = []
        self._firsts: list[int] = []
        """First offset of each run. Bisection of `runs` would call a function for each comparison."""
        self._joined = 0

    def index(self, offset: int) -> int:
        """The index of the run that contains `offset`."""
        return bisect_right(self._firsts, offset) - 1

    def append(self, run: OffsetRun) -> None:
        self.runs.append(run)
        self._firsts.append(run.first)

    def split(self, i: int, at: int) -> None:
        """Divide run `i`: the second part starts at offset `at`."""
        run = self.runs[i]
        rest = OffsetRun(at, run.last, run.state, run.count, run.member, run.until_ms, run.dirty, run.rejected)
        self.runs.insert(i + 1, rest)
        self._firsts.insert(i + 1, at)
        run.last = at - 1

    def overlapping(self, first: int, last: int) -> list[OffsetRun]:
        """The runs that contain an offset from `first` to `last`. Offsets before the first run have none."""
        return self.runs[max(0, self.index(first)) : bisect_right(self._firsts, last)]

    def split_at(self, first: int, last: int) -> list[OffsetRun]:
        """The runs from `first` to `last`, which are divided at both ends if necessary. Offsets before the first run have none."""
        if not bisect_right(self._firsts, last):
            return []
        i = max(0, self.index(first))
        if self.runs[i].first < first <= self.runs[i].last:
            self.split(i, first)
        if self.runs[i].first < first:
            i += 1
        j = bisect_right(self._firsts, last)
        if self.runs[j - 1].last > last:
            self.split(j - 1, last + 1)
        return self.runs[i:j]

    def remove_first(self, count: int) -> None:
        del self.runs[:count]
        del self._firsts[:count]

    def join(self) -> None:
        """Join adjacent runs that differ in nothing but their offsets, if the number of runs has doubled since the last time."""
        if len(self.runs) <= max(JOIN_ABOVE, 2 * self._joined):
            return
        joined = self.runs[:1]
        for run in self.runs[1:]:
            if joined[-1].same(run):
                joined[-1].last = run.last
            else:
                joined.append(run)
        self.runs, self._joined = joined, len(joined)
        self._firsts = [run.first for run in joined]

    def validate(self, start: int, end: int) -> None:
        """Assert that the runs cover the offsets from `start` to below `end` exactly once."""
        at = start
        for run in self.runs:
            assert run.first == at and run.last >= run.first, f"offset {at}: runs have a gap or overlap"
            at = run.last + 1
        assert at == end, "the runs do not reach the end offset"
        assert self._firsts == [run.first for run in self.runs], "a search would find another run"
