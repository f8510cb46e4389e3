"""Plans: the list, one with its parts, and what differs between two, or between one and now. Law: a page of parts reads its chunks and no others; a
difference reads both plans once, counts all and shows the first rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.models import Plan
from controlplane.selectors.common import Page, paged, within
from controlplane.selectors.moves import title_of
from controlplane.services.plans import Part, parts_of, placements_now

DIFFERENCES_SHOWN_MAX = 500
"""Rows of a difference; it counts all, and Kafka's JSON of both plans has the rest."""


@dataclass(frozen=True, slots=True)
class PlanRow:
    """`digest` is SHA-256 over what every part shall be and what it was read from. `brokers`: [broker, bytes in, bytes out]. `overrides`: safety
    refusals it goes against. `move`: the last that was made of it."""

    id: int
    name: str
    title: str
    scope: dict[str, Any]
    who: str
    why: str
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
    approved_why: str
    approved_at: datetime | None
    move: int | None
    dropped_at: datetime | None


@dataclass(frozen=True, slots=True)
class PlanPartRow:
    topic: str
    partition: int
    replicas_from: list[int]
    replicas_to: list[int]
    generation: int
    bytes_to_copy: int | None


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """`replicas` and `other`: what this plan and the other (or now) have; null = this partition is not in it. `stale`: it was placed anew since."""

    topic: str
    partition: int
    replicas: list[int] | None
    other: list[int] | None
    stale: bool


@dataclass(frozen=True, slots=True)
class Difference:
    """`other`: the other plan's number, null for now. `same` and `different` count partitions; `rows` are the first of those that differ.
    `stale`: placed anew since this plan was made, so that it cannot begin (against now alone)."""

    plan: int
    other: int | None
    same: int
    different: int
    stale: int
    rows: list[DifferenceRow]


COLUMNS = {"id": "id", "name": "name", "who": "who", "created_at": "created_at", "parts": "parts"}


def plan_list(
    *, query: str = "", sort: str = "-id", page: int = 1, per_page: int = 50, dropped: bool = False
) -> Page[PlanRow]:
    rows = Plan.objects.filter(dropped_at__isnull=not dropped)
    if query:
        rows = (
            rows.filter(name__icontains=query) | rows.filter(who__icontains=query) | rows.filter(why__icontains=query)
        )
    return paged(
        rows, lambda found: [_shape(p) for p in found],
        page=page, per_page=per_page, sort=sort, columns=COLUMNS, query=query, tie="-id",
    )  # fmt: skip


def plan_row(plan_id: int) -> PlanRow | None:
    row = Plan.objects.filter(pk=plan_id).first()
    return None if row is None else _shape(row)


def plan_parts(plan_id: int, *, page: int = 1, per_page: int = 100) -> Page[PlanPartRow]:
    """In order of topic and partition: the order in which they are kept."""
    total = Plan.objects.filter(pk=plan_id).values_list("parts", flat=True).first() or 0
    page, pages, per_page = within(total, page, per_page)
    found = parts_of(plan_id, (page - 1) * per_page, per_page)
    rows = [PlanPartRow(p[1], p[2], p[3], p[4], p[5], p[6]) for p in found]
    return Page(rows, total, page, pages, per_page, "topic", "")


def difference(plan_id: int, other_id: int | None) -> Difference:
    """Between two plans, or a plan and now (`other_id` None). Costs what both are long: two of 100,000 partitions some seconds at most."""
    other = _placements(other_id)
    seen: set[tuple[str, int]] = set()
    rows: list[DifferenceRow] = []
    same = different = stale = 0
    for topic_id, topic, partition, _, new, generation, _ in parts_of(plan_id):
        seen.add((topic_id, partition))
        found = other.get((topic_id, partition))
        anew = other_id is None and (found is None or found[1] != generation)
        stale += anew
        if found is not None and found[0] == new and not anew:
            same += 1
            continue
        different += 1
        if len(rows) < DIFFERENCES_SHOWN_MAX:
            rows.append(DifferenceRow(topic, partition, new, None if found is None else found[0], anew))
    if other_id is not None:
        for topic_id, topic, partition, _, new, _, _ in parts_of(other_id):
            if (topic_id, partition) not in seen:
                different += 1
                if len(rows) < DIFFERENCES_SHOWN_MAX:
                    rows.append(DifferenceRow(topic, partition, None, new, False))
    return Difference(plan_id, other_id, same, different, stale, rows)


def _placements(plan_id: int | None) -> dict[tuple[str, int], tuple[list[int], int]]:
    if plan_id is None:
        return placements_now()
    return {(p[0], p[2]): (p[4], p[5]) for p in parts_of(plan_id)}


def kafka_file(plan_id: int, *, previous: bool = False) -> Iterator[str]:
    """Kafka's own file of a reassignment, piece by piece: what shall be, or what was when the plan was made."""
    place = 3 if previous else 4
    yield '{"version":1,"partitions":['
    for n, part in enumerate(parts_of(plan_id)):
        yield ("," if n else "") + _kafka_part(part, place)
    yield "]}\n"


def _kafka_part(part: Part, place: int) -> str:
    return json.dumps({"topic": part[1], "partition": part[2], "replicas": part[place]}, separators=(",", ":"))


def _shape(p: Plan) -> PlanRow:
    return PlanRow(
        id=p.pk, name=p.name, title=title_of(p.scope), scope=p.scope, who=p.who, why=p.why, digest=p.digest, parts=p.parts,
        copies=p.copies, bytes_to_copy=p.bytes_to_copy, brokers=p.brokers, warnings=p.warnings, overrides=p.overrides,
        metadata_seq=p.metadata_seq, created_at=p.created_at, approved_by=p.approved_by, approved_why=p.approved_why,
        approved_at=p.approved_at, move=p.move_id, dropped_at=p.dropped_at,
    )  # fmt: skip
