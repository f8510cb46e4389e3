"""Confirmations of leadership: one read of the metadata log at a time for all that wait, and a limit on the time."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from brokerd.cluster.model import Now
from brokerd.net.loop import Timer
from brokerd.replication.leadership_confirmation import CONFIRM_MS_MAX, INTERVAL_MS, LeadershipConfirmation


class ManualReads:
    """A loop with a manual clock, and reads of the metadata log that end when the test ends them."""

    def __init__(self) -> None:
        self.now = Now(1_000, 0)
        self.started: list[Callable[[bool], None]] = []
        self.received: list[tuple[str, bool]] = []
        self._timers: list[tuple[int, int, Timer]] = []
        loop: Any = self
        self.confirmation = LeadershipConfirmation(loop, self.started.append)

    def call_at(self, mono_ms: int, callback: Callable[[Now], None]) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._timers, (mono_ms, len(self._timers) + mono_ms, timer))
        return timer

    def call_later(self, delay_ms: int, callback: Callable[[Now], None]) -> Timer:
        return self.call_at(self.now.mono_ms + delay_ms, callback)

    def pass_ms(self, ms: int) -> None:
        self.now = Now(self.now.mono_ms + ms, 0)
        while self._timers and self._timers[0][0] <= self.now.mono_ms:
            timer = heapq.heappop(self._timers)[2]
            if not timer.cancelled:
                timer.callback(self.now)

    def request(self, name: str) -> None:
        self.confirmation.request(lambda confirmed: self.received.append((name, confirmed)))


def test_requests_of_one_turn_share_a_read() -> None:
    reads = ManualReads()
    for name in "abc":
        reads.request(name)
    reads.pass_ms(0)
    assert len(reads.started) == 1 and not reads.received
    reads.started[0](True)
    assert reads.received == [("a", True), ("b", True), ("c", True)]


def test_a_request_during_a_read_waits_for_the_next_one() -> None:
    """The read may have started before the leadership changed."""
    reads = ManualReads()
    reads.request("a")
    reads.pass_ms(0)
    reads.request("b")
    reads.started[0](True)
    assert reads.received == [("a", True)]
    reads.pass_ms(INTERVAL_MS - 1)
    assert len(reads.started) == 1, "reads are not started more often than the interval"
    reads.pass_ms(1)
    reads.started[1](False)
    assert reads.received == [("a", True), ("b", False)]


def test_a_read_that_does_not_end_confirms_nothing() -> None:
    reads = ManualReads()
    reads.request("a")
    reads.pass_ms(0)
    reads.request("b")
    reads.pass_ms(CONFIRM_MS_MAX)
    assert reads.received == [("a", False)]
    reads.started[0](True)
    assert reads.received == [("a", False)], "a late result counts for nobody"
    reads.pass_ms(0)
    reads.started[1](True)
    assert reads.received[1:] == [("b", True)]
