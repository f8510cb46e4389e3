"""Moves: plan, approve, start, pause, resume, cancel, roll back, and one step of advancing. Law: the state changes by compare-and-set on
(id, state, version); previous placement is recorded when planned, before any effect; what a step does is decided in `moves.py`.

Called by the API, the console and the worker (`advance_move`). The controller reads the orders (`ordered_parts`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils import timezone

from controlplane import moves as core
from controlplane import plan as planning
from controlplane.models import Broker, Change, Move, MovePartition, Partition
from controlplane.models.change import Outcome
from controlplane.models.move import FINISHED_STATES, WORKING_STATES, MoveState, PartState
from controlplane.services.common import Refused, record, record_refusal

PARTS_IN_FLIGHT_MAX = 64
"""Partitions copied at a time, at most, per move: each is a fetch stream that competes with the producers."""


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
class Preview:
    parts: list[PartRow]
    bytes_to_copy: int | None
    problems: list[str]
    warnings: list[str]


def preview_move(scope: Mapping[str, Any]) -> Preview:
    """What `plan_move` would plan, without writing. Raises Refused only for a scope that cannot be read."""
    plan = _plan(scope)
    return Preview(
        parts=[
            PartRow(
                p.view.topic, p.view.partition, list(p.view.replicas), list(p.replicas_to), p.bytes_to_copy, p.isr_min,
                p.view.min_insync,
            )
            for p in plan.parts
        ],
        bytes_to_copy=plan.bytes_to_copy,
        problems=list(plan.problems),
        warnings=list(plan.warnings),
    )  # fmt: skip


def plan_move(
    scope: Mapping[str, Any], *, who: str, why: str = "", parts_in_flight_max: int = 8, mode: str = "copy"
) -> Move:
    """Write a move in state `planned` with its previous values. See `plan.plan` for scopes. Raises Refused with every problem."""
    try:
        if mode != "copy":
            raise Refused(f"Mode {mode!r} is not built; use copy.", "mode")
        if not 1 <= parts_in_flight_max <= PARTS_IN_FLIGHT_MAX:
            raise Refused(
                f"{parts_in_flight_max} partitions at a time; use 1 to {PARTS_IN_FLIGHT_MAX}.", "parts_in_flight_max"
            )
        plan = _plan(scope)
        if plan.problems:
            raise Refused(" ".join(plan.problems), "scope")
        try:
            with transaction.atomic():
                return _write(plan, scope, mode, who, why, parts_in_flight_max)
        except IntegrityError:
            raise Refused(f"{_already_moving(plan)} Cancel that move or wait for its end.", "scope") from None
    except Refused as refused:
        record_refusal(who, "move.plan", "move", _scope_name(scope), refused, why=why, after=dict(scope))
        raise


def _write(plan: planning.Plan, scope: Mapping[str, Any], mode: str, who: str, why: str, in_flight_max: int) -> Move:
    move = Move.objects.create(
        mode=mode, scope=dict(scope), who=who, why=why, parts_in_flight_max=in_flight_max, note=" ".join(plan.warnings)
    )
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
        for part in part_views(move):
            if part.observed is None:
                raise Refused(f"{part.name} is gone from the cluster; plan the move again.")
            if part.observed.generation != part.read_generation:
                raise Refused(
                    f"{part.name} was placed anew since the move was planned (generation {part.read_generation}, now "
                    f"{part.observed.generation}, replicas {list(part.observed.replicas)}); plan the move again."
                )
    return _transition(
        move_id, "move.start", {MoveState.PLANNED, MoveState.APPROVED}, MoveState.RUNNING, who, why, started=True
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
            move = _set_state(move, MoveState.CANCELLED, finished=True)
            move.parts.update(active=False, state=PartState.UNTOUCHED, version=F("version") + 1)
            _record(move, "move.cancel", who, why, outcome=Outcome.CONFIRMED)
            return move
        if move.state not in (MoveState.RUNNING, MoveState.PAUSED, MoveState.VERIFYING):
            raise Refused(f"Move {move_id} is {move.state}; only a planned, running or paused move can be cancelled.")
        views = part_views(move)
        if (problem := core.cancel_problem(views, _alive())) is not None:
            raise Refused(problem)
        move = _set_state(move, MoveState.CANCELLING)
        _apply(move, core.cancel_steps(views))
        _record(move, "move.cancel", who, why)
        return move


def roll_back_move(move_id: int, *, who: str, why: str = "") -> Move:
    """Return every touched partition to its recorded placement, in order. Possible while it runs and after it ended. Raises Refused
    when another move holds one of the partitions, or when a part in flight has no old replica alive and in sync."""
    with _refusals(move_id, "move.roll_back", who, why), transaction.atomic():
        move = _get(move_id)
        if move.state in (MoveState.PLANNED, MoveState.APPROVED, MoveState.ROLLED_BACK, MoveState.ROLLING_BACK):
            raise Refused(f"Move {move_id} is {move.state}; there is nothing to roll back.")
        views = part_views(move)
        if (problem := core.cancel_problem(views, _alive())) is not None:
            raise Refused(problem)
        dead = sorted({b for v in views for b in v.replicas_from} - _alive())
        if dead and any(v.state == "done" for v in views):
            raise Refused(f"Broker {dead[0]} of the recorded placement is not alive; start it first.")
        move = _set_state(move, MoveState.ROLLING_BACK)
        Move.objects.filter(pk=move.pk).update(finished_at=None)
        try:
            with transaction.atomic():
                _apply(move, core.roll_back_steps(views))
        except IntegrityError:
            raise Refused(f"Another move holds partitions of move {move_id}; cancel it or wait for its end.") from None
        _record(move, "move.roll_back", who, why)
        return move


# -- the worker's side ----------------------------------------------------------------------------------------------------


def working_moves() -> list[int]:
    """Ids of moves that want a look."""
    return list(Move.objects.filter(state__in=WORKING_STATES).order_by("id").values_list("id", flat=True))


def advance_move(move_id: int) -> str | None:
    """One look, one short step. Returns the move's state afterwards, None when another worker was faster. Idempotent."""
    with transaction.atomic():
        move = Move.objects.filter(pk=move_id, state__in=WORKING_STATES).first()
        if move is None:
            return None
        steps = core.next_steps(
            core.MoveView(move.state, tuple(part_views(move)), move.parts_in_flight_max, _alive()), time.time()
        )
        if not steps.parts and steps.state is None:
            return move.state
        # The move's version is the one lock: whoever loses it changes nothing at all.
        changes: dict[str, Any] = {"version": F("version") + 1}
        if steps.parts:
            changes["step"] = F("step") + 1
        if steps.state is not None:
            changes["state"] = steps.state
        if steps.note is not None:
            changes["note"] = steps.note
        if steps.state in FINISHED_STATES:
            changes["finished_at"] = timezone.now()
        if not Move.objects.filter(pk=move.pk, state=move.state, version=move.version).update(**changes):
            return None
        _apply(move, steps.parts)
        if steps.state in FINISHED_STATES:
            outcome = Outcome.CONFIRMED if steps.state != MoveState.FAILED else Outcome.UNKNOWN
            Change.objects.filter(object_id=f"move-{move.pk}", outcome=Outcome.PENDING).update(
                outcome=outcome, detail=steps.note or "", finished_at=timezone.now()
            )
            record("worker", f"move.{steps.state}", "move", str(move.pk), object_id=f"move-{move.pk}",
                   outcome=outcome, detail=steps.note or "")  # fmt: skip
        return steps.state or move.state


