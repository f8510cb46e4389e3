"""Votes of partitions with majority acknowledgements: collects the reported log ends and elects leaders (decision 102).

Invariants: only reports of the vote's leader epoch and of the broker's current incarnation count. A vote waits at most WAIT_MS_MAX for a broker that
would be a better leader. Does not contain: the rules of a vote (`brokerd.cluster.majority`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from brokerd.cluster import majority
from brokerd.cluster.majority import LogEnd
from brokerd.cluster.model import Now, PartitionState, TopicPartition
from controlplane.controller.events import IsrProposed
from controlplane.controller.reconcile_pass import ReconcilePass, Vote

WAIT_MS_MAX = 300
"""Maximum time that a vote waits for the report of a live broker that precedes the other candidates. A broker that does not respond may be frozen."""
PREFERRED_EVERY_MS = 300_000
"""Minimum time between two votes for the preferred leader of a partition. Each vote makes the partition unavailable for a moment, and the preferred
leader is not elected if its log is behind."""


@dataclass(slots=True)
class Votes:
    _deadlines_ms: dict[Vote, int | None] = field(default_factory=dict)
    """Until when each vote waits for better candidates. None: the time has passed."""
    _running: dict[Vote, int | None] = field(default_factory=dict)
    """The deadlines of the votes that the current pass has counted so far."""
    _preferred_not_before_ms: dict[TopicPartition, int] = field(default_factory=dict)

    def overdue(self, now: Now) -> bool:
        return any(ms is not None and now.mono_ms >= ms for ms in self._deadlines_ms.values())

    def count(
        self, plan: ReconcilePass, tp: TopicPartition, state: PartitionState, demoted: Collection[int], now: Now
    ) -> None:
        """Elect a leader if enough replicas have reported. `demoted`: demoted brokers, which are elected last."""
        vote = tp, state.leader_epoch
        deadline = self._deadlines_ms.get(vote, now.mono_ms + WAIT_MS_MAX)
        wait = deadline is not None and now.mono_ms < deadline
        self._running[vote] = deadline if wait else None
        if reported := plan.log_ends.get(vote):
            elected = majority.elect(state, reported, plan.serving_epochs(tp), demoted, wait=wait)
            plan.put(tp, elected, by_vote=True)

    def end_pass(self) -> None:
        """Forget the votes that this pass has not counted: they have ended."""
        self._deadlines_ms, self._running = self._running, {}

    def start_preferred(self, plan: ReconcilePass, tp: TopicPartition, state: PartitionState, now: Now) -> None:
        """Start a vote for the preferred leader, if enough replicas can take part and the last such vote was long ago."""
        if now.mono_ms < self._preferred_not_before_ms.get(tp, 0) or not majority.can_elect(
            state, plan.serving_epochs(tp)
        ):
            return
        self._preferred_not_before_ms[tp] = now.mono_ms + PREFERRED_EVERY_MS
        plan.put(tp, majority.start_vote(state))


def reports(plan: ReconcilePass, proposed: Mapping[int, IsrProposed]) -> dict[Vote, dict[int, LogEnd]]:
    """The valid reports of each vote, by broker. A broker that shuts down reports, but is not elected."""
    found: dict[Vote, dict[int, LogEnd]] = {}
    for broker_id, proposal in sorted(proposed.items()):
        registered = plan.registrations.get(broker_id)
        if registered is None or registered.broker_epoch != proposal.broker_epoch:
            continue
        for r in proposal.log_ends:
            tp = TopicPartition(r.topic_id, r.partition)
            if not plan.is_offline(broker_id, proposal.broker_epoch, tp):
                found.setdefault((tp, r.leader_epoch), {})[broker_id] = LogEnd(r.last_epoch, r.log_end)
    return found
