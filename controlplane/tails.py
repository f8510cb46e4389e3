"""What a part of a move without old data does until its new copies may join: pure (docs/safety.md section 8).

Laws: every order is bound to the assignment generation that was read, and a cut to the offset where the copies begin; nothing old is deleted
but by retention or by an operator's cut; a part joins once the leader's log starts where the new copies begin, and what is not known yet is
waited for. Called by `moves`. Must not come in: the database, clocks (now is passed in), brokers.

    waiting -> seeding -> following <-> ready -> ordered -> (as in `moves`: the new copies join, the old ones go)
                                          |  ^
                                          v  |
                                        cutting        by the operator's word only

`seeding` orders observers; they are `following` until they hold all there is; `ready` waits for retention to pass their beginning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from controlplane import pace
from controlplane.moveparts import MoveView, ObservedPart, PartStep, PartView, beside, difference, no_leader, untaken

IN_STEP_RECORDS = 5_000
"""A copy that lacks no more than this, by its own word, is in step: under load none lacks nothing. Joining asks for more, and sees to it itself."""


def unfit(topic: str, configs: Mapping[str, str], *, internal: bool, deadline: bool = False) -> str:
    """Why a topic cannot move without its old data, or "": it would never be rid of it (unless the move has a `deadline`, after which a cut is asked
    for), or it is no old data."""
    policy = configs.get("cleanup.policy", "delete")
    if internal:
        return f"{topic} is internal: its old records are its state. Use copy."
    if "compact" in policy:
        return (
            f"{topic} is compacted (cleanup.policy {policy}): its oldest records are as good as its newest. Use copy."
        )
    if not deadline and int(configs.get("retention.ms", "0")) < 0 and int(configs.get("retention.bytes", "-1")) < 0:
        return (
            f"{topic} keeps everything (retention.ms and retention.bytes are -1): the old copies could never go. Use copy, set a retention, or "
            "give it a deadline, after which you are asked to cut."
        )
    return ""


def begin(part: PartView, seen: ObservedPart) -> PartStep:
    """A waiting part's turn: order its observers, unless the world changed since it was read."""
    if seen.observers == part.tail_copies:
        # Ordered before and withdrawn too late.
        return PartStep(part.id, "following", read_generation=seen.generation, ordered=True, note="", cause="")
    if seen.generation != part.read_generation:
        return PartStep(part.id, "stuck", active=False, note=difference(part, seen))
    if seen.unfit:
        return PartStep(part.id, "stuck", active=False, note=seen.unfit)
    if seen.archive_start is not None:
        note = f"Refused: its records below {seen.archive_start} still lie apart, from an earlier hand-over. Wait for retention, or use copy."
        return PartStep(part.id, "stuck", active=False, note=note)
    return PartStep(part.id, "seeding", ordered=True, note="", cause="")


def advance(part: PartView, seen: ObservedPart, move: MoveView, now: float) -> PartStep | None:
    """One look at a part in one of the states above; None: nothing new."""
    taken = seen.observers == part.tail_copies and seen.target == part.replicas_from
    if part.state == "seeding":
        if seen.generation == part.read_generation:
            return untaken(part, seen, move.alive, now)
        if taken:
            return PartStep(part.id, "following", read_generation=seen.generation, note="", cause="")
    elif part.state == "cutting":
        if taken and seen.log_start_floor == part.cut_at and seen.generation != part.read_generation:
            return PartStep(part.id, "ready", read_generation=seen.generation, note="", cause="")
        if seen.generation == part.read_generation and seen.tail_start == part.cut_at:
            return untaken(part, seen, move.alive, now)
        if taken and seen.generation == part.read_generation:
            note = f"Nothing was deleted: the new copies begin at {_offset(seen.tail_start)} now, not at {part.cut_at}. Look at it again."
            return PartStep(part.id, "following", note=note, cause="")
    elif taken and seen.generation == part.read_generation:
        return _followed(part, seen, move)
    return PartStep(part.id, "stuck", active=False, note=difference(part, seen))


def _followed(part: PartView, seen: ObservedPart, move: MoveView) -> PartStep | None:
    done = sum(seen.sizes.get(b, 0) for b in part.tail_copies)
    begins = seen.tail_start
    cause, note = _waits_for(part, seen, move)
    state = "following" if cause not in ("", pace.CUT_DUE) or note.startswith("Following") else "ready"
    if state == "ready" and begins is not None and (seen.log_start or 0) >= begins and move.state != "paused":
        return PartStep(part.id, "ordered", bytes_total=done, bytes_done=done, ordered=True, note="", cause="")
    if state == "ready" and begins is not None and move.early and move.state != "paused":
        return PartStep(
            part.id, "ordered", bytes_total=done, bytes_done=done, ordered=True, note="", cause="", hand_over_at=begins,
            tail_start=begins if begins != part.tail_start else None,
        )  # fmt: skip
    step = PartStep(
        part.id, state, bytes_total=done, bytes_done=done, progressed=done != part.bytes_done, note=note, cause=cause,
        tail_start=begins if begins != part.tail_start else None,
    )  # fmt: skip
    unchanged = (step.state, step.note, step.cause) == (part.state, part.note, part.cause)
    return None if unchanged and step.tail_start is None and not step.progressed else step


