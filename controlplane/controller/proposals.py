"""Decides on leaders' proposals: a new ISR, the start of observers' logs, a new log start with history reads, and replica resets.

Invariants: each proposal for the current state is answered in the log, and each response increments the partition epoch (decision 012).
A proposal for an earlier state is answered already. Does not contain: broker registrations (`brokers`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import uuid5

from brokerd.cluster import election
from brokerd.cluster.metadata import IsrRejected, ReplicaReset
from brokerd.cluster.model import PartitionState, ReplicaIncarnation, TopicPartition
from brokerd.cluster.znodes import BootstrapProposal, IsrProposal, ResetProposal, StartProposal
from controlplane.controller import partition_changes
from controlplane.controller.events import IsrProposed, ReportKind, Subject, SubjectKind
from controlplane.controller.reconcile_pass import ReconcilePass


def decide(plan: ReconcilePass, proposed: Mapping[int, IsrProposed]) -> None:
    """Decide about all ISR proposals. `proposed`: the proposals of each leader, by broker id."""
    for broker_id, proposal in sorted(proposed.items()):
        broker_epoch = proposal.broker_epoch
        if plan.broker_epoch(broker_id) != broker_epoch:
            continue
        for isr_proposal in proposal.proposals:
            tp = TopicPartition(isr_proposal.topic_id, isr_proposal.partition)
            state, topic = plan.image.partition(tp), plan.image.topics.get(isr_proposal.topic_id)
            if state is None or topic is None or tp in plan.decided:
                continue
            if (isr_proposal.leader_epoch, isr_proposal.partition_epoch) != (state.leader_epoch, state.partition_epoch):
                continue  # the proposal was answered or is outdated; the leader reads this in the log
            reason = _problem(plan, broker_id, broker_epoch, isr_proposal, state)
            if reason is None:
                plan.put(
                    tp, election.with_isr(state, isr_proposal.isr, min_insync=plan.config(topic).min_insync_replicas)
                )
            else:
                plan.add(
                    IsrRejected(
                        broker_id,
                        broker_epoch,
                        isr_proposal.topic_id,
                        isr_proposal.partition,
                        isr_proposal.leader_epoch,
                        isr_proposal.partition_epoch,
                        reason,
                    )
                )
                # The new partition epoch prevents a later acceptance. After that the leader ignores the proposed member.
                plan.put(tp, state)
        for bootstrap in proposal.bootstrap_offsets:
            _accept_tail_start(plan, broker_id, broker_epoch, bootstrap)
        for start in proposal.starts:
            _raise_log_start(plan, broker_id, broker_epoch, start)
        for reset in proposal.resets:
            _reset_late_replica(plan, broker_id, broker_epoch, reset)


def _accept_tail_start(plan: ReconcilePass, broker_id: int, broker_epoch: int, bootstrap: BootstrapProposal) -> None:
    """Accept the leader's offset without a check: it is committed, so the next leader has it too."""
    tp = TopicPartition(bootstrap.topic_id, bootstrap.partition)
    state = plan.state(tp)
    if state is None or not state.observers or state.tail_start == bootstrap.offset:
        return
    if (state.leader, state.leader_broker_epoch, state.leader_epoch) == (
        broker_id,
        broker_epoch,
        bootstrap.leader_epoch,
    ):
        plan.put(tp, replace(state, tail_start=bootstrap.offset))


def _raise_log_start(plan: ReconcilePass, broker_id: int, broker_epoch: int, start: StartProposal) -> None:
    """Accept the leader's log start without a check, as for the deletion of its own segments."""
    tp = TopicPartition(start.topic_id, start.partition)
    state = plan.state(tp)
    if state is not None and (state.leader, state.leader_broker_epoch, state.leader_epoch) == (
        broker_id,
        broker_epoch,
        start.leader_epoch,
    ):
        plan.put(tp, partition_changes.with_log_start_floor(state, start.offset))


def _reset_late_replica(plan: ReconcilePass, broker_id: int, broker_epoch: int, proposal: ResetProposal) -> None:
    """Reset a replica whose log start is too high for the ISR (decision 037). The leader has all of its records."""
    tp, late = TopicPartition(proposal.topic_id, proposal.partition), proposal.replica
    state, topic = plan.state(tp), plan.image.topics.get(proposal.topic_id)
    if state is None or topic is None or late.broker_id in state.isr_ids:
        return
    if (state.leader, state.leader_broker_epoch, state.leader_epoch) != (
        broker_id,
        broker_epoch,
        proposal.leader_epoch,
    ):
        return
    serving = plan.serving_epochs(tp)
    if serving(late.broker_id) != late.broker_epoch:
        return
    if late.broker_id in state.history_replicas and all(
        serving(h) is None for h in state.history_replicas if h != late.broker_id
    ):
        return  # there is no other live history replica, so the history could not be fetched again
    after = partition_changes.with_replica_reset(state, late.broker_id, plan.config(topic).min_insync_replicas, serving)
    if isinstance(after, PartitionState):
        plan.put(tp, after)
        # The id is derived from the content, so that the next controller gives the same decision the same id.
        reset_id = uuid5(tp.topic_id, f"{tp.partition} {late.broker_id} {proposal.leader_epoch}")
        plan.add(ReplicaReset(*tp, late.broker_id, str(reset_id)))
        text = f"the replica on broker {late.broker_id} starts above its leader's log start and is fetched again"
        plan.report(ReportKind.LATE, Subject(SubjectKind.PARTITION, "", topic.name, tp.partition), text)


def _problem(
    plan: ReconcilePass, broker_id: int, broker_epoch: int, proposal: IsrProposal, state: PartitionState
) -> str | None:
    if (state.leader, state.leader_broker_epoch) != (broker_id, broker_epoch):
        return f"broker {broker_id} is not the leader"
    if ReplicaIncarnation(broker_id, broker_epoch) not in proposal.isr:
        return "the proposed ISR lacks the leader"
    for isr_member in proposal.isr:
        if isr_member.broker_id not in state.replicas:
            return f"broker {isr_member.broker_id} is not a replica"
        if plan.broker_epoch(isr_member.broker_id) != isr_member.broker_epoch:
            return f"broker {isr_member.broker_id} is not registered, is shutting down, or has another broker epoch than {isr_member.broker_epoch}"
        if plan.is_offline(
            isr_member.broker_id, isr_member.broker_epoch, TopicPartition(proposal.topic_id, proposal.partition)
        ):
            return f"the replica on broker {isr_member.broker_id} is offline"
    return None
