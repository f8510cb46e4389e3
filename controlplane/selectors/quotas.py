"""Client quotas: the desired limits by entity, and one quota with its current use, which is read from the brokers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django_filters import rest_framework as filters

from brokerd.cluster.quota_entities import entity_key, entity_of
from controlplane.clients.all_brokers import BrokerAddress, call_brokers
from controlplane.clients.quota_use import MeasuredRate, quota_use
from controlplane.domain.access import AccessRecordKind
from controlplane.domain.quota import ENTITY_TYPES, QuotaLimit, candidates, entity_text, limits_of, quota_of
from controlplane.domain.quota import applies_to as quota_applies_to
from controlplane.models import AccessEntry, Broker
from controlplane.selectors.common import RowFilter
from controlplane.selectors.paging import Page, PageStart, paginate
from controlplane.selectors.visibility import QUOTA, sees, visible

USE_ROWS_MAX = 200
"""Rates of one quota, the largest share of the limit first."""


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """`entity`: names by entity type (user, client-id, ip); null is the default. Limits are per broker. `applied`: the metadata log contains
    them, so brokers enforce them."""

    id: int
    entity: dict[str, str | None]
    name: str
    limits: list[QuotaLimit]
    applied: bool
    changed_at: datetime
    changed_by: str


@dataclass(frozen=True, slots=True)
class QuotaUseRow:
    """The rate that one broker measures over the last ten seconds for the clients of `entity`, and its share of the limit."""

    broker_id: int
    entity: dict[str, str | None]
    name: str
    quota: str
    per_second: float
    limit: float
    unit: str
    percent: float


@dataclass(frozen=True, slots=True)
class QuotaDetail:
    """`use`: of the brokers that responded, at most 200 rows of `use_count`. `silent_brokers` did not respond. `responses`: number of brokers that did."""

    row: QuotaRow
    use: list[QuotaUseRow]
    use_count: int
    silent_brokers: list[int]
    responses: int


QUOTA_COLUMNS = {"name": "key", "changed_at": "changed_at", "changed_by": "changed_by"}


class QuotaFilter(RowFilter):
    query = filters.CharFilter(method="search", help_text="Part of a user, a client id or an address.")
    entity_type = filters.ChoiceFilter(
        choices=[(t, t) for t in ENTITY_TYPES], method="with_entity", help_text="Quotas whose entity has this type."
    )

    def search(self, rows: QuerySet[AccessEntry], name: str, value: str) -> QuerySet[AccessEntry]:
        return rows.filter(Q(key__icontains=value) | Q(key__icontains=json.dumps(value)[1:-1]))

    def with_entity(self, rows: QuerySet[AccessEntry], name: str, value: str) -> QuerySet[AccessEntry]:
        return rows.filter(key__contains=f'"{value}":')


def quota_rows() -> QuerySet[AccessEntry]:
    return AccessEntry.objects.filter(kind=AccessRecordKind.QUOTA, value__isnull=False)


def quota_list(
    *, query: str = "", entity_type: str = "", sort: str = "name", page: PageStart = 1, per_page: int = 50
) -> Page[QuotaRow]:
    rows = QuotaFilter.rows(quota_rows(), query=query, entity_type=entity_type)
    return quota_page(rows, sort=sort, page=page, per_page=per_page, query=query)


def quota_page(
    rows: QuerySet[AccessEntry], *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[QuotaRow]:
    return paginate(
        rows,
        lambda found: [quota_shape(r) for r in found],
        page=page,
        per_page=per_page,
        sort=sort,
        columns=QUOTA_COLUMNS,
        query=query,
    )


def quota_row(quota_id: int) -> QuotaRow | None:
    row = visible(quota_rows().filter(pk=quota_id)).first()
    return None if row is None else quota_shape(row)


def quota_detail(quota_id: int) -> QuotaDetail | None:
    """One quota with its current use. Waits up to a second for brokers that do not respond."""
    row = quota_row(quota_id)
    if row is None:
        return None
    living = [BrokerAddress(b.broker_id, b.host, b.port) for b in Broker.objects.filter(alive=True)]
    responses = call_brokers(living, quota_use)
    measured = {a.broker_id: a.value for a in responses if a.value is not None}
    use = _use(row, measured)
    silent = [a.broker_id for a in responses if a.value is None]
    return QuotaDetail(row, use[:USE_ROWS_MAX], len(use), silent, len(measured))


def _use(row: QuotaRow, measured: dict[int, list[MeasuredRate]]) -> list[QuotaUseRow]:
    """The rates that this quota limits. A bucket may belong to a more specific quota of the same entity types."""
    buckets = {u.bucket: entity_of(u.bucket) for rates in measured.values() for u in rates}
    entities = {bucket: entity for bucket, entity in buckets.items() if quota_applies_to(row.entity, entity)}
    keys = {key for entity in entities.values() for key in candidates(entity)}
    limits: dict[str, Any] = dict(quota_rows().filter(key__in=keys).values_list("key", "value"))
    limit_by_quota, key = {limit.quota: limit for limit in row.limits}, entity_key(row.entity)
    out = [
        QuotaUseRow(
            broker_id=broker_id,
            entity=entities[u.bucket],
            name=entity_text(entities[u.bucket]),
            quota=u.quota,
            per_second=round(u.per_second, 3),
            limit=limit_by_quota[u.quota].value,
            unit=limit_by_quota[u.quota].unit,
            percent=round(u.per_second / limit_by_quota[u.quota].value * 100, 1),
        )
        for broker_id, rates in measured.items()
        for u in rates
        if u.bucket in entities
        and sees(QUOTA, entity_text(entities[u.bucket]))
        and u.quota in limit_by_quota
        and quota_of(entities[u.bucket], u.quota, limits) == key
    ]
    return sorted(out, key=lambda u: (-u.percent, u.name, u.broker_id))


def quota_shape(entry: AccessEntry) -> QuotaRow:
    entity = entity_of(entry.key)
    return QuotaRow(
        id=entry.pk,
        entity=entity,
        name=entity_text(entity),
        limits=limits_of(entry.value or {}),
        applied=not entry.waiting,
        changed_at=entry.changed_at,
        changed_by=entry.changed_by,
    )


def entity_name(key: str) -> str:
    """The name of the entity of a stored quota, as in the list."""
    return entity_text(entity_of(key))
