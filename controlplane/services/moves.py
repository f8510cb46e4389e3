"""Moves, as an operator orders them: plan, approve, start, pause, resume, cancel, roll back, throttle. Laws: the state changes by
compare-and-set on (id, state, version), with a row that says who and why; previous placement is recorded when planned, throttles when
started, before any effect; what may be done is decided in `controlplane.moves`. Called by the API and the console. Must not come in: how a
move goes on by itself (`advancing`), what clients of brokers ask for (`reassignments`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils import timezone

from controlplane import moves as core
from controlplane import pace
from controlplane import plan as planning
from controlplane.models import Broker, Move, MovePartition, Partition, Topic
from controlplane.models.change import Outcome
from controlplane.models.move import FINISHED_STATES, MoveState, PartState
from controlplane.services import throttles
from controlplane.services.advancing import alive, apply_steps, transition, views_of
from controlplane.services.common import Refused, record, record_refusal

PARTS_IN_FLIGHT_MAX = 64
"""Partitions copied at a time, at most, per move: each is a fetch stream that competes with the producers."""

UNTOUCHED = Q(state="waiting", ordered_at__isnull=True)


@dataclass(frozen=True, slots=True)
class PartRow:
    """What `plan_move(dry=True)` and pages show of one planned part."""

    topic: str
    partition: int
    replicas_from: list[int]
    replicas_to: list[int]
    bytes_to_copy: int | None
    isr_min: int
    min_insync: int


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """What a move brings to a broker and takes from it, in bytes. `free_bytes` None = not known."""

    broker_id: int
    bytes_in: int
    bytes_out: int
    free_bytes: int | None


@dataclass(frozen=True, slots=True)
class Preview:
    """`lasts_s`: (shortest, longest) in seconds under a throttle, by the broker that gets or gives most; None without one, or where sizes
    are not known: how fast a copy goes unthrottled shows when it runs."""

    parts: list[PartRow]
    bytes_to_copy: int | None
    brokers: list[BrokerLoad]
    lasts_s: tuple[float, float] | None
    problems: list[str]
    warnings: list[str]


def known_scope(scope: Mapping[str, Any]) -> Mapping[str, Any]:
    """The scope itself, or what Kafka's own file of a reassignment ({"version": 1, "partitions": [..]}) means. Raises Refused for directories:
    a broker chooses where it puts a copy."""
    if "kind" in scope or not isinstance(scope.get("partitions"), list):
        return scope
    parts = [p for p in scope["partitions"] if isinstance(p, Mapping)]
    named = next((p for p in parts if any(d != "any" for d in p.get("log_dirs") or ())), None)
    if named is not None:
        raise Refused(
            f"log_dirs {named['log_dirs']} cannot be chosen here; leave them out, and move copies between directories later.",
            "scope",
        )
    return {
        "kind": "partitions",
        "partitions": [{k: p.get(k) for k in ("topic", "partition", "replicas")} for p in parts],
    }


def preview_move(scope: Mapping[str, Any], throttle_bytes_per_s: int | None = None) -> Preview:
    """What `plan_move` would plan, without writing. Raises Refused only for a scope that cannot be read."""
    plan = _plan(scope)
    came, went = plan.incoming(), plan.outgoing()
    free = {b.broker_id: b.free_bytes for b in Broker.objects.filter(broker_id__in=came.keys() | went.keys())}
    lasts = None
    if throttle_bytes_per_s and plan.bytes_to_copy is not None:
        busiest = max([*came.values(), 0]) / throttle_bytes_per_s
        lasts = (busiest, busiest * 2 + pace.OVERHEAD_SECONDS * (1 + len(plan.parts)))
    return Preview(
        parts=[
            PartRow(
                p.view.topic, p.view.partition, list(p.view.replicas), list(p.replicas_to), p.bytes_to_copy, p.isr_min,
                p.view.min_insync,
            )
            for p in plan.parts
        ],
        bytes_to_copy=plan.bytes_to_copy,
        brokers=[
            BrokerLoad(b, came.get(b, 0), went.get(b, 0), free.get(b)) for b in sorted(came.keys() | went.keys())
        ],
        lasts_s=lasts,
        problems=list(plan.problems),
        warnings=list(plan.warnings),
    )  # fmt: skip


def plan_move(
    scope: Mapping[str, Any],
    *,
    who: str,
    why: str = "",
    parts_in_flight_max: int = 8,
    parts_per_broker_max: int = 4,
    throttle_bytes_per_s: int | None = None,
    mode: str = "copy",
) -> Move:
    """Write a move in state `planned` with its previous values. See `plan.plan` for scopes. Raises Refused with every problem."""
    try:
        if mode != "copy":
            raise Refused(f"Mode {mode!r} is not built; use copy.", "mode")
        if not 1 <= parts_in_flight_max <= PARTS_IN_FLIGHT_MAX:
            raise Refused(
                f"{parts_in_flight_max} partitions at a time; use 1 to {PARTS_IN_FLIGHT_MAX}.", "parts_in_flight_max"
            )
        if not 1 <= parts_per_broker_max <= PARTS_IN_FLIGHT_MAX:
            raise Refused(
                f"{parts_per_broker_max} copies at a time on a broker; use 1 to {PARTS_IN_FLIGHT_MAX}.",
                "parts_per_broker_max",
            )
        throttles.check(throttle_bytes_per_s)
        plan = _plan(scope)
        if plan.problems:
            raise Refused(" ".join(plan.problems), "scope")
        try:
            with transaction.atomic():
                caps = {
                    "parts_in_flight_max": parts_in_flight_max,
                    "parts_per_broker_max": parts_per_broker_max,
                    "throttle_bytes_per_s": throttle_bytes_per_s,
                }
                return _write(plan, known_scope(scope), mode, who, why, caps)
        except IntegrityError:
            raise Refused(f"{_already_moving(plan)} Cancel that move or wait for its end.", "scope") from None
    except Refused as refused:
        record_refusal(who, "move.plan", "move", _scope_name(scope), refused, why=why, after=dict(scope))
        raise


def _write(
    plan: planning.Plan, scope: Mapping[str, Any], mode: str, who: str, why: str, caps: Mapping[str, int | None]
) -> Move:
    move = Move.objects.create(
        mode=mode, scope=dict(scope), who=who, why=why, note=" ".join(plan.warnings), throttled=caps["throttle_bytes_per_s"] is not None,
        **caps,
    )  # fmt: skip
    MovePartition.objects.bulk_create(
        MovePartition(
            move=move,
            topic_id=p.view.topic_id,
            topic_name=p.view.topic,
            partition=p.view.partition,
            before={"replicas": list(p.view.replicas), "leader": p.view.leader, "isr": list(p.view.isr)},
            replicas_from=list(p.view.replicas),
            replicas_to=list(p.replicas_to),
            wanted=list(p.replicas_to),
            read_generation=p.view.generation,
            bytes_total=p.bytes_to_copy,
        )
        for p in plan.parts
    )
    before = {f"{p.view.topic}-{p.view.partition}": list(p.view.replicas) for p in plan.parts}
    after = {f"{p.view.topic}-{p.view.partition}": list(p.replicas_to) for p in plan.parts}
    _record(move, "move.plan", who, why, before=before, after=after, outcome=Outcome.CONFIRMED)
    return move


def approve_move(move_id: int, *, who: str, why: str = "") -> Move:
    """planned -> approved. Raises Refused in another state."""
    return _transition(move_id, "move.approve", {MoveState.PLANNED}, MoveState.APPROVED, who, why)


def start_move(move_id: int, *, who: str, why: str = "") -> Move:
    """planned or approved -> running. The worker advances it from there. Raises Refused when a partition changed since planning."""
    with _refusals(move_id, "move.start", who, why):
        move = _get(move_id)
        _unchanged(move)
        if move.throttle_bytes_per_s is not None:
            _throttleable(move)
        parts = move.parts.values_list("topic_id", "replicas_from", "replicas_to")
        held = throttles.in_force({t for t, _, _ in parts}, {b for _, old, new in parts for b in (*old, *new)})
        Move.objects.filter(pk=move.pk, started_at__isnull=True).update(throttles_before=held)
    return _transition(
        move_id, "move.start", {MoveState.PLANNED, MoveState.APPROVED}, MoveState.RUNNING, who, why, started=True
    )


def _unchanged(move: Move) -> None:
    """Raises Refused when a partition is not as it was when the move was planned."""
    topic_ids = set(move.parts.values_list("topic_id", flat=True))
    columns = ("topic_id", "index", "assignment_generation", "replicas")
    seen = {(t, i): (g, r) for t, i, g, r in Partition.objects.filter(topic_id__in=topic_ids).values_list(*columns)}
    for t, i, name, read in move.parts.values_list("topic_id", "partition", "topic_name", "read_generation"):
        if (t, i) not in seen:
            raise Refused(f"{name}-{i} is gone from the cluster; plan the move again.")
        generation, replicas = seen[t, i]
        if generation != read:
            raise Refused(
                f"{name}-{i} was placed anew since the move was planned (generation {read}, now {generation}, replicas {replicas}); "
                "plan the move again."
            )


def pause_move(move_id: int, *, who: str, why: str = "") -> Move:
    """running -> paused: no further copy begins, orders no controller has taken are withdrawn; copies under way finish."""
    return _transition(move_id, "move.pause", {MoveState.RUNNING}, MoveState.PAUSED, who, why, withdraw=True)


def resume_move(move_id: int, *, who: str, why: str = "") -> Move:
    """paused -> running. Raises Refused in another state."""
    return _transition(move_id, "move.resume", {MoveState.PAUSED}, MoveState.RUNNING, who, why)


def cancel_move(move_id: int, *, who: str, why: str = "") -> Move:
    """Waiting parts stay, parts in flight return to their recorded placement, parts that arrived stay. Raises Refused when a part in
    flight has no old replica alive and in sync. A move that was never started is cancelled at once."""
    with _refusals(move_id, "move.cancel", who, why), transaction.atomic():
        move = _get(move_id)
        if move.state in (MoveState.PLANNED, MoveState.APPROVED):
            move = _set_state(move, MoveState.CANCELLED, who, why, finished=True)
            move.parts.update(active=False, state=PartState.UNTOUCHED, version=F("version") + 1)
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


def throttle_move(move_id: int, bytes_per_s: int | None, *, who: str, why: str = "") -> Move:
    """Slower or faster, or not held back at all (None), also while it copies: brokers hear of it in the metadata log. Raises Refused."""
    with _refusals(move_id, "move.throttle", who, why), transaction.atomic():
        move = _get(move_id)
        throttles.check(bytes_per_s)
        if move.state in FINISHED_STATES:
            raise Refused(f"Move {move_id} is {move.state}; there is nothing to throttle.")
        before = move.throttle_bytes_per_s
        if before == bytes_per_s:
            _record(move, "move.throttle", who, why, before=before, after=bytes_per_s, outcome=Outcome.UNCHANGED)
            return move
        if bytes_per_s is not None:
            _throttleable(move)
        changed = Move.objects.filter(pk=move.pk, state=move.state, version=move.version).update(
            throttle_bytes_per_s=bytes_per_s,
            throttled=move.throttled or bytes_per_s is not None,
            needs_bytes_per_s=None,
            version=F("version") + 1,
        )
        if not changed:
            raise Refused(f"Move {move.pk} changed in this moment; look at it again.")
        throttles.refresh()
        _record(move, "move.throttle", who, why, before=before, after=bytes_per_s, outcome=Outcome.CONFIRMED)
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


def _plan(scope: Mapping[str, Any]) -> planning.Plan:
    scope = known_scope(scope)
    try:
        return planning.plan(scope, partition_views(), broker_views())
    except (KeyError, TypeError, ValueError) as e:
        raise Refused(f"The scope cannot be read: {e!r}. It needs a kind and that kind's fields.", "scope") from e


def partition_views() -> list[planning.PartitionView]:
    from controlplane.services.topic_configs import min_insync

    return [
        planning.PartitionView(
            topic_id=row.topic_id,
            topic=row.topic.name,
            partition=row.index,
            replicas=tuple(row.replicas),
            isr=tuple(row.isr),
            leader=row.leader,
            generation=row.assignment_generation,
            size_bytes=row.size_bytes,
            min_insync=min_insync(row.topic.configs),
            reassigning=bool(row.adding or row.removing),
        )
        for row in Partition.objects.select_related("topic").order_by("topic__name", "index")
    ]


def broker_views() -> list[planning.BrokerView]:
    return [
        planning.BrokerView(b.broker_id, b.alive, b.rack, b.failure_domain, b.free_bytes) for b in Broker.objects.all()
    ]


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
            move.parts.filter(state=PartState.ORDERED).update(state=PartState.WAITING, version=F("version") + 1)
        _record(move, verb, who, why, outcome=Outcome.PENDING if started else Outcome.CONFIRMED)
        return move


def _set_state(move: Move, to: MoveState, who: str, why: str, *, started: bool = False, finished: bool = False) -> Move:
    values: dict[str, Any] = {"state": to, "version": F("version") + 1, "needs_bytes_per_s": None}
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


def _scope_name(scope: Mapping[str, Any]) -> str:
    return str(scope.get("topic") or scope.get("broker") or scope.get("kind") or "")[:255]


def _already_moving(plan: planning.Plan) -> str:
    keys = {(p.view.topic_id, p.view.partition) for p in plan.parts}
    for row in MovePartition.objects.filter(active=True, topic_id__in={t for t, _ in keys}):
        if (row.topic_id, row.partition) in keys:
            return f"{row.topic_name}-{row.partition} is part of move {row.move_id}."
    return "One of the partitions is part of another move."
