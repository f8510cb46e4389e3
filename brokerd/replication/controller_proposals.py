"""Proposals of this broker, as leader, to the controller: ISR changes and resets of follower replicas.

Invariant: a proposal is bound to the epochs in which it was made. It is repeated until the metadata log has changed these epochs, or until
it is withdrawn. Does not contain: which replicas are proposed (`partition`), the controller's response.
"""

from __future__ import annotations

import logging

from brokerd.cluster.model import ReplicaIncarnation, TopicPartition
from brokerd.cluster.znodes import IsrProposal, ResetProposal
from brokerd.replication.outbox import Outbox, OutboxEntry
from brokerd.replication.partition_events import ProposeIsr
from brokerd.replication.replica import Replica

log = logging.getLogger(__name__)


class ControllerProposals:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.isrs: dict[TopicPartition, IsrProposal] = {}
        self._resets: dict[TopicPartition, tuple[Replica, tuple[ReplicaIncarnation, ...]]] = {}
        """Partitions that this broker leads and that have followers with a too high log start offset, with the followers that were last proposed for a
        reset."""

    def propose(self, tp: TopicPartition, proposal: ProposeIsr) -> None:
        self.isrs[tp] = IsrProposal(*tp, proposal.leader_epoch, proposal.partition_epoch, proposal.isr)
        self._outbox.mark_changed(OutboxEntry.ISR_PROPOSALS)

    def remove_isr_proposal(self, tp: TopicPartition) -> None:
        """Remove the ISR proposal of the partition, because the metadata log has changed its epochs or the leader has withdrawn it."""
        if self.isrs.pop(tp, None) is not None:
            self._outbox.mark_changed(OutboxEntry.ISR_PROPOSALS)

    def withdraw(self, tp: TopicPartition) -> None:
        """Remove the proposals of the partition, because this broker no longer leads it or its replica is offline."""
        self.remove_isr_proposal(tp)
        if self._resets.pop(tp, None) is not None:
            self._outbox.mark_changed(OutboxEntry.REPLICA_RESETS)

    def update_resets(self, replica: Replica) -> None:
        """Update the resets of this partition's followers (decision 037)."""
        followers_to_reset = replica.core.followers_to_reset
        _, proposed = self._resets.get(replica.tp, (replica, ()))
        if followers_to_reset == proposed:
            return
        self._outbox.mark_changed(OutboxEntry.REPLICA_RESETS)
        if not followers_to_reset:
            del self._resets[replica.tp]
            return
        self._resets[replica.tp] = replica, followers_to_reset
        starts = {b: replica.core.followers[b].log_start for b, _ in followers_to_reset}
        log.warning(
            "follower replicas need a reset: partition=%s reason=log-start-too-high followers=%s leader_log_start=%d",
            replica.name,
            starts,
            replica.log.start_offset,
        )

    def resets(self) -> list[ResetProposal]:
        return [
            ResetProposal(*tp, replica.core.leader_epoch, follower)
            for tp, (replica, _) in self._resets.items()
            for follower in replica.core.followers_to_reset
        ]
