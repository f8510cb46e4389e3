"""Plans: the list, one plan with its parts, and the difference between two plans, or between a plan and the current state. Invariants: a page of
parts reads only its own chunks. A difference reads each plan once, counts all parts and shows the first rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Unpack

from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters

from controlplane.domain.scope import Scope
from controlplane.models import Plan
from controlplane.selectors.common import StateFilter, TimeFilter
from controlplane.selectors.moves import title_of
from controlplane.selectors.paging import Page, PageOptions, PageStart, numbered_page, paginate
from controlplane.selectors.plan_parts import Part, parts_of, placements_now

DIFFERENCES_SHOWN_MAX = 500
"""Maximum number of rows of a difference. It counts all parts; the others are in the Kafka JSON of both plans."""


@dataclass(frozen=True, slots=True)
class PlanRow:
    """`digest`: SHA-256 over the planned placement of every part and the placement it was planned from. `brokers`: [broker, bytes in, bytes out].
    `overrides`: safety rules that the plan violates. `move`: the last move that was made of it."""

    id: int
    name: str
    title: str
    scope: Scope
    actor: str
    comment: str
    digest: str
    parts: int
    copies: int
    bytes_to_copy: int | None
    brokers: list[list[int]]
    warnings: str
    overrides: list[str]
    metadata_seq: int
    created_at: datetime
    approved_by: str
    approved_comment: str
    approved_at: datetime | None
    move: int | None
    dropped_at: datetime | None


@dataclass(frozen=True, slots=True)
class PlanPartRow:
    """A partition of a plan. `generation`: that of its placement when the plan was made. `bytes_to_copy` null: its size was unknown."""

    topic: str
    partition: int
    replicas_from: list[int]
    replicas_to: list[int]
    generation: int
    bytes_to_copy: int | None


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """`replicas` and `other`: those of this plan and of the other one (or the current ones); null = not contained. `stale`: its placement changed."""

    topic: str
    partition: int
    replicas: list[int] | None
    other: list[int] | None
    stale: bool


@dataclass(frozen=True, slots=True)
class PlanDifference:
    """`other`: the other plan's number, null for the current state. `same` and `different` count partitions; `rows` are the first different ones.
    `stale`: placements that changed since this plan was made, so the plan cannot start (only compared with the current state)."""

    plan: int
    other: int | None
    same: int
    different: int
    stale: int
    rows: list[DifferenceRow]


COLUMNS = {"id": "id", "name": "name", "actor": "actor", "created_at": "created_at", "parts": "parts"}


ACTIVE, ARCHIVED = "active", "archived"


class PlanFilter(TimeFilter):
    query = filters.CharFilter(method="search", help_text="Part of a name, an author or a reason.")
    state = StateFilter(
        {ACTIVE: Q(dropped_at=None), ARCHIVED: Q(dropped_at__isnull=False), "all": Q()},
        without=ACTIVE,
        help_text="Default: active.",
    )

    def search(self, rows: QuerySet[Plan], name: str, value: str) -> QuerySet[Plan]:
        return rows.filter(Q(name__icontains=value) | Q(actor__icontains=value) | Q(comment__icontains=value))


def plan_list(
    *, query: str = "", sort: str = "-id", page: PageStart = 1, per_page: int = 50, state: str = ACTIVE
) -> Page[PlanRow]:
    rows = PlanFilter.rows(Plan.objects.all(), query=query, state=state)
    return plan_page(rows, sort=sort, page=page, per_page=per_page, query=query)


def plan_page(rows: QuerySet[Plan], **options: Unpack[PageOptions]) -> Page[PlanRow]:
    return paginate(rows, lambda found: [_shape(p) for p in found], columns=COLUMNS, tie="-id", **options)


def plan_row(plan_id: int) -> PlanRow | None:
    row = Plan.objects.filter(pk=plan_id).first()
    return None if row is None else _shape(row)


def plan_parts(plan_id: int, *, page: PageStart = 1, per_page: int = 100) -> Page[PlanPartRow]:
    """Return the parts in order of topic and partition, as they are stored."""
    total = Plan.objects.filter(pk=plan_id).values_list("parts", flat=True).first() or 0
    start, window = numbered_page(total, page, per_page)
    found = parts_of(plan_id, start, window.per_page)
    rows = [PlanPartRow(p[1], p[2], p[3], p[4], p[5], p[6]) for p in found]
    return Page(rows, total, window, "topic", "")


def difference(plan_id: int, other_id: int | None) -> PlanDifference:
    """Return the difference between two plans, or between a plan and the current state (`other_id` None). Costs one read of both: for 100,000 partitions
    each some seconds at most."""
    other = _placements(other_id)
    seen: set[tuple[str, int]] = set()
    rows: list[DifferenceRow] = []
    same = different = stale = 0
    for topic_id, topic, partition, _, new, generation, _ in parts_of(plan_id):
        seen.add((topic_id, partition))
        found = other.get((topic_id, partition))
        changed = other_id is None and (found is None or found[1] != generation)
        stale += changed
        if found is not None and found[0] == new and not changed:
            same += 1
            continue
        different += 1
        if len(rows) < DIFFERENCES_SHOWN_MAX:
            rows.append(DifferenceRow(topic, partition, new, None if found is None else found[0], changed))
    if other_id is not None:
        for topic_id, topic, partition, _, new, _, _ in parts_of(other_id):
            if (topic_id, partition) not in seen:
                different += 1
                if len(rows) < DIFFERENCES_SHOWN_MAX:
                    rows.append(DifferenceRow(topic, partition, None, new, False))
    return PlanDifference(plan_id, other_id, same, different, stale, rows)


def _placements(plan_id: int | None) -> dict[tuple[str, int], tuple[list[int], int]]:
    if plan_id is None:
        return placements_now()
    return {(p[0], p[2]): (p[4], p[5]) for p in parts_of(plan_id)}


def kafka_file(plan_id: int, *, previous: bool = False) -> Iterator[str]:
    """Kafka's reassignment file, piece by piece: the planned placement, or the placement when the plan was made."""
    place = 3 if previous else 4
    yield '{"version":1,"partitions":['
    for n, part in enumerate(parts_of(plan_id)):
        yield ("," if n else "") + _kafka_part(part, place)
    yield "]}\n"


def _kafka_part(part: Part, place: int) -> str:
    return json.dumps({"topic": part[1], "partition": part[2], "replicas": part[place]}, separators=(",", ":"))


def _shape(plan: Plan) -> PlanRow:
    return PlanRow(
        id=plan.pk,
        name=plan.name,
        title=title_of(plan.scope),
        scope=plan.scope,
        actor=plan.actor,
        comment=plan.comment,
        digest=plan.digest,
        parts=plan.parts,
        copies=plan.copies,
        bytes_to_copy=plan.bytes_to_copy,
        brokers=plan.brokers,
        warnings=plan.warnings,
        overrides=list(plan.overrides),
        metadata_seq=plan.metadata_seq,
        created_at=plan.created_at,
        approved_by=plan.approved_by,
        approved_comment=plan.approved_comment,
        approved_at=plan.approved_at,
        move=plan.move_id,
        dropped_at=plan.dropped_at,
    )
