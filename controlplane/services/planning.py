"""From a scope to a planned move: what would happen, and the row that says it shall. Laws: a plan decides in `controlplane.plan`, from rows alone;
previous placement is recorded here, before any effect; a safety refusal is lifted by two people or not at all (`override` only writes down
what is asked for; see `proposals`). Called by `services.moves`' callers. Must not come in: how a move goes on (`moves`, `advancing`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from brokerd.cluster.cordons import cordoned
from controlplane import pace
from controlplane import plan as planning
from controlplane.bulk import insert_many, read_many
from controlplane.models import Broker, Move, MovePartition, ObservedTopic, Partition
from controlplane.models.change import Outcome
from controlplane.services import tails, throttles
from controlplane.services.common import Refused, record, record_refusal
from controlplane.tails import first_placement

PARTS_IN_FLIGHT_MAX = 64
"""Partitions copied at a time, at most, per move: each is a fetch stream that competes with the producers."""

MODES = ("copy", "tail")
"""With all old data, or without any (docs/safety.md section 8)."""

HANDOVERS = ("", "early")

DEADLINE_HOURS_MAX = 24 * 365
"""Whoever would wait for longer than a year waits for ever."""

NAMED_MAX = 200
"""Partitions named one by one in a change row, or kept of a scope by hand: a page of the audit reads fifty such rows."""

SENTENCES_MAX = 20
"""Problems, warnings and lifted refusals written down per move: a plan of 100,000 partitions may have one for each."""


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
    are not known: how fast a copy goes unthrottled shows when it runs. `overridable`: each of the problems is a safety refusal that two people
    may lift."""

    parts: list[PartRow]
    bytes_to_copy: int | None
    brokers: list[BrokerLoad]
    lasts_s: tuple[float, float] | None
    problems: list[str]
    warnings: list[str]
    tail: tails.Outlook
    """The same in mode `tail`, without old data."""
    overridable: bool = False


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
    plan = planned(scope)
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
        tail=tails.outlook(plan),
        overridable=bool(plan.problems) and set(plan.problems) <= set(plan.overridable),
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
    override: bool = False,
    label: Mapping[str, Any] | None = None,
    compare: bool = False,
    views: Sequence[planning.PartitionView] | None = None,
    deadline_hours: int | None = None,
    handover: str = "",
) -> Move:
    """Write a move in state `planned` with its previous values. See `plan.plan` for scopes. `override`: write it down although safety refuses it,
    for two people to lift; it begins by nothing else. `label`: the scope that is shown, where it was planned from another. `compare`: old
    copies go only once all copies were compared and are equal; in mode tail they always do. `views`: the partitions, where the caller has just
    read them. `deadline_hours`: in mode tail retention is waited for so long after its start, then a cut is asked for. `handover` "early": in mode
    tail it is not waited for at all, the old replicas hold what is older. Raises Refused with every problem."""
    try:
        if mode not in MODES:
            raise Refused(f"There is no mode {mode!r}; use {' or '.join(MODES)}.", "mode")
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
        plan = planned(scope, views)
        lifted = unproblematic(plan, override=override)
        if deadline_hours is not None and (mode != "tail" or not 1 <= deadline_hours <= DEADLINE_HOURS_MAX):
            raise Refused(
                f"A deadline of {deadline_hours} h; only mode tail has one, of 1 to {DEADLINE_HOURS_MAX} h.",
                "deadline_hours",
            )
        if handover not in HANDOVERS or (handover and mode != "tail"):
            raise Refused(
                f"There is no hand-over {handover!r} in mode {mode}; only mode tail has one: early.", "handover"
            )
        if handover and deadline_hours is not None:
            raise Refused("An early hand-over waits for no retention; leave the deadline out.", "deadline_hours")
        if mode == "tail" and (unfit := tails.unfit(plan, deadline=deadline_hours is not None)):
            raise Refused(sentences(unfit), "mode")
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
                    dict(label) if label else said_shortly(scope),
                    mode,
                    who,
                    why,
                    caps,
                    lifted,
                    compare or mode == "tail",
                )
        except IntegrityError:
            raise Refused(f"{_already_moving(plan)} Cancel that move or wait for its end.", "scope") from None
    except Refused as refused:
        record_refusal(who, "move.plan", "move", scope_name(scope), refused, why=why, after=said_shortly(scope))
        raise


def unproblematic(plan: planning.Plan, *, override: bool) -> tuple[str, ...]:
    """The safety refusals that it goes against. Raises Refused with every other problem (with these, too, without `override`)."""
    lifted = plan.overridable if override else ()
    may = set(lifted)
    if problems := [p for p in plan.problems if p not in may]:
        raise Refused(sentences(problems), "scope")
    return lifted


