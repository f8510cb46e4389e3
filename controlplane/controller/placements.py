"""What becomes of a partition's state when a move, its end or the recovery of a replica comes to it: leaves of the core, pure.

Law: each takes the state as it stands and gives the next one, or the reason in words why there is none; nothing here knows of rows, records
or other partitions. Called by `core`. Must not come in: what is wanted next (the database's rows), the order of records (`core`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from brokerd.cluster import election
from brokerd.cluster.model import NO_INCARNATION, NO_LEADER, PartitionState
from controlplane.controller.events import DesiredAssignment


def stands(state: PartitionState, wanted: DesiredAssignment) -> bool:
    """Whether an order was carried out before: what it asks for is there, and the generation has moved since it was read."""
    if state.assignment_generation == wanted.read_generation:
        return False
    if wanted.cut_at is not None:
        return state.log_start_floor == wanted.cut_at
    return state.target == wanted.replicas and state.observers == wanted.observers


def assigned(
    state: PartitionState, wanted: tuple[int, ...], read_generation: int, incarnation: Callable[[int], int | None]
) -> PartitionState | str:
    """With new replicas ordered. The old ones stay until all new ones are in sync (`finished`). To order what is there already takes a
    generation and nothing else: no order that was read before it can take effect after it."""
    if state.assignment_generation != read_generation:
        return f"it was placed anew since it was read (generation {read_generation}, now {state.assignment_generation})"
    if state.target == wanted:
        return replace(_unobserved(state), assignment_generation=state.assignment_generation + 1)
    away = [r for r in wanted if r not in state.replicas and incarnation(r) is None]
    if away or not wanted:
        return f"brokers {away} are not alive" if wanted else "no replica is named"
    old = tuple(r for r in state.replicas if r not in wanted)
    # Who observed is added like anybody: that its log begins where the leader's does not any more is its leader's to judge.
    return replace(
        _unobserved(state),
        replicas=(*wanted, *old),
        adding=tuple(r for r in wanted if r not in state.isr_ids and r not in state.target),
        removing=old,
        assignment_generation=state.assignment_generation + 1,
    )


def handed_over(
    state: PartitionState,
    wanted: tuple[int, ...],
    offset: int,
    read_generation: int,
    incarnation: Callable[[int], int | None],
) -> PartitionState | str:
    """As `assigned`, but who is new need not have what lies below `offset`, where its copy begins: the present ISR holds that, whoever of it goes. All
    of it is sound below `offset`, which was committed while it was in sync."""
    if state.assignment_generation == read_generation and (offset < 0 or state.tail_start != offset):
        return f"the new copies begin at {state.tail_start} now, not at {offset}; look at it again"
    holders = tuple(b for b in state.target if b in state.isr_ids)
    after = assigned(state, wanted, read_generation, incarnation)
    if isinstance(after, str) or offset <= state.log_start_floor:
        return after
    if set(wanted) <= set(holders):
        return f"nobody is new: all of {list(wanted)} are in sync"
    return replace(after, archive_start=offset, archive_epoch=after.leader_epoch, holders=holders)


def begun_at(state: PartitionState, offset: int) -> PartitionState | None:
    """With the log of a partition that has an archive beginning at `offset`; the archive ends when nothing is left in it. None: it does already."""
    if state.archive_start < 0 or offset <= state.log_start_floor:
        return None
    after = replace(state, log_start_floor=offset)
    return _unarchived(after) if offset >= state.archive_start else after


def _unarchived(state: PartitionState) -> PartitionState:
    return replace(state, archive_start=-1, archive_epoch=-1, holders=())


def observed(
    state: PartitionState, observers: tuple[int, ...], read_generation: int, incarnation: Callable[[int], int | None]
) -> PartitionState | str:
    """With copies beside the replicas that begin at the log's present end and count for nothing: a `tail` move begins."""
    if state.assignment_generation != read_generation:
        return f"it was placed anew since it was read (generation {read_generation}, now {state.assignment_generation})"
    if state.reassigning:
        return f"it is being reassigned (adding {list(state.adding)}, removing {list(state.removing)})"
    if held := [b for b in observers if b in state.replicas]:
        return f"brokers {held} are replicas already"
    if state.archive_start >= 0:
        return f"its records below {state.archive_start} are still read from brokers {list(state.holders)}"
    if away := [b for b in observers if incarnation(b) is None]:
        return f"brokers {away} are not alive"
    return replace(
        _unobserved(state),
        observers=observers,
        assignment_generation=state.assignment_generation + 1,
    )


