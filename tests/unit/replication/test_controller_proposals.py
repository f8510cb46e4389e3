"""A leader's proposals to the controller: sent again whenever they change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from brokerd.cluster.model import ReplicaIncarnation, TopicPartition
from brokerd.membership.controller_outbox import ControllerOutbox
from brokerd.replication.controller_proposals import ControllerProposals
from brokerd.replication.outbox import OutboxEntry

TP = TopicPartition(UUID(int=1), 0)
A, B = ReplicaIncarnation(2, 12), ReplicaIncarnation(3, 13)


def leader(*late: ReplicaIncarnation) -> Any:
    followers = {b: SimpleNamespace(log_start=50) for b in (2, 3)}
    core = SimpleNamespace(followers_to_reset=late, followers=followers, leader_epoch=5)
    return SimpleNamespace(tp=TP, name="t-0", core=core, log=SimpleNamespace(start_offset=10))


def test_each_late_replica_is_proposed_for_a_reset() -> None:
    """The second late replica of a partition was reported only with the next change of something else."""
    outbox = ControllerOutbox()
    proposals, replica = ControllerProposals(outbox), leader()

    def reset_proposals(*late: ReplicaIncarnation) -> list[ReplicaIncarnation] | None:
        """The proposals that are written now, or None without a change."""
        outbox.changed.clear()
        replica.core.followers_to_reset = late
        proposals.update_resets(replica)
        return [r.replica for r in proposals.resets()] if OutboxEntry.REPLICA_RESETS in outbox.changed else None

    assert reset_proposals() is None
    assert reset_proposals(A) == [A]
    assert reset_proposals(A) is None
    assert reset_proposals(A, B) == [A, B]
    assert reset_proposals(B) == [B]
    assert reset_proposals() == []
    assert reset_proposals(B) == [B]
    outbox.changed.clear()
    proposals.withdraw(TP)
    assert OutboxEntry.REPLICA_RESETS in outbox.changed and not proposals.resets()
