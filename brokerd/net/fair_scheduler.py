"""Fair scheduling of one loop iteration between owners of work.

An owner (a principal, or an IP address without authentication) uses at most its time slice of an iteration while others wait. Connections of an
owner are served round-robin. Unfinished work stays in the queue and continues in the next iteration without a new event. Every waiting owner is
served in every iteration. Does not contain sockets or requests. The clock is an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Protocol

BROKERS = "brokers"
"""The owner of connections of other brokers. Replication has its own time slice, however many connections clients have."""
SHARE_S_MAX = 0.002
"""Maximum time slice of one owner per iteration in seconds. A quiet client may wait this long for each busy one. An iteration costs 0.05 ms, so smaller
slices would reduce throughput."""
ALONE_SHARE_S_MAX = 0.005
"""Maximum time slice of an owner while no other client is active. Followers fetch what a slice appended: with slices of 2 ms they fetched twice
as often as with 5 ms, at a fifth more CPU of the leader. The first request of another client waits for the end of the slice; later requests do not."""
BUSY_SHARE_S_MAX = 0.0005
"""Maximum time slice of a busy owner in seconds while others are active. A request that arrives during a slice waits for its end: with slices
of 2 ms the p99 latency of quiet clients beside a busy one tripled."""
BUSY_S = 0.1
"""Time for which an owner counts as busy after it used up a time slice and still had work."""
ACTIVE_S = 1.0
"""Time for which an owner counts as active after it was served. An owner that is the only active one keeps its long slices, which cost less CPU."""
BUSY_OWNERS_MAX = 1_000
"""Number of remembered busy owners above which owners that are no longer busy are removed."""
ITERATION_S_MAX = 0.02
"""Target duration of an iteration in seconds. With more than ten owners the time slices become smaller."""
SHARE_S_MIN = 0.0002
"""Minimum time slice in seconds: two or three small requests. Below it the overhead of an iteration would exceed the work."""


class Work(Protocol):
    """Work that can be done in portions."""

    def serve(self, until: float) -> bool:
        """Do at least one portion. Stop at the first boundary after `until`. Returns whether more work is ready."""


class FairScheduler:
    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.portions = 0
        """Number of portions of work since the start, for the watchdog."""
        self._queues: dict[Hashable, dict[Work, None]] = {}
        self._order: deque[Hashable] = deque()
        """Owners with work, least recently served first."""
        self._newest: tuple[Hashable, float] = (None, -ACTIVE_S)
        self._newest_other: tuple[Hashable, float] = (None, -ACTIVE_S)
        """The owner that was served last, and the last owner before it that is another one, each with the time."""
        self._busy: dict[Hashable, float] = {}
        """Time at which an owner last used up a time slice."""
        self.slice_end_s: float | None = None
        """End of the current time slice. None outside of slices."""

    @property
    def pending(self) -> bool:
        return bool(self._order)

    def add(self, owner: Hashable, work: Work) -> None:
        """Serve `work` in this iteration, or in the next one if `owner` has used its time slice. Idempotent."""
        queue = self._queues.get(owner)
        if queue is None:
            queue = self._queues[owner] = {}
            self._order.append(owner)
        queue[work] = None

    def run(self) -> None:
        """One iteration: one time slice for each owner."""
        order = self._order
        if not order:
            return
        if self._busy and len(order) > 1:
            self._busy_last()
        share = max(SHARE_S_MIN, min(SHARE_S_MAX, ITERATION_S_MAX / len(order)))
        served: set[Hashable] = set()
        later: list[Hashable] = []
        while order:
            owner = order.popleft()
            if owner in served:
                later.append(owner)  # the owner has used its time slice and has got new work
                continue
            served.add(owner)
            now_s = self.clock()
            if self._serve(self._queues[owner], now_s + self._share_of(owner, share, now_s)):
                later.append(owner)
                self._note_busy(owner)
            else:
                del self._queues[owner]
        order.extend(later)

    def _busy_last(self) -> None:
        """Serve busy owners after the others. Every owner is served in every iteration, so this delays no other owner."""
        now_s, order = self.clock(), self._order
        by_service = [*order]
        order.clear()
        order.extend(sorted(by_service, key=lambda owner: self._is_busy(owner, now_s)))

    def _is_busy(self, owner: Hashable, now_s: float) -> bool:
        return now_s - self._busy.get(owner, -BUSY_S) < BUSY_S

    def _share_of(self, owner: Hashable, share: float, now_s: float) -> float:
        """The length of this slice in seconds. Replication is no reason for short slices: it gains nothing from seeing the appends of a slice
        earlier, and each fetch of a follower costs as much as several small appends."""
        if owner == BROKERS:
            return share
        if owner != self._newest[0]:
            self._newest_other = self._newest
        self._newest = owner, now_s
        others_wait = len(self._queues) - (BROKERS in self._queues) > 1
        if not others_wait and now_s - self._newest_other[1] >= ACTIVE_S:
            return ALONE_SHARE_S_MAX
        return min(share, BUSY_SHARE_S_MAX) if self._is_busy(owner, now_s) else share

    def _note_busy(self, owner: Hashable) -> None:
        now_s = self.clock()
        self._busy[owner] = now_s
        if len(self._busy) > BUSY_OWNERS_MAX:
            self._busy = {o: at for o, at in self._busy.items() if now_s - at < BUSY_S}

    def _serve(self, queue: dict[Work, None], until: float) -> bool:
        """Returns whether work is left."""
        self.slice_end_s = until
        while queue:
            work = next(iter(queue))
            del queue[work]
            self.portions += 1
            if work.serve(until):
                queue[work] = None  # behind the owner's other work
            if self.clock() >= until:
                break
        self.slice_end_s = None
        return bool(queue)
