"""State machine of a partition move: pure. From a move's rows and the observed state it computes the row changes of one step.

Invariants: every order contains the assignment generation that was read. If the generation has changed, the part is rejected with the
difference. A part is done when its replicas are exactly the desired ones, in order, and all in the ISR. A move ends when the metadata log
contains nothing of its throttle. Does not contain: the database, clocks (now is passed in), brokers.

`desired_replicas` is the direction of a part: `replicas_to` forward, `replicas_from` backward (cancel, roll back). Both directions use the same states:

    waiting -> submitted -> copying -> verifying | comparing -> done | reverted

`skipped`: cancelled before its order. `rejected`: by the controller. A part of mode `tail` reaches `submitted` in another way (`tail_move`); from there, and
backward, it is like the others. The next state of one part in progress is in `move_part`, cancel and roll back are in `move_revert`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from controlplane.domain import move_phrases as texts
from controlplane.domain import move_wait, progress, tail_move
from controlplane.domain.move_part import advance, was_compared
from controlplane.domain.move_states import (
    COPYING,
    FINAL,
    TAIL,
    MoveMode,
    MoveState,
    PartState,
)
from controlplane.domain.move_types import (
    GONE,
    MoveSnapshot,
    PartStep,
    PartView,
    Steps,
    difference,
)
from controlplane.domain.wait_reason import Wait, WaitReason
from weir_common.phrases import counted, sentence

COPIED_AHEAD = 4
"""Limit of parts in progress, as a multiple of `parts_in_flight_max`. Small parts are copied faster than they are compared."""


def next_steps(move: MoveSnapshot, now: float) -> Steps:
    """One step of a move in a working state. Idempotent; it may be interrupted between two steps."""
    steps: list[PartStep] = []
    states: dict[int, PartState] = {p.id: p.state for p in move.parts}
    seen = {p.id: p for p in move.parts}
    unfinishable, needs = _cannot_finish(move, now)
    for part in move.parts:
        step = advance(part, move, unfinishable.get(part.id, ""), now)
        if step is not None:
            steps.append(step)
            states[part.id] = step.state
    if move.state != MoveState.PAUSED:
        steps += _orders(move, states)
    seen |= {s.part_id: apply_step(seen[s.part_id], s, now) for s in steps}
    counts = Counter(states.values())
    counts.update(move.omitted)
    state, note = _move_state(move.state, counts)
    if state in FINAL and move.throttle_left:
        waiting = MoveState.VERIFYING if state == MoveState.DONE else None
        state, note = (
            (None if waiting == move.state else waiting),
            sentence(texts.THROTTLE_LEFT, throttles=move.throttle_left),
        )
        return Steps(tuple(steps), state, note, needs, (Wait(WaitReason.THROTTLE_REMOVAL, 0),))
    waits = () if move.state == MoveState.PAUSED else move_wait.waits_for(seen.values(), move.omitted)
    return Steps(tuple(steps), state, note, needs, waits)


def _orders(move: MoveSnapshot, states: dict[int, PartState]) -> list[PartStep]:
    """Orders for waiting parts, within the limits of the move and of each broker."""
    steps = []
    copying = [p for p in move.parts if states[p.id] in COPYING and not _is_copied(p, states[p.id])]
    under_way = sum(1 for s in states.values() if s in COPYING)
    free = min(move.parts_in_flight_max - len(copying), COPIED_AHEAD * move.parts_in_flight_max - under_way)
    load = Counter(move.busy)
    for part in copying:
        load.update(part.burdens)
    for part in move.parts:
        if states[part.id] != PartState.WAITING:
            continue
        if free <= 0:
            break
        if any(load[b] >= move.parts_per_broker_max for b in part.burdens):
            continue
        step = _order(part, move)
        steps.append(step)
        states[part.id] = step.state
        if step.state in COPYING:
            free -= 1
            load.update(part.burdens)
    return steps


def _is_copied(part: PartView, state: PartState) -> bool:
    """Return whether all bytes are copied: the part is being compared, or its old replicas are being removed. It no longer occupies a copy slot."""
    return state in (PartState.VERIFYING, PartState.COMPARING) or (
        part.compared is not None and bool(part.compared.equal) and not part.going_back
    )


def _cannot_finish(move: MoveSnapshot, now: float) -> tuple[dict[int, str], int | None]:
    """Parts whose log grows faster than it is copied, each with a note, and the rate in bytes/s per broker that they need."""
    copying = [p for p in move.parts if p.state == PartState.COPYING and p.copies_to]
    growths = {p.id: (p.copies_to, g) for p in copying if (g := progress.growth(p.samples, now)) is not None}
    out = {p.id for p in copying if progress.production_surplus(p.samples, now) is not None}
    if move.throttle is not None:
        out |= progress.copies_that_outgrow_throttle(growths, move.throttle)
    if not out:
        return {}, None
    needs = progress.required_throttle(growths.values())
    text = texts.WILL_NOT_FINISH if move.throttle is None else texts.WILL_NOT_FINISH_THROTTLE
    return {
        i: sentence(text, arrive=progress.rate_text(growths.get(i, ((), 0.0))[1]), needs=progress.rate_text(needs))
        for i in out
    }, int(needs)


def _order(part: PartView, move: MoveSnapshot) -> PartStep:
    """Order the placement of a waiting part, unless its assignment has changed since it was read."""
    seen = part.observed
    if seen is None:
        return PartStep(part.id, PartState.REJECTED, active=False, note=GONE)
    if seen.target == part.desired_replicas:
        # The part already has the desired placement, or the controller carries out an order that was withdrawn too late.
        return PartStep(part.id, PartState.COPYING, read_generation=seen.generation, submits=True, note="", cause="")
    if was_compared(part, seen):
        return PartStep(part.id, PartState.SUBMITTED, read_generation=seen.generation, submits=True, note="", cause="")
    if move.mode == MoveMode.TAIL and not part.going_back and part.copies_to:
        return tail_move.begin(part, seen)
    if seen.generation != part.read_generation:
        return PartStep(part.id, PartState.REJECTED, active=False, note=difference(part, seen))
    return PartStep(part.id, PartState.SUBMITTED, submits=True, note="", cause="")


def _move_state(state: MoveState, parts: Mapping[PartState, int]) -> tuple[MoveState | None, str | None]:
    """The next state of the move, from the number of parts in each state."""
    if parts.get(PartState.WAITING) and state in (
        MoveState.RUNNING,
        MoveState.PAUSED,
        MoveState.ROLLING_BACK,
        MoveState.CANCELLING,
    ):
        return None, None
    if any(parts.get(s) for s in (PartState.SUBMITTED, PartState.COPYING, PartState.WAITING, *TAIL)):
        return (MoveState.RUNNING, None) if state == MoveState.VERIFYING else (None, None)
    if parts.get(PartState.VERIFYING) or parts.get(PartState.COMPARING):
        return (MoveState.VERIFYING, None) if state == MoveState.RUNNING else (None, None)
    if rejected := parts.get(PartState.REJECTED, 0):
        phrases = texts.REJECTED_PARTS if parts.get(PartState.DONE) else texts.REJECTED_WITHOUT_MOVED_PARTS
        return MoveState.FAILED, counted(rejected, *phrases, all=f"{sum(parts.values()):,}")
    if state == MoveState.ROLLING_BACK:
        return MoveState.ROLLED_BACK, ""
    kept, back = parts.get(PartState.DONE, 0), parts.get(PartState.REVERTED, 0) + parts.get(PartState.SKIPPED, 0)
    if state == MoveState.CANCELLING or not kept:
        return MoveState.CANCELLED, counted(kept, *texts.KEPT_PARTS) if kept else ""
    return MoveState.DONE, counted(back, *texts.CANCELLED_BY_CLIENT) if back else ""


def apply_step(part: PartView, step: PartStep, now: float) -> PartView:
    """The part with the values of the step."""
    return replace(
        part,
        state=step.state,
        desired_replicas=part.desired_replicas if step.desired_replicas is None else step.desired_replicas,
        read_generation=part.read_generation if step.read_generation is None else step.read_generation,
        bytes_done=part.bytes_done if step.bytes_done is None else step.bytes_done,
        bytes_total=part.bytes_total if step.bytes_total is None else step.bytes_total,
        progress_at=now if step.progressed else part.progress_at,
        submitted_at=now if step.submits else part.submitted_at,
        note=part.note if step.note is None else step.note,
        cause=part.cause if step.cause is None else step.cause,
        samples=part.samples if step.samples is None else step.samples,
        tail_start=part.tail_start if step.tail_start is None else step.tail_start,
        delete_below=part.delete_below if step.delete_below is None else step.delete_below,
        hand_over_at=part.hand_over_at if step.hand_over_at is None else step.hand_over_at,
    )
