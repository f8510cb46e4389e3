"""Moves, as an operator orders them: approve, start, pause, resume, cancel, roll back, throttle. Laws: the state changes by compare-and-set on
(id, state, version), with a row that says who and why; throttles are recorded when started, before any effect; what may be done is decided
in `controlplane.moves`; what overrides a safety refusal begins by a second person's approval alone (`proposals`). Called by the API and the
console. Must not come in: how a move is planned (`planning`) or goes on by itself (`advancing`), what clients of brokers ask for
(`reassignments`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils import timezone

from brokerd.cluster.cordons import cordoned
from controlplane import moves as core
from controlplane.bulk import read_many
from controlplane.models import Broker, Move, MovePartition, Partition, Topic
from controlplane.models.change import Outcome
from controlplane.models.move import FINISHED_STATES, MoveState, PartState
from controlplane.services import schedules, speeds, throttles
from controlplane.services.advancing import alive, apply_steps, transition, views_of
from controlplane.services.common import Refused, record, record_refusal
from controlplane.services.planning import known_scope as known_scope
from controlplane.services.planning import plan_move as plan_move
from controlplane.services.planning import preview_move as preview_move
from controlplane.services.sums import keep

PLACED_COLUMNS = ("topic_id", "topic_name", "partition", "replicas_from", "replicas_to", "read_generation")
UNTOUCHED = Q(state="waiting", ordered_at__isnull=True)


def approve_move(move_id: int, *, who: str, why: str = "", second: bool = False) -> Move:
    """planned -> approved. Raises Refused in another state, and for a move that overrides a safety refusal unless two people want it
    (`second`: said by `overrides` alone)."""
    with _refusals(move_id, "move.approve", who, why):
        move = _get(move_id)
        if move.overrides and not second:
            raise Refused(_alone(move))
    return _transition(move_id, "move.approve", {MoveState.PLANNED}, MoveState.APPROVED, who, why)


def start_move(move_id: int, *, who: str, why: str = "") -> Move:
    """planned or approved -> running. The worker advances it from there. Raises Refused when a partition changed since planning, and for a
    move that overrides a safety refusal and is not approved by a second person. Without a reason of its own it has the plan's."""
    with _refusals(move_id, "move.start", who, why):
        move = _get(move_id)
        why = why or move.why
        if move.overrides and move.state == MoveState.PLANNED:
            raise Refused(_alone(move))
        if (closed := schedules.closed(move)) is not None:
            raise Refused(f"{closed} Approve it, and it begins then by itself; or change its window.")
        parts = list(read_many(move.parts.all(), PLACED_COLUMNS))
        _unchanged(parts)
        _open(parts)
        if move.throttle_bytes_per_s is not None:
            _throttleable(move)
        topics, placements = {p[0] for p in parts}, {p[3:5] for p in parts}
        held = throttles.in_force(topics, {b for old, new in placements for b in (*old, *new)})
        Move.objects.filter(pk=move.pk, started_at__isnull=True).update(throttles_before=held)
    return _transition(
        move_id, "move.start", {MoveState.PLANNED, MoveState.APPROVED}, MoveState.RUNNING, who, why, started=True
    )


def _alone(move: Move) -> str:
    return (
        f"Move {move.pk} overrides a safety refusal ({move.overrides[0]}) Nobody does that alone: propose it (kind move.approve, "
        f"target {move.pk}), and another operator approves."
    )


Placed = tuple[Any, ...]
"""A part's PLACED_COLUMNS."""


def _unchanged(parts: Sequence[Placed]) -> None:
    """Raises Refused when a partition is not as it was when the move was planned."""
    columns = ("topic_id", "index", "assignment_generation", "replicas")
    rows = Partition.objects.filter(topic_id__in={p[0] for p in parts}).order_by()
    seen = {(t, i): (g, r) for t, i, g, r in read_many(rows, columns)}
    for topic_id, name, index, _, _, read in parts:
        if (topic_id, index) not in seen:
            raise Refused(f"{name}-{index} is gone from the cluster; plan the move again.")
        generation, replicas = seen[topic_id, index]
        if generation != read:
            raise Refused(
                f"{name}-{index} was placed anew since the move was planned (generation {read}, now {generation}, "
                f"replicas {list(replicas)}); plan the move again."
            )


def _open(parts: Sequence[Placed]) -> None:
    """Raises Refused when a broker that would get a copy was cordoned since the move was planned."""
    aside = {b.broker_id for b in Broker.objects.all() if cordoned(b.configs)}
    for _, name, index, old, new, _ in parts if aside else ():
        if closed := sorted(aside & set(new) - set(old)):
            raise Refused(
                f"{name}-{index} would copy to broker {closed[0]}, which was cordoned since; uncordon it, or plan the move again."
            )


