"""Pure transitions of one partition's state: steps of a move, the end of a reassignment, the reset of a replica.

Invariant: each function takes the current state and returns the next one, or the reason for the rejection as text.
Does not contain: rows, records, other partitions, the desired state, the order of records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from brokerd.cluster import election, majority
from brokerd.cluster.model import NO_BROKER_EPOCH, NO_LEADER, PartitionState
from controlplane.controller.events import DesiredAssignment


def is_applied(state: PartitionState, desired: DesiredAssignment) -> bool:
    """Return whether the order has been applied: the state matches it, and the generation has changed since the order was read."""
    if state.assignment_generation == desired.read_generation:
        return False
    if desired.delete_below is not None:
        return state.log_start_floor == desired.delete_below
    return state.target == desired.replicas and state.observers == desired.observers


def start_reassignment(
    state: PartitionState, desired: tuple[int, ...], read_generation: int, broker_epoch: Callable[[int], int | None]
) -> PartitionState | str:
    """Start a reassignment to `desired`. The old replicas stay until all new ones are in sync (`complete_reassignment`).

    An order for the current replicas only increments the generation, so that no order read earlier can take effect later.
    """
    if state.assignment_generation != read_generation:
        return f"the assignment has changed since it was read (generation {read_generation}, now {state.assignment_generation})"
    if state.target == desired:
        return replace(_without_observers(state), assignment_generation=state.assignment_generation + 1)
    if len(desired) < len(state.voters):
        return (
            f"it has majority acknowledgements and {len(state.voters)} replicas, which cannot become {len(desired)}: "
            "the replicas that stay may lack committed records"
        )
    away = [r for r in desired if r not in state.replicas and broker_epoch(r) is None]
    if away or not desired:
        return f"brokers {away} are not alive" if desired else "no replica is named"
    old = tuple(r for r in state.replicas if r not in desired)
    # An observer is added like any other replica. Its leader checks that its log start fits.
    return replace(
        _without_observers(state),
        replicas=(*desired, *old),
        adding=tuple(r for r in desired if r not in state.isr_ids and r not in state.target),
        removing=old,
        assignment_generation=state.assignment_generation + 1,
    )


def handed_over(
    state: PartitionState,
    desired: tuple[int, ...],
    offset: int,
    read_generation: int,
    broker_epoch: Callable[[int], int | None],
) -> PartitionState | str:
    """Assign the partition to new replicas that need no record below `offset`, where their logs start. The current ISR keeps the older records.

    Every ISR member has valid records below `offset`, because `offset` was committed while it was in sync.
    """
    if state.assignment_generation == read_generation and (offset < 0 or state.tail_start != offset):
        return f"the observers' logs now start at {state.tail_start}, not at {offset}; read the partition again"
    holders = tuple(b for b in state.target if b in state.isr_ids)
    after = start_reassignment(state, desired, read_generation, broker_epoch)
    if isinstance(after, str) or offset <= state.log_start_floor:
        return after
    if set(desired) <= set(holders):
        return f"no replica is new: all of {list(desired)} are in sync"
    return replace(after, handover_offset=offset, handover_epoch=after.leader_epoch, history_replicas=holders)


def with_log_start_floor(state: PartitionState, offset: int) -> PartitionState | None:
    """Raise the log start floor of a partition with history replicas to `offset`. None: the floor is there already.

    A floor at the hand-over offset ends the history reads: no record is left below it.
    """
    if state.handover_offset < 0 or offset <= state.log_start_floor:
        return None
    after = replace(state, log_start_floor=offset)
    return _without_history_replicas(after) if offset >= state.handover_offset else after


def _without_history_replicas(state: PartitionState) -> PartitionState:
    return replace(state, handover_offset=-1, handover_epoch=-1, history_replicas=())


def with_observers(
    state: PartitionState, observers: tuple[int, ...], read_generation: int, broker_epoch: Callable[[int], int | None]
) -> PartitionState | str:
    """Start a `tail` move: add observers, whose logs start at the current log end and which do not count for the ISR."""
    if state.assignment_generation != read_generation:
        return f"the assignment has changed since it was read (generation {read_generation}, now {state.assignment_generation})"
    if state.reassigning:
        return f"it is being reassigned (adding {list(state.adding)}, removing {list(state.removing)})"
    if present := [b for b in observers if b in state.replicas]:
        return f"brokers {present} are replicas already"
    if state.handover_offset >= 0:
        return f"its records below {state.handover_offset} are still read from brokers {list(state.history_replicas)}"
    if away := [b for b in observers if broker_epoch(b) is None]:
        return f"brokers {away} are not alive"
    return replace(
        _without_observers(state),
        observers=observers,
        assignment_generation=state.assignment_generation + 1,
    )


def with_records_deleted(state: PartitionState, offset: int, read_generation: int) -> PartitionState | str:
    """Delete all records below `offset`, where the observers' logs start, under every leader.

    A follower that does not know the new log start may lead next, even after the move. So the floor stays and is never lowered.
    """
    if state.assignment_generation != read_generation:
        return f"the assignment has changed since it was read (generation {read_generation}, now {state.assignment_generation})"
    if offset < 0 or state.tail_start != offset:
        return f"the observers' logs now start at {state.tail_start}, not at {offset}; read the partition again"
    return replace(state, log_start_floor=offset, assignment_generation=state.assignment_generation + 1)


def _without_observers(state: PartitionState) -> PartitionState:
    """Remove the observers. Fetches of a former observer are ignored, even if the broker is added as a replica: its log may have been restarted or deleted, and
    a fetch may still be in flight."""
    after = replace(state, observers=(), tail_start=-1)
    return election.with_new_leader_epoch(after) if state.observers else after


def complete_reassignment(
    state: PartitionState, min_insync: int, serving: election.BrokerEpochs
) -> PartitionState | None:
    """End a reassignment: all target replicas are in sync, so the others are removed, and a leader among them is replaced. None: not yet."""
    target = state.target
    isr = tuple(s for s in state.isr if s.broker_id in target)
    if {s.broker_id for s in isr} != set(target) or not isr:
        return None
    # If every remaining replica has the history, history reads end. (A history replica is in sync only if it has these records.)
    after = replace(
        _without_history_replicas(state) if set(target) <= set(state.history_replicas) else state,
        replicas=target,
        voters=target if state.voters else (),
        isr=isr,
        elr=tuple(e for e in state.elr if e in target),
        adding=(),
        removing=(),
        assignment_generation=state.assignment_generation + 1,
    )
    if state.leader in target:
        # Fetches of a removed replica are ignored, even if that broker is added again with an empty log.
        return election.with_new_leader_epoch(after) if state.removing else after
    offered = replace(after, leader=NO_LEADER, leader_broker_epoch=NO_BROKER_EPOCH)
    return election.elect_leader(offered, serving, min_insync=min_insync)


def with_replica_reset(
    state: PartitionState, broker_id: int, min_insync: int, serving: election.BrokerEpochs
) -> PartitionState | str | None:
    """The state after `broker_id` is ordered to delete its replica and fetch it again."""
    if broker_id not in state.replicas:
        return "this broker has no such replica"
    rest = tuple(s for s in state.isr if s.broker_id != broker_id)
    if not any(serving(s.broker_id) == s.broker_epoch for s in rest):
        return "no other replica is in sync: its data would be lost"
    if state.voters and state.leader in (broker_id, NO_LEADER) and not majority.can_elect(state, serving, (broker_id,)):
        return "the other replicas cannot elect a leader without this replica"
    shrunk = election.with_isr(state, rest, min_insync=min_insync)
    # The replica is deleted, so the broker can no longer prove that it has the data. The new leader epoch invalidates its earlier fetches and fetches in
    # flight.
    shrunk = replace(shrunk, elr=tuple(e for e in shrunk.elr if e != broker_id))
    stays = state.leader not in (broker_id, NO_LEADER)
    return (
        election.with_new_leader_epoch(shrunk)
        if stays
        else election.elect_leader(shrunk, serving, min_insync=min_insync)
    )


def moved_off(
    state: PartitionState, serving: election.BrokerEpochs, leadership_disabled: frozenset[int], min_insync: int
) -> PartitionState | None:
    """Elect the first in-sync replica whose broker is not demoted. None: there is none, so the leader stays or any eligible one is elected."""
    if not any(serving(s.broker_id) == s.broker_epoch and s.broker_id not in leadership_disabled for s in state.isr):
        return None
    if state.voters:
        return majority.start_vote(state) if majority.can_elect(state, serving, leadership_disabled) else None
    # The first replica wins, so demoted brokers are last for this election.
    last = replace(state, replicas=tuple(sorted(state.replicas, key=lambda b: b in leadership_disabled)))
    after = election.elect_leader(last, serving, min_insync=min_insync)
    return None if after is None else replace(after, replicas=state.replicas)
