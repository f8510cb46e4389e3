"""A callback that runs shortly after it was requested. Requests within a short time share one run.

Does not contain: the periodic timer, which also runs without a request.
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.cluster.model import Now
from brokerd.net.loop import Timer

INTERVAL_MS = 20
"""Minimum time in ms between two runs. A run costs as much for one new record as for several, and their batches go to the target in one request."""


class Wakeup:
    """Runs `run` from a timer, and never inside of `request`, because the caller may not have completed a change."""

    def __init__(
        self,
        call_at: Callable[[int, Callable[[Now], None]], Timer],
        clock: Callable[[], Now],
        run: Callable[[Now], None],
        interval_ms: int = INTERVAL_MS,
    ) -> None:
        self._call_at, self._clock, self._run, self._interval_ms = call_at, clock, run, interval_ms
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
        self._next_ms = now.mono_ms + self._interval_ms
        self._run(now)
