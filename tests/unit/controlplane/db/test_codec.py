"""The codec between dataclasses and JSON values: a round trip, and the path of the first wrong value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from controlplane.db import codec


@dataclass(frozen=True, slots=True)
class Inner:
    name: str
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Outer:
    rows: tuple[tuple[int, Inner | None], ...]
    by_name: dict[str, list[bool]]
    note: str | None = None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"rows": [], "by_name": {}, "more": 1}, "has no 'more'"),
        ({"rows": []}, "by_name"),
        ({"rows": [[1]], "by_name": {}}, r"rows\[0\]"),
        ({"rows": [[True, None]], "by_name": {}}, r"rows\[0\]\[0\]"),
        ({"rows": [[1, {"name": 2}]], "by_name": {}}, r"rows\[0\]\[1\].name"),
        ({"rows": [], "by_name": {"a": [1]}}, r"by_name.a\[0\]"),
        ([], "is no Outer"),
    ],
)
def test_a_value_of_another_type_is_rejected_with_its_path(value: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        codec.decode(Outer, value)


def test_a_default_is_not_stored() -> None:
    value = Outer(rows=((1, Inner("a")), (2, None)), by_name={"x": [True]})
    stored = {"rows": [[1, {"name": "a"}], [2, None]], "by_name": {"x": [True]}}
    assert codec.encode(value) == stored and codec.decode(Outer, stored) == value
    with pytest.raises(TypeError, match="object has no JSON value"):
        codec.encode({"x": object()})
