"""Operations on moves: approve, start, pause, resume, cancel, roll back, throttle.

Invariants: the state changes by compare-and-set on (id, state, version), with a change row that names the actor and the reason. Throttles are
recorded at the start, before any effect. `controlplane.domain.move` decides which operations are allowed. A move that overrides a safety rule
starts only by the approval of a second person (`proposals`). Does not contain planning (`move_planning`), automatic progress (`move_worker`) or
requests of Kafka clients (`reassignments`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils import timezone

from brokerd.cluster.cordons import is_cordoned
from controlplane.db.bulk import read_many
from controlplane.domain import move_revert
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.throttle import Adaptive
from controlplane.models import Broker, Move, MovePartition, ObservedPartition, Topic
from controlplane.models.change import Outcome
from controlplane.models.move import FINISHED_STATES, MoveState, PartState
from controlplane.models.phrase_field import note_columns
from controlplane.selectors import move_windows
from controlplane.services import adaptive_throttle, throttles, worker_queue
from controlplane.services.adaptive_throttle import ThrottleBounds
from controlplane.services.common import Rejected, record, recorded_rejections
from controlplane.services.move_planning import parse_scope as parse_scope
from controlplane.services.move_planning import plan_move as plan_move
from controlplane.services.move_planning import preview_move as preview_move
from controlplane.services.move_totals import store_totals
from controlplane.services.move_worker import apply_steps, get_move, live_broker_ids, transition, views_of
from weir_common.phrases import sentence

PLACED_COLUMNS = ("topic_id", "topic_name", "partition", "replicas_from", "replicas_to", "read_generation")
NOT_STARTED = Q(state=PartState.WAITING, submitted_at__isnull=True)


def approve_move(move_id: int, *, actor: str, comment: str = "", second: bool = False) -> Move:
    """planned -> approved. Raises Rejected in another state. Also raises it for a move that overrides a safety rule, unless two people approve it
    (`second`: set by `overrides` alone)."""
    with recorded_rejections(actor, AuditOperation.MOVE_APPROVE, "move", str(move_id), comment=comment):
        move = get_move(move_id)
        if move.overrides and not second:
            raise Rejected(_second_person_needed(move))
    return _transition(move_id, AuditOperation.MOVE_APPROVE, {MoveState.PLANNED}, MoveState.APPROVED, actor, comment)


def start_move(move_id: int, *, actor: str, comment: str = "") -> Move:
    """planned or approved -> running. After that the worker advances the move. Raises Rejected when a partition changed since planning, and for a
    move that overrides a safety rule without the approval of a second person. Without `comment`, the reason of the plan is recorded."""
    with recorded_rejections(actor, AuditOperation.MOVE_START, "move", str(move_id), comment=comment):
        move = get_move(move_id)
        comment = comment or move.comment
        if move.overrides and move.state == MoveState.PLANNED:
            raise Rejected(_second_person_needed(move))
        if (closed := move_windows.window_closed_reason(move)) is not None:
            raise Rejected(
                sentence(
                    "{closed} Approve the move, and it starts automatically then; or change its window.", closed=closed
                )
            )
        parts = list(read_many(move.parts.all(), PLACED_COLUMNS))
        _require_unchanged(parts)
        _require_uncordoned(parts)
        if move.throttle_bytes_per_s is not None:
            _require_throttleable(move)
        topics, placements = {p[0] for p in parts}, {p[3:5] for p in parts}
        before = throttles.in_force(topics, {b for old, new in placements for b in (*old, *new)})
        Move.objects.filter(pk=move.pk, started_at__isnull=True).update(throttles_before=before)
    return _transition(
        move_id,
        AuditOperation.MOVE_START,
        {MoveState.PLANNED, MoveState.APPROVED},
        MoveState.RUNNING,
        actor,
        comment,
        started=True,
    )


def _second_person_needed(move: Move) -> str:
    return sentence(
        "Move {move} overrides a safety check ({check}) This needs a second person: request approval (kind move.approve, target {move}) "
        "from another operator.",
        move=move.pk,
        check=move.overrides[0],
    )


Placed = tuple[Any, ...]
"""PLACED_COLUMNS of a partition."""


def _require_unchanged(parts: Sequence[Placed]) -> None:
    """Raises Rejected when a partition is not as it was when the move was planned."""
    columns = ("topic_id", "index", "assignment_generation", "replicas")
    rows = ObservedPartition.objects.filter(topic_id__in={p[0] for p in parts}).order_by()
    seen = {(t, i): (g, r) for t, i, g, r in read_many(rows, columns)}
    for topic_id, name, index, _, _, read in parts:
        if (topic_id, index) not in seen:
            raise Rejected(
                sentence("{name}-{index} no longer exists in the cluster; plan the move again.", name=name, index=index)
            )
        generation, replicas = seen[topic_id, index]
        if generation != read:
            raise Rejected(
                sentence(
                    "{name}-{index} was reassigned since the move was planned (generation {read}, now {generation}, replicas {replicas}); plan the move again.",
                    name=name,
                    index=index,
                    read=read,
                    generation=generation,
                    replicas=list(replicas),
                )
            )


def _require_uncordoned(parts: Sequence[Placed]) -> None:
    """Raises Rejected when a broker that would get a replica was cordoned since the move was planned."""
    cordoned = {b.broker_id for b in Broker.objects.all() if is_cordoned(b.configs)}
    for _, name, index, old, new, _ in parts if cordoned else ():
        if closed := sorted(cordoned & set(new) - set(old)):
            raise Rejected(
                sentence(
                    "{name}-{index} would copy to broker {closed}, which has been cordoned since; uncordon it, or plan the move again.",
                    name=name,
                    index=index,
                    closed=closed[0],
                )
            )


def pause_move(move_id: int, *, actor: str, comment: str = "") -> Move:
    """running -> paused. No further copy starts, and orders that no controller has applied are withdrawn. Copies in flight finish."""
    return _transition(
        move_id, AuditOperation.MOVE_PAUSE, {MoveState.RUNNING}, MoveState.PAUSED, actor, comment, withdraw=True
    )


def resume_move(move_id: int, *, actor: str, comment: str = "") -> Move:
    """paused -> running. Raises Rejected in another state, and while the window of the move is closed."""
    with recorded_rejections(actor, AuditOperation.MOVE_RESUME, "move", str(move_id), comment=comment):
        if (closed := move_windows.window_closed_reason(get_move(move_id))) is not None:
            raise Rejected(sentence("{closed} Change or remove the window to continue now.", closed=closed))
    return _transition(move_id, AuditOperation.MOVE_RESUME, {MoveState.PAUSED}, MoveState.RUNNING, actor, comment)


def cancel_move(move_id: int, *, actor: str, comment: str = "") -> Move:
    """Waiting partitions stay, partitions in flight return to their recorded placement, finished partitions stay. Raises Rejected when a partition in
    flight has no old replica that is alive and in sync. A move that was never started is cancelled immediately."""
    with (
        recorded_rejections(actor, AuditOperation.MOVE_CANCEL, "move", str(move_id), comment=comment),
        transaction.atomic(),
    ):
        move = get_move(move_id)
        if move.state in (MoveState.PLANNED, MoveState.APPROVED):
            move = _set_state(move, MoveState.CANCELLED, actor, comment, finished=True)
            move.parts.update(active=False, state=PartState.SKIPPED, version=F("version") + 1)
            store_totals(move.pk)
            _record(move, AuditOperation.MOVE_CANCEL, actor, comment, outcome=Outcome.CONFIRMED)
            return move
        if move.state not in (MoveState.RUNNING, MoveState.PAUSED, MoveState.VERIFYING):
            raise Rejected(
                sentence(
                    "Move {move_id} is {state}; only a planned, running or paused move can be cancelled.",
                    move_id=move_id,
                    state=move.state,
                )
            )
        views = views_of(_submitted_parts(move))
        if (problem := move_revert.cancel_problem(views, live_broker_ids())) is not None:
            raise Rejected(problem)
        move = _set_state(move, MoveState.CANCELLING, actor, comment)
        _skip_not_started(move)
        apply_steps(move, move_revert.cancel_steps(views))
        _record(move, AuditOperation.MOVE_CANCEL, actor, comment)
        return move


def roll_back_move(move_id: int, *, actor: str, comment: str = "") -> Move:
    """Return every submitted partition to its recorded placement, in order. Possible while the move runs and after its end. Raises Rejected when
    another move contains one of the partitions, or when a partition in flight has no old replica that is alive and in sync."""
    with (
        recorded_rejections(actor, AuditOperation.MOVE_ROLL_BACK, "move", str(move_id), comment=comment),
        transaction.atomic(),
    ):
        move = get_move(move_id)
        if move.state in (MoveState.PLANNED, MoveState.APPROVED, MoveState.ROLLED_BACK, MoveState.ROLLING_BACK):
            raise Rejected(
                sentence("Move {move_id} is {state}; it cannot be rolled back.", move_id=move_id, state=move.state)
            )
        views = views_of(_submitted_parts(move))
        if (problem := move_revert.cancel_problem(views, live_broker_ids())) is not None:
            raise Rejected(problem)
        dead = sorted({b for v in views for b in v.replicas_from} - live_broker_ids())
        if dead and any(v.state == PartState.DONE for v in views):
            raise Rejected(
                sentence("Broker {dead} of the previous assignment is not alive; start it first.", dead=dead[0])
            )
        move = _set_state(move, MoveState.ROLLING_BACK, actor, comment)
        Move.objects.filter(pk=move.pk).update(finished_at=None)
        try:
            with transaction.atomic():
                _skip_not_started(move)
                apply_steps(move, move_revert.roll_back_steps(views))
        except IntegrityError:
            raise Rejected(
                sentence(
                    "Another move is changing partitions of move {move_id}; cancel that move, or wait until it ends.",
                    move_id=move_id,
                )
            ) from None
        _record(move, AuditOperation.MOVE_ROLL_BACK, actor, comment)
        return move


def _submitted_parts(move: Move) -> list[MovePartition]:
    """Partitions that were ever submitted: cancelling and rolling back concern only these."""
    return list(move.parts.exclude(NOT_STARTED).exclude(state=PartState.SKIPPED).order_by("id"))


def _skip_not_started(move: Move) -> None:
    """One UPDATE for all waiting partitions: a move may have a hundred thousand that never started."""
    move.parts.filter(NOT_STARTED).update(
        state=PartState.SKIPPED,
        desired_replicas=F("replicas_from"),
        active=False,
        finished_at=timezone.now(),
        version=F("version") + 1,
    )


def throttle_move(
    move_id: int, bytes_per_s: int | None, *, adaptive: ThrottleBounds | None = None, actor: str, comment: str = ""
) -> Move:
    """Change the throttle or remove it (None), also during copying: brokers read it from the metadata log. `adaptive`: bounds in bytes/s.
    Between these the rate follows the producers' p99, starting at the floor (`adaptive_throttle`). Raises Rejected."""
    if adaptive is not None:
        bytes_per_s = adaptive_throttle.floor_of(adaptive)
    with (
        recorded_rejections(actor, AuditOperation.MOVE_THROTTLE, "move", str(move_id), comment=comment),
        transaction.atomic(),
    ):
        move = get_move(move_id)
        throttles.check(bytes_per_s)
        if move.state in FINISHED_STATES:
            raise Rejected(
                sentence(
                    "Move {move_id} is {state}; its throttle cannot be changed.", move_id=move_id, state=move.state
                )
            )
        before = move.throttle_bytes_per_s
        if before == bytes_per_s and adaptive is None and move.adaptive is None:
            _record(
                move,
                AuditOperation.MOVE_THROTTLE,
                actor,
                comment,
                before=before,
                after=bytes_per_s,
                outcome=Outcome.UNCHANGED,
            )
            return move
        if bytes_per_s is not None:
            _require_throttleable(move)
        changed = Move.objects.filter(pk=move.pk, state=move.state, version=move.version).update(
            throttle_bytes_per_s=bytes_per_s,
            adaptive=None if adaptive is None or bytes_per_s is None else Adaptive(adaptive.cap, bytes_per_s),
            throttled=move.throttled or bytes_per_s is not None,
            needs_bytes_per_s=None,
            version=F("version") + 1,
        )
        if not changed:
            raise Rejected(sentence("Move {id} was changed concurrently; reload and try again.", id=move.pk))
        throttles.refresh()
        after = bytes_per_s if adaptive is None else {"cap": adaptive.cap, "floor": bytes_per_s}
        _record(
            move, AuditOperation.MOVE_THROTTLE, actor, comment, before=before, after=after, outcome=Outcome.CONFIRMED
        )
        return Move.objects.get(pk=move.pk)


