"""What this broker, as leader, asks the controller for: ISRs, and copies that are to be begun anew.

Laws: a wish is bound to the epochs it was made in; it stands until the metadata log has moved them, or it is withdrawn. Called by `partitions`, which
runs the machines that wish, and by the broker, who writes all of it into one node. Must not come in: who is wished for (`partition`), the answer.
"""

from __future__ import annotations

import logging

from brokerd.cluster.model import Seat, TopicPartition
from brokerd.cluster.znodes import IsrProposal, ResetProposal
from brokerd.partition_events import ProposeIsr
from brokerd.replica import Replica

log = logging.getLogger(__name__)


class Wishes:
    def __init__(self) -> None:
        self.isrs: dict[TopicPartition, IsrProposal] = {}
        self._late: dict[TopicPartition, tuple[Replica, tuple[Seat, ...]]] = {}
        """What leads here and has followers whose copies start too late, and the seats of these as last told."""
        self.changed = False
        """What is wished for may be another."""

    def propose(self, tp: TopicPartition, wish: ProposeIsr) -> None:
        self.isrs[tp] = IsrProposal(*tp, wish.leader_epoch, wish.partition_epoch, wish.isr)
        self.changed = True

    def answered(self, tp: TopicPartition) -> None:
        """The log has moved the epochs that its ISR was wished for in."""
        if self.isrs.pop(tp, None) is not None:
            self.changed = True

    def withdraw(self, tp: TopicPartition) -> None:
        """It is led here no more, or cannot be."""
        self.answered(tp)
        if self._late.pop(tp, None) is not None:
            self.changed = True

    def look(self, replica: Replica) -> None:
        """Whether followers of this one have started too late (decision 037) may be answered otherwise than before."""
        late = replica.core.late
        _, told = self._late.get(replica.tp, (replica, ()))
        if late == told:
            return
        self.changed = True
        if not late:
            del self._late[replica.tp]
            return
        self._late[replica.tp] = replica, late
        starts = {b: replica.core.followers[b].log_start for b, _ in late}
        log.warning("%s: copies that start at %s are to be begun anew, the leader's starts at %d",
                    replica.name, starts, replica.log.start_offset)  # fmt: skip

    def resets(self) -> list[ResetProposal]:
        return [
            ResetProposal(*tp, replica.core.leader_epoch, seat)
            for tp, (replica, _) in self._late.items()
            for seat in replica.core.late
        ]
