"""Helpers of all selectors: a page of rows, and the age of a figure. Invariant: a page contains the total number of rows, so no limit hides rows
silently."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar, cast

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import F, Model, QuerySet
from django.utils import timezone
from django_filters import rest_framework as filters

from controlplane.domain.scope import Scope, to_json
from controlplane.models import Cluster

INTEGER_MAX = 2**63 - 1
"""Largest integer of a database column."""
TRUTHS = {"true": True, "1": True, "on": True, "yes": True, "false": False, "0": False, "off": False, "no": False}
PER_PAGE_MAX = 500
"""Rows of one page; for more there is an export."""

T = TypeVar("T")
M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Rows of one page. `page` counts from 1; `sort` is the column, with a leading '-' for descending."""

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


class RowFilter(filters.FilterSet):  # type: ignore[misc]
    """Base of the filters of lists: query parameters of the REST API, keywords of the selectors."""

    @classmethod
    def rows(cls, rows: QuerySet[M], **values: Any) -> QuerySet[M]:
        """`rows` with the conditions of these values. Empty values are no condition."""
        return cast("QuerySet[M]", cls(values, rows).qs)


class TimeFilter(RowFilter):
    """Base of the filters of lists in the order of time. `time_field`: the time of a row."""

    time_field = "created_at"
    since = filters.IsoDateTimeFilter(method="from_time", help_text="Rows of this time and later (ISO 8601).")
    until = filters.IsoDateTimeFilter(method="before_time", help_text="Rows before this time.")

    def from_time(self, rows: QuerySet[Any], name: str, value: datetime) -> QuerySet[Any]:
        return rows.filter(**{f"{self.time_field}__gte": value})

    def before_time(self, rows: QuerySet[Any], name: str, value: datetime) -> QuerySet[Any]:
        return rows.filter(**{f"{self.time_field}__lt": value})


class TruthField(forms.Field):
    """true or false, or None without a value. Raises ValidationError for other texts: Django's field takes them for an unknown value, and the filter
    would then be ignored silently."""

    def to_python(self, value: Any) -> bool | None:
        if value in self.empty_values:
            return None
        known = TRUTHS.get(str(value).lower())
        if known is None:
            raise ValidationError(f"{value!r} is neither true nor false.", code="invalid")
        return known


class TruthFilter(filters.BooleanFilter):  # type: ignore[misc]
    """A condition that is true or false. Without a value there is no condition."""

    field_class = TruthField

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, widget=forms.TextInput, **kwargs)


class NumberFilter(filters.NumberFilter):  # type: ignore[misc]
    """The number of a broker, partition or row: an integer that the database can store."""

    field_class = forms.IntegerField

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, min_value=0, max_value=INTEGER_MAX, **kwargs)


class FlagFilter(TruthFilter):
    """A missing value means False, and False is also a condition."""

    def filter(self, rows: QuerySet[Any], value: bool | None) -> QuerySet[Any]:
        return cast("QuerySet[Any]", super().filter(rows, bool(value)))


def within(total: int, page: int, per_page: int) -> tuple[int, int, int]:
    """(page, pages, rows per page): the requested values, limited to the existing rows."""
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
    without their conditions. It lets the database read a page's rows by key where the conditions would cause a scan of all matching rows."""
    name = sort.lstrip("-")
    if name not in columns:
        sort = name = next(iter(columns))
    field = F(columns[name])
    order = field.desc(nulls_last=True) if sort.startswith("-") else field.asc(nulls_last=True)
    total = rows.count()
    page, pages, per_page = within(total, page, per_page)
    start = (page - 1) * per_page
    # Keys first: a sort of tens of thousands of whole joined rows copies all their columns.
    keys = list(rows.order_by(order, tie).values_list("pk", flat=True)[start : start + per_page])
    found = {row.pk: row for row in (rows if whole is None else whole).filter(pk__in=keys)}
    return Page(shape([found[k] for k in keys if k in found]), total, page, pages, per_page, sort, query)


def age_s(at: datetime | None) -> float | None:
    """Seconds since `at`; None = never."""
    return None if at is None else max(0.0, (timezone.now() - at).total_seconds())


def cluster_row() -> Cluster:
    """The only cluster row; an unsaved empty one before the monitor's first poll."""
    return Cluster.objects.filter(pk=1).first() or Cluster(pk=1)


def as_dict(row: Any) -> dict[str, Any]:
    """A row (a dataclass) as plain JSON values."""
    return {f.name: _plain(getattr(row, f.name)) for f in fields(row)}


def _plain(value: Any) -> Any:
    if isinstance(value, Scope):
        return to_json(value)
    if is_dataclass(value) and not isinstance(value, type):
        return as_dict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
