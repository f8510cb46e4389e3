"""Routes as declared, with their lag, and the state that the brokers committed with their positions.

Invariants: the lag is that of the route's consumer group, as the monitor observed it. The state in a detail is read from the group coordinator;
it is unknown if that does not respond. Does not contain: changes (`services.routes`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters

from brokerd.cluster.routes import ROUTE_GROUP_PREFIX, TEXT_LENGTH_MAX, InvalidRoute, RouteStart, route_group, route_of
from brokerd.delivery.route_matcher import RouteMatcher
from brokerd.delivery.route_port import RouteState
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import Record
from controlplane.clients.connection import Declined, NoResponse
from controlplane.clients.group_offsets import GroupOffsetsClient
from controlplane.domain.access import AccessRecordKind
from controlplane.domain.errors import Rejected
from controlplane.domain.lag import LagStatus
from controlplane.models import AccessEntry, ConsumerGroup, GroupPartition
from controlplane.selectors.common import RowFilter
from controlplane.selectors.paging import Page, PageStart, paginate
from controlplane.selectors.visibility import visible
from weir_common.phrases import sentence

ROUTE_COLUMNS = {"name": "key", "changed_at": "changed_at", "changed_by": "changed_by"}
UNKNOWN = "unknown"
ROUTE_STARTS = tuple((s.value, s.value) for s in RouteStart)
"""Choices of a form."""
PRINCIPAL_LENGTH_MAX = TEXT_LENGTH_MAX
"""Maximum number of characters of the principal of a route."""


@dataclass(frozen=True, slots=True)
class RouteRow:
    """`applied`: the metadata log contains this definition, so brokers use it. Lag in records, and in milliseconds the age of the first record that
    is not in all its targets; null: unknown. `principal`: its ACLs and quotas apply; empty: the brokers' own identity. `routed_per_s`: records of the
    source topic. `status`: of the consumer group of the positions. `lost_records`: deleted by retention before they were routed, within the last minutes."""

    name: str
    source: str
    targets: list[str]
    binding_count: int
    start: str
    enabled: bool
    owner: str
    description: str
    principal: str
    group: str
    status: str
    lag_records: int | None
    lag_ms: int | None
    routed_per_s: float | None
    lost_records: int
    generation: int
    applied: bool
    changed_at: datetime
    changed_by: str


@dataclass(frozen=True, slots=True)
class RouteProblemRow:
    """`problem`: target_missing, target_unavailable, target_refused, target_not_authorized or source_not_authorized. `error`: a Kafka error, or NONE.
    `target`: the topic that has the problem, also if it is the source."""

    target: str
    problem: str
    error: str

    @property
    def has_error(self) -> bool:
        return self.error != ErrorCode.NONE.name


@dataclass(frozen=True, slots=True)
class RoutePartitionRow:
    """A source partition. `state`: starting, running, throttled, blocked, or unknown. `generation`: the definition that it uses. `lost_records`: all
    records that retention deleted before they were routed; null: unknown. `problems` of an unknown state are unknown, too."""

    index: int
    state: str
    position: int | None
    end_offset: int | None
    lag_records: int | None
    lag_ms: int | None
    status: str
    routed_per_s: float | None
    generation: int | None
    lost_records: int | None
    problems: list[RouteProblemRow]

    @property
    def is_unknown(self) -> bool:
        return self.state == UNKNOWN

    @property
    def is_blocked(self) -> bool:
        return self.state == RouteState.BLOCKED

    @property
    def is_throttled(self) -> bool:
        return self.state == RouteState.THROTTLED


@dataclass(frozen=True, slots=True)
class RouteDetail:
    """`bindings`: as in a request. `states_unknown`: why the states of the partitions are unknown, or empty."""

    route: RouteRow
    bindings: list[dict[str, Any]]
    partitions: list[RoutePartitionRow]
    states_unknown: str


@dataclass(frozen=True, slots=True)
class RouteTestRow:
    """A record that the route would write: to which target, by which binding (position from 0), with which key and headers."""

    binding: int
    target: str
    key: str | None
    headers: list[list[str]]


class RouteFilter(RowFilter):
    query = filters.CharFilter(field_name="key", lookup_expr="icontains", help_text="Part of a route name.")
    source = filters.CharFilter(field_name="value__source", help_text="Name of the source topic.")


def route_rows() -> QuerySet[AccessEntry]:
    return AccessEntry.objects.filter(kind=AccessRecordKind.ROUTE, value__isnull=False)


def stopped_groups() -> list[str]:
    """The consumer groups of routes that are disabled."""
    return [route_group(name) for name in route_rows().filter(value__enabled=False).values_list("key", flat=True)]


def route_list(
    *, query: str = "", source: str = "", sort: str = "name", page: PageStart = 1, per_page: int = 50
) -> Page[RouteRow]:
    rows = RouteFilter.rows(route_rows(), query=query, source=source)
    return route_page(rows, sort=sort, page=page, per_page=per_page, query=query)


def route_page(
    rows: QuerySet[AccessEntry], *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[RouteRow]:
    return paginate(rows, _shapes, page=page, per_page=per_page, sort=sort, columns=ROUTE_COLUMNS, query=query)


def route_row(name: str) -> RouteRow | None:
    row = visible(route_rows().filter(key=name)).first()
    return None if row is None else _shapes([row])[0]


def route_of_group(group_id: str) -> RouteRow | None:
    """The route whose positions the group stores."""
    name = group_id.removeprefix(ROUTE_GROUP_PREFIX)
    return None if name == group_id else route_row(name)


def route_definition(name: str) -> dict[str, Any] | None:
    """The stored definition."""
    row = visible(route_rows().filter(key=name)).first()
    return None if row is None else dict(row.value or {})


def route_detail(name: str) -> RouteDetail | None:
    """One route with the states of its partitions. Waits a few seconds for a group coordinator that does not respond."""
    row, definition = route_row(name), route_definition(name)
    if row is None or definition is None:
        return None
    states, problem = _states(row)
    partitions = GroupPartition.objects.filter(group_id=row.group, topic=row.source)
    return RouteDetail(
        row,
        list(definition["bindings"]),
        [_partition(p, states.get(p.index)) for p in partitions.order_by("index")],
        problem,
    )


def test_record(name: str, key: str | None, headers: Sequence[tuple[str, str]]) -> list[RouteTestRow] | None:
    """The records that the route would write for such a record. Sampling by offset takes the offset 0. None: there is no such route."""
    row = visible(route_rows().filter(key=name)).first()
    if row is None:
        return None
    try:
        route = route_of(row.key, row.generation, row.value or {})
    except InvalidRoute as e:
        raise Rejected(sentence("The definition is not valid for this version: {detail}.", detail=e)) from None
    given = tuple((n, v.encode()) for n, v in headers)
    record = Record(0, 0, None if key is None else key.encode(), b"", given)
    return [
        RouteTestRow(
            m.number,
            m.target,
            None if m.record.key is None else m.record.key.decode(errors="replace"),
            [[n, (v or b"").decode(errors="replace")] for n, v in m.record.headers],
        )
        for m in RouteMatcher(route.bindings).match(record)
    ]


def _shapes(rows: Sequence[AccessEntry]) -> list[RouteRow]:
    groups = ConsumerGroup.objects.in_bulk([route_group(r.key) for r in rows])
    return [_shape(row, groups.get(route_group(row.key))) for row in rows]


def _shape(row: AccessEntry, group: ConsumerGroup | None) -> RouteRow:
    value = row.value or {}
    targets = sorted({b["target"] for b in value["bindings"]})
    return RouteRow(
        name=row.key,
        source=value["source"],
        targets=targets,
        binding_count=len(value["bindings"]),
        start=value.get("start", ""),
        enabled=value.get("enabled", True),
        owner=value.get("owner", ""),
        description=value.get("description", ""),
        principal=value.get("principal", ""),
        group=route_group(row.key),
        status=group.status if group is not None else LagStatus.UNKNOWN.value,
        lag_records=group.lag_records if group is not None else None,
        lag_ms=group.lag_ms_max if group is not None else None,
        routed_per_s=group.consumed_per_s if group is not None else None,
        lost_records=group.lost_records if group is not None else 0,
        generation=row.generation,
        applied=not row.waiting,
        changed_at=row.changed_at,
        changed_by=row.changed_by,
    )


def _states(row: RouteRow) -> tuple[dict[int, dict[str, object]], str]:
    try:
        with GroupOffsetsClient(row.group) as client:
            found, _ = client.fetch_committed()
    except (NoResponse, Declined, OSError) as e:
        return {}, str(e)
    return {index: _metadata(c.metadata) for (topic, index), c in found.items() if topic == row.source}, ""


def _metadata(text: str | None) -> dict[str, object]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _partition(partition: GroupPartition, state: Mapping[str, Any] | None) -> RoutePartitionRow:
    known = state or {}
    return RoutePartitionRow(
        index=partition.index,
        state=str(known.get("state", UNKNOWN)),
        position=partition.committed,
        end_offset=partition.end_offset,
        lag_records=partition.lag_records,
        lag_ms=partition.lag_ms,
        status=partition.status,
        routed_per_s=partition.consumed_per_s,
        generation=known.get("generation"),
        lost_records=int(known["lost"]) if "lost" in known else None,
        problems=[RouteProblemRow(*map(str, q)) for q in known.get("problems", []) if len(q) == 3],
    )
