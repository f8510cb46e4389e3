"""Who leads: pure functions from a partition's state to its next one.

Laws (safety.md section 3, KIP-966): a leader comes from the ISR, else from the ELR, else (all of the last ISR back) from it, else only
uncleanly; every election raises the leader epoch; the ISR is never emptied while somebody could still prove to hold the data.
Called by the controller's core. Must not come in: clocks, brokers' data beyond what is passed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from brokerd.cluster.model import NO_INCARNATION, NO_LEADER, PartitionState, Seat

Incarnation = Callable[[int], int | None]
"""The current incarnation of a broker that may lead, None when it is away (or about to leave)."""


def elected(
    state: PartitionState, incarnation: Incarnation, *, min_insync: int, unclean: bool = False
) -> PartitionState | None:
    """The state under a new leader, or None when nobody may lead. The first of `replicas` that qualifies wins. Who is away leaves the ISR:
    its seat was kept for this moment only."""
    live_isr = tuple(s for s in state.isr if incarnation(s.broker_id) == s.incarnation)
    if live_isr:
        # While a hand-over is under way, one that holds the old records too: who holds the rest only has to ask for them.
        partly = state.reassigning and state.archive_start >= 0
        leader = min(
            live_isr, key=lambda s: (partly and s.broker_id not in state.holders, state.replicas.index(s.broker_id))
        )
        return _led(state, leader, live_isr, min_insync)
    if not any(incarnation(s.broker_id) is not None for s in state.isr):
        for broker_id in state.replicas:
            now = incarnation(broker_id)
            if broker_id in state.elr and now is not None:
                # Whoever leaves the ISR for it is away, and holds all as well: it stays electable.
                seat = Seat(broker_id, now)
                return _led(state, seat, (seat,), min_insync)
    if not state.isr and not state.elr and state.last_isr:
        back = [b for b in state.last_isr if incarnation(b) is not None]
        if len(back) == len(state.last_isr) == 1:
            # The last one that led is back. Its log is the longest that anybody can prove to have.
            seat = Seat(back[0], incarnation(back[0]) or 0)
            return _led(_unproven(state, back[0]), seat, (seat,), min_insync)
    if unclean:
        # Who is still being added last: its copy may hold next to nothing.
        for broker_id in sorted(state.replicas, key=lambda b: b in state.adding):
            now = incarnation(broker_id)
            if now is not None:
                seat = Seat(broker_id, now)
                return _led(replace(_unproven(state, broker_id), isr=(), elr=()), seat, (seat,), min_insync)
    return None


def _unproven(state: PartitionState, leader: int) -> PartitionState:
    """Before `leader` leads, who may lack what was committed: where a tail began there, and what was to be deleted below, are void. An archive stays,
    it was committed long before; but it does not rest on this copy while there is another."""
    holders = tuple(b for b in state.holders if b != leader) or state.holders
    return replace(state, tail_start=-1, log_start_floor=-1, holders=holders)


def _led(state: PartitionState, leader: Seat, isr: tuple[Seat, ...], min_insync: int) -> PartitionState:
    return replace(
        with_isr(state, isr, min_insync=min_insync),
        leader=leader.broker_id,
        leader_incarnation=leader.incarnation,
        leader_epoch=state.leader_epoch + 1,
        last_isr=(),
    )


def without(
    state: PartitionState,
    away: Collection[int],
    lost: Collection[int],
    incarnation: Incarnation,
    *,
    min_insync: int,
    unclean: bool,
) -> PartitionState | None:
    """The state once the brokers `away` are gone and those of `lost` are here with a tail that may be lost. None: nothing changes.

    All of them leave at once, from the ISR as it stands in the log: nothing was acknowledged by fewer than all of it, so whoever is away holds what
    any of them holds. Who leaves below min.insync.replicas goes to the ELR, unless its tail is lost. If nobody stays, those who are away keep
    their seats, all of them; with all tails lost the ISR empties and `last_isr` remembers the leader, for the time when nobody of the ELR can prove
    anything either. Deaths of two records are another matter: between them who was left may have acknowledged alone.
    """
    left = [s for s in state.isr if s.broker_id in away or s.broker_id in lost]
    whole = tuple(s for s in left if s.broker_id not in lost)
    rest = tuple(s for s in state.isr if s not in left)
    elr = tuple(e for e in state.elr if e not in lost)
    if left and rest:
        # In sync in number, the watermark may rise without those who left.
        elr = () if len(rest) >= min_insync else (*elr, *(s.broker_id for s in whole))
    isr = rest or whole  # (never an empty ISR for brokers that may come back whole)
    last_isr = state.last_isr
    if left and not isr:
        last_isr = (state.leader if any(s.broker_id == state.leader for s in left) else left[-1].broker_id,)
    elif not isr and not elr and state.elr and not last_isr:
        last_isr = (state.elr[-1],)
    leads = any(s.broker_id == state.leader for s in rest)
    if (isr, elr, last_isr) == (state.isr, state.elr, state.last_isr) and (leads or state.leader == NO_LEADER):
        return None
    shrunk = replace(state, isr=isr, elr=elr, last_isr=last_isr, partition_epoch=state.partition_epoch + 1)
    if leads or not left:
        return shrunk
    found = elected(shrunk, incarnation, min_insync=min_insync, unclean=unclean) or replace(
        shrunk, leader=NO_LEADER, leader_incarnation=NO_INCARNATION
    )
    return replace(found, partition_epoch=shrunk.partition_epoch)  # one record, one step


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
