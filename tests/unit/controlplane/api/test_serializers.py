"""Serializers of rows have exactly the fields of their row; requests name their errors."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from rest_framework import serializers as drf

from controlplane.api import serializers
from controlplane.domain.scope import Scope


@dataclass
class InnerRow:
    name: str


@dataclass
class OuterRow:
    """The thing."""

    id: UUID
    at: datetime | None
    inner: InnerRow | None
    rows: list[InnerRow]
    pair: tuple[float, float] | None
    names: list[str]
    more: dict[str, Any]
    scope: Scope


def test_a_row_becomes_a_serializer_with_a_field_of_each_type() -> None:
    made = serializers.shape(OuterRow)
    assert made.__name__ == "Outer" and made.__doc__ == "The thing." and serializers.shape(OuterRow) is made
    fields = made().fields
    kinds = {
        "id": drf.UUIDField,
        "at": drf.DateTimeField,
        "inner": serializers.shape(InnerRow),
        "rows": drf.ListSerializer,
        "pair": drf.ListField,
        "names": drf.ListField,
        "more": drf.JSONField,
        "scope": drf.JSONField,
    }
    assert {name: type(f) for name, f in fields.items()} == kinds
    assert {n for n, f in fields.items() if f.allow_null} == {"at", "inner", "pair"}
    pair: Any = fields["pair"]
    assert isinstance(pair.child, drf.FloatField)


def problems(kind: type[drf.Serializer[Any]], data: dict[str, Any]) -> dict[str, list[str]]:
    it = kind(data=data)
    it.is_valid()
    return {name: [str(e) for e in errors] for name, errors in it.errors.items()}


@pytest.mark.parametrize("given", [{}, {"key": "a", "key_hex": "61"}])
def test_a_look_up_needs_the_key_in_one_form(given: dict[str, str]) -> None:
    assert problems(serializers.KeyLookupQuery, given) == {"key": ["Give one of key and key_hex."]}
    assert problems(serializers.KeyLookupQuery, {"key": ""}) == {}
    assert "key_hex" in problems(serializers.KeyLookupQuery, {"key_hex": "6"})


def test_a_throttle_is_given_as_a_rate_as_null_or_as_bounds() -> None:
    assert "throttle_bytes_per_s" in problems(serializers.MoveThrottle, {})
    for given in ({"throttle_bytes_per_s": None}, {"throttle_bytes_per_s": 5}, {"adaptive": {"cap": 9}}):
        assert problems(serializers.MoveThrottle, given) == {}


@pytest.mark.parametrize("given", [{}, {"comment": ""}, {"comment": None}])
def test_a_missing_reason_is_named(given: dict[str, Any]) -> None:
    (message,) = problems(serializers.RequiredComment, given)["comment"]
    assert message == "Give a reason; it is recorded in the audit log."
