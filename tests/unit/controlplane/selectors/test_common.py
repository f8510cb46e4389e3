"""Pages of rows: limits, order, unknown values; the conditions of lists; rows as JSON."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from controlplane.domain.scope import DrainScope
from controlplane.models import ConsumerGroup
from controlplane.selectors import common
from controlplane.selectors.common import Page, TruthField, age_s, as_dict, paged, within


@pytest.mark.parametrize(
    ("asked", "given"),
    [((10, 1, 3), (1, 4, 3)), ((10, 9, 3), (4, 4, 3)), ((0, 5, 3), (1, 1, 3)), ((9, -1, 0), (1, 9, 1))],
)
def test_a_page_is_limited_to_the_existing_rows(asked: tuple[int, int, int], given: tuple[int, int, int]) -> None:
    assert within(*asked) == given
    assert within(10_000, 1, 10_000)[2] == common.PER_PAGE_MAX


def test_the_numbers_of_the_first_and_the_last_row_of_a_page() -> None:
    def numbers(total: int, page: int) -> tuple[int, int]:
        found: Page[int] = Page([], total, page, 3, 10, "id", "")
        return found.first, found.last

    assert (numbers(25, 1), numbers(25, 3), numbers(0, 1)) == ((1, 10), (21, 25), (0, 0))


@pytest.mark.django_db
def test_rows_of_a_page_are_in_order_with_unknown_values_last() -> None:
    now = timezone.now()
    for name, lag in (("a", 5), ("b", None), ("c", 5), ("d", 1)):
        ConsumerGroup.objects.create(group_id=name, state="Stable", lag_records=lag, observed_at=now)

    def names(sort: str, page: int = 1, per_page: int = 10) -> list[str]:
        return paged(
            ConsumerGroup.objects.all(),
            lambda found: [g.pk for g in found],
            page=page,
            per_page=per_page,
            sort=sort,
            columns={"name": "group_id", "lag": "lag_records"},
        ).rows

    assert names("lag") == ["d", "a", "c", "b"] and names("-lag") == ["a", "c", "d", "b"]
    assert names("lag", 2, 3) == ["b"] and names("unknown") == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("YES", True), ("0", False), ("off", False), ("", None), (None, None)]
)
def test_a_truth_is_read_from_its_usual_words(text: str | None, value: bool | None) -> None:
    assert TruthField(required=False).clean(text) is value


def test_another_word_is_no_truth() -> None:
    with pytest.raises(ValidationError, match="neither true nor false"):
        TruthField(required=False).clean("maybe")


def test_an_age_is_never_negative_and_unknown_without_a_time() -> None:
    assert age_s(None) is None and age_s(timezone.now() + timedelta(hours=1)) == 0
    assert 59 < (age_s(timezone.now() - timedelta(minutes=1)) or 0) < 70


@dataclass
class Inner:
    at: datetime


@dataclass
class Row:
    id: uuid.UUID
    inner: list[Inner]
    scope: DrainScope
    more: dict[str, Any]


def test_a_row_becomes_plain_json_values() -> None:
    row = Row(uuid.UUID(int=1), [Inner(datetime(2026, 1, 2, tzinfo=UTC))], DrainScope(broker=3), {"t": (1, 2)})
    assert as_dict(row) == {
        "id": "00000000-0000-0000-0000-000000000001",
        "inner": [{"at": "2026-01-02T00:00:00+00:00"}],
        "scope": {"kind": "drain", "broker": 3},
        "more": {"t": [1, 2]},
    }