def pause_move(move_id: int, *, who: str, why: str = "") -> Move:
    """running -> paused: no further copy begins, orders no controller has taken are withdrawn; copies under way finish."""
    return _transition(move_id, "move.pause", {MoveState.RUNNING}, MoveState.PAUSED, who, why, withdraw=True)


def resume_move(move_id: int, *, who: str, why: str = "") -> Move:
    """paused -> running. Raises Refused in another state, and while its window is closed."""
    with _refusals(move_id, "move.resume", who, why):
        if (closed := schedules.closed(_get(move_id))) is not None:
            raise Refused(f"{closed} Change its window, or take it away, to go on now.")
    return _transition(move_id, "move.resume", {MoveState.PAUSED}, MoveState.RUNNING, who, why)


def cancel_move(move_id: int, *, who: str, why: str = "") -> Move:
    """Waiting parts stay, parts in flight return to their recorded placement, parts that arrived stay. Raises Refused when a part in
    flight has no old replica alive and in sync. A move that was never started is cancelled at once."""
    with _refusals(move_id, "move.cancel", who, why), transaction.atomic():
        move = _get(move_id)
        if move.state in (MoveState.PLANNED, MoveState.APPROVED):
            move = _set_state(move, MoveState.CANCELLED, who, why, finished=True)
            move.parts.update(active=False, state=PartState.UNTOUCHED, version=F("version") + 1)
            keep(move.pk)
            _record(move, "move.cancel", who, why, outcome=Outcome.CONFIRMED)
            return move
        if move.state not in (MoveState.RUNNING, MoveState.PAUSED, MoveState.VERIFYING):
            raise Refused(f"Move {move_id} is {move.state}; only a planned, running or paused move can be cancelled.")
        views = views_of(_touched(move))
        if (problem := core.cancel_problem(views, alive())) is not None:
            raise Refused(problem)
        move = _set_state(move, MoveState.CANCELLING, who, why)
        _leave_untouched(move)
        apply_steps(move, core.cancel_steps(views))
        _record(move, "move.cancel", who, why)
        return move


def roll_back_move(move_id: int, *, who: str, why: str = "") -> Move:
    """Return every touched partition to its recorded placement, in order. Possible while it runs and after it ended. Raises Refused
    when another move holds one of the partitions, or when a part in flight has no old replica alive and in sync."""
    with _refusals(move_id, "move.roll_back", who, why), transaction.atomic():
        move = _get(move_id)
        if move.state in (MoveState.PLANNED, MoveState.APPROVED, MoveState.ROLLED_BACK, MoveState.ROLLING_BACK):
            raise Refused(f"Move {move_id} is {move.state}; there is nothing to roll back.")
        views = views_of(_touched(move))
        if (problem := core.cancel_problem(views, alive())) is not None:
            raise Refused(problem)
        dead = sorted({b for v in views for b in v.replicas_from} - alive())
        if dead and any(v.state == "done" for v in views):
            raise Refused(f"Broker {dead[0]} of the recorded placement is not alive; start it first.")
        move = _set_state(move, MoveState.ROLLING_BACK, who, why)
        Move.objects.filter(pk=move.pk).update(finished_at=None)
        try:
            with transaction.atomic():
                _leave_untouched(move)
                apply_steps(move, core.roll_back_steps(views))
        except IntegrityError:
            raise Refused(f"Another move holds partitions of move {move_id}; cancel it or wait for its end.") from None
        _record(move, "move.roll_back", who, why)
        return move


def _touched(move: Move) -> list[MovePartition]:
    """Parts that were ever ordered: all that cancelling or rolling back has to think about."""
    return list(move.parts.exclude(UNTOUCHED).exclude(state="untouched").order_by("id"))


def _leave_untouched(move: Move) -> None:
    """In one stroke: a move may have a hundred thousand parts that never began."""
    move.parts.filter(UNTOUCHED).update(
        state=PartState.UNTOUCHED,
        wanted=F("replicas_from"),
        active=False,
        finished_at=timezone.now(),
        version=F("version") + 1,
    )


