"""Helpers of all selectors: filters of lists, the age of a value, and rows as JSON values. Does not contain: pages (`paging`)."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar, cast

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from django.utils import timezone
from django_filters import rest_framework as filters

from controlplane.domain.scope import Scope, to_json
from controlplane.models import Cluster
from controlplane.selectors.shared_rows import once_a_page

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

INTEGER_MAX = 2**63 - 1
"""Largest integer of a database column."""
TRUTHS = {"true": True, "1": True, "on": True, "yes": True, "false": False, "0": False, "off": False, "no": False}
M = TypeVar("M", bound=Model)


class RowFilter(filters.FilterSet):  # type: ignore[misc]
    """Base of the filters of lists: query parameters of the REST API, keywords of the selectors."""

    @classmethod
    def rows(cls, rows: QuerySet[M], **values: object) -> QuerySet[M]:
        """`rows` with the conditions of these values. Empty values are no condition."""
        return cast("QuerySet[M]", cls(values, rows).qs)


class TimeFilter(RowFilter):
    """Base of the filters of lists in the order of time. `time_field`: the time of a row."""

    time_field = "created_at"
    since = filters.IsoDateTimeFilter(method="from_time", help_text="Rows of this time and later (ISO 8601).")
    until = filters.IsoDateTimeFilter(method="before_time", help_text="Rows before this time.")

    def from_time(self, rows: QuerySet[Model], name: str, value: datetime) -> QuerySet[Model]:
        return rows.filter(**{f"{self.time_field}__gte": value})

    def before_time(self, rows: QuerySet[Model], name: str, value: datetime) -> QuerySet[Model]:
        return rows.filter(**{f"{self.time_field}__lt": value})


class TruthField(forms.Field):
    """true or false, or None without a value. Raises ValidationError for other texts: Django's field would treat them as an unknown value and silently ignore
    the filter."""

    def to_python(self, value: object) -> bool | None:
        if value in self.empty_values:
            return None
        known = TRUTHS.get(str(value).lower())
        if known is None:
            raise ValidationError(f"{value!r} is neither true nor false.", code="invalid")
        return known


class TruthFilter(filters.BooleanFilter):  # type: ignore[misc]
    """A condition that is true or false. Without a value there is no condition."""

    field_class = TruthField

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, widget=forms.TextInput, **kwargs)


class NumberFilter(filters.NumberFilter):  # type: ignore[misc]
    """The id of a broker or row, or the index of a partition: an integer that the database can store."""

    field_class = forms.IntegerField

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, min_value=0, max_value=INTEGER_MAX, **kwargs)


class FlagFilter(TruthFilter):
    """A missing value means False, and False is a condition too."""

    def filter(self, rows: QuerySet[Model], value: bool | None) -> QuerySet[Model]:
        return cast("QuerySet[Model]", super().filter(rows, bool(value)))


class StateFilter(filters.ChoiceFilter):  # type: ignore[misc]
    """`state`: the rows of one condition. `without`: the condition of a request without a state, empty: none."""

    def __init__(self, conditions: Mapping[str, Q], *, without: str = "", help_text: str = "") -> None:
        self.conditions, self.without = conditions, without
        super().__init__(choices=[(name, name) for name in conditions], help_text=help_text)

    def filter(self, rows: QuerySet[Model], value: str) -> QuerySet[Model]:
        name = value or self.without
        return rows.filter(self.conditions[name]) if name else rows


def in_states(states: Iterable[str]) -> dict[str, Q]:
    """The condition of each single state."""
    return {str(s): Q(state=s) for s in states}


def age_s(at: datetime | None) -> float | None:
    """Seconds since `at`; None = never."""
    return None if at is None else max(0.0, (timezone.now() - at).total_seconds())


def cluster_row() -> Cluster:
    """The only cluster row; an unsaved empty one before the monitor's first poll."""
    return once_a_page("cluster", lambda: Cluster.objects.filter(pk=1).first() or Cluster(pk=1))


def as_dict(row: DataclassInstance) -> dict[str, object]:
    """A row (a dataclass) as plain JSON values."""
    return {f.name: plain(getattr(row, f.name)) for f in fields(row)}


def plain(value: object) -> object:
    """Rows, also inside lists and objects, as JSON values."""
    if isinstance(value, Scope):
        return to_json(value)
    if is_dataclass(value) and not isinstance(value, type):
        return as_dict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    return value
