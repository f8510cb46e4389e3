"""Bootstrap offsets of observers. A bootstrap offset S is a committed offset at which a segment of the leader's log starts (safety section 8).

Invariants:
  - The leader proposes S when S is at or below the high watermark. S is valid when it is in the metadata log.
  - A replica starts at S with the leader's state at S: epochs, and every producer with its open transaction. Without this snapshot it
    does not start.
  - A leader without the snapshot (a new or restarted leader) rolls its log and proposes another S. This concerns only observers whose log has not started yet.
Does not contain: sockets, the selection of observers (the metadata log names them).
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from brokerd.cluster.model import Now, TopicPartition
from brokerd.cluster.znodes import BootstrapProposal
from brokerd.replication.outbox import Outbox, OutboxEntry
from brokerd.replication.replica import Replica
from brokerd.storage import observer_bootstrap

log = logging.getLogger(__name__)


class Offer(NamedTuple):
    replica: Replica
    leader_epoch: int
    offset: int
    cuts: int
    committed: bool = False


class Bootstrap:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._offers: dict[TopicPartition, Offer] = {}

    def snapshot_for_observer(self, replica: Replica, now: Now) -> bytes | None:
        """The snapshot at S for an observer. None until the metadata log names an S for which this leader has a snapshot.

        The observer repeats its request. Raises DiskFailed.
        """
        state = replica.core.state
        if state is None or not replica.leads:
            return None
        if state.tail_start >= replica.log.start_offset and state.tail_start <= replica.core.high_watermark:
            snapshot = observer_bootstrap.bootstrap_snapshot_at(replica.log, state.tail_start)
            if snapshot is not None:
                return snapshot
        offer = self._offers.get(replica.tp)
        if offer is None or not self._is_valid(offer) or offer.replica is not replica:
            offset = observer_bootstrap.roll_for_bootstrap(replica.log, now)
            if offset is None:
                return None
            log.info("bootstrap offset chosen: partition=%s offset=%d state=waiting-for-commit", replica.name, offset)
            offer = self._offers[replica.tp] = Offer(replica, state.leader_epoch, offset, replica.log.flushing.cuts)
        if not offer.committed and replica.core.high_watermark >= offer.offset:
            self._offers[replica.tp] = offer._replace(committed=True)
            self._outbox.mark_changed(OutboxEntry.BOOTSTRAP_OFFSETS)
        return None

    @staticmethod
    def _is_valid(offer: Offer) -> bool:
        replica, state = offer.replica, offer.replica.core.state
        return (
            state is not None
            and replica.leads
            and bool(state.observers)
            and state.leader_epoch == offer.leader_epoch
            and replica.log.flushing.cuts == offer.cuts
            and replica.log.start_offset <= offer.offset
            and state.tail_start != offer.offset
        )

    def proposals(self) -> list[BootstrapProposal]:
        """Proposals for the controller, without the proposals that were accepted or have become invalid."""
        self._offers = {tp: offer for tp, offer in self._offers.items() if self._is_valid(offer)}
        return [
            BootstrapProposal(tp.topic_id, tp.partition, offer.leader_epoch, offer.offset)
            for tp, offer in self._offers.items()
            if offer.committed
        ]

    def partition_changed(self, replica: Replica) -> None:
        """The metadata log has changed this partition."""
        offer = self._offers.get(replica.tp)
        if offer is not None and not self._is_valid(offer):
            del self._offers[replica.tp]
            if offer.committed:
                self._outbox.mark_changed(OutboxEntry.BOOTSTRAP_OFFSETS)
