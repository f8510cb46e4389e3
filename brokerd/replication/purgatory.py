"""Delayed operations that wait for an offset, a deadline or an end (Kafka's purgatory).

Invariants: an operation is completed, failed or expired exactly once. An operation with known needs (an offset or a size) is not evaluated before
the needs are met. An operation with an owner is evaluated in its owner's time slice, not in the time slice of the request that caused the change.
Does not contain: partitions, records, sockets. Keys are opaque.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from itertools import count

from brokerd.net.fair_scheduler import FairScheduler
from brokerd.security.principals import ANONYMOUS

WAITERS_MAX = 100_000
"""Maximum number of delayed operations of clients per broker. Above the limit a new operation expires immediately, which slows the client down. Operations of
followers and of this broker's coordinators do not count, because clients must not be able to stop replication."""


FORGET_FROM = 1_000
"""Deadlines of completed operations stay in the queue. They are removed when they are more than this number and the majority of the queue."""

NOTHING, EVERYTHING = -1, 1 << 62
"""Bounds of needed values: below and above all of them."""


class DelayedOperation:
    """An operation that waits on one or more keys. `try_complete()` returns whether it is done. `complete(expired)` is called exactly once.

    `client`: True if a client waits, False if a broker waits. `owner`: the owner of the time slice (`net/fair_scheduler`) in which the operation is
    evaluated. None: the operation is evaluated immediately, by the code that causes the change.
    """

    __slots__ = (
        "_home",
        "client",
        "complete",
        "deadline_mono_ms",
        "done",
        "expired",
        "keys",
        "needs",
        "number",
        "owner",
        "queued",
        "try_complete",
    )

    def __init__(
        self,
        keys: tuple[Hashable, ...],
        try_complete: Callable[[], bool],
        complete: Callable[[bool], None],
        *,
        client: bool = True,
        owner: Hashable | None = None,
    ) -> None:
        self.keys = keys
        self.try_complete = try_complete
        self.complete = complete
        self.client, self.owner = client, owner
        self.needs: Mapping[Hashable, int] | None = None
        """The value by key that must be reached before the operation can complete (`Purgatory.check`). None: the operation is evaluated at every change."""
        self.done = self.queued = self.expired = False
        self.number = self.deadline_mono_ms = -1
        self._home: Purgatory | None = None

    def serve(self, until: float) -> bool:
        """Evaluate the operation, in the time slice of its owner."""
        self.queued = False
        assert self._home is not None
        if self.expired:
            self._home.abandon(self)
        else:
            self._home.evaluate(self)
        return False


class WaitingFetches:
    """Numbers of waiting fetches by principal and by address. They limit the memory and the work per append that one client can cause."""

    def __init__(self, per_principal: Callable[[], int], per_address: Callable[[], int]) -> None:
        self._max_of_principal, self._max_of_address = per_principal, per_address
        self.by_principal: Counter[str] = Counter()
        self.by_address: Counter[str] = Counter()

    def acquire(self, principal: str, address: str) -> bool:
        """Count a waiting fetch. Returns False if there are too many. Without authentication the principal is not counted."""
        if principal != ANONYMOUS and self.by_principal[principal] >= self._max_of_principal():
            return False
        if self.by_address[address] >= self._max_of_address():
            return False
        self.by_principal[principal] += 1
        self.by_address[address] += 1
        return True

    def release(self, principal: str, address: str) -> None:
        for counter, name in ((self.by_principal, principal), (self.by_address, address)):
            counter[name] -= 1
            if not counter[name]:
                del counter[name]


