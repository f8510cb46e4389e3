"""The conditions of lists, ages, and rows as JSON."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.utils import timezone

from controlplane.domain.scope import DrainScope
from controlplane.selectors.common import TruthField, age_s, as_dict


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
