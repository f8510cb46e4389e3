"""The event loop: one thread, one epoll, file descriptors and timers.

Callbacks must return soon (`fair_scheduler` divides the work of clients). Only the poll blocks. Does not contain the protocol or partitions.
"""

from __future__ import annotations

import heapq
import select
import time
from collections.abc import Callable
from itertools import count

from brokerd.cluster.clocks import read_clocks as read_clocks
from brokerd.cluster.model import Now
from brokerd.net.fair_scheduler import FairScheduler

READ = select.EPOLLIN
WRITE = select.EPOLLOUT
HANGUP = select.EPOLLHUP | select.EPOLLERR
PEER_CLOSED = select.EPOLLRDHUP
"""The peer has closed its side. Reported only if registered."""

POLL_MS_MAX = 1_000
"""Maximum poll time. The loop runs an iteration at least this often, for its watchdog."""


class Timer:
    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[Now], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """`now` is read once per iteration. The watchdog compares `progress`."""

    def __init__(self) -> None:
        self.scheduler = FairScheduler(time.perf_counter)
        self._callbacks_done = 0
        self._epoll = select.epoll()
        self._callbacks: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[int, int, Timer]] = []
        self._number = count()
        self._stopping = False
        self.now = read_clocks()
        self.after_iteration: list[Callable[[], None]] = []
        self.watch_gaps(1 << 62, lambda gap_ms: None)

    @property
    def progress(self) -> int:
        """A number that changes with every callback and every portion of work."""
        return self._callbacks_done + self.scheduler.portions

    def watch_gaps(self, gap_ms_max: int, on_gap: Callable[[int], None]) -> None:
        """Call `on_gap` with the gap in ms, first in an iteration, if more than `gap_ms_max` have passed since the last iteration."""
        self._gap_ms_max, self._on_gap = gap_ms_max, on_gap

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
        def run_again(now: Now) -> None:
            callback(now)
            self.call_at(now.mono_ms + period_ms, run_again)

        self.call_later(period_ms, run_again)

    def stop(self) -> None:
        self._stopping = True

    def run(self) -> None:
        while not self._stopping:
            self.run_iteration()

    def begin(self) -> None:
        """Start the first iteration. The time since the creation of the loop (imports, settings) does not count as a gap between iterations."""
        self.now = read_clocks()

    def wake(self, now: Now) -> Now:
        gap_ms, self.now = now.mono_ms - self.now.mono_ms, now
        if gap_ms > self._gap_ms_max:
            self._on_gap(gap_ms)
        return now

    def run_iteration(self) -> None:
        timeout = POLL_MS_MAX
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        if self.scheduler.pending:
            timeout = 0
        elif self._timers:
            # Read the clock again, because the last iteration may have taken long.
            timeout = max(0, min(timeout, self._timers[0][0] - read_clocks().mono_ms))
        ready = self._epoll.poll(timeout / 1000)
        now = self.wake(read_clocks())
        for fd, events in ready:
            callback = self._callbacks.get(fd)
            if callback is not None:
                callback(events)
                self._callbacks_done += 1
        self.scheduler.run()
        due: list[Timer] = []
        while self._timers and self._timers[0][0] <= now.mono_ms:
            due.append(heapq.heappop(self._timers)[2])
        for timer in due:  # timers that these callbacks set for the current time run after the sockets
            if not timer.cancelled:
                timer.callback(now)
                self._callbacks_done += 1
        for hook in self.after_iteration:
            hook()
        self._callbacks_done += 1

    def close(self) -> None:
        self._epoll.close()
