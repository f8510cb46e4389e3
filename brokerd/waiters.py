"""Promises that wait for an offset, a time or an end (Kafka's purgatory).

Law: a promise is kept, failed or expired, exactly once. Called by `partitions`, the API doors and the broker's timers.
Must not come in: partitions, records, sockets. Keys are opaque.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from itertools import count

WAITERS_MAX = 100_000
"""Promises per broker. Beyond it new ones expire at once: a client that asks faster than we answer must feel it."""


FORGET_FROM = 1_000
"""Promises that are done and stand in the queue of deadlines all the same: from so many on they are let go when they are the most of it. A
producer's may have half a minute to go, and holds on to its request."""


class Waiter:
    """A promise on one or more keys. `try_complete()` says whether it is done; `complete(expired)` is called exactly once."""

    __slots__ = ("complete", "done", "keys", "try_complete")

    def __init__(
        self, keys: tuple[Hashable, ...], try_complete: Callable[[], bool], complete: Callable[[bool], None]
    ) -> None:
        self.keys = keys
        self.try_complete = try_complete
        self.complete = complete
        self.done = False


class Waiters:
    def __init__(self) -> None:
        self._by_key: dict[Hashable, dict[int, Waiter]] = {}
        self._watchers: dict[Hashable, dict[Hashable, Callable[[], None]]] = {}
        self._deadlines: list[tuple[int, int, Waiter]] = []
        self._number = count()
        self._live = 0
        """Those not done; each stands in the queue of deadlines."""

    def __len__(self) -> int:
        return self._live

    def add(self, waiter: Waiter, deadline_mono_ms: int) -> None:
        """Keep `waiter` until a `check` of one of its keys finds it complete, or until the deadline."""
        if waiter.try_complete():
            self._finish(waiter, False)
            return
        if self._live >= WAITERS_MAX:
            self._finish(waiter, True)
            return
        number = next(self._number)
        for key in waiter.keys:
            self._by_key.setdefault(key, {})[number] = waiter
        self._live += 1
        if len(self._deadlines) > FORGET_FROM + 2 * self._live:
            self._deadlines = [entry for entry in self._deadlines if not entry[2].done]
            heapq.heapify(self._deadlines)
        heapq.heappush(self._deadlines, (deadline_mono_ms, number, waiter))

    def watch(self, key: Hashable, who: Hashable, changed: Callable[[], None]) -> None:
        """Tell `who` of every change at `key` until `unwatch`: no promise, and none is kept here."""
        self._watchers.setdefault(key, {})[who] = changed

    def unwatch(self, key: Hashable, who: Hashable) -> None:
        watchers = self._watchers.get(key)
        if watchers is not None:
            watchers.pop(who, None)
            if not watchers:
                del self._watchers[key]

    def check(self, key: Hashable) -> None:
        """Something changed at `key`: complete whom it makes complete."""
        watchers = self._watchers.get(key)
        if watchers:
            for changed in list(watchers.values()):
                changed()
        waiting = self._by_key.get(key)
        if not waiting:
            return
        for number, waiter in list(waiting.items()):
            if not waiter.done and waiter.try_complete():
                self._drop(number, waiter)
                self._finish(waiter, False)

    def expire(self, now_mono_ms: int) -> None:
        while self._deadlines and (self._deadlines[0][0] <= now_mono_ms or self._deadlines[0][2].done):
            _, number, waiter = heapq.heappop(self._deadlines)
            if not waiter.done:
                self._drop(number, waiter)
                self._finish(waiter, True)

    def next_deadline(self) -> int | None:
        while self._deadlines and self._deadlines[0][2].done:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _drop(self, number: int, waiter: Waiter) -> None:
        self._live -= 1
        for key in waiter.keys:
            waiting = self._by_key.get(key)
            if waiting is not None:
                waiting.pop(number, None)
                if not waiting:
                    del self._by_key[key]

    @staticmethod
    def _finish(waiter: Waiter, expired: bool) -> None:
        waiter.done = True
        waiter.complete(expired)
