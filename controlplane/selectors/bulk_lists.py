"""The lists whose rows can be changed together, and the keys of all rows of a filter.

Invariant: a filter with more rows than the limit of its operation is rejected, never shortened. Does not contain: the operations
(`controlplane.services.bulk_topics`, `bulk_groups`, `bulk_access`, `bulk_limits`, `bulk_alerts`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db.models import Model, QuerySet

from controlplane.domain.errors import Rejected
from controlplane.models import Alert, ConsumerGroup, Move, ObservedTopic
from controlplane.selectors import alerts, groups, moves, quotas, topics, users
from controlplane.selectors.common import RowFilter
from controlplane.selectors.paging import PER_PAGE_MAX, Page
from weir_common.phrases import sentence


class BulkList(StrEnum):
    TOPICS = "topics"
    GROUPS = "groups"
    QUOTAS = "quotas"
    USERS = "users"
    ALERTS = "alerts"
    MOVES = "moves"


class TooManyRows(Rejected):
    """`total`: rows of the filter. `most`: rows of one operation."""

    def __init__(self, total: int, most: int) -> None:
        super().__init__(
            sentence(
                "The filter has {total} rows. This bulk operation has at most {most}: narrow the filter.",
                total=f"{total:,}",
                most=f"{most:,}",
            ),
            "filter",
        )
        self.total, self.most = total, most


@dataclass(frozen=True, slots=True)
class ListOfRows:
    """`key_of`: the key of a row of `page_of`. `sort`: a column whose values do not change."""

    filters: type[RowFilter]
    rows: Callable[[], QuerySet[Model]]
    page_of: Callable[..., Page[Any]]
    key_of: Callable[[Any], str]
    sort: str


LISTS = {
    BulkList.TOPICS: ListOfRows(
        topics.TopicFilter, ObservedTopic.objects.all, topics.topic_page, lambda row: row.name, "name"
    ),
    BulkList.GROUPS: ListOfRows(
        groups.GroupFilter, ConsumerGroup.objects.all, groups.group_page, lambda row: row.group_id, "group_id"
    ),
    BulkList.QUOTAS: ListOfRows(
        quotas.QuotaFilter, quotas.quota_rows, quotas.quota_page, lambda row: str(row.id), "name"
    ),
    BulkList.USERS: ListOfRows(
        users.UserFilter, users.credentials_by_user, users.user_page, lambda row: row.name, "name"
    ),
    BulkList.ALERTS: ListOfRows(
        alerts.AlertFilter, Alert.objects.all, alerts.alert_page, lambda row: str(row.id), "-since"
    ),
    BulkList.MOVES: ListOfRows(moves.MoveFilter, Move.objects.all, moves.move_page, lambda row: str(row.id), "-id"),
}


def row_ids(keys: Sequence[str]) -> list[int]:
    """The keys that can be ids of rows, as numbers. Others are omitted."""
    return [int(k) for k in keys if k.isascii() and k.isdigit() and len(k) < 19]


def keys_of_filter(kind: BulkList, values: Mapping[str, object], rows_max: int) -> list[str]:
    """The keys of all rows of the filter, in the order of the list. Empty values are no condition. Raises TooManyRows for more than `rows_max` rows."""
    found = LISTS[kind]
    rows = found.filters.rows(found.rows(), **values)
    extra: dict[str, object] = {"query": str(values.get("query", ""))}
    if kind is BulkList.TOPICS:
        extra["unapplied"] = not values.get("state")
    first = found.page_of(rows, sort=found.sort, page=1, per_page=PER_PAGE_MAX, **extra)
    if first.total > rows_max:
        raise TooManyRows(first.total, rows_max)
    keys = [found.key_of(row) for row in first.rows]
    for page in range(2, first.pages + 1):
        following = found.page_of(rows, sort=found.sort, page=page, per_page=PER_PAGE_MAX, **extra)
        keys += [found.key_of(row) for row in following.rows]
    return list(dict.fromkeys(keys))
