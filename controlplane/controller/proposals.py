"""Leaders ask for ISRs, say where observers' copies and partitions with an archive begin, and whose copy starts too late: what is accepted, and what is refused
with a reason.

Law: each proposal for the state as it stands is answered in the log, and an answer moves the partition epoch (decision 012); one that was overtaken is
answered already. Called by `core`. Must not come in: brokers that come and go (`brokers`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import uuid5

from brokerd.cluster import election
from brokerd.cluster.metadata import IsrRefused, ReplicaReset
from brokerd.cluster.model import PartitionState, Seat, TopicPartition
from brokerd.cluster.znodes import IsrProposal, ResetProposal, SeedProposal, StartProposal
from controlplane.controller import placements
from controlplane.controller.events import IsrProposed
from controlplane.controller.look import Look


def decide(look: Look, proposed: Mapping[int, IsrProposed]) -> None:
    """`proposed` by broker: all that it asks for."""
    for broker_id, asked in sorted(proposed.items()):
        incarnation = asked.incarnation
        if look.incarnation(broker_id) != incarnation:
            continue
        for p in asked.proposals:
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
        for seed in asked.seeds:
            _begin(look, broker_id, incarnation, seed)
        for start in asked.starts:
            _let_go(look, broker_id, incarnation, start)
        for reset in asked.resets:
            _begin_anew(look, broker_id, incarnation, reset)


def _begin(look: Look, broker_id: int, incarnation: int, seed: SeedProposal) -> None:
    """The leader's word is enough: what it names is committed, so that it holds for whoever leads next, too."""
    tp = TopicPartition(seed.topic_id, seed.partition)
    state = look.state(tp)
    if state is None or not state.observers or state.tail_start == seed.offset:
        return
    if (state.leader, state.leader_incarnation, state.leader_epoch) == (broker_id, incarnation, seed.leader_epoch):
        look.put(tp, replace(state, tail_start=seed.offset))


def _let_go(look: Look, broker_id: int, incarnation: int, start: StartProposal) -> None:
    """The leader's word is enough, as it is where it lets its own log go."""
    tp = TopicPartition(start.topic_id, start.partition)
    state = look.state(tp)
    if state is not None and (state.leader, state.leader_incarnation, state.leader_epoch) == (
        broker_id, incarnation, start.leader_epoch,
    ):  # fmt: skip
        look.put(tp, placements.begun_at(state, start.offset))


def _begin_anew(look: Look, broker_id: int, incarnation: int, asked: ResetProposal) -> None:
    """A copy that starts too late for the ISR is thrown away, as an operator would have it (decision 037): the leader holds all that it holds."""
    tp, late = TopicPartition(asked.topic_id, asked.partition), asked.seat
    state, topic = look.state(tp), look.image.topics.get(asked.topic_id)
    if state is None or topic is None or late.broker_id in state.isr_ids:
        return
    if (state.leader, state.leader_incarnation, state.leader_epoch) != (broker_id, incarnation, asked.leader_epoch):
        return
    serving = look.serving(tp)
    if serving(late.broker_id) != late.incarnation:
        return
    if late.broker_id in state.holders and all(serving(h) is None for h in state.holders if h != late.broker_id):
        return  # nobody is there whom it could fetch the archive from
    after = placements.without_copy(state, late.broker_id, look.config(topic).min_insync_replicas, serving)
    if isinstance(after, PartitionState):
        look.put(tp, after)
        # Made of what it is about, so that a successor that decides it again names the same.
        reset_id = uuid5(tp.topic_id, f"{tp.partition} {late.broker_id} {asked.leader_epoch}")
        look.add(ReplicaReset(*tp, late.broker_id, str(reset_id)))
        text = f"the copy of broker {late.broker_id} starts above its leader's log and is fetched anew"
        look.report("late", f"partition {topic.name}-{tp.partition}", text)


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