def throttle_move(
    move_id: int, bytes_per_s: int | None, *, adaptive: Mapping[str, int] | None = None, who: str, why: str = ""
) -> Move:
    """Slower or faster, or not held back at all (None), also while it copies: brokers hear of it in the metadata log. `adaptive`: {"cap",
    "floor"} in bytes/s, between which it then follows the producers' p99, beginning at the floor (`speeds`). Raises Refused."""
    if adaptive is not None:
        bytes_per_s = speeds.floor_of(adaptive)
    with _refusals(move_id, "move.throttle", who, why), transaction.atomic():
        move = _get(move_id)
        throttles.check(bytes_per_s)
        if move.state in FINISHED_STATES:
            raise Refused(f"Move {move_id} is {move.state}; there is nothing to throttle.")
        before = move.throttle_bytes_per_s
        if before == bytes_per_s and adaptive is None and move.adaptive is None:
            _record(move, "move.throttle", who, why, before=before, after=bytes_per_s, outcome=Outcome.UNCHANGED)
            return move
        if bytes_per_s is not None:
            _throttleable(move)
        changed = Move.objects.filter(pk=move.pk, state=move.state, version=move.version).update(
            throttle_bytes_per_s=bytes_per_s,
            adaptive=None if adaptive is None else {"cap": adaptive["cap"], "floor": bytes_per_s},
            throttled=move.throttled or bytes_per_s is not None,
            needs_bytes_per_s=None,
            version=F("version") + 1,
        )
        if not changed:
            raise Refused(f"Move {move.pk} changed in this moment; look at it again.")
        throttles.refresh()
        after = bytes_per_s if adaptive is None else dict(adaptive)
        _record(move, "move.throttle", who, why, before=before, after=after, outcome=Outcome.CONFIRMED)
        return Move.objects.get(pk=move.pk)


def _throttleable(move: Move) -> None:
    """Raises Refused for topics that live in the cluster only: their configs cannot be changed from here."""
    topic_ids = set(move.parts.values_list("topic_id", flat=True))
    strange = topic_ids - set(
        Topic.objects.filter(id__in=topic_ids, deleted_at__isnull=True).values_list("id", flat=True)
    )
    if strange:
        name = move.parts.filter(topic_id__in=strange).values_list("topic_name", flat=True).first()
        raise Refused(
            f"Topic {name!r} lives in the cluster but not in the database (drift), so it cannot be throttled; adopt it first.",
            "throttle_bytes_per_s",
        )


def _get(move_id: int) -> Move:
    move = Move.objects.filter(pk=move_id).first()
    if move is None:
        raise Refused(f"There is no move {move_id}.")
    return move


def _transition(
    move_id: int,
    verb: str,
    allowed: set[MoveState],
    to: MoveState,
    who: str,
    why: str,
    started: bool = False,
    withdraw: bool = False,
) -> Move:
    with _refusals(move_id, verb, who, why), transaction.atomic():
        move = _get(move_id)
        if move.state not in allowed:
            raise Refused(
                f"Move {move_id} is {move.state}; this needs it to be {' or '.join(sorted(s.value for s in allowed))}."
            )
        move = _set_state(move, to, who, why, started=started)
        if withdraw:
            move.parts.filter(state__in=(PartState.ORDERED, PartState.SEEDING)).update(
                state=PartState.WAITING, version=F("version") + 1
            )
        _record(move, verb, who, why, outcome=Outcome.PENDING if started else Outcome.CONFIRMED)
        return move


def _set_state(move: Move, to: MoveState, who: str, why: str, *, started: bool = False, finished: bool = False) -> Move:
    values: dict[str, Any] = {"state": to, "version": F("version") + 1, "needs_bytes_per_s": None, "resumes_at": None}
    values |= {"waits_for": "", "sums": None}
    if to in (MoveState.CANCELLING, MoveState.ROLLING_BACK):
        values |= {"samples": [], "bytes_per_s": None, "ends_in_s_min": None, "ends_in_s_max": None}
    if started:
        values["started_at"] = timezone.now()
    if finished:
        values["finished_at"] = timezone.now()
    if not Move.objects.filter(pk=move.pk, state=move.state, version=move.version).update(**values):
        raise Refused(f"Move {move.pk} changed in this moment; look at it again.")
    transition(move, to, who, why)
    return Move.objects.get(pk=move.pk)


class _refusals:
    """A refused act leaves a change row, written outside the transaction that it rolled back."""

    def __init__(self, move_id: int, verb: str, who: str, why: str) -> None:
        self.args = (who, verb, "move", str(move_id))
        self.why = why

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Refused):
            record_refusal(*self.args, error, why=self.why)


def _record(
    move: Move,
    verb: str,
    who: str,
    why: str,
    *,
    before: Any = None,
    after: Any = None,
    outcome: Outcome = Outcome.PENDING,
) -> None:
    record(
        who, verb, "move", str(move.pk),
        why=why, before=before, after=after, object_id=f"move-{move.pk}", outcome=outcome,
    )  # fmt: skip
