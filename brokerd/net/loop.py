"""One thread, one epoll: readiness, timers and nothing else.

Law: whatever is called back returns soon; nothing here blocks but the poll itself. Called by the broker; listeners, peers
and membership register with it. Must not come in: the protocol, partitions.
"""

from __future__ import annotations

import heapq
import select
import time
from collections.abc import Callable
from itertools import count

from brokerd.cluster.model import Now

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
HANGUP = select.EPOLLHUP | select.EPOLLERR

POLL_MS_MAX = 1_000
"""Milliseconds. The loop turns at least this often, so that its watchdog has something to see."""


def read_clocks() -> Now:
    return Now(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)


class Timer:
    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[Now], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """`now` is read once per turn. `turned_mono_ms` is what the watchdog looks at."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[int, int, Timer]] = []
        self._number = count()
        self._stopping = False
        self.now = read_clocks()
        self.after_turn: list[Callable[[], None]] = []
        self.gap_ms_max = 1 << 62
        self.stood_still: Callable[[int], None] = lambda gap_ms: None
        """Called with the milliseconds when more than `gap_ms_max` have passed since the last turn, before anything else is done."""

    @property
    def turned_mono_ms(self) -> int:
        return self.now.mono_ms

    def register(self, fd: int, events: int, callback: Callable[[int], None]) -> None:
        self._callbacks[fd] = callback
        self._epoll.register(fd, events)

    def modify(self, fd: int, events: int) -> None:
        self._epoll.modify(fd, events)

    def unregister(self, fd: int) -> None:
        if self._callbacks.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def call_at(self, mono_ms: int, callback: Callable[[Now], None]) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._timers, (mono_ms, next(self._number), timer))
        return timer

    def call_later(self, delay_ms: int, callback: Callable[[Now], None]) -> Timer:
        return self.call_at(self.now.mono_ms + delay_ms, callback)

    def every(self, period_ms: int, callback: Callable[[Now], None]) -> None:
        def again(now: Now) -> None:
            callback(now)
            self.call_at(now.mono_ms + period_ms, again)

        self.call_later(period_ms, again)

    def stop(self) -> None:
        self._stopping = True

    def run(self) -> None:
        while not self._stopping:
            self.turn()

    def wake(self, now: Now) -> Now:
        gap_ms, self.now = now.mono_ms - self.now.mono_ms, now
        if gap_ms > self.gap_ms_max:
            self.stood_still(gap_ms)
        return now

    def turn(self) -> None:
        timeout = POLL_MS_MAX
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        if self._timers:
            # Clocks are read again: the last turn may have taken its time.
            timeout = max(0, min(timeout, self._timers[0][0] - read_clocks().mono_ms))
        ready = self._epoll.poll(timeout / 1000)
        now = self.wake(read_clocks())
        for fd, events in ready:
            callback = self._callbacks.get(fd)
            if callback is not None:
                callback(events)
        due: list[Timer] = []
        while self._timers and self._timers[0][0] <= now.mono_ms:
            due.append(heapq.heappop(self._timers)[2])
        for timer in due:  # what these set for now has its turn after the sockets
            if not timer.cancelled:
                timer.callback(now)
        for hook in self.after_turn:
            hook()

    def close(self) -> None:
        self._epoll.close()
