"""Who leads, where no death decides it: leaders for whoever has none, back on the first replica, off a broker that leaves.

Law: a partition changes hands only to somebody who serves it now and whom the rules of `brokerd.cluster.election` elect. Called by `core` and `asked`.
Must not come in: what a client asks for by name (`elections`).
"""

from __future__ import annotations

from brokerd.cluster import election
from brokerd.cluster.model import NO_LEADER, PartitionState, Seat, TopicPartition, TopicState
from controlplane.controller import placements
from controlplane.controller.look import Look


def settle(look: Look, *, preferred: bool) -> None:
    """Of every partition: one without a leader gets one, a reassignment that is through ends, who is shunned leads no more where another can; with
    `preferred` the first replica leads again."""
    aside = look.shunned()
    for topic, index, first in look.image.each_partition():
        tp = TopicPartition(topic.topic_id, index)
        if topic.topic_id in look.image.deleted:
            continue
        state = look.decided.get(tp, first)
        if state.leader == NO_LEADER:
            config = look.config(topic)
            least, unclean = config.min_insync_replicas, config.unclean_leader_election
            elsewhere = placements.moved_off(state, look.serving(tp), aside, least) if aside else None
            look.put(tp, elsewhere or election.elected(state, look.serving(tp), min_insync=least, unclean=unclean))
        elif state.reassigning and (ended := _finished(look, topic, tp, state)) is not None:
            look.put(tp, ended)
        elif state.leader in aside:
            least = look.config(topic).min_insync_replicas
            look.put(tp, placements.moved_off(state, look.serving(tp), aside, least))
        elif (
            preferred and not state.reassigning and state.leader != state.replicas[0] and state.replicas[0] not in aside
        ):
            seat = next((s for s in state.isr if s.broker_id == state.replicas[0]), None)
            if seat is not None and look.serving(tp)(seat.broker_id) == seat.incarnation:
                least = look.config(topic).min_insync_replicas
                look.put(tp, election.elected(state, look.serving(tp), min_insync=least))


def _finished(look: Look, topic: TopicState, tp: TopicPartition, state: PartitionState) -> PartitionState | None:
    return placements.finished(state, look.config(topic).min_insync_replicas, look.serving(tp))


def leave(look: Look, leaver: Seat) -> None:
    """Controlled shutdown: leaders move off and the broker leaves every ISR that can do without it."""
    broker_id = leaver.broker_id
    if look.incarnation(broker_id) != leaver.incarnation:
        return
    look.leaving.add(leaver)
    for topic, index, first in look.image.each_partition():
        if broker_id not in first.isr_ids or len(first.isr) < 2:
            continue
        tp = TopicPartition(topic.topic_id, index)
        state = look.state(tp)
        assert state is not None
        rest = tuple(s for s in state.isr if s.broker_id != broker_id)
        if not any(look.serving(tp)(s.broker_id) == s.incarnation for s in rest):
            continue
        least = look.config(topic).min_insync_replicas
        shrunk = election.with_isr(state, rest, min_insync=least)
        led = state.leader == broker_id
        look.put(tp, election.elected(shrunk, look.serving(tp), min_insync=least) if led else shrunk)