def cut(state: PartitionState, offset: int, read_generation: int) -> PartitionState | str:
    """Nothing below `offset`, where the observers' copies begin, is kept any more, whoever leads: a follower that had not heard yet where the
    log starts may lead next, also when the move is over. So the floor stays; there is no way back."""
    if state.assignment_generation != read_generation:
        return f"it was placed anew since it was read (generation {read_generation}, now {state.assignment_generation})"
    if offset < 0 or state.tail_start != offset:
        return f"the new copies begin at {state.tail_start} now, not at {offset}; look at it again"
    return replace(state, log_start_floor=offset, assignment_generation=state.assignment_generation + 1)


def _unobserved(state: PartitionState) -> PartitionState:
    """Who has observed does so no more. What it had fetched until then counts for nothing, not even when it is added: its copy may have been
    begun anew, or may be thrown away, and one of its fetches may still be under way."""
    after = replace(state, observers=(), tail_start=-1)
    return election.led_anew(after) if state.observers else after


def finished(state: PartitionState, min_insync: int, serving: election.Incarnation) -> PartitionState | None:
    """All target replicas are in sync: the others go, and leadership with them. None: not yet."""
    target = state.target
    isr = tuple(s for s in state.isr if s.broker_id in target)
    if {s.broker_id for s in isr} != set(target) or not isr:
        return None
    # Where all that stay hold the old records too, they lie apart no more. (Nobody of the holders is in sync without them.)
    after = replace(
        _unarchived(state) if set(target) <= set(state.holders) else state,
        replicas=target,
        isr=isr,
        elr=tuple(e for e in state.elr if e in target),
        adding=(),
        removing=(),
        assignment_generation=state.assignment_generation + 1,
    )
    if state.leader in target:
        # What the removed ones still fetch counts for nothing, not even when one of them is added again, with an empty copy.
        return election.led_anew(after) if state.removing else after
    offered = replace(after, leader=NO_LEADER, leader_incarnation=NO_INCARNATION)
    return election.elected(offered, serving, min_insync=min_insync)


def without_copy(
    state: PartitionState, broker_id: int, min_insync: int, serving: election.Incarnation
) -> PartitionState | str | None:
    """After `broker_id` is told to throw its copy away and fetch it anew."""
    if broker_id not in state.replicas:
        return "this broker holds no such replica"
    rest = tuple(s for s in state.isr if s.broker_id != broker_id)
    if not any(serving(s.broker_id) == s.incarnation for s in rest):
        return "no other replica is in sync: its data would be lost"
    shrunk = election.with_isr(state, rest, min_insync=min_insync)
    # Its copy is thrown away, so it can prove nothing any more; nor can what it still fetches, or fetched before: a new epoch.
    shrunk = replace(shrunk, elr=tuple(e for e in shrunk.elr if e != broker_id))
    stays = state.leader not in (broker_id, NO_LEADER)
    return election.led_anew(shrunk) if stays else election.elected(shrunk, serving, min_insync=min_insync)


def moved_off(
    state: PartitionState, serving: election.Incarnation, shunned: frozenset[int], min_insync: int
) -> PartitionState | None:
    """Under the first replica in sync that is not shunned. None: there is none, so that whoever leads goes on, or whoever can is elected."""
    if not any(serving(s.broker_id) == s.incarnation and s.broker_id not in shunned for s in state.isr):
        return None
    # The first of the replicas wins: for this election the shunned ones come last.
    last = replace(state, replicas=tuple(sorted(state.replicas, key=lambda b: b in shunned)))
    after = election.elected(last, serving, min_insync=min_insync)
    return None if after is None else replace(after, replicas=state.replicas)
