"""Where the copies of observers begin: at S, a committed offset at which a leader's log begins a segment (safety section 8).

Laws: S is offered once it lies at or below the high watermark, and counts once the metadata log says so; a copy begins at S with what the
leader's log knew there, the epochs and every producer with its open transaction, or it does not begin. A leader that does not know that any
more (a new one, or one that was restarted) rolls its log and offers another S: only who has not begun yet hears of it. Called by `partitions`
and the door of fetches. Must not come in: sockets, who observes (the metadata log).
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from brokerd.cluster.model import Now, TopicPartition
from brokerd.cluster.znodes import SeedProposal
from brokerd.replica import Replica
from brokerd.storage import tails

log = logging.getLogger(__name__)


class Offer(NamedTuple):
    replica: Replica
    leader_epoch: int
    offset: int
    cuts: int
    committed: bool = False


class Seeds:
    def __init__(self) -> None:
        self._offers: dict[TopicPartition, Offer] = {}
        self.changed = False
        """What `wanted` says may be another."""

    def asked(self, replica: Replica, now: Now) -> bytes | None:
        """An observer wants to begin: the snapshot at S, or None until the metadata log names an S that this leader has one for.

        Asked again and again. Raises DiskFailed.
        """
        state = replica.core.state
        if state is None or not replica.leads:
            return None
        if state.tail_start >= replica.log.start_offset and state.tail_start <= replica.core.high_watermark:
            seed = tails.seed_at(replica.log, state.tail_start)
            if seed is not None:
                return seed
        offer = self._offers.get(replica.tp)
        if offer is None or not self._stands(offer) or offer.replica is not replica:
            offset = tails.roll_for_seed(replica.log, now)
            if offset is None:
                return None
            log.info("%s: its tail begins at %d, once that is committed", replica.name, offset)
            offer = self._offers[replica.tp] = Offer(replica, state.leader_epoch, offset, replica.log.flushing.cuts)
        if not offer.committed and replica.core.high_watermark >= offer.offset:
            self._offers[replica.tp] = offer._replace(committed=True)
            self.changed = True
        return None

    @staticmethod
    def _stands(offer: Offer) -> bool:
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

    def wanted(self) -> list[SeedProposal]:
        """What is to be asked of the controller; offers that were taken, or are void, are forgotten."""
        self._offers = {tp: offer for tp, offer in self._offers.items() if self._stands(offer)}
        return [
            SeedProposal(tp.topic_id, tp.partition, offer.leader_epoch, offer.offset)
            for tp, offer in self._offers.items()
            if offer.committed
        ]

    def look(self, replica: Replica) -> None:
        """The metadata log has said something of this partition."""
        offer = self._offers.get(replica.tp)
        if offer is not None and not self._stands(offer):
            del self._offers[replica.tp]
            self.changed = self.changed or offer.committed
