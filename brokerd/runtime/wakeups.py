"""A callback that runs shortly after it was requested. Requests within a short time share one run.

Does not contain: the periodic timer, which also runs without a request.
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.cluster.model import Now
from brokerd.net.loop import Timer
from brokerd.net.thread_times import ThreadTimes

INTERVAL_MS_MIN = 2
INTERVAL_MS_MAX = 20
"""Bounds of the minimum time in ms between two runs. A run costs as much for one new record as for several, and their batches go to the target in one
request: longer intervals need less CPU per record."""
IDLE_SHARE = 0.6
"""Share of the time that the event loop is busy, up to which the shortest interval applies."""
BUSY_SHARE = 0.9
"""Share of the time that the event loop is busy, from which on the longest interval applies."""
WINDOW_NS = 100_000_000


class RunInterval:
    """The minimum time between two runs of a callback: short while the thread of the event loop has time, long while it is busy.

    Busy is the time that the thread ran, and that it waited for a core. `thread_times` returns the times of the thread, or None if the system does not
    measure them: then the longest interval applies.
    """

    def __init__(self, thread_times: Callable[[], ThreadTimes | None]) -> None:
        self._thread_times = thread_times
        self._window_began: ThreadTimes | None = None
        self._interval_ms = INTERVAL_MS_MAX

    def ms(self) -> int:
        times, began = self._thread_times(), self._window_began
        if times is None:
            return INTERVAL_MS_MAX
        if began is None:
            self._window_began = times
        elif times.clock - began.clock >= WINDOW_NS:
            busy_ns = times.running + times.waiting - began.running - began.waiting
            share = busy_ns / (times.clock - began.clock)
            part = min(1.0, max(0.0, (share - IDLE_SHARE) / (BUSY_SHARE - IDLE_SHARE)))
            self._interval_ms = INTERVAL_MS_MIN + round(part * (INTERVAL_MS_MAX - INTERVAL_MS_MIN))
            self._window_began = times
        return self._interval_ms


class Wakeup:
    """Runs `run` from a timer, and never inside of `request`, because the caller may not have completed a change. `interval_ms` returns the minimum time until
    the next run. `is_needed` is called at the time of the run: if it returns False, `run` is not called, and the next run does not have to wait."""

    def __init__(
        self,
        call_at: Callable[[int, Callable[[Now], None]], Timer],
        clock: Callable[[], Now],
        run: Callable[[Now], None],
        interval_ms: Callable[[], int],
        is_needed: Callable[[], bool] = lambda: True,
    ) -> None:
        self._call_at, self._clock, self._run = call_at, clock, run
        self._interval_ms, self._is_needed = interval_ms, is_needed
        self._timer: Timer | None = None
        self._next_ms = 0
        """Time (monotonic) of the next run at the earliest."""

    def request(self) -> None:
        if self._timer is None:
            self._timer = self._call_at(max(self._clock().mono_ms, self._next_ms), self._on_time)

    def cancel(self) -> None:
        """Do not run for earlier requests."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self, now: Now) -> None:
        self._timer = None
        if not self._is_needed():
            return
        self._next_ms = now.mono_ms + self._interval_ms()
        self._run(now)
