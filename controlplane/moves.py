"""What a move does next: pure. Given a move's rows and what was observed, it returns the row changes of one step.

Law: every order is bound to the assignment generation that was read; when that changed under it, the part is refused with the
difference and nothing else is tried. Done means the replicas are exactly the wanted ones, in order, and all in the ISR. A move ends when
nothing of its throttle is left in the metadata log. Called by `services.moves` and `services.advancing`. Must not come in: the database,
clocks (now is passed in), brokers.

A part's direction is its `wanted`: `replicas_to` on the way there, `replicas_from` on the way back (cancel, roll back). The states
are the same both ways, so there is one machine and not two:

    waiting -> ordered -> copying -> verifying -> done | put_back          untouched: cancelled before its order; stuck: refused

A part that moves without its old data comes to `ordered` on another way (`tails`); from there on, and on every way back, it is like the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from controlplane import pace, tails, waits
from controlplane.moveparts import (
    COMPARING,
    COPYING,
    ENDED,
    FINAL,
    GONE,
    HELD_BACK_BYTES_PER_S,
    IN_FLIGHT,
    NO_PROGRESS_SECONDS,
    NO_SPACE_BYTES,
    ORDER_UNTAKEN_SECONDS,
    TAIL,
    UNDER_WAY,
    MoveView,
    ObservedPart,
    PartStep,
    PartView,
    Steps,
    beside,
    difference,
    no_leader,
    untaken,
)
from controlplane.words import size_text

__all__ = [
    "COMPARING", "COPYING", "ENDED", "FINAL", "GONE", "IN_FLIGHT", "NO_PROGRESS_SECONDS", "NO_SPACE_BYTES", "ORDER_UNTAKEN_SECONDS", "TAIL", "UNDER_WAY", "MoveView",
    "ObservedPart", "PartStep", "PartView", "Steps", "after", "beside", "cancel_problem", "cancel_steps", "next_steps", "roll_back_steps",
]  # fmt: skip

COPIED_AHEAD = 4
"""Times as many parts as may copy: under way in all. Small ones are copied faster than they are compared, and each look sees all that are under way."""


def next_steps(move: MoveView, now: float) -> Steps:
    """One look at a move in a working state. Safe to see twice and safe to stop between."""
    steps: list[PartStep] = []
    states: dict[int, str] = {p.id: p.state for p in move.parts}
    seen = {p.id: p for p in move.parts}
    doomed, needs = _doomed(move, now)
    for part in move.parts:
        step = _advance(part, move, doomed.get(part.id, ""), now)
        if step is not None:
            steps.append(step)
            states[part.id] = step.state
    if move.state != "paused":
        steps += _orders(move, states)
    seen |= {s.part_id: after(seen[s.part_id], s, now) for s in steps}
    counts = Counter(states.values())
    counts.update(move.rest)
    state, note = _move_state(move.state, counts)
    if state in FINAL and move.throttle_left:
        waiting = "verifying" if state == "done" else None
        state, note = (
            (None if waiting == move.state else waiting),
            f"Waiting for its throttle to be gone: {move.throttle_left}.",
        )
        return Steps(tuple(steps), state, note, needs, waits.THROTTLE_GONE)
    standing = "" if move.state == "paused" else waits.waits_for(seen.values(), move.rest)
    return Steps(tuple(steps), state, note, needs, standing)


def _orders(move: MoveView, states: dict[int, str]) -> list[PartStep]:
    """Waiting parts whose turn it is: no more at a time than the move may have, on no broker more than it may bear."""
    steps = []
    copying = [p for p in move.parts if states[p.id] in COPYING and not _is_copied(p, states[p.id])]
    under_way = sum(1 for s in states.values() if s in COPYING)
    free = min(move.parts_in_flight_max - len(copying), COPIED_AHEAD * move.parts_in_flight_max - under_way)
    load = Counter(move.busy)
    for part in copying:
        load.update(part.burdens)
    for part in move.parts:
        if states[part.id] != "waiting":
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


def _is_copied(part: PartView, state: str) -> bool:
    """All its bytes are there: it is being compared, or its old copies go. It keeps no other from being copied."""
    return state == "verifying" or (part.compared is not None and part.compared[0] and not part.going_back)


def _doomed(move: MoveView, now: float) -> tuple[dict[int, str], int | None]:
    """Parts into which more comes in than is copied, with a sentence each, and what they would need in bytes/s per broker."""
    copying = [p for p in move.parts if p.state == "copying" and p.copies_to]
    growths = {p.id: (p.copies_to, g) for p in copying if (g := pace.growth(p.samples, now)) is not None}
    out = {p.id for p in copying if pace.outrun(p.samples, now) is not None}
    if move.throttle is not None:
        out |= pace.foretold(growths, move.throttle)
    if not out:
        return {}, None
    needs = pace.needed(growths.values())
    advice = (
        "raise the throttle" if move.throttle is not None else "slow its producers, or copy fewer partitions at a time"
    )
    return {
        i: f"Will not finish: {pace.amount(growths.get(i, ((), 0.0))[1])} come in; it needs more than {pace.amount(needs)} per broker. "
        f"{advice[0].upper()}{advice[1:]}."
        for i in out
    }, int(needs)


def _order(part: PartView, move: MoveView) -> PartStep:
    """A waiting part's turn: order its placement, unless the world changed since it was read."""
    seen = part.observed
    if seen is None:
        return PartStep(part.id, "stuck", active=False, note=GONE)
    if seen.target == part.wanted:
        # Already there, or on its way by an order that was withdrawn too late.
        return PartStep(part.id, "copying", read_generation=seen.generation, ordered=True, note="", cause="")
    if _stands_beside(part, seen):
        return PartStep(part.id, "ordered", read_generation=seen.generation, ordered=True, note="", cause="")
    if move.mode == "tail" and not part.going_back and part.copies_to:
        return tails.begin(part, seen)
    if seen.generation != part.read_generation:
        return PartStep(part.id, "stuck", active=False, note=difference(part, seen))
    return PartStep(part.id, "ordered", ordered=True, note="", cause="")


