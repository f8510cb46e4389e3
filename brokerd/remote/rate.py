"""A rate limit for threads that may wait: the quotas of copies and reads of the helper process.

Invariant: over a long time at most `bytes_per_s` bytes per second pass. One request may exceed the burst; the next one waits longer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

WAIT_S_MAX = 0.5
"""The longest sleep, so that a new rate takes effect soon."""
BURST_S = 1.0
"""Seconds of the rate that may pass without delay after a pause."""


class RateLimit:
    def __init__(
        self,
        bytes_per_s: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.bytes_per_s = bytes_per_s
        self._clock, self._sleep = clock, sleep
        self._lock = threading.Lock()
        self._room = float(bytes_per_s)
        self._at = clock()

    def spend(self, count: int) -> None:
        """Wait until the debt of earlier requests is paid, then spend `count` bytes."""
        while True:
            with self._lock:
                now = self._clock()
                rate = self.bytes_per_s
                self._room = min(self._room + (now - self._at) * rate, rate * BURST_S)
                self._at = now
                if self._room > 0:
                    self._room -= count
                    return
                wait_s = -self._room / rate
            self._sleep(min(max(wait_s, 0.001), WAIT_S_MAX))