def _waits_for(part: PartView, seen: ObservedPart, move: MoveView) -> tuple[str, str]:
    """(cause, sentence): a cause where somebody has to do something."""
    copies, begins = part.tail_copies, seen.tail_start
    if seen.unfit:
        return pace.UNFIT, f"{seen.unfit} Nothing joins meanwhile; or cancel the move."
    if seen.leader is None:
        return pace.SOURCE_DOWN, no_leader(seen)
    if down := [b for b in copies if b not in move.alive]:
        return pace.TARGET_DOWN, f"Target down: broker {down[0]} is not alive. Start it, or cancel the move."
    if begins is None:
        return "", "Following: the leader has not said yet where the new copies begin."
    behind = [b for b in copies if seen.lags.get(b, IN_STEP_RECORDS + 1) > IN_STEP_RECORDS]
    if behind:
        lag = seen.lags.get(behind[0])
        return "", f"Following from offset {begins}: broker {behind[0]} " + (
            "has not begun yet." if lag is None else f"lacks {lag} records."
        )
    start = _offset(seen.log_start)
    if _is_cut(seen):
        return (
            "",
            f"In step from offset {begins}, and cut there; the leader's last word is that its log starts at {start}.",
        )
    if move.overdue:
        return (
            pace.CUT_DUE,
            f"In step from offset {begins}, and the move's deadline has passed: the log still starts at {start}. Cut, or cancel.",
        )
    return (
        "",
        f"In step from offset {begins}. Waiting for retention: the log still starts at {start}. It joins by itself then, or cut.",
    )


# -- the operator's word -----------------------------------------------------------------------------------------------------


def cut_problem(parts: Sequence[PartView]) -> str | None:
    """Why nothing can be cut now, or None."""
    if cuttable(parts):
        return None
    if any(p.state in ("seeding", "following") for p in parts):
        return "Its new copies are not in step yet; what they lack would be lost with the old ones."
    return "None of its partitions waits for retention; there is nothing to cut."


def cuttable(parts: Sequence[PartView]) -> list[PartView]:
    """Parts in step that wait for nothing but retention."""
    return [
        p for p in parts
        if p.state == "ready" and p.observed is not None and p.observed.tail_start is not None and p.observed.leader is not None
        and (p.observed.log_start or 0) < p.observed.tail_start and not _is_cut(p.observed)
    ]  # fmt: skip


def _is_cut(seen: ObservedPart) -> bool:
    """Nothing below the new copies' beginning is kept any more, whatever the leader said last: to cut once more would be one more step for nothing."""
    return seen.tail_start is not None and (seen.log_start_floor or 0) >= seen.tail_start


def cut_steps(parts: Sequence[PartView]) -> list[PartStep]:
    """Everything below where the new copies begin is to be deleted. There is no way back from there."""
    return [
        PartStep(p.id, "cutting", cut_at=p.observed.tail_start, ordered=True, note="", cause="")
        for p in cuttable(parts)
        if p.observed is not None
    ]


def order(
    state: str,
    *,
    wanted: Sequence[int],
    replicas_from: Sequence[int],
    replicas_to: Sequence[int],
    cut_at: int | None,
    hand_over_at: int | None,
) -> Order:
    """What a part in `seeding`, `cutting` or `ordered` asks of the controller."""
    if state == "seeding":
        return Order(tuple(replicas_from), observers=tuple(b for b in replicas_to if b not in replicas_from))
    if state == "cutting":
        return Order(tuple(replicas_from), cut_at=cut_at)
    # Old and new copies side by side are ordered first; what comes after that, or instead, is an ordinary order.
    first = list(wanted) == list(first_placement(replicas_from, replicas_to))
    return Order(tuple(wanted), hand_over_at=hand_over_at if first else None)


class Order(NamedTuple):
    replicas: tuple[int, ...]
    observers: tuple[int, ...] = ()
    cut_at: int | None = None
    hand_over_at: int | None = None


def first_placement(old: Sequence[int], new: Sequence[int]) -> tuple[int, ...]:
    """What is ordered first where copies are compared: every copy, if some would go and others come."""
    return beside(old, new) if set(new) - set(old) and set(old) - set(new) else tuple(new)


def _offset(offset: int | None) -> str:
    return "an unknown offset" if offset is None else str(offset)
