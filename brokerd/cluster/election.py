"""Who leads: pure functions from a partition's state to its next one.

Laws (safety.md section 3, KIP-966): a leader comes from the ISR, else from the ELR, else (all of the last ISR back) from it, else only
uncleanly; every election raises the leader epoch; the ISR is never emptied while somebody could still prove to hold the data.
Called by the controller's core. Must not come in: clocks, brokers' data beyond what is passed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from brokerd.cluster.model import NO_INCARNATION, NO_LEADER, PartitionState, Seat

Incarnation = Callable[[int], int | None]
"""The current incarnation of a broker that may lead, None when it is away (or about to leave)."""


def elected(
    state: PartitionState, incarnation: Incarnation, *, unclean: bool = False, avoid: int | None = None
) -> PartitionState | None:
    """The state under a new leader, or None when nobody may lead. The first of `replicas` that qualifies wins."""
    live_isr = [s for s in state.isr if incarnation(s.broker_id) == s.incarnation and s.broker_id != avoid]
    for broker_id in _in_order(state, live_isr):
        return _led(state, Seat(broker_id, incarnation(broker_id) or 0), state.isr)
    if avoid is not None:
        return None
    if not any(incarnation(s.broker_id) is not None for s in state.isr):
        for broker_id in state.replicas:
            now = incarnation(broker_id)
            if broker_id in state.elr and now is not None:
                seat = Seat(broker_id, now)
                # Whoever leaves the ISR for it is away, and holds all as well: it stays electable.
                others = dict.fromkeys([*state.isr_ids, *state.elr])
                return _led(replace(state, elr=tuple(e for e in others if e != broker_id)), seat, (seat,))
    if not state.isr and not state.elr and state.last_isr:
        back = [b for b in state.last_isr if incarnation(b) is not None]
        if len(back) == len(state.last_isr) == 1:
            # The last one that led is back. Its log is the longest that anybody can prove to have.
            seat = Seat(back[0], incarnation(back[0]) or 0)
            return _led(replace(state, last_isr=()), seat, (seat,))
    if unclean:
        # Who is still being added last: its copy may hold next to nothing.
        for broker_id in sorted(state.replicas, key=lambda b: b in state.adding):
            now = incarnation(broker_id)
            if now is not None:
                seat = Seat(broker_id, now)
                return _led(replace(state, elr=(), last_isr=()), seat, (seat,))
    return None


def _in_order(state: PartitionState, seats: list[Seat]) -> list[int]:
    ids = {s.broker_id for s in seats}
    return [r for r in state.replicas if r in ids]


def _led(state: PartitionState, leader: Seat, isr: tuple[Seat, ...]) -> PartitionState:
    return replace(
        state,
        isr=isr,
        leader=leader.broker_id,
        leader_incarnation=leader.incarnation,
        leader_epoch=state.leader_epoch + 1,
        partition_epoch=state.partition_epoch + 1,
        last_isr=(),
    )


def without(
    state: PartitionState, broker_id: int, incarnation: Incarnation, *, min_insync: int, tail_lost: bool, unclean: bool
) -> PartitionState | None:
    """The state once `broker_id` is away (or back with a tail that may be lost). None: nothing changes.

    Who leaves below min.insync.replicas goes to the ELR, unless its tail is lost. The last member keeps its seat while away; with
    its tail lost the ISR empties and `last_isr` remembers it, for the time when nobody of the ELR can prove anything either.
    """
    in_isr, in_elr = broker_id in state.isr_ids, broker_id in state.elr
    if not in_isr and not (in_elr and tail_lost):
        return None
    rest = tuple(s for s in state.isr if s.broker_id != broker_id)
    elr = tuple(e for e in state.elr if not (tail_lost and e == broker_id))
    if not in_isr:
        last_isr = state.last_isr if state.isr or elr or state.last_isr else (broker_id,)
        return replace(state, elr=elr, last_isr=last_isr, partition_epoch=state.partition_epoch + 1)
    if not rest and not tail_lost:
        if state.leader == NO_LEADER:
            return None
        # Nobody else is in sync: the seat is kept and waits. (Never an empty ISR for a broker that may come back whole.)
        waiting = _leaderless(state)
        found = elected(waiting, incarnation, unclean=unclean)
        return _once(state, found) if found is not None else waiting
    if len(rest) >= min_insync:
        elr = ()  # the watermark may rise without them from now on
    elif not tail_lost:
        elr = (*elr, broker_id)
    last_isr = state.last_isr
    if not rest and tail_lost:
        last_isr = (broker_id,)
    shrunk = replace(state, isr=rest, elr=elr, last_isr=last_isr, partition_epoch=state.partition_epoch + 1)
    if state.leader != broker_id and state.leader != NO_LEADER:
        return shrunk
    found = elected(shrunk, incarnation, unclean=unclean)
    return (
        _once(state, found)
        if found is not None
        else replace(_leaderless(shrunk), partition_epoch=shrunk.partition_epoch)
    )


def _leaderless(state: PartitionState) -> PartitionState:
    return replace(
        state, leader=NO_LEADER, leader_incarnation=NO_INCARNATION, partition_epoch=state.partition_epoch + 1
    )


def _once(before: PartitionState, after: PartitionState) -> PartitionState:
    """One record, one step of the partition epoch."""
    return replace(after, partition_epoch=before.partition_epoch + 1)


def seated_anew(state: PartitionState, seat: Seat) -> PartitionState | None:
    """A broker came back whole under a new incarnation: its seat goes on, and the leader epoch moves if it led."""
    if seat.broker_id not in state.isr_ids:
        return None
    isr = tuple(seat if s.broker_id == seat.broker_id else s for s in state.isr)
    after = replace(state, isr=isr, partition_epoch=state.partition_epoch + 1)
    if state.leader == seat.broker_id:
        after = replace(after, leader_incarnation=seat.incarnation, leader_epoch=state.leader_epoch + 1)
    return after


def led_anew(state: PartitionState) -> PartitionState:
    """The same leader in a new epoch: it forgets what its followers said of copies that are gone by then."""
    return replace(state, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1)


def with_isr(state: PartitionState, isr: tuple[Seat, ...], *, min_insync: int) -> PartitionState:
    """The state with an ISR that its leader proposed: who leaves below min.insync.replicas stays electable (ELR)."""
    inside = {s.broker_id for s in isr}
    if len(isr) >= min_insync:
        elr: tuple[int, ...] = ()
    else:
        left = [b for b in state.isr_ids if b not in inside]
        elr = tuple(dict.fromkeys([*(e for e in state.elr if e not in inside), *left]))
    return replace(state, isr=isr, elr=elr, partition_epoch=state.partition_epoch + 1)
