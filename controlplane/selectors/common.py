"""What all selectors share: a page of rows, and how old a figure is. Law: no cap hides rows silently: a page knows the total."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from django.db.models import F, Model, QuerySet
from django.utils import timezone

from controlplane.models import Cluster

PER_PAGE_MAX = 500
"""Rows of one page; more belongs to an export."""

T = TypeVar("T")
M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Rows of one page. `page` counts from 1; `sort` is the column, with '-' in front for descending."""

    rows: list[T]
    total: int
    page: int
    pages: int
    per_page: int
    sort: str
    query: str

    @property
    def first(self) -> int:
        return (self.page - 1) * self.per_page + 1 if self.total else 0

    @property
    def last(self) -> int:
        return min(self.page * self.per_page, self.total)


def within(total: int, page: int, per_page: int) -> tuple[int, int, int]:
    """(page, pages, rows per page): what was asked for, brought within what there is."""
    per_page = max(1, min(per_page, PER_PAGE_MAX))
    pages = max(1, -(-total // per_page))
    return max(1, min(page, pages)), pages, per_page


def paged(
    rows: QuerySet[M],
    shape: Callable[[Sequence[M]], list[T]],
    *,
    page: int,
    per_page: int,
    sort: str,
    columns: dict[str, str],
    query: str = "",
    tie: str = "pk",
    whole: QuerySet[M] | None = None,
) -> Page[T]:
    """One page of `rows` in the order of `sort` (a key of `columns`; an unknown one falls back to the first). Unknown values sort last. `whole`: `rows`
    without their conditions, where these lead a database to look for a page's rows among all that meet them instead of by their keys."""
    name = sort.lstrip("-")
    if name not in columns:
        sort = name = next(iter(columns))
    field = F(columns[name])
    order = field.desc(nulls_last=True) if sort.startswith("-") else field.asc(nulls_last=True)
    total = rows.count()
    page, pages, per_page = within(total, page, per_page)
    start = (page - 1) * per_page
    # Keys first: a sort of ten thousands of whole rows, joined with others, carries them all along.
    keys = list(rows.order_by(order, tie).values_list("pk", flat=True)[start : start + per_page])
    found = {row.pk: row for row in (rows if whole is None else whole).filter(pk__in=keys)}
    return Page(shape([found[k] for k in keys if k in found]), total, page, pages, per_page, sort, query)


def age_s(at: datetime | None) -> float | None:
    """Seconds since `at`; None = never."""
    return None if at is None else max(0.0, (timezone.now() - at).total_seconds())


def cluster_row() -> Cluster:
    """The one cluster row; an unsaved empty one before the observer has looked."""
    return Cluster.objects.filter(pk=1).first() or Cluster(pk=1)


def as_dict(value: Any) -> dict[str, Any]:
    """A row as plain JSON values."""
    return {k: _plain(v) for k, v in asdict(value).items()}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
