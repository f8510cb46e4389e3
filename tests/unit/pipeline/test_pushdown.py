"""OffsetBounds of filters: never narrower than what the filters match."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from pipeline.offsets import Range
from pipeline.pushdown import OffsetBounds, bounds

PARTITION, OFFSET, TIME, TOPIC = ("partition",), ("offset",), ("timestamp",), ("topic",)
AT = datetime(2026, 3, 1, 12, 0, 0, 500_700, tzinfo=UTC)
AT_MS = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()) * 1000 + 500
RANGES = [Range("a", 0, 10, 50), Range("a", 1, 0, 5), Range("b", 1, 20, 30)]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], OffsetBounds()),
        ([EqualTo(PARTITION, 1)], OffsetBounds(partitions=frozenset([1]))),
        ([In(PARTITION, (1, 2)), EqualNullSafe(PARTITION, 2)], OffsetBounds(partitions=frozenset([2]))),
        ([EqualTo(TOPIC, "a")], OffsetBounds(topics=frozenset(["a"]))),
        ([GreaterThan(OFFSET, 5), LessThanOrEqual(OFFSET, 9)], OffsetBounds(first=6, next=10)),
        ([GreaterThanOrEqual(OFFSET, 5), LessThan(OFFSET, 9)], OffsetBounds(first=5, next=9)),
        ([In(OFFSET, (7, 3))], OffsetBounds(first=3, next=8)),
        ([EqualTo(OFFSET, 7)], OffsetBounds(first=7, next=8)),
        ([GreaterThanOrEqual(TIME, AT)], OffsetBounds(since_ms=AT_MS + 1)),
        ([GreaterThan(TIME, AT)], OffsetBounds(since_ms=AT_MS + 1)),
        ([GreaterThan(TIME, AT.replace(microsecond=500_000))], OffsetBounds(since_ms=AT_MS + 1)),
        ([GreaterThanOrEqual(TIME, AT.replace(microsecond=500_000))], OffsetBounds(since_ms=AT_MS)),
        ([EqualTo(TIME, AT)], OffsetBounds(since_ms=AT_MS + 1)),
        ([LessThan(TIME, AT)], OffsetBounds()),
        ([GreaterThan(TIME, AT.replace(tzinfo=None))], OffsetBounds()),
        (
            [Not(EqualTo(PARTITION, 1)), IsNotNull(PARTITION), EqualTo(("key",), b"x"), GreaterThan(PARTITION, 1)],
            OffsetBounds(),
        ),
        ([EqualTo(PARTITION, None), EqualTo(OFFSET, None), LessThan(OFFSET, None)], OffsetBounds()),
    ],
)
def test_bounds_of_filters(filters: list[Filter], expected: OffsetBounds) -> None:
    assert bounds(filters) == expected


def test_ranges_are_clipped_to_the_bounds() -> None:
    assert bounds([EqualTo(PARTITION, 1)]).clip(RANGES, {}) == RANGES[1:]
    assert bounds([EqualTo(TOPIC, "a"), GreaterThan(OFFSET, 20)]).clip(RANGES, {}) == [Range("a", 0, 21, 50)]
    assert bounds([EqualTo(PARTITION, 9)]).clip(RANGES, {}) == []
    assert OffsetBounds().clip(RANGES, {("a", 0): 49, ("a", 1): 5}) == [Range("a", 0, 49, 50), RANGES[2]]


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 2))
def test_no_record_that_matches_is_cut(low: int, high: int, partition: int) -> None:
    filters: list[Filter] = [GreaterThanOrEqual(OFFSET, low), LessThan(OFFSET, high), EqualTo(PARTITION, partition)]
    read = {(r.topic, r.partition, o) for r in bounds(filters).clip(RANGES, {}) for o in range(r.first, r.next)}
    every = {(r.topic, r.partition, o) for r in RANGES for o in range(r.first, r.next)}
    assert read == {(t, p, o) for t, p, o in every if low <= o < high and p == partition}