def _advance(part: PartView, move: MoveView, doom: str, now: float) -> PartStep | None:
    if part.state not in UNDER_WAY:
        return None
    seen = part.observed
    if seen is None:
        return PartStep(part.id, "stuck", active=False, note=GONE)
    if part.state in TAIL:
        return tails.advance(part, seen, move, now)
    if part.state == "ordered":
        return _advance_ordered(part, seen, move.alive, now)
    if seen.target != part.wanted:
        if part.going_back and seen.target in part.forward:
            # The forward order was in the controller's hand when it was withdrawn: bind the way back to what is there now.
            return PartStep(part.id, "ordered", read_generation=seen.generation, ordered=True)
        return PartStep(part.id, "stuck", active=False, note=difference(part, seen))
    total, done = _bytes(part, seen)
    if _beside_is_whole(part, seen):
        return _before_the_old_go(part, seen, total)
    samples = _sampled(part, seen, total, done)
    if seen.reassigning:
        progressed = done is not None and done != part.bytes_done
        cause, note = _cause(part, seen, move, progressed, now)
        if doom and cause in ("", pace.THROTTLE):
            cause, note = pace.WILL_NOT_FINISH, doom
        step = PartStep(
            part.id, "copying", bytes_total=total, bytes_done=done, progressed=progressed, note=note, cause=cause,
            samples=samples,
        )  # fmt: skip
        return step if _says_something(part, step) else None
    if seen.replicas == part.wanted and set(seen.isr) == set(part.wanted) and seen.leader is not None:
        final = "put_back" if part.going_back else "done"
        return PartStep(part.id, final, bytes_total=total, bytes_done=total, active=False, note="", cause="")
    missing = sorted(set(part.wanted) - set(seen.isr))
    note = f"Waiting for broker {', '.join(map(str, missing))} to be in sync." if missing else "Waiting for a leader."
    step = PartStep(part.id, "verifying", bytes_total=total, bytes_done=done, note=note, cause="")
    return step if _says_something(part, step) else None