def ordered_parts() -> list[MovePartition]:
    """What the controller should do now: `wanted`, bound to `read_generation`. Read by its database thread."""
    return list(
        MovePartition.objects.filter(
            Q(state=PartState.ORDERED) & Q(active=True) & Q(move__state__in=WORKING_STATES)
        ).order_by("id")
    )


def part_views(move: Move) -> list[core.PartView]:
    """The move's parts with what was observed of each, in the order in which they run."""
    parts = list(move.parts.order_by("id"))
    seen = observed_parts((p.topic_id, p.partition) for p in parts)
    return [
        core.PartView(
            id=p.pk,
            name=f"{p.topic_name}-{p.partition}",
            state=p.state,
            replicas_from=tuple(p.replicas_from),
            replicas_to=tuple(p.replicas_to),
            wanted=tuple(p.wanted),
            read_generation=p.read_generation,
            ordered_at=p.ordered_at.timestamp() if p.ordered_at else None,
            progress_at=p.progress_at.timestamp() if p.progress_at else None,
            bytes_done=p.bytes_done,
            observed=seen.get((p.topic_id, p.partition)),
            bytes_total=p.bytes_total,
            note=p.note,
        )
        for p in parts
    ]


def observed_parts(keys: Iterable[tuple[Any, int]]) -> dict[tuple[Any, int], core.ObservedPart]:
    wanted = set(keys)
    rows = Partition.objects.filter(topic_id__in={t for t, _ in wanted}).prefetch_related("replica_rows")
    return {
        (row.topic_id, row.index): core.ObservedPart(
            replicas=tuple(row.replicas),
            isr=tuple(row.isr),
            adding=tuple(row.adding),
            removing=tuple(row.removing),
            leader=row.leader,
            generation=row.assignment_generation,
            sizes={r.broker_id: r.size_bytes for r in row.replica_rows.all() if r.size_bytes is not None},
            lags={r.broker_id: r.lag_records for r in row.replica_rows.all() if r.lag_records is not None},
        )
        for row in rows
        if (row.topic_id, row.index) in wanted
    }


def _apply(move: Move, steps: Sequence[core.PartStep]) -> None:
    now = timezone.now()
    for step in steps:
        values: dict[str, Any] = {"state": step.state, "version": F("version") + 1}
        if step.wanted is not None:
            values["wanted"] = list(step.wanted)
        for name in ("read_generation", "bytes_total", "bytes_done", "active", "note"):
            if (value := getattr(step, name)) is not None:
                values[name] = value
        if step.progressed:
            values["progress_at"] = now
        if step.ordered:
            values["ordered_at"] = now
        if step.state in core.ENDED:
            values["finished_at"] = now
        MovePartition.objects.filter(pk=step.part_id, move=move).update(**values)


def _plan(scope: Mapping[str, Any]) -> planning.Plan:
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
    return [planning.BrokerView(b.broker_id, b.alive, b.rack, b.failure_domain) for b in Broker.objects.all()]


def _alive() -> frozenset[int]:
    return frozenset(Broker.objects.filter(alive=True).values_list("broker_id", flat=True))


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
        move = _set_state(move, to, started=started)
        if withdraw:
            move.parts.filter(state=PartState.ORDERED).update(state=PartState.WAITING, version=F("version") + 1)
        _record(move, verb, who, why, outcome=Outcome.PENDING if started else Outcome.CONFIRMED)
        return move


def _set_state(move: Move, to: MoveState, *, started: bool = False, finished: bool = False) -> Move:
    values: dict[str, Any] = {"state": to, "version": F("version") + 1}
    if started:
        values["started_at"] = timezone.now()
    if finished:
        values["finished_at"] = timezone.now()
    if not Move.objects.filter(pk=move.pk, state=move.state, version=move.version).update(**values):
        raise Refused(f"Move {move.pk} changed in this moment; look at it again.")
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