def _require_throttleable(move: Move) -> None:
    """Raises Rejected for topics that exist in the cluster only: the console cannot change their configs."""
    topic_ids = set(move.parts.values_list("topic_id", flat=True))
    strange = topic_ids - set(
        Topic.objects.filter(id__in=topic_ids, deleted_at__isnull=True).values_list("id", flat=True)
    )
    if strange:
        name = move.parts.filter(topic_id__in=strange).values_list("topic_name", flat=True).first()
        raise Rejected(
            sentence(
                "Topic {name} exists in the cluster but not in the database (drift), so it cannot be throttled; adopt it first.",
                name=repr(name),
            ),
            "throttle_bytes_per_s",
        )


def _transition(
    move_id: int,
    verb: AuditOperation,
    allowed: set[MoveState],
    to: MoveState,
    actor: str,
    comment: str,
    started: bool = False,
    withdraw: bool = False,
) -> Move:
    with recorded_rejections(actor, verb, "move", str(move_id), comment=comment), transaction.atomic():
        move = get_move(move_id)
        if move.state not in allowed:
            raise Rejected(
                sentence(
                    "Move {id} is {state}; this needs it to be in one of these states: {allowed}.",
                    id=move_id,
                    state=move.state,
                    allowed=sorted(s.value for s in allowed),
                )
            )
        move = _set_state(move, to, actor, comment, started=started)
        if withdraw:
            move.parts.filter(state__in=(PartState.SUBMITTED, PartState.BOOTSTRAPPING)).update(
                state=PartState.WAITING, version=F("version") + 1
            )
        _record(move, verb, actor, comment, outcome=Outcome.PENDING if started else Outcome.CONFIRMED)
        return move


