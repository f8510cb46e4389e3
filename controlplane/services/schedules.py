"""Moves with a window: started when the window opens, paused at its stop-by time, resumed when it opens again. Invariants: at the stop-by time no
further copy starts, and copies in flight finish (as with pausing). A move that its window paused is resumed by the window or a person. A window
never resumes a move that a person paused. Each such transition records its reason. Does not contain when a window is open
(`controlplane.domain.window`)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from controlplane.domain import move_phrases as texts
from controlplane.domain import window as windows
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.window import Window
from controlplane.models import Move
from controlplane.models.change import Outcome
from controlplane.models.move import MoveState, PartState
from controlplane.models.phrase_field import note_columns
from controlplane.services import moves
from controlplane.services.common import Rejected, record, recorded_rejections
from controlplane.services.move_worker import transition
from weir_common.json_values import Json, JsonObject
from weir_common.phrases import sentence

log = logging.getLogger(__name__)

WHO = "schedule"
SCHEDULED = (MoveState.PLANNED, MoveState.APPROVED, MoveState.RUNNING, MoveState.PAUSED)


def schedule_move(move_id: int, requested: Mapping[str, Json] | None, *, actor: str, comment: str = "") -> Move:
    """Set the window of the move, or remove it (None). Takes effect within a second. Raises Rejected."""
    with recorded_rejections(actor, AuditOperation.MOVE_SCHEDULE, "move", str(move_id), comment=comment):
        move = Move.objects.filter(pk=move_id).first()
        if move is None:
            raise Rejected(sentence("Move {move_id} does not exist.", move_id=move_id))
        if move.state not in SCHEDULED:
            raise Rejected(
                sentence(
                    "Move {move_id} is {state}; only a move with queued copies can have a window.",
                    move_id=move_id,
                    state=move.state,
                )
            )
        window = parse_window(requested)
        until = check(window)
        values: dict[str, object] = {"window": window}
        if move.state == MoveState.APPROVED or move.resumes_at is not None:
            # The move waits for this window from now on. Without a window, an approved move waits for a person, a paused move is resumed.
            values["resumes_at"] = until if window is not None else (move.resumes_at and timezone.now())
        with transaction.atomic():
            if not Move.objects.filter(pk=move.pk, state=move.state, version=move.version).update(
                version=F("version") + 1, **values
            ):
                raise Rejected(sentence("Move {id} was changed concurrently; reload and try again.", id=move.pk))
            record(
                actor,
                AuditOperation.MOVE_SCHEDULE,
                "move",
                str(move.pk),
                comment=comment,
                before={"window": _plain(move.window)},
                after={"window": _plain(window)},
                outcome=Outcome.CONFIRMED,
            )
    apply_schedule(move_id)
    return Move.objects.get(pk=move_id)


def _plain(window: Window | None) -> JsonObject | None:
    return None if window is None else windows.to_json(window)


def parse_window(value: Mapping[str, Json] | None) -> Window | None:
    """The window in a JSON value of REST or of a form (`window.read`). Raises Rejected."""
    try:
        return None if value is None else windows.read(value)
    except ValueError as e:
        raise Rejected(str(e), "window") from e


def check(window: Window | None) -> datetime | None:
    """Return the time at which the window opens next (now, if it is open). Raises Rejected for a window that is over."""
    if window is None:
        return None
    now = timezone.now()
    open_, until = windows.window_state(window, now)
    if not open_ and until is None:
        raise Rejected("The window has closed permanently; enter a window that opens in the future.", "window")
    return now if open_ else until


def due_moves() -> list[int]:
    """Moves that need a check of their window."""
    resumable = Q(state__in=[MoveState.APPROVED, MoveState.PAUSED]) & Q(resumes_at__lte=timezone.now())
    waiting = Q(state=MoveState.APPROVED, resumes_at__isnull=True, window__isnull=False)
    running = Q(state=MoveState.RUNNING, window__isnull=False)
    return list(Move.objects.filter(resumable | waiting | running).values_list("pk", flat=True))


def apply_schedule(move_id: int) -> str | None:
    """One check of the window: the new state of the move, None when another worker was faster. Idempotent."""
    move = Move.objects.filter(pk=move_id).first()
    if move is None or move.state not in SCHEDULED:
        return None
    now = timezone.now()
    open_, until = (True, None) if move.window is None else windows.window_state(move.window, now)
    if move.state == MoveState.RUNNING:
        return MoveState.RUNNING if open_ else _pause(move, until)
    if move.state == MoveState.APPROVED and move.window is not None:
        if not open_:
            _waits(move, until)
        elif move.resumes_at is None or move.resumes_at <= now:
            return _begin(move)
    if move.state == MoveState.PAUSED and move.resumes_at is not None:
        if open_:
            return _change(move, MoveState.RUNNING, sentence(texts.WINDOW_OPEN), None)
        _waits(move, until)
    return move.state


def _pause(move: Move, until: datetime | None) -> str | None:
    assert move.window is not None
    continuation = _opening(texts.CONTINUES_AT, until)
    comment = sentence(texts.WINDOW_CLOSED, window=windows.text(move.window), continuation=continuation)
    with transaction.atomic():
        state = _change(move, MoveState.PAUSED, comment, until)
        if state is not None:
            move.parts.filter(state__in=(PartState.SUBMITTED, PartState.BOOTSTRAPPING)).update(
                state=PartState.WAITING, version=F("version") + 1
            )
    return state


def _begin(move: Move) -> str | None:
    try:
        return moves.start_move(move.pk, actor=WHO, comment=sentence(texts.WINDOW_OPEN)).state
    except Rejected as rejection:
        # No retry before the next opening: each attempt leaves a row, and the cause of the rejection needs a person.
        log.warning("move not started in its window: move=%s reason=%s", move.pk, rejection.reason)
        assert move.window is not None
        open_, until = windows.window_state(move.window, timezone.now())
        after = windows.window_state(move.window, until)[1] if open_ and until is not None else until
        note = sentence(texts.NOT_STARTED, reason=rejection.reason)
        Move.objects.filter(pk=move.pk, state=MoveState.APPROVED).update(
            **note_columns(note),
            resumes_at=after or move.resumes_at,
            version=F("version") + 1,
            **({"window": None} if after is None else {}),
        )
        return move.state


def _waits(move: Move, until: datetime | None) -> None:
    """Store when the window opens next, if that has changed."""
    if move.resumes_at != until:
        note = _opening(texts.STARTS_AT, until)
        Move.objects.filter(pk=move.pk, state=move.state, version=move.version).update(
            resumes_at=until, **note_columns(note), version=F("version") + 1
        )


def _opening(text: str, opens: datetime | None) -> str:
    return sentence(text, time=f"{opens:%Y-%m-%d %H:%M}") if opens is not None else sentence(texts.WINDOW_OVER)


def _change(move: Move, to: MoveState, comment: str, until: datetime | None) -> str | None:
    with transaction.atomic():
        note = comment if to == MoveState.PAUSED else ""
        changed = Move.objects.filter(pk=move.pk, state=move.state, version=move.version).update(
            state=to, resumes_at=until, **note_columns(note), version=F("version") + 1
        )
        if not changed:
            return None
        transition(move, to, WHO, comment)
        return to
