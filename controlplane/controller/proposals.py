"""Leaders ask for ISRs: what is accepted, and what is refused with a reason.

Law: each proposal for the state as it stands is answered in the log, and an answer moves the partition epoch (decision 012); one that was overtaken is
answered already. Called by `core`. Must not come in: brokers that come and go (`brokers`).
"""

from __future__ import annotations

from collections.abc import Mapping

from brokerd.cluster import election
from brokerd.cluster.metadata import IsrRefused
from brokerd.cluster.model import PartitionState, Seat, TopicPartition
from brokerd.cluster.znodes import IsrProposal
from controlplane.controller.look import Look

Proposed = Mapping[int, tuple[int, tuple[IsrProposal, ...]]]
"""Per broker: its incarnation, and what it asks for."""


def decide(look: Look, proposed: Proposed) -> None:
    for broker_id, (incarnation, proposals) in sorted(proposed.items()):
        if look.incarnation(broker_id) != incarnation:
            continue
        for p in proposals:
            tp = TopicPartition(p.topic_id, p.partition)
            state, topic = look.image.partition(tp), look.image.topics.get(p.topic_id)
            if state is None or topic is None or tp in look.decided:
                continue
            if (p.leader_epoch, p.partition_epoch) != (state.leader_epoch, state.partition_epoch):
                continue  # answered, or overtaken: the log already tells the leader so
            reason = _problem(look, broker_id, incarnation, p, state)
            if reason is None:
                look.put(tp, election.with_isr(state, p.isr, min_insync=look.config(topic).min_insync_replicas))
            else:
                look.add(
                    IsrRefused(
                        broker_id, incarnation, p.topic_id, p.partition, p.leader_epoch, p.partition_epoch, reason
                    )
                )
                # The epoch moves, so that nobody accepts it later: the leader counts without the newcomer from then on.
                look.put(tp, state)


def _problem(look: Look, broker_id: int, incarnation: int, p: IsrProposal, state: PartitionState) -> str | None:
    if (state.leader, state.leader_incarnation) != (broker_id, incarnation):
        return f"broker {broker_id} does not lead"
    if Seat(broker_id, incarnation) not in p.isr:
        return "the leader left itself out"
    for seat in p.isr:
        if seat.broker_id not in state.replicas:
            return f"broker {seat.broker_id} is no replica"
        if look.incarnation(seat.broker_id) != seat.incarnation:
            return f"broker {seat.broker_id} is away, leaving, or of another incarnation than {seat.incarnation}"
        if look.is_offline(seat.broker_id, seat.incarnation, TopicPartition(p.topic_id, p.partition)):
            return f"broker {seat.broker_id}'s copy is offline"
    return None