def _set_state(
    move: Move, to: MoveState, actor: str, comment: str, *, started: bool = False, finished: bool = False
) -> Move:
    values: dict[str, object] = {
        "state": to,
        "version": F("version") + 1,
        "needs_bytes_per_s": None,
        "resumes_at": None,
    }
    values |= {"waits_for": (), "sums": None}
    if to in (MoveState.CANCELLING, MoveState.ROLLING_BACK):
        values |= {"samples": (), "bytes_per_s": None, "ends_in_s_min": None, "ends_in_s_max": None}
        values |= note_columns("")  # "roll back to revert them too" is about the state before
    if started:
        values["started_at"] = timezone.now()
    if finished:
        values["finished_at"] = timezone.now()
    if not Move.objects.filter(pk=move.pk, state=move.state, version=move.version).update(**values):
        raise Rejected(sentence("Move {id} was changed concurrently; reload and try again.", id=move.pk))
    transition(move, to, actor, comment)
    worker_queue.advance_on_commit("controlplane.advance_move", move.pk)
    return Move.objects.get(pk=move.pk)


def _record(
    move: Move,
    verb: AuditOperation,
    actor: str,
    comment: str,
    *,
    before: object = None,
    after: object = None,
    outcome: Outcome = Outcome.PENDING,
) -> None:
    record(
        actor,
        verb,
        "move",
        str(move.pk),
        comment=comment,
        before=before,
        after=after,
        object_id=f"move-{move.pk}",
        outcome=outcome,
    )
