"""Leader changes that no broker failure causes: missing leaders, preferred leaders, demoted brokers, controlled shutdown.

Invariant: a new leader serves the partition now and is elected by the rules of `brokerd.cluster.election`.
Does not contain: elections that a client requests (`elections`).
"""

from __future__ import annotations

from brokerd.cluster import election, majority
from brokerd.cluster.model import NO_LEADER, Now, PartitionState, ReplicaIncarnation, TopicPartition, TopicState
from controlplane.controller import partition_changes
from controlplane.controller.reconcile_pass import ReconcilePass
from controlplane.controller.votes import Votes


def elect_leaders(plan: ReconcilePass, votes: Votes, now: Now, *, preferred: bool) -> None:
    """Elect missing leaders, end completed reassignments, and move leaders off demoted brokers where another replica can lead.

    `preferred`: also elect preferred leaders. With majority acknowledgements these changes start a vote.
    """
    demoted = plan.leadership_disabled()
    for topic, index, first in plan.image.each_partition():
        tp = TopicPartition(topic.topic_id, index)
        if topic.topic_id in plan.deleted:
            continue
        state = plan.decided.get(tp, first)
        if state.leader == NO_LEADER:
            if state.voters:
                votes.count(plan, tp, state, demoted, now)
                continue
            config = plan.config(topic)
            least, unclean = config.min_insync_replicas, config.unclean_leader_election
            elsewhere = partition_changes.moved_off(state, plan.serving_epochs(tp), demoted, least) if demoted else None
            plan.put(
                tp,
                elsewhere or election.elect_leader(state, plan.serving_epochs(tp), min_insync=least, unclean=unclean),
            )
        elif state.reassigning and (ended := _complete_reassignment(plan, topic, tp, state)) is not None:
            plan.put(tp, ended)
        elif state.leader in demoted:
            least = plan.config(topic).min_insync_replicas
            plan.put(tp, partition_changes.moved_off(state, plan.serving_epochs(tp), demoted, least))
        elif (
            preferred
            and not state.reassigning
            and state.leader != state.replicas[0]
            and state.replicas[0] not in demoted
        ):
            isr_member = next((s for s in state.isr if s.broker_id == state.replicas[0]), None)
            if isr_member is not None and plan.serving_epochs(tp)(isr_member.broker_id) == isr_member.broker_epoch:
                if state.voters:
                    votes.start_preferred(plan, tp, state, now)
                    continue
                least = plan.config(topic).min_insync_replicas
                plan.put(tp, election.elect_leader(state, plan.serving_epochs(tp), min_insync=least))
    votes.end_pass()


def _complete_reassignment(
    plan: ReconcilePass, topic: TopicState, tp: TopicPartition, state: PartitionState
) -> PartitionState | None:
    return partition_changes.complete_reassignment(
        state, plan.config(topic).min_insync_replicas, plan.serving_epochs(tp)
    )


def start_controlled_shutdown(plan: ReconcilePass, leaver: ReplicaIncarnation) -> None:
    """Move leaders off the broker, and remove it from every ISR that has another live member."""
    broker_id = leaver.broker_id
    if plan.broker_epoch(broker_id) != leaver.broker_epoch:
        return
    plan.leaving.add(leaver)
    for topic, index, first in plan.image.each_partition():
        if broker_id not in first.isr_ids or len(first.isr) < 2:
            continue
        tp = TopicPartition(topic.topic_id, index)
        state = plan.state(tp)
        assert state is not None
        rest = tuple(s for s in state.isr if s.broker_id != broker_id)
        if not any(plan.serving_epochs(tp)(s.broker_id) == s.broker_epoch for s in rest):
            continue
        if state.voters and state.leader == broker_id and not majority.can_elect(state, plan.serving_epochs(tp)):
            continue  # the other replicas cannot elect a leader without this one
        least = plan.config(topic).min_insync_replicas
        shrunk = election.with_isr(state, rest, min_insync=least)
        led = state.leader == broker_id
        plan.put(tp, election.elect_leader(shrunk, plan.serving_epochs(tp), min_insync=least) if led else shrunk)
