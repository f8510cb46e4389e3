"""Pushdown of filters: the offsets of each partition that the filters of a query can match. Pure.

Spark evaluates every filter again, so a bound may be too wide and never too narrow. A time is a lower bound only: the first record at or after a
time is known to the broker, but a later record may have an earlier time of its producer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from pipeline.offsets import Range

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class OffsetBounds:
    """`topics`, `partitions`: None = all. Offsets [first, next). `since_ms`: of the timestamp, Unix milliseconds; None = any."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first: int = 0
    next: int = field(default=2**63 - 1)
    since_ms: int | None = None

    def allows(self, topic: str, partition: int) -> bool:
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )

    def clip(self, ranges: Iterable[Range], at_time: Mapping[tuple[str, int], int]) -> list[Range]:
        """The parts of the ranges that can match. `at_time`: the first offset at or after `since_ms` of each partition."""
        found = []
        for r in ranges:
            first = max(r.first, self.first, at_time.get((r.topic, r.partition), 0))
            until = min(r.next, self.next)
            if self.allows(r.topic, r.partition) and first < until:
                found.append(Range(r.topic, r.partition, first, until))
        return found


def bounds(filters: Iterable[Filter]) -> OffsetBounds:
    """The bounds of all filters together. A filter of another column or kind has no effect."""
    found = OffsetBounds()
    for filter_ in filters:
        if isinstance(filter_, EqualTo | EqualNullSafe):
            found = _narrow(found, filter_.attribute, frozenset([filter_.value]))
        elif isinstance(filter_, In):
            found = _narrow(found, filter_.attribute, frozenset(filter_.value))
        elif isinstance(filter_, GreaterThan | GreaterThanOrEqual):
            found = _lower_bound(found, filter_.attribute, filter_.value, isinstance(filter_, GreaterThan))
        elif (
            isinstance(filter_, LessThan | LessThanOrEqual)
            and filter_.attribute == ("offset",)
            and _is_number(filter_.value)
        ):
            found = replace(found, next=min(found.next, filter_.value + isinstance(filter_, LessThanOrEqual)))
    return found


def _narrow(bounds: OffsetBounds, column: tuple[str, ...], values: frozenset[Any]) -> OffsetBounds:
    """The bounds for a column that has one of these values."""
    if column == ("topic",) and all(isinstance(v, str) for v in values):
        return replace(bounds, topics=values if bounds.topics is None else bounds.topics & values)
    if column == ("partition",) and all(_is_number(v) for v in values):
        return replace(bounds, partitions=values if bounds.partitions is None else bounds.partitions & values)
    if column == ("offset",) and values and all(_is_number(v) for v in values):
        return replace(bounds, first=max(bounds.first, min(values)), next=min(bounds.next, max(values) + 1))
    if column == ("timestamp",) and values and all(isinstance(v, datetime) for v in values):
        return _lower_bound(bounds, column, min(values), False)
    return bounds


def _lower_bound(bounds: OffsetBounds, column: tuple[str, ...], value: Any, is_above: bool) -> OffsetBounds:
    """The bounds for a column that is at least a value, or above it."""
    if column == ("offset",) and _is_number(value):
        return replace(bounds, first=max(bounds.first, value + is_above))
    if column == ("timestamp",) and isinstance(value, datetime) and value.tzinfo is not None:
        since = (value - EPOCH) // MILLISECOND + 1 if is_above else -((EPOCH - value) // MILLISECOND)
        return replace(bounds, since_ms=since if bounds.since_ms is None else max(bounds.since_ms, since))
    return bounds


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
