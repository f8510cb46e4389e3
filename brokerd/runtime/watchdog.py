"""Detection of a hanging event loop from another thread, once per second.

Invariants: a loop with progress is never ended. A loop without progress that uses CPU is not ended before `BUSY_MS_MAX`. A loop without progress and
CPU use is ended after `hang_ms_max`. Time counts only while the watchdog runs, so the time of a suspended process does not count. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

SLOW_MS = 5_000
"""Milliseconds without progress after which the watchdog logs the stack of the event loop."""
BUSY_MS_MAX = 300_000
"""Time limit in milliseconds of one callback that uses CPU without progress. After that it counts as an endless loop."""
CPU_SHARE_MIN = 0.02
"""Ratio of CPU time to time without progress. Below this ratio the loop waits for something. Even on a machine with 50 busy processes per core the ratio of a
busy loop is higher."""
CHECK_GAP_MS_MAX = 3_000
"""Milliseconds between two checks. A longer gap means that the process was suspended."""


class WatchdogVerdict(Enum):
    WORKS = "works"
    SLOW = "slow"
    """No progress for a while, but the loop uses CPU."""
    HANGS = "hangs"
    """No progress and no CPU use: the loop waits for a disk or a lock."""
    ENDLESS = "endless"
    """One callback has used CPU for longer than any operation should take."""


@dataclass(slots=True)
class Watchdog:
    """`check` receives the loop's progress counter and the CPU time of its thread."""

    hang_ms_max: int
    silent_ms: int = 0
    """Milliseconds without progress, counted while the watchdog ran."""
    _progress: int = -1
    _cpu_ms: int = 0
    _looked_ms: int | None = None

    def check(self, now_ms: int, progress: int, cpu_ms: int) -> WatchdogVerdict:
        passed_ms = now_ms - self._looked_ms if self._looked_ms is not None else 0
        self._looked_ms = now_ms
        if progress != self._progress:
            self._progress, self._cpu_ms, self.silent_ms = progress, cpu_ms, 0
            return WatchdogVerdict.WORKS
        self.silent_ms += min(passed_ms, CHECK_GAP_MS_MAX)
        busy = cpu_ms - self._cpu_ms >= CPU_SHARE_MIN * self.silent_ms
        if self.silent_ms > self.hang_ms_max and not busy:
            return WatchdogVerdict.HANGS
        if self.silent_ms > max(BUSY_MS_MAX, self.hang_ms_max):
            return WatchdogVerdict.ENDLESS
        return WatchdogVerdict.SLOW if self.silent_ms >= SLOW_MS else WatchdogVerdict.WORKS
