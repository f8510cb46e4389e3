"""Assigned replicas that are not open yet. Their logs are opened at the end of an iteration of the event loop, or when the disk has space again.

Invariant: after the start, an iteration of the event loop opens at most `per_iteration` logs, and stops after `OPENING_S_MAX`. Does not contain: the opening
(`replica_opening`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from brokerd.cluster.model import TopicPartition

OPENINGS_PER_ITERATION = 32
OPENING_S_MAX = 0.002
"""Time in seconds after which an iteration opens no further log. One log takes 0.3 ms, on a busy file system 3 ms or more. Clients and followers are served
between the iterations, and an acknowledgement with acks=all needs four iterations of leader and followers."""


class PendingOpenings:
    """Replicas that must be opened. Until a replica is open, the broker responds as if its metadata did not contain the assignment of the replica."""

    def __init__(self) -> None:
        self.per_iteration = OPENINGS_PER_ITERATION
        self._unopened: dict[TopicPartition, None] = {}
        self._next: TopicPartition | None = None
        self._waiting_for_space: set[TopicPartition] = set()

    def may_open(self, tp: TopicPartition, *, limited: bool) -> bool:
        """Return whether the replica may be opened now. If not, `each` yields it at the end of an iteration. Without `limited` the result is always True,
        as at the start of the broker."""
        if limited and tp != self._next:
            self._unopened[tp] = None
            return False
        return True

    def each(self, clock: Callable[[], float]) -> Iterator[TopicPartition]:
        """The replicas that this iteration may open, one or more of those that wait. `clock` returns seconds."""
        if not self._unopened:
            return
        end_s = clock() + OPENING_S_MAX
        for _ in range(min(self.per_iteration, len(self._unopened))):
            self._next = next(iter(self._unopened))
            del self._unopened[self._next]
            yield self._next
            if clock() >= end_s:
                break
        self._next = None

    def __bool__(self) -> bool:
        """True while replicas are left for the next iteration."""
        return bool(self._unopened)

    def wait_for_space(self, tp: TopicPartition) -> bool:
        """Retry the replica when the full disk has space again. False if the replica was already waiting."""
        known = tp in self._waiting_for_space
        self._waiting_for_space.add(tp)
        return not known

    def end_wait(self, tp: TopicPartition) -> None:
        """Do not retry the replica: it is open, or no longer assigned to this broker."""
        self._waiting_for_space.discard(tp)

    @property
    def waiting_for_space(self) -> list[TopicPartition]:
        return list(self._waiting_for_space)
