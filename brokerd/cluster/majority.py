"""Elections of partitions with majority acknowledgements: pure functions from one partition state to the next.

A record of such a partition is committed when a majority of the voters has it (`committed_end` in `brokerd.replication.quorum`), so a member of the
ISR may lack committed records. Every other partition elects any member of the ISR.

Invariants (decision 102, the rules of Raft):
  - A partition without a leader has a vote. Each vote has a new leader epoch, so replicas that have read it accept no more records from earlier
    leaders. Then each replica reports the leader epoch of its last record and its log end offset.
  - Members of the ISR and of the ELR are the electors: they have lost no record that they have acknowledged. A replica that may have lost the end of
    its log is no elector until it has all committed records again.
  - A replica may lead if enough electors have no later log. A majority acknowledged each committed record, so at least one of these electors has it.
  - The leader appends a record of its own epoch, and commits no record before that one (section 5.4.2 of the Raft paper).
Does not contain: the other partitions (`election`), reports (`controlplane.controller.votes`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from brokerd.cluster.model import NO_BROKER_EPOCH, NO_LEADER, REPLACED, PartitionState, ReplicaIncarnation


class LogEnd(NamedTuple):
    """The end of a replica's log. Logs are compared in this order: the later one has all committed records of the earlier one."""

    last_epoch: int
    """The leader epoch of the last record. -1: no record."""
    offset: int
    """The log end offset."""


BrokerEpochs = Callable[[int], int | None]
"""The current broker epoch of a broker that may lead. None if the broker is offline or shutting down."""


def quorum(voters: Collection[int]) -> int:
    """The number of voters that must have a record before it is committed."""
    return len(voters) // 2 + 1


def electors_needed(state: PartitionState) -> int:
    """The number of electors of which at least one has any committed record."""
    return len(state.voters) - quorum(state.voters) + 1


def electors(state: PartitionState) -> tuple[int, ...]:
    """Voters that have lost no record that they have acknowledged."""
    return tuple(b for b in state.voters if b in state.isr_ids or b in state.elr)


def live_electors(state: PartitionState, broker_epoch: BrokerEpochs, without: Collection[int] = ()) -> tuple[int, ...]:
    return tuple(b for b in electors(state) if broker_epoch(b) is not None and b not in without)


def can_elect(state: PartitionState, broker_epoch: BrokerEpochs, without: Collection[int] = ()) -> bool:
    """Return whether a vote will elect a replica without the brokers `without`, if all live electors report."""
    return len(live_electors(state, broker_epoch, without)) >= electors_needed(state)


def start_vote(state: PartitionState) -> PartitionState:
    return replace(
        state,
        leader=NO_LEADER,
        leader_broker_epoch=NO_BROKER_EPOCH,
        leader_epoch=state.leader_epoch + 1,
        partition_epoch=state.partition_epoch + 1,
    )


def candidates(state: PartitionState, log_ends: Mapping[int, LogEnd]) -> set[int]:
    """The replicas that may lead. `log_ends`: the reports of this vote, by broker."""
    trusted = {*state.isr_ids, *state.elr}
    reported = [log_ends[b] for b in electors(state) if b in log_ends]
    needed = electors_needed(state)
    found = {b for b, end in log_ends.items() if b in trusted and sum(other <= end for other in reported) >= needed}
    if found or REPLACED in state.last_isr or not set(state.voters) <= set(log_ends):
        return found
    # Every voter has reported, so no other disk has a record that the last log lacks. For example, all machines lost power.
    latest = max(log_ends[b] for b in state.voters)
    return {b for b in state.voters if log_ends[b] == latest}


def elect(
    state: PartitionState,
    log_ends: Mapping[int, LogEnd],
    broker_epoch: BrokerEpochs,
    leadership_disabled: Collection[int] = (),
    *,
    wait: bool = False,
) -> PartitionState | None:
    """The state after the vote, or None if no replica may lead yet. Of the replicas that may lead, members of the ISR come first, then the order of
    `replicas` counts. Brokers of `leadership_disabled` are elected last. `wait`: None also while a live elector that would be preferred has not
    reported."""

    def preference(broker_id: int) -> tuple[bool, bool, int]:
        # A replica outside the ISR may have a lower log start offset, so that deleted records are visible again.
        out_of_sync = broker_id not in state.isr_ids
        return broker_id in leadership_disabled, out_of_sync, state.replicas.index(broker_id)

    able = [b for b in candidates(state, log_ends) if broker_epoch(b) is not None]
    if not able:
        return None
    best = min(able, key=preference)
    silent = (b for b in live_electors(state, broker_epoch) if b not in log_ends)
    if wait and any(preference(b) < preference(best) for b in silent):
        return None
    return _with_leader(state, best, broker_epoch)


def elect_uncleanly(
    state: PartitionState, log_ends: Mapping[int, LogEnd], broker_epoch: BrokerEpochs
) -> PartitionState | None:
    """The state with the live replica whose reported log is the latest. Committed records may be lost. None: no replica is live."""
    live = [b for b in state.replicas if broker_epoch(b) is not None]
    if not live:
        return None
    leader = max(live, key=lambda b: (log_ends.get(b, LogEnd(-1, -1)), -state.replicas.index(b)))
    return _with_leader(replace(state, isr=(), elr=()), leader, broker_epoch)


def _with_leader(state: PartitionState, leader: int, broker_epoch: BrokerEpochs) -> PartitionState:
    live = {s.broker_id: s for s in state.isr if broker_epoch(s.broker_id) == s.broker_epoch}
    live[leader] = ReplicaIncarnation(leader, broker_epoch(leader) or 0)
    after = with_isr(state, tuple(live[b] for b in state.replicas if b in live))
    return replace(
        after,
        leader=leader,
        leader_broker_epoch=live[leader].broker_epoch,
        leader_epoch=state.leader_epoch + 1,
        last_isr=(),
    )


def with_isr(state: PartitionState, isr: tuple[ReplicaIncarnation, ...]) -> PartitionState:
    """The state with this ISR. Members that leave join the ELR: their logs are behind, but intact."""
    inside = {s.broker_id for s in isr}
    elr = tuple(b for b in dict.fromkeys([*state.elr, *state.isr_ids]) if b not in inside)
    return replace(state, isr=isr, elr=elr, partition_epoch=state.partition_epoch + 1)


def remove_offline_replicas(
    state: PartitionState, offline: Collection[int], lost: Collection[int], replaced: Collection[int] = ()
) -> PartitionState | None:
    """The state after the brokers `offline` went offline and the brokers `lost` returned with a log whose end may be lost. None: no change.
    `replaced`: those of `lost` whose directory is an older copy, so another directory may have more records."""
    gone = {*offline, *lost}
    after = with_isr(state, tuple(s for s in state.isr if s.broker_id not in gone))
    after = replace(after, elr=tuple(b for b in after.elr if b not in lost))
    if any(b in replaced for b in state.voters):
        after = replace(after, last_isr=(REPLACED,))
    if state.leader in gone:
        return replace(start_vote(after), partition_epoch=state.partition_epoch + 1)
    unchanged = (after.isr, after.elr, after.last_isr) == (state.isr, state.elr, state.last_isr)
    return None if unchanged else after
