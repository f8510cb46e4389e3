"""A requested run comes soon, never inside of the request, and at most once per interval."""

from __future__ import annotations

from collections.abc import Callable

from brokerd.cluster.model import Now
from brokerd.net.loop import Timer
from brokerd.net.thread_times import ThreadTimes
from brokerd.runtime.wakeups import INTERVAL_MS_MAX, INTERVAL_MS_MIN, RunInterval, Wakeup


class Clock:
    def __init__(self) -> None:
        self.now_ms = 100
        self.timers: list[tuple[int, Timer]] = []
        self.runs: list[int] = []
        self.needed = True
        self.wakeup = Wakeup(
            self.call_at,
            lambda: self.now,
            lambda now: self.runs.append(now.mono_ms),
            lambda: 20,
            lambda: self.needed,
        )

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


def test_a_run_that_is_not_needed_does_not_delay_the_next_one() -> None:
    clock = Clock()
    clock.needed = False
    clock.wakeup.request()
    clock.advance(101)
    assert not clock.runs
    clock.needed = True
    clock.wakeup.request()
    clock.advance(102)
    assert clock.runs == [102]


def test_a_cancelled_request_does_not_run_and_a_later_one_does() -> None:
    clock = Clock()
    clock.wakeup.request()
    clock.wakeup.cancel()
    clock.advance(200)
    assert not clock.runs
    clock.wakeup.request()
    clock.advance(200)
    assert clock.runs == [200]


class Thread:
    """A thread that runs and waits for a core for the given shares of the time."""

    def __init__(self) -> None:
        self.times = ThreadTimes(clock=0, running=0, waiting=0)
        self.interval = RunInterval(lambda: self.times)

    def advance(self, ms: int, *, running: float = 0.0, waiting: float = 0.0) -> int:
        """The interval after `ms` in which the thread ran and waited for these shares of the time."""
        ns = ms * 1_000_000
        before = self.times
        self.times = ThreadTimes(
            before.clock + ns, before.running + round(ns * running), before.waiting + round(ns * waiting)
        )
        return self.interval.ms()


def test_the_interval_is_short_while_the_thread_is_idle_and_long_while_it_is_busy() -> None:
    thread = Thread()
    thread.interval.ms()
    assert thread.advance(100, running=0.1) == INTERVAL_MS_MIN
    half_busy = thread.advance(100, running=0.7)
    assert INTERVAL_MS_MIN < half_busy < INTERVAL_MS_MAX
    assert half_busy < thread.advance(100, running=0.8) < INTERVAL_MS_MAX
    assert thread.advance(100, running=0.95) == INTERVAL_MS_MAX


def test_a_thread_that_waits_for_a_core_is_busy() -> None:
    thread = Thread()
    thread.interval.ms()
    assert thread.advance(100, running=0.1, waiting=0.8) == INTERVAL_MS_MAX


def test_a_short_time_does_not_change_the_interval() -> None:
    thread = Thread()
    thread.interval.ms()
    assert thread.advance(100, running=0.1) == INTERVAL_MS_MIN
    assert thread.advance(10, running=1.0) == INTERVAL_MS_MIN


def test_the_interval_is_long_where_the_times_are_not_measured() -> None:
    assert RunInterval(lambda: None).ms() == INTERVAL_MS_MAX
