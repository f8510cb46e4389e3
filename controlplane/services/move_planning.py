"""Plans a move from a scope: previews the effects and writes the planned move. Invariants: `controlplane.domain.planner` decides, from rows alone.
Previous placement is recorded here, before any effect. A safety rule can be lifted only by two people: `override` only records the request
(see `proposals`). Does not contain the progress of a move (`moves`, `move_worker`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, TypedDict

from django.db import IntegrityError, transaction

from brokerd.cluster.cordons import is_cordoned
from brokerd.cluster.majority_config import has_majority_acks
from controlplane.db.bulk import insert_many, read_many
from controlplane.domain import planner as planning
from controlplane.domain import progress
from controlplane.domain import scope as scopes
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.move_states import Handover, MoveMode
from controlplane.domain.move_types import PlacementBefore
from controlplane.domain.planner_phrases import AND_MORE_SENTENCES
from controlplane.domain.scope import PartitionsScope, Scope, ScopeError
from controlplane.domain.tail_move import first_placement
from controlplane.models import Broker, Move, MovePartition, ObservedPartition, ObservedTopic
from controlplane.models.change import Outcome
from controlplane.services import tails, throttles
from controlplane.services.common import Rejected, audited, record
from weir_common.phrases import joined, phrase_to_json, sentence

PARTS_IN_FLIGHT_MAX = 64
"""Maximum number of partitions that a move copies at the same time. Each is a fetch stream that competes with the producers."""

MODES = tuple(MoveMode)
HANDOVERS = tuple(Handover)

DEADLINE_HOURS_MAX = 24 * 365
"""Maximum wait in hours: a year. A longer wait would be like no deadline."""

NAMED_MAX = 200
"""Maximum number of partitions listed by name in a change row or in a stored scope: a page of the audit log reads fifty such rows."""

SENTENCES_MAX = 20
"""Maximum number of problems, warnings and lifted rejections stored per move: a plan of 100,000 partitions may have one for each."""


@dataclass(frozen=True, slots=True)
class PartRow:
    """One planned partition, as `plan_move(dry=True)` and pages show it."""

    topic: str
    partition: int
    replicas_from: list[int]
    replicas_to: list[int]
    bytes_to_copy: int | None
    isr_min: int
    min_insync: int


@dataclass(frozen=True, slots=True)
class BrokerLoad:
    """Bytes that a move adds to a broker and removes from it. `free_bytes` None = not known."""

    broker_id: int
    bytes_in: int
    bytes_out: int
    free_bytes: int | None


@dataclass(frozen=True, slots=True)
class MovePreview:
    """`lasts_s`: (shortest, longest) in seconds under a throttle, determined by the broker that receives or sends most. None without a throttle or
    without known sizes: the speed of an unthrottled copy is known only when it runs. `overridable`: each of the problems is a safety rule that two
    people may lift."""

    parts: list[PartRow]
    bytes_to_copy: int | None
    brokers: list[BrokerLoad]
    lasts_s: tuple[float, float] | None
    problems: list[str]
    warnings: list[str]
    tail: tails.TailMovePreview
    """The same in mode `tail`, without old data."""
    overridable: bool = False


def parse_scope(value: Any) -> Scope:
    """The scope in a JSON value of REST or of a form (`scope.parse`). Raises Rejected."""
    try:
        return scopes.parse(value)
    except ScopeError as e:
        raise Rejected(str(e), "scope") from e


def preview_move(scope: Scope, throttle_bytes_per_s: int | None = None) -> MovePreview:
    """Return the plan that `plan_move` would write, without writing."""
    plan = compute_plan(scope)
    incoming, outgoing = plan.incoming_bytes(), plan.outgoing_bytes()
    free = {b.broker_id: b.free_bytes for b in Broker.objects.filter(broker_id__in=incoming.keys() | outgoing.keys())}
    lasts = None
    if throttle_bytes_per_s and plan.bytes_to_copy is not None:
        busiest = max([*incoming.values(), 0]) / throttle_bytes_per_s
        lasts = (busiest, busiest * 2 + progress.OVERHEAD_SECONDS * (1 + len(plan.parts)))
    return MovePreview(
        parts=[
            PartRow(
                p.view.topic,
                p.view.partition,
                list(p.view.replicas),
                list(p.replicas_to),
                p.bytes_to_copy,
                p.isr_min,
                p.view.min_insync,
            )
            for p in plan.parts
        ],
        bytes_to_copy=plan.bytes_to_copy,
        brokers=[
            BrokerLoad(b, incoming.get(b, 0), outgoing.get(b, 0), free.get(b))
            for b in sorted(incoming.keys() | outgoing.keys())
        ],
        lasts_s=lasts,
        problems=list(plan.problems),
        warnings=list(plan.warnings),
        tail=tails.preview_move(plan),
        overridable=bool(plan.problems) and set(plan.problems) <= set(plan.overridable),
    )


class MoveCaps(TypedDict, total=False):
    """Keyword arguments of `plan_move` that a form or a request may give."""

    parts_in_flight_max: int
    parts_per_broker_max: int
    throttle_bytes_per_s: int | None
    mode: str
    compare: bool
    deadline_hours: int | None
    handover: str


@audited(
    AuditOperation.MOVE_PLAN,
    lambda a: scopes.short_name(a["scope"]),
    after=lambda a: scopes.to_json(shorten_scope(a["scope"])),
)
def plan_move(
    scope: Scope,
    *,
    actor: str,
    comment: str = "",
    parts_in_flight_max: int = 8,
    parts_per_broker_max: int = 4,
    throttle_bytes_per_s: int | None = None,
    mode: str = "copy",
    override: bool = False,
    label: Scope | None = None,
    compare: bool = False,
    views: Sequence[planning.PlannerPartition] | None = None,
    deadline_hours: int | None = None,
    handover: str = "",
) -> Move:
    """Write a move in state `planned` with its previous values. Raises Rejected with every problem.

    `override`: write the move although safety rejects it; only the approval of two people can start it. `label`: the scope that pages show, if it
    differs from the planned scope. `compare`: old replicas are removed only after all replicas were compared and are equal; mode tail always
    compares.
    `views`: the partitions, where the caller has just read them. `deadline_hours`: in mode tail the wait for retention after the start of the move;
    then the move requests the deletion of the old records from the operator. `handover` "early": in mode tail the move does not wait for retention,
    and the old replicas keep the older records."""
    _check_mode_and_limits(mode, parts_in_flight_max, parts_per_broker_max)
    throttles.check(throttle_bytes_per_s)
    plan = compute_plan(scope, views)
    lifted = require_only_rejections(plan, override=override)
    _check_tail_options(mode, deadline_hours, handover)
    if mode == MoveMode.TAIL and (unfit := tails.tail_move_problems(plan, deadline=deadline_hours is not None)):
        raise Rejected(sentences(unfit), "mode")
    caps = {
        "parts_in_flight_max": parts_in_flight_max,
        "parts_per_broker_max": parts_per_broker_max,
        "throttle_bytes_per_s": throttle_bytes_per_s,
        "deadline_hours": deadline_hours,
        "handover": handover,
    }
    try:
        with transaction.atomic():
            return _write(
                plan,
                label or shorten_scope(scope),
                mode,
                actor,
                comment,
                caps,
                lifted,
                compare or mode == MoveMode.TAIL,
            )
    except IntegrityError:
        raise Rejected(
            sentence("{plan} Cancel that move, or wait until it ends.", plan=_already_moving(plan)), "scope"
        ) from None


def _check_mode_and_limits(mode: str, parts_in_flight_max: int, parts_per_broker_max: int) -> None:
    """Raises Rejected."""
    if mode not in MODES:
        raise Rejected(sentence("Unknown mode {mode}; use {modes}.", mode=repr(mode), modes=" or ".join(MODES)), "mode")
    if not 1 <= parts_in_flight_max <= PARTS_IN_FLIGHT_MAX:
        raise Rejected(
            sentence(
                "{parts_in_flight_max} concurrent partitions is out of range; use 1 to {max}.",
                parts_in_flight_max=parts_in_flight_max,
                max=PARTS_IN_FLIGHT_MAX,
            ),
            "parts_in_flight_max",
        )
    if not 1 <= parts_per_broker_max <= PARTS_IN_FLIGHT_MAX:
        raise Rejected(
            sentence(
                "{parts_per_broker_max} concurrent copies per broker is out of range; use 1 to {max}.",
                parts_per_broker_max=parts_per_broker_max,
                max=PARTS_IN_FLIGHT_MAX,
            ),
            "parts_per_broker_max",
        )


def _check_tail_options(mode: str, deadline_hours: int | None, handover: str) -> None:
    """Check the options that only mode tail has. Raises Rejected."""
    if deadline_hours is not None and (mode != MoveMode.TAIL or not 1 <= deadline_hours <= DEADLINE_HOURS_MAX):
        raise Rejected(
            sentence(
                "A deadline of {deadline_hours} h is not possible; only mode tail has a deadline, of 1 to {max} h.",
                deadline_hours=deadline_hours,
                max=DEADLINE_HOURS_MAX,
            ),
            "deadline_hours",
        )
    if handover not in HANDOVERS or (handover and mode != MoveMode.TAIL):
        raise Rejected(
            sentence(
                "Hand-over {handover} is not possible in mode {mode}; only mode tail has a hand-over: early.",
                handover=repr(handover),
                mode=mode,
            ),
            "handover",
        )
    if handover and deadline_hours is not None:
        raise Rejected("An early hand-over does not wait for retention; remove the deadline.", "deadline_hours")


def require_only_rejections(plan: planning.ComputedPlan, *, override: bool) -> tuple[str, ...]:
    """The safety rules that the plan violates. Raises Rejected with every other problem (and with these, too, without `override`)."""
    lifted = plan.overridable if override else ()
    may = set(lifted)
    if problems := [p for p in plan.problems if p not in may]:
        raise Rejected(sentences(problems), "scope")
    return lifted


def shorten_scope(scope: Scope) -> Scope:
    """Return the scope as rows store it. A long list of partitions is stored as the first partition and the number of partitions, because each
    partition has its own row."""
    if not isinstance(scope, PartitionsScope) or len(scope.partitions) <= NAMED_MAX:
        return scope
    return PartitionsScope(scope.partitions[:1], len(scope.partitions))


def _write(
    plan: planning.ComputedPlan,
    scope: Scope,
    mode: str,
    actor: str,
    comment: str,
    caps: Mapping[str, int | str | None],
    lifted: Sequence[str],
    compare: bool,
) -> Move:
    note = sentences(plan.warnings) if plan.warnings else ""
    move = Move.objects.create(
        mode=mode,
        scope=scope,
        actor=actor,
        comment=comment,
        note=note,
        note_phrase=phrase_to_json(note),
        overrides=tuple(lifted[:SENTENCES_MAX]),
        throttled=caps["throttle_bytes_per_s"] is not None,
        **caps,
    )

    _insert_partitions(move, plan, scope, compare=compare)
    _record_plan(move, plan, lifted)
    return move


def _insert_partitions(move: Move, plan: planning.ComputedPlan, scope: Scope, *, compare: bool) -> None:
    """Write one row for each partition of a move, in the order of copying."""

    def first_target(old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
        return first_placement(old, new) if compare else new

    insert_many(
        MovePartition,
        (
            "move_id",
            "topic_id",
            "topic_name",
            "partition",
            "before",
            "replicas_from",
            "replicas_to",
            "desired_replicas",
            "read_generation",
            "bytes_total",
        ),
        (
            (
                move.pk,
                v.topic_id,
                v.topic,
                v.partition,
                PlacementBefore(v.replicas, v.leader, v.isr),
                v.replicas,
                p.replicas_to,
                first_target(v.replicas, p.replicas_to),
                v.generation,
                p.bytes_to_copy if move.mode == MoveMode.COPY else 0,
            )
            for p in (plan.parts if isinstance(scope, PartitionsScope) else copy_order(plan.parts))
            for v in (p.view,)
        ),
    )


def _record_plan(move: Move, plan: planning.ComputedPlan, lifted: Sequence[str]) -> None:
    """Record a planned move in the audit log, with the replicas of its first partitions before and after."""
    named = plan.parts[:NAMED_MAX]
    before: dict[str, object] = {f"{p.view.topic}-{p.view.partition}": list(p.view.replicas) for p in named}
    after: dict[str, object] = {f"{p.view.topic}-{p.view.partition}": list(p.replicas_to) for p in named}
    if more := len(plan.parts) - len(named):
        before["..."] = after["..."] = f"{more} more: see the partitions of the move"
    detail = f"Overrides a safety check: {sentences(lifted)}" if lifted else ""
    record(
        move.actor,
        AuditOperation.MOVE_PLAN,
        "move",
        str(move.pk),
        comment=move.comment,
        before=before,
        after=after,
        object_id=f"move-{move.pk}",
        outcome=Outcome.CONFIRMED,
        detail=detail,
    )


def copy_order(parts: Sequence[planning.PlannedPart]) -> list[planning.PlannedPart]:
    """The order of copying: large and small partitions alternately. With the largest last, the speed would be known only near the end.
    Partitions that an operator lists by name keep the operator's order."""
    by_size = sorted(parts, key=lambda p: -(p.bytes_to_copy or 0))
    half = (len(by_size) + 1) // 2
    large, small = by_size[:half], by_size[half:][::-1]
    return [p for pair in zip_longest(large, small) for p in pair if p is not None]


