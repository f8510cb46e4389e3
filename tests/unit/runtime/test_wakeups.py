"""A requested run comes soon, never inside of the request, and at most once per interval."""

from __future__ import annotations

from collections.abc import Callable

from brokerd.cluster.model import Now
from brokerd.net.loop import Timer
from brokerd.runtime.wakeups import Wakeup


class Clock:
    def __init__(self) -> None:
        self.now_ms = 100
        self.timers: list[tuple[int, Timer]] = []
        self.runs: list[int] = []
        self.wakeup = Wakeup(self.call_at, lambda: self.now, lambda now: self.runs.append(now.mono_ms), 20)

    @property
    def now(self) -> Now:
        return Now(self.now_ms, self.now_ms)

    def call_at(self, mono_ms: int, callback: Callable[[Now], None]) -> Timer:
        timer = Timer(callback)
        self.timers.append((mono_ms, timer))
        return timer

    def advance(self, now_ms: int) -> None:
        self.now_ms = now_ms
        due = [t for at, t in self.timers if at <= now_ms]
        self.timers = [(at, t) for at, t in self.timers if at > now_ms]
        for timer in due:
            if not timer.cancelled:
                timer.callback(self.now)


def test_requests_before_the_run_share_it() -> None:
    clock = Clock()
    clock.wakeup.request()
    clock.wakeup.request()
    assert not clock.runs
    clock.advance(100)
    assert clock.runs == [100] and not clock.timers


def test_the_next_run_waits_for_the_interval() -> None:
    clock = Clock()
    clock.wakeup.request()
    clock.advance(101)
    clock.wakeup.request()
    clock.advance(120)
    assert clock.runs == [101]
    clock.advance(121)
    assert clock.runs == [101, 121]


def test_a_cancelled_request_does_not_run_and_a_later_one_does() -> None:
    clock = Clock()
    clock.wakeup.request()
    clock.wakeup.cancel()
    clock.advance(200)
    assert not clock.runs
    clock.wakeup.request()
    clock.advance(200)
    assert clock.runs == [200]
