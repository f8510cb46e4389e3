"""Assigned replicas that are not open yet. Their logs are opened in the next iterations of the event loop, or when the disk has space again.

Invariant: after the start, an iteration of the event loop opens at most `per_iteration` logs. Does not contain: the opening (`replica_opening`).
"""

from __future__ import annotations

from brokerd.cluster.model import TopicPartition

OPENINGS_PER_ITERATION = 32
"""Number of logs that are opened per iteration of the event loop after the start. One log takes 0.5 ms or more. Clients are served between the iterations."""


class PendingOpenings:
    """Replicas that must be opened. Until a replica is open, the broker responds as if its metadata did not contain the assignment of the replica."""

    def __init__(self) -> None:
        self.per_iteration = OPENINGS_PER_ITERATION
        self._left = OPENINGS_PER_ITERATION
        self._unopened: dict[TopicPartition, None] = {}
        self._waiting_for_space: set[TopicPartition] = set()

    def may_open(self, tp: TopicPartition, *, limited: bool) -> bool:
        """Return whether this iteration may open the replica. If not, `next` returns the replica in a later iteration. Without `limited` the result is always
        True, as at the start of the broker."""
        if limited and self._left <= 0:
            self._unopened[tp] = None
            return False
        self._left -= 1
        return True

    def next(self) -> TopicPartition | None:
        """A replica that was postponed in an earlier iteration. None if there is none, or if this iteration may open no more logs."""
        if not self._unopened or self._left <= 0:
            return None
        tp = next(iter(self._unopened))
        del self._unopened[tp]
        return tp

    def end_iteration(self) -> bool:
        """True when replicas are left for the next iteration."""
        self._left = self.per_iteration
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