def said_shortly(scope: Mapping[str, Any]) -> dict[str, Any]:
    """The scope as rows keep it: of many partitions named by hand the first ones and how many there are; each has its own row."""
    parts = scope.get("partitions")
    if not isinstance(parts, list) or len(parts) <= NAMED_MAX:
        return dict(known_scope(scope))
    return {"kind": "partitions", "partitions": parts[:1], "count": len(parts)}


def _write(
    plan: planning.Plan,
    scope: Mapping[str, Any],
    mode: str,
    who: str,
    why: str,
    caps: Mapping[str, int | str | None],
    lifted: Sequence[str],
    compare: bool,
) -> Move:
    move = Move.objects.create(
        mode=mode, scope=dict(scope), who=who, why=why, note=sentences(plan.warnings),
        overrides=[*lifted[:SENTENCES_MAX]], throttled=caps["throttle_bytes_per_s"] is not None,
        **caps,
    )  # fmt: skip

    def first(old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
        return first_placement(old, new) if compare else new

    insert_many(
        MovePartition,
        ("move_id", "topic_id", "topic_name", "partition", "before", "replicas_from", "replicas_to", "wanted", "read_generation",
         "bytes_total"),
        (
            (move.pk, v.topic_id, v.topic, v.partition, {"replicas": list(v.replicas), "leader": v.leader, "isr": list(v.isr)},
             v.replicas, p.replicas_to, first(v.replicas, p.replicas_to), v.generation,
              p.bytes_to_copy if mode == "copy" else 0)
            for p in plan.parts
            for v in (p.view,)
        ),
    )  # fmt: skip
    named = plan.parts[:NAMED_MAX]
    before: dict[str, Any] = {f"{p.view.topic}-{p.view.partition}": list(p.view.replicas) for p in named}
    after: dict[str, Any] = {f"{p.view.topic}-{p.view.partition}": list(p.replicas_to) for p in named}
    if more := len(plan.parts) - len(named):
        before["..."] = after["..."] = f"{more} more: the rows of the move's partitions have them"
    detail = f"Overrides a safety refusal: {sentences(lifted)}" if lifted else ""
    record(
        who, "move.plan", "move", str(move.pk),
        why=why, before=before, after=after, object_id=f"move-{move.pk}", outcome=Outcome.CONFIRMED, detail=detail,
    )  # fmt: skip
    return move


def sentences(all_of_them: Sequence[str]) -> str:
    """As many as a person reads; the rest is counted."""
    more = len(all_of_them) - SENTENCES_MAX
    return " ".join(all_of_them[:SENTENCES_MAX]) + (f" And {more} more." if more > 0 else "")


def planned(scope: Mapping[str, Any], views: Sequence[planning.PartitionView] | None = None) -> planning.Plan:
    scope = known_scope(scope)
    try:
        return planning.plan(scope, partition_views() if views is None else views, broker_views())
    except (KeyError, TypeError, ValueError) as e:
        raise Refused(f"The scope cannot be read: {e!r}. It needs a kind and that kind's fields.", "scope") from e


def partition_views() -> list[planning.PartitionView]:
    """Every partition as the observer mirrored it, by topic and number."""
    from controlplane.services.topic_configs import min_insync

    wanted = ObservedTopic.objects.only("id", "name", "configs", "records_per_s", "partition_count")
    topics = {
        t.id: (t.name, min_insync(t.configs), (t.records_per_s or 0.0) / max(1, t.partition_count)) for t in wanted
    }
    columns = (
        "topic_id", "index", "replicas", "isr", "leader", "assignment_generation", "size_bytes", "adding", "removing",
    )  # fmt: skip
    views = [
        planning.PartitionView(
            topic_id=topic_id, topic=topics[topic_id][0], partition=index, replicas=replicas, isr=isr, leader=leader,
            generation=generation, size_bytes=size, min_insync=topics[topic_id][1],
            reassigning=bool(adding or removing), records_per_s=topics[topic_id][2],
        )
        for topic_id, index, replicas, isr, leader, generation, size, adding, removing in read_many(Partition.objects.order_by(), columns)
        if topic_id in topics
    ]  # fmt: skip
    return sorted(views, key=lambda v: (v.topic, v.partition))


def broker_views() -> list[planning.BrokerView]:
    return [
        planning.BrokerView(b.broker_id, b.alive, b.rack, b.failure_domain, b.free_bytes, cordoned(b.configs))
        for b in Broker.objects.all()
    ]


def scope_name(scope: Mapping[str, Any]) -> str:
    return str(scope.get("topic") or scope.get("broker") or scope.get("rack") or scope.get("kind") or "")[:255]


def _already_moving(plan: planning.Plan) -> str:
    keys = {(p.view.topic_id, p.view.partition) for p in plan.parts}
    for row in MovePartition.objects.filter(active=True, topic_id__in={t for t, _ in keys}):
        if (row.topic_id, row.partition) in keys:
            return f"{row.topic_name}-{row.partition} is part of move {row.move_id}."
    return "One of the partitions is part of another move."
