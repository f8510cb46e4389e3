"""Leader election: pure functions from one partition state to the next.

Invariants (safety.md section 3, KIP-966): a leader is elected from the ISR; else from the ELR; else from the last known ISR if all its members are available
again; else by an unclean election. Every election increments the leader epoch. The ISR is not emptied while a member may still have all committed records.
`min_insync` is the topic's min.insync.replicas; the functions use the effective minimum, which is never larger than the number of replicas. A partition with
majority acknowledgements follows the rules of `majority`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from brokerd.cluster import majority
from brokerd.cluster.model import NO_BROKER_EPOCH, NO_LEADER, REPLACED, PartitionState, ReplicaIncarnation

BrokerEpochs = majority.BrokerEpochs


def elect_leader(
    state: PartitionState, broker_epoch: BrokerEpochs, *, min_insync: int, unclean: bool = False
) -> PartitionState | None:
    """The state with a new leader, or None if no replica may lead. The first eligible replica in the order of `replicas` is elected. Offline
    members leave the ISR. With majority acknowledgements a vote starts."""
    if state.voters:
        return majority.start_vote(state)
    live_isr = tuple(s for s in state.isr if broker_epoch(s.broker_id) == s.broker_epoch)
    if live_isr:
        # During a hand-over prefer a leader with the full history: a leader without it reads old records from other brokers.
        handing_over = state.reassigning and state.handover_offset >= 0
        leader = min(
            live_isr,
            key=lambda s: (
                handing_over and s.broker_id not in state.history_replicas,
                state.replicas.index(s.broker_id),
            ),
        )
        return _with_leader(state, leader, live_isr, min_insync)
    if not any(broker_epoch(s.broker_id) is not None for s in state.isr):
        for broker_id in state.replicas:
            now = broker_epoch(broker_id)
            if broker_id in state.elr and now is not None:
                # The ISR members that leave are offline but complete. They stay electable (ELR).
                isr_member = ReplicaIncarnation(broker_id, now)
                return _with_leader(state, isr_member, (isr_member,), min_insync)
    if not state.isr and not state.elr and state.last_isr:
        back = [b for b in state.last_isr if broker_epoch(b) is not None]
        if len(back) == len(state.last_isr) == 1:
            # The last ISR member is available again. Its log is the longest known log.
            isr_member = ReplicaIncarnation(back[0], broker_epoch(back[0]) or 0)
            return _with_leader(_unproven(state, back[0]), isr_member, (isr_member,), min_insync)
    if unclean:
        # Replicas that are being added come last: they may be almost empty.
        for broker_id in sorted(state.replicas, key=lambda b: b in state.adding):
            now = broker_epoch(broker_id)
            if now is not None:
                isr_member = ReplicaIncarnation(broker_id, now)
                return _with_leader(
                    replace(_unproven(state, broker_id), isr=(), elr=()), isr_member, (isr_member,), min_insync
                )
    return None


def _unproven(state: PartitionState, leader: int) -> PartitionState:
    """The state before the election of a leader that may lack committed records. The start offset of the observers and the log start floor
    become invalid. History below the hand-over offset was committed long before and stays valid, but `leader` is removed from the history
    replicas if there is another one."""
    history_replicas = tuple(b for b in state.history_replicas if b != leader) or state.history_replicas
    return replace(state, tail_start=-1, log_start_floor=-1, history_replicas=history_replicas)


def _with_leader(
    state: PartitionState, leader: ReplicaIncarnation, isr: tuple[ReplicaIncarnation, ...], min_insync: int
) -> PartitionState:
    return replace(
        with_isr(state, isr, min_insync=min_insync),
        leader=leader.broker_id,
        leader_broker_epoch=leader.broker_epoch,
        leader_epoch=state.leader_epoch + 1,
        last_isr=(),
    )


def remove_offline_replicas(
    state: PartitionState,
    offline: Collection[int],
    lost: Collection[int],
    broker_epoch: BrokerEpochs,
    *,
    min_insync: int,
    unclean: bool,
    replaced: Collection[int] = (),
) -> PartitionState | None:
    """The state after the brokers `offline` went offline and the brokers `lost` returned with a tail that may be lost. None: no change.

    All of them leave the ISR in one step. No record was acknowledged by fewer than all ISR members, so each offline member has all
    acknowledged records. A member that leaves below min.insync.replicas joins the ELR, unless its tail is lost. If no member stays, all
    offline members remain in the ISR. If all tails are lost, the ISR becomes empty and `last_isr` stores the leader, for the case that the
    ELR becomes empty too. `replaced` are the brokers of `lost` whose directory is an older copy. Another directory may have all records, so
    such a broker is not elected cleanly, even as the last one. Failures in separate records are handled separately: between them the
    remaining members may have acknowledged records alone.
    """
    if state.voters:
        return majority.remove_offline_replicas(state, offline, lost, replaced)
    leaving = [s for s in state.isr if s.broker_id in offline or s.broker_id in lost]
    complete = tuple(s for s in leaving if s.broker_id not in lost)
    staying = tuple(s for s in state.isr if s not in leaving)
    elr = tuple(e for e in state.elr if e not in lost)
    if leaving and staying:
        # With enough in-sync replicas the high watermark may advance without the members that left.
        elr = () if len(staying) >= state.effective_min_insync(min_insync) else (*elr, *(s.broker_id for s in complete))
    isr = staying or complete  # the ISR is not emptied while members may return with complete logs
    last_isr = state.last_isr
    if leaving and not isr:
        last_isr = (state.leader if any(s.broker_id == state.leader for s in leaving) else leaving[-1].broker_id,)
    elif not isr and not elr and state.elr and not last_isr:
        last_isr = (state.elr[-1],)
    if not isr and not elr and REPLACED not in last_isr and any(b in replaced for b in last_isr):
        last_isr = (*last_isr, REPLACED)
    leads = any(s.broker_id == state.leader for s in staying)
    if (isr, elr, last_isr) == (state.isr, state.elr, state.last_isr) and (leads or state.leader == NO_LEADER):
        return None
    shrunk = replace(state, isr=isr, elr=elr, last_isr=last_isr, partition_epoch=state.partition_epoch + 1)
    if leads or not leaving:
        return shrunk
    elected = elect_leader(shrunk, broker_epoch, min_insync=min_insync, unclean=unclean) or replace(
        shrunk, leader=NO_LEADER, leader_broker_epoch=NO_BROKER_EPOCH
    )
    return replace(elected, partition_epoch=shrunk.partition_epoch)  # one record increments the partition epoch by one


def with_new_broker_epoch(state: PartitionState, isr_member: ReplicaIncarnation) -> PartitionState | None:
    """The state after a broker restarted with an intact log. The broker stays in the ISR with its new broker epoch. If the broker is the leader, the
    leader epoch is incremented. None: the broker is not in the ISR."""
    if isr_member.broker_id not in state.isr_ids:
        return None
    isr = tuple(isr_member if s.broker_id == isr_member.broker_id else s for s in state.isr)
    after = replace(state, isr=isr, partition_epoch=state.partition_epoch + 1)
    if state.leader == isr_member.broker_id:
        after = replace(after, leader_broker_epoch=isr_member.broker_epoch, leader_epoch=state.leader_epoch + 1)
    return after


def with_new_leader_epoch(state: PartitionState) -> PartitionState:
    """The same leader with a new leader epoch. The leader resets the state of its followers, which may describe deleted replicas."""
    return replace(state, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1)


def with_isr(state: PartitionState, isr: tuple[ReplicaIncarnation, ...], *, min_insync: int) -> PartitionState:
    """The state with an ISR proposed by the leader. Members that leave below min.insync.replicas join the ELR."""
    if state.voters:
        return majority.with_isr(state, isr)
    inside = {s.broker_id for s in isr}
    if len(isr) >= state.effective_min_insync(min_insync):
        elr: tuple[int, ...] = ()
    else:
        left = [b for b in state.isr_ids if b not in inside]
        elr = tuple(dict.fromkeys([*(e for e in state.elr if e not in inside), *left]))
    return replace(state, isr=isr, elr=elr, partition_epoch=state.partition_epoch + 1)


def without_outdated_elr(state: PartitionState, *, min_insync: int) -> PartitionState:
    """The state after the effective minimum was lowered (a config or fewer replicas). An ISR that reaches the minimum commits without the ELR,
    so ELR members may lack records. With majority acknowledgements the ELR does not depend on the minimum."""
    if state.voters or not state.elr or len(state.isr) < state.effective_min_insync(min_insync):
        return state
    return replace(state, elr=())
