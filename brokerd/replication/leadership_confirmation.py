"""Confirms that this broker's image of the metadata log is current, before a leader returns an error that is fatal for a producer.

A deposed leader that has not noticed its replacement lacks the records that the new leader has acknowledged. Invariants: the metadata log is read after a
ZooKeeper sync that starts after the request. There is one read at a time, and it serves all waiting requests of the broker. Each request completes exactly
once, within twice CONFIRM_MS_MAX. Does not contain ZooKeeper access.
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.cluster.model import Now
from brokerd.net.loop import Loop

CONFIRM_MS_MAX = 1_000
"""Maximum time of one read of the metadata log. It is shorter than the request time-out of producers."""
INTERVAL_MS = 20
"""Minimum time between the starts of two reads. Limits the load on ZooKeeper that rejected batches cause."""

Confirmed = Callable[[bool], None]


class LeadershipConfirmation:
    def __init__(self, loop: Loop, read_log: Callable[[Confirmed], None]) -> None:
        """`read_log(done)` reads the metadata log after a ZooKeeper sync. It calls `done(True)` on success, otherwise `done(False)`."""
        self._loop, self._read_log = loop, read_log
        self._waiting: list[Confirmed] = []
        self._scheduled = False
        """A read is in progress, or a timer is set for the next one."""
        self._not_before_ms = 0

    def request(self, done: Confirmed) -> None:
        """Call `done(True)` when the image contains everything that was in the metadata log at the time of this call, or `done(False)` if this is unknown."""
        self._waiting.append(done)
        if not self._scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._scheduled = True
        self._loop.call_at(max(self._loop.now.mono_ms, self._not_before_ms), self._start)

    def _start(self, now: Now) -> None:
        waiting, self._waiting = self._waiting, []
        self._not_before_ms = now.mono_ms + INTERVAL_MS
        ended = False

        def end(confirmed: bool) -> None:
            nonlocal ended
            if ended:
                return
            ended = True
            timeout.cancel()
            if self._waiting:
                self._schedule()
            else:
                self._scheduled = False
            for done in waiting:
                done(confirmed)

        timeout = self._loop.call_later(CONFIRM_MS_MAX, lambda now: end(False))
        self._read_log(end)
