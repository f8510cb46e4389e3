"""Schedule of the checks of followers: at each tick the followers of some partitions are checked, and in each round those of all partitions.

A broker may lead thousands of partitions, so one tick does not check them all. Does not contain: the check (`partition`).
"""

from __future__ import annotations

from collections.abc import Iterable

from brokerd.replication.replica import Replica

TICK_MS = 100
"""Milliseconds between two calls of `due`."""
ROUND_MS_MAX = 1_000
"""Every leader checks once per interval whether a follower has fallen behind. At most an eighth of replica.lag.time.max.ms."""


class FollowerChecks:
    def __init__(self, lag_ms_max: int) -> None:
        self._round_ms = max(TICK_MS, min(lag_ms_max // 8, ROUND_MS_MAX))
        self._round_not_before_ms = self._checks_per_tick = 0
        self._unchecked: list[Replica] = []

    def due(self, hosted: Iterable[Replica], mono_ms: int) -> list[Replica]:
        """The replicas whose followers must be checked now. Some of these replicas may be closed, or may not be leaders any more."""
        if not self._unchecked:
            if mono_ms < self._round_not_before_ms:
                return []
            self._unchecked = [r for r in hosted if r.leads and r.core.has_other_replicas]
            self._round_not_before_ms = mono_ms + self._round_ms
            self._checks_per_tick = 1 + len(self._unchecked) * TICK_MS // self._round_ms
        due = self._unchecked[-self._checks_per_tick :]
        del self._unchecked[-self._checks_per_tick :]
        return due