def sentences(texts: Sequence[str]) -> str:
    """Return the first SENTENCES_MAX sentences and the number of the others, because a list of thousands cannot be read."""
    more = len(texts) - SENTENCES_MAX
    rest = [sentence(AND_MORE_SENTENCES, count=more)] if more > 0 else []
    return joined([*texts[:SENTENCES_MAX], *rest])


def compute_plan(scope: Scope, views: Sequence[planning.PlannerPartition] | None = None) -> planning.ComputedPlan:
    """Raises Rejected for an unknown goal or an invalid tolerance of a rebalance."""
    return planning.plan(scope, partition_views() if views is None else views, broker_views())


def partition_views() -> list[planning.PlannerPartition]:
    """Every partition as the monitor mirrored it, by topic and number."""
    from controlplane.selectors.topic_configs import cluster_defaults, min_insync

    defaults = cluster_defaults()
    observed_topics = ObservedTopic.objects.only("id", "name", "configs", "records_per_s", "partition_count")
    topics = {
        t.id: (
            t.name,
            min_insync(t.configs, defaults),
            (t.records_per_s or 0.0) / max(1, t.partition_count),
            has_majority_acks(t.configs),
        )
        for t in observed_topics
    }
    columns = (
        "topic_id",
        "index",
        "replicas",
        "isr",
        "leader",
        "assignment_generation",
        "size_bytes",
        "adding",
        "removing",
    )
    views = [
        planning.PlannerPartition(
            topic_id=topic_id,
            topic=topics[topic_id][0],
            partition=index,
            replicas=replicas,
            isr=isr,
            leader=leader,
            generation=generation,
            size_bytes=size,
            min_insync=topics[topic_id][1],
            reassigning=bool(adding or removing),
            records_per_s=topics[topic_id][2],
            majority_acks=topics[topic_id][3],
        )
        for topic_id, index, replicas, isr, leader, generation, size, adding, removing in read_many(
            ObservedPartition.objects.order_by(), columns
        )
        if topic_id in topics
    ]
    return sorted(views, key=lambda v: (v.topic, v.partition))


def broker_views() -> list[planning.PlannerBroker]:
    return [
        planning.PlannerBroker(b.broker_id, b.alive, b.rack, b.failure_domain, b.free_bytes, is_cordoned(b.configs))
        for b in Broker.objects.all()
    ]


def _already_moving(plan: planning.ComputedPlan) -> str:
    keys = {(p.view.topic_id, p.view.partition) for p in plan.parts}
    for row in MovePartition.objects.filter(active=True, topic_id__in={t for t, _ in keys}):
        if (row.topic_id, row.partition) in keys:
            return sentence(
                "{partition} is part of move {move}.", partition=f"{row.topic_name}-{row.partition}", move=row.move_id
            )
    return sentence("One of the partitions is part of another move.")