class Purgatory:
    def __init__(self, scheduler: FairScheduler | None = None) -> None:
        self._scheduler = scheduler
        self._by_key: dict[Hashable, dict[int, DelayedOperation]] = {}
        self._least_needs: dict[Hashable, int] = {}
        """The lowest value by key that an operation needs. A check below it costs nothing, however many operations wait."""
        self._watchers: dict[Hashable, dict[Hashable, Callable[[], None]]] = {}
        self._by_deadline: dict[int, dict[int, DelayedOperation]] = {}
        """Operations that are not done, by the ms of their deadline. Most operations are completed long before, and leave immediately."""
        self._deadlines: list[int] = []
        """A heap of the keys of `_by_deadline`, and of former keys."""
        self._number = count()
        self._live = 0
        """Operations that are not done."""
        self._live_of_clients = 0

    def __len__(self) -> int:
        return self._live

    def add(self, waiter: DelayedOperation, deadline_mono_ms: int, *, evaluated: bool = False) -> None:
        """Keep `waiter` until a `check` of one of its keys completes it, or until its deadline. `evaluated`: the caller has just evaluated it: it
        cannot complete yet."""
        if not evaluated and waiter.try_complete():
            self._finish(waiter, False)
            return
        if waiter.client and self._live_of_clients >= WAITERS_MAX:
            self._finish(waiter, True)
            return
        number = waiter.number = next(self._number)
        waiter._home = self
        waiter.deadline_mono_ms = deadline_mono_ms
        for key in waiter.keys:
            self._by_key.setdefault(key, {})[number] = waiter
        self._note_needs(waiter)
        self._live += 1
        self._live_of_clients += waiter.client
        due = self._by_deadline.get(deadline_mono_ms)
        if due is not None:
            due[number] = waiter
            return
        self._by_deadline[deadline_mono_ms] = {number: waiter}
        if len(self._deadlines) > FORGET_FROM + 2 * self._live:
            self._deadlines = list(self._by_deadline)
            heapq.heapify(self._deadlines)
        else:
            heapq.heappush(self._deadlines, deadline_mono_ms)

    def watch(self, key: Hashable, watcher: Hashable, changed: Callable[[], None]) -> None:
        """Call `changed` at every change of `key` until `unwatch(key, watcher)`. A watch never completes or expires."""
        self._watchers.setdefault(key, {})[watcher] = changed

    def unwatch(self, key: Hashable, watcher: Hashable) -> None:
        watchers = self._watchers.get(key)
        if watchers is not None:
            watchers.pop(watcher, None)
            if not watchers:
                del self._watchers[key]

    def check(self, key: Hashable, grown: int | None = None) -> None:
        """`key` has changed: evaluate its operations. `grown`: the new value of `key`, if the only change is a higher value. Operations that need a higher
        value are not evaluated."""
        watchers = self._watchers.get(key)
        if watchers:
            for changed in list(watchers.values()):
                changed()
        waiting = self._by_key.get(key)
        if not waiting or (grown is not None and grown < self._least_needs.get(key, NOTHING)):
            return
        ready = []
        least = EVERYTHING
        for waiter in waiting.values():
            if waiter.queued or waiter.done:
                continue  # an evaluation that does not complete the operation records its needs again
            if grown is not None and waiter.needs is not None and grown < (need := waiter.needs[key]):
                least = min(least, need)
            else:
                ready.append(waiter)
        if grown is not None:
            self._least_needs[key] = least
        for waiter in ready:
            if waiter.queued or waiter.done:
                continue
            if waiter.owner is None or self._scheduler is None:
                self.evaluate(waiter)
            else:
                waiter.queued = True
                self._scheduler.add(waiter.owner, waiter)

    def evaluate(self, waiter: DelayedOperation) -> None:
        if waiter.done:
            return
        if waiter.try_complete():
            self._drop(waiter)
            self._finish(waiter, False)
        else:
            self._note_needs(waiter)

    def abandon(self, waiter: DelayedOperation) -> None:
        """Expire the operation now: its client has disconnected."""
        if not waiter.done:
            self._drop(waiter)
            self._finish(waiter, True)

    def expire(self, now_mono_ms: int) -> None:
        while self._deadlines and self._deadlines[0] <= now_mono_ms:
            for waiter in self._by_deadline.pop(heapq.heappop(self._deadlines), {}).values():
                if waiter.owner is None or self._scheduler is None:
                    self.abandon(waiter)
                elif not waiter.done:
                    waiter.expired = True
                    self._scheduler.add(waiter.owner, waiter)

    def next_deadline(self) -> int | None:
        while self._deadlines and self._deadlines[0] not in self._by_deadline:
            heapq.heappop(self._deadlines)
        return self._deadlines[0] if self._deadlines else None

    def _note_needs(self, waiter: DelayedOperation) -> None:
        """Include the current needs of the waiting operation in the lowest need of each of its keys."""
        needs, least = waiter.needs, self._least_needs
        for key in waiter.keys:
            least[key] = NOTHING if needs is None else min(needs[key], least.get(key, EVERYTHING))

    def _drop(self, waiter: DelayedOperation) -> None:
        self._live -= 1
        self._live_of_clients -= waiter.client
        due = self._by_deadline.get(waiter.deadline_mono_ms)
        if due is not None:
            due.pop(waiter.number, None)
            if not due:
                del self._by_deadline[waiter.deadline_mono_ms]
        for key in waiter.keys:
            waiting = self._by_key.get(key)
            if waiting is not None:
                waiting.pop(waiter.number, None)
                if not waiting:
                    del self._by_key[key]
                    self._least_needs.pop(key, None)

    @staticmethod
    def _finish(waiter: DelayedOperation, expired: bool) -> None:
        waiter.done = True
        complete = waiter.complete
        # Most callbacks refer to their operation. Without this, only the garbage collector would free the operation and its request.
        waiter.try_complete, waiter.complete = _is_complete, _ignore
        complete(expired)


def _is_complete() -> bool:
    return True


def _ignore(expired: bool) -> None:
    """The operation is completed already."""
