"""Moves in a window: begun when it opens, held at its stop-by, gone on with when it opens again. Laws: at stop-by no further copy begins, those under
way finish (as with pausing); what the window has paused only the window or a person resumes, what a person has paused the window leaves alone;
every such change is a transition that says why. Called by `services.moves`, the doors and the worker, each second. Must not come in: when a
window is open (`controlplane.windows`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from controlplane import windows
from controlplane.models import Move
from controlplane.models.change import Outcome
from controlplane.models.move import MoveState, PartState
from controlplane.services.advancing import transition
from controlplane.services.common import Refused, record, record_refusal

log = logging.getLogger(__name__)

WHO = "schedule"
SCHEDULED = (MoveState.PLANNED, MoveState.APPROVED, MoveState.RUNNING, MoveState.PAUSED)


def schedule_move(move_id: int, window: Mapping[str, Any] | None, *, who: str, why: str = "") -> Move:
    """Give it a window (see `windows.read`), or take it away (None). Felt within a second. Raises Refused."""
    try:
        move = Move.objects.filter(pk=move_id).first()
        if move is None:
            raise Refused(f"There is no move {move_id}.")
        if move.state not in SCHEDULED:
            raise Refused(f"Move {move_id} is {move.state}; only one that has copies to begin has a use for a window.")
        until = check(window)
        values: dict[str, Any] = {"window": dict(window) if window is not None else None}
        if move.state == MoveState.APPROVED or move.resumes_at is not None:
            # It waits for a window: for this one from now on. Without one, an approved move waits for a person, a held one goes on.
            values["resumes_at"] = until if window is not None else (move.resumes_at and timezone.now())
        with transaction.atomic():
            if not Move.objects.filter(pk=move.pk, state=move.state, version=move.version).update(
                version=F("version") + 1, **values
            ):
                raise Refused(f"Move {move.pk} changed in this moment; look at it again.")
            record(
                who, "move.schedule", "move", str(move.pk),
                why=why, before={"window": move.window}, after={"window": values["window"]}, outcome=Outcome.CONFIRMED,
            )  # fmt: skip
    except Refused as refused:
        record_refusal(who, "move.schedule", "move", str(move_id), refused, why=why)
        raise
    mind(move_id)
    return Move.objects.get(pk=move_id)


def check(window: Mapping[str, Any] | None) -> datetime | None:
    """When it opens next (now, where it is open). Raises Refused for what is no window, or one that is over."""
    if window is None:
        return None
    now = timezone.now()
    try:
        open_, until = windows.at(windows.read(window), now)
    except ValueError as e:
        raise Refused(str(e), "window") from e
    if not open_ and until is None:
        raise Refused("That window is over; give one that opens again.", "window")
    return now if open_ else until


def closed(move: Move) -> str | None:
    """Why no copy of it may begin now, as a sentence; None = it may."""
    if move.window is None:
        return None
    window = windows.read(move.window)
    open_, until = windows.at(window, timezone.now())
    if open_:
        return None
    again = f"until {until:%Y-%m-%d %H:%M} UTC" if until is not None else "for good"
    return f"Its window ({windows.text(window)}) is closed {again}."


def due() -> list[int]:
    """Moves whose window is worth a look."""
    held = Q(state__in=[MoveState.APPROVED, MoveState.PAUSED]) & Q(resumes_at__lte=timezone.now())
    waiting = Q(state=MoveState.APPROVED, resumes_at__isnull=True, window__isnull=False)
    running = Q(state=MoveState.RUNNING, window__isnull=False)
    return list(Move.objects.filter(held | waiting | running).values_list("pk", flat=True))


def mind(move_id: int) -> str | None:
    """One look at its window: the state afterwards, None where another was faster. Idempotent."""
    move = Move.objects.filter(pk=move_id).first()
    if move is None or move.state not in SCHEDULED:
        return None
    now = timezone.now()
    open_, until = (True, None) if move.window is None else windows.at(windows.read(move.window), now)
    if move.state == MoveState.RUNNING:
        return MoveState.RUNNING if open_ else _hold(move, until)
    if move.state == MoveState.APPROVED and move.window is not None:
        if not open_:
            _waits(move, until)
        elif move.resumes_at is None or move.resumes_at <= now:
            return _begin(move)
    if move.state == MoveState.PAUSED and move.resumes_at is not None:
        if open_:
            return _change(move, MoveState.RUNNING, "Its window is open.", None)
        _waits(move, until)
    return move.state


def _hold(move: Move, until: datetime | None) -> str | None:
    assert move.window is not None
    goes_on = (
        f"It goes on at {until:%Y-%m-%d %H:%M} UTC."
        if until is not None
        else "It does not open again: give it another window."
    )
    why = f"Stop-by of its window ({windows.text(windows.read(move.window))}): no further copy begins, those under way finish. {goes_on}"
    with transaction.atomic():
        state = _change(move, MoveState.PAUSED, why, until)
        if state is not None:
            move.parts.filter(state__in=(PartState.ORDERED, PartState.SEEDING)).update(
                state=PartState.WAITING, version=F("version") + 1
            )
    return state


def _begin(move: Move) -> str | None:
    from controlplane.services import moves

    try:
        return moves.start_move(move.pk, who=WHO, why="Its window is open.").state
    except Refused as refused:
        # Not again before the next opening: each try leaves a row, and what refuses it wants a person.
        log.warning("move %s could not begin in its window: %s", move.pk, refused.reason)
        assert move.window is not None
        open_, until = windows.at(windows.read(move.window), timezone.now())
        after = windows.at(windows.read(move.window), until)[1] if open_ and until is not None else until
        Move.objects.filter(pk=move.pk, state=MoveState.APPROVED).update(
            note=f"It could not begin: {refused.reason}"[:2000], resumes_at=after or move.resumes_at, version=F("version") + 1,
            **({"window": None} if after is None else {}),
        )  # fmt: skip
        return move.state


def _waits(move: Move, until: datetime | None) -> None:
    """Write down when it opens next, where that is something new."""
    if move.resumes_at != until:
        note = (
            f"It begins at {until:%Y-%m-%d %H:%M} UTC."
            if until is not None
            else "Its window does not open again: give it another."
        )
        Move.objects.filter(pk=move.pk, state=move.state, version=move.version).update(
            resumes_at=until, note=note, version=F("version") + 1
        )


def _change(move: Move, to: MoveState, why: str, until: datetime | None) -> str | None:
    with transaction.atomic():
        note = why if to == MoveState.PAUSED else ""
        changed = Move.objects.filter(pk=move.pk, state=move.state, version=move.version).update(
            state=to, resumes_at=until, note=note, version=F("version") + 1
        )
        if not changed:
            return None
        transition(move, to, WHO, why)
        return to