def _beside_is_whole(part: PartView, seen: ObservedPart) -> bool:
    """Whether the new copies are in the ISR beside the old ones, which are to be compared with them. An old one that is away, or lost its disk, is not
    waited for: whoever leads holds what is acknowledged."""
    if part.going_back or part.wanted == part.replicas_to or seen.leader is None:
        return False
    missing = set(part.wanted) - set(seen.isr)
    return not missing & set(part.replicas_to) and bool(missing or not seen.reassigning)


def _stands_beside(part: PartView, seen: ObservedPart) -> bool:
    """Compared, and still where it was then: an old copy that came into the ISR since ended the order of before, which took a generation."""
    if part.compared is None or part.going_back:
        return False
    return seen.target == beside(part.replicas_from, part.replicas_to)


def _before_the_old_go(part: PartView, seen: ObservedPart, total: int | None) -> PartStep | None:
    """The old copies go when all copies in the ISR were compared and are equal, and not before."""
    if part.compared is None:
        note = part.note if part.note.startswith(COMPARING) else COMPARING
        step = PartStep(part.id, "verifying", bytes_total=total, bytes_done=total, note=note, cause="")
        return step if _says_something(part, step) else None
    equal, text = part.compared
    if not equal:
        return PartStep(part.id, "stuck", note=f"Refused: the copies are not the same, so none was dropped. {text}")
    return PartStep(
        part.id, "ordered", wanted=part.replicas_to, read_generation=seen.generation, ordered=True, note="", cause=""
    )


def _advance_ordered(part: PartView, seen: ObservedPart, alive: frozenset[int], now: float) -> PartStep | None:
    # On the way back the order counts even where nothing has moved yet: it takes a generation, so that no earlier one can come after it.
    taken = seen.target == part.wanted and not seen.observers
    if taken and (not part.going_back or seen.generation > part.read_generation):
        return PartStep(part.id, "copying", read_generation=seen.generation, note="", cause="")
    if seen.generation == part.read_generation:
        if _begun_anew(part, seen):
            note = "Not handed over: the new copies begin elsewhere since it was ordered."
            return PartStep(part.id, "following", note=note, cause="")
        return untaken(part, seen, alive, now)
    if _stands_beside(part, seen):
        return PartStep(part.id, "ordered", read_generation=seen.generation, ordered=True)
    overtaken = seen.target in part.forward or (part.tail_copies and seen.observers == part.tail_copies)
    if part.going_back and overtaken:
        # What was ordered before was carried out after all: bind the way back to what is there now.
        return PartStep(part.id, "ordered", read_generation=seen.generation, ordered=True)
    return PartStep(part.id, "stuck", active=False, note=difference(part, seen))


def _begun_anew(part: PartView, seen: ObservedPart) -> bool:
    """The new copies begin elsewhere than where it was to be handed over: no controller carries that order out."""
    handing = part.hand_over_at is not None and not part.going_back and seen.observers == part.tail_copies
    return handing and bool(seen.observers) and seen.tail_start != part.hand_over_at


def _bytes(part: PartView, seen: ObservedPart) -> tuple[int | None, int | None]:
    """Bytes to copy and copied, over the replicas that are new in this direction. None = not known."""
    new = part.copies_to
    if not new:
        return 0, 0
    if part.hand_over_at is not None and not part.going_back:
        return part.bytes_total, part.bytes_done  # of what lies below nothing is to come
    whole = seen.sizes.get(seen.leader) if seen.leader is not None else None
    if whole is None:
        return part.bytes_total, part.bytes_done
    return whole * len(new), sum(min(whole, seen.sizes.get(b, 0)) for b in new)


def _sampled(part: PartView, seen: ObservedPart, total: int | None, done: int | None) -> tuple[pace.Sample, ...] | None:
    """The part's samples with what was told since the last one; None when nothing was."""
    if seen.sampled_at is None or total is None or done is None:
        return None
    if part.samples and seen.sampled_at <= part.samples[-1].at:
        return None
    kept = pace.recent(part.samples, seen.sampled_at)
    return pace.added(kept, pace.Sample(seen.sampled_at, total - done, done))


def _cause(part: PartView, seen: ObservedPart, move: MoveView, progressed: bool, now: float) -> tuple[str, str]:
    """Why a copy does not progress: a name of pace.CAUSES and what would help. Empty while it does, or while it is too early to say."""
    if seen.leader is None:
        return pace.SOURCE_DOWN, no_leader(seen)
    if down := [b for b in seen.adding if b not in move.alive]:
        return pace.TARGET_DOWN, f"Target down: broker {down[0]} is not alive. Start it, or cancel the move."
    since = part.ordered_at if part.progress_at is None else part.progress_at
    if progressed or since is None or now - since < NO_PROGRESS_SECONDS:
        return "", ""
    whole = seen.sizes.get(seen.leader, 0)
    for b in seen.adding:
        left = max(0, whole - seen.sizes.get(b, 0))
        if left and (free := move.free.get(b)) is not None and free < max(left, NO_SPACE_BYTES):
            return (
                pace.NO_SPACE,
                f"No space: broker {b} has {size_text(free)} free, {size_text(left)} are to come. Make room, or cancel.",
            )
    if blind := [b for b in seen.adding if b not in seen.sizes]:
        return pace.FETCH_ERROR, f"Fetch error: broker {blind[0]} answers nothing about this copy. See its log."
    lacking = [b for b in seen.adding if seen.sizes[b] < whole]
    if not lacking:
        return pace.CONTROLLER, "All bytes are copied, and no controller has ended it yet; see the controllers' state."
    if (move.throttle is None and seen.throttled) or (move.throttle or HELD_BACK_BYTES_PER_S) < HELD_BACK_BYTES_PER_S:
        return pace.THROTTLE, "Throttle: nothing has come through for a minute. Raise it."
    minutes = int((now - since) // 60)
    return pace.FETCH_ERROR, (
        f"Fetch error: broker {lacking[0]} has copied nothing from broker {seen.leader} for more than {minutes} min. See its log, and what "
        f"Damaged copies says of broker {seen.leader}."
    )


def _says_something(part: PartView, step: PartStep) -> bool:
    return (
        step.state != part.state
        or step.progressed
        or step.samples is not None
        or (step.note is not None and step.note != part.note)
        or (step.bytes_total is not None and step.bytes_total != part.bytes_total)
    )


def _move_state(state: str, parts: Mapping[str, int]) -> tuple[str | None, str | None]:
    """The move's next state from the number of its parts in each state."""
    if parts.get("waiting") and state in ("running", "paused", "rolling_back", "cancelling"):
        return None, None
    if any(parts.get(s) for s in ("ordered", "copying", "waiting", *TAIL)):
        return ("running", None) if state == "verifying" else (None, None)
    if parts.get("verifying"):
        return ("verifying", None) if state == "running" else (None, None)
    if stuck := parts.get("stuck", 0):
        return (
            "failed",
            f"{stuck} of {sum(parts.values())} partitions were refused; their notes say why. Roll back, or plan the rest again.",
        )
    if state == "rolling_back":
        return "rolled_back", ""
    kept, back = parts.get("done", 0), parts.get("put_back", 0) + parts.get("untouched", 0)
    if state == "cancelling" or not kept:
        return (
            "cancelled",
            f"{kept} partitions had arrived before and stay; roll back to return them too." if kept else "",
        )
    return "done", f"{back} partitions were cancelled by a client and are where they were." if back else ""


# -- orders of the operator: pure checks and changes ----------------------------------------------------------------------


def cancel_problem(parts: Sequence[PartView], alive: frozenset[int]) -> str | None:
    """Why cancelling is not safe, or None: every part in flight needs an old replica that is alive and in sync, or the way back
    would leave it without a leader (Kafka's own cancel does: KAFKA-14424)."""
    for part in parts:
        if part.state == "cutting":
            return f"{part.name}: what lies below offset {part.cut_at} is being deleted, which nothing takes back; cancel when that is through."
        if part.state not in IN_FLIGHT:
            continue  # (new copies of a tail are simply dropped: the old replicas are as they were)
        if part.observed is None:
            continue
        if not any(b in alive and b in part.observed.isr for b in part.replicas_from):
            return (
                f"{part.name}: none of its old replicas {list(part.replicas_from)} is alive and in sync; putting them back would "
                f"leave it without a leader. Bring one of them back, or let the move finish."
            )
    return None


def cancel_steps(parts: Sequence[PartView]) -> list[PartStep]:
    """Waiting parts stay where they are; parts in flight are ordered back, also those whose order was withdrawn: a controller may have it
    in hand. Parts that arrived stay."""
    steps = []
    for part in parts:
        if part.state == "waiting" and part.ordered_at is None:
            steps.append(PartStep(part.id, "untouched", wanted=part.replicas_from, active=False))
        elif part.state in UNDER_WAY or part.state == "waiting":
            steps.append(_send_back(part, "ordered"))
    return steps


def roll_back_steps(parts: Sequence[PartView]) -> list[PartStep]:
    """Everything that was touched returns to its recorded placement, in flight and arrived alike, a few at a time."""
    steps = []
    for part in parts:
        if part.state in ("untouched", "put_back"):
            continue
        if part.state == "waiting" and not part.going_back and part.ordered_at is None:
            steps.append(PartStep(part.id, "untouched", wanted=part.replicas_from, active=False))
        elif part.observed is not None and part.observed.replicas == part.replicas_from and part.state == "stuck":
            steps.append(PartStep(part.id, "put_back", wanted=part.replicas_from, active=False, note=""))
        else:
            withdrawn = part.state == "waiting" and not part.going_back
            steps.append(_send_back(part, "ordered" if withdrawn or part.state in UNDER_WAY else "waiting"))
    return steps


def _send_back(part: PartView, state: str) -> PartStep:
    seen = part.observed
    return PartStep(
        part.id,
        state,
        wanted=part.replicas_from,
        read_generation=seen.generation if seen is not None else part.read_generation,
        ordered=state == "ordered",
        active=True,
        note="",
        cause="",
        samples=(),
        bytes_done=0 if state == "waiting" else None,
    )


def after(part: PartView, step: PartStep, now: float) -> PartView:
    """The part with the step's values in it (for tests and previews)."""
    return replace(
        part,
        state=step.state,
        wanted=part.wanted if step.wanted is None else step.wanted,
        read_generation=part.read_generation if step.read_generation is None else step.read_generation,
        bytes_done=part.bytes_done if step.bytes_done is None else step.bytes_done,
        bytes_total=part.bytes_total if step.bytes_total is None else step.bytes_total,
        progress_at=now if step.progressed else part.progress_at,
        ordered_at=now if step.ordered else part.ordered_at,
        note=part.note if step.note is None else step.note,
        cause=part.cause if step.cause is None else step.cause,
        samples=part.samples if step.samples is None else step.samples,
        tail_start=part.tail_start if step.tail_start is None else step.tail_start,
        cut_at=part.cut_at if step.cut_at is None else step.cut_at,
        hand_over_at=part.hand_over_at if step.hand_over_at is None else step.hand_over_at,
    )
