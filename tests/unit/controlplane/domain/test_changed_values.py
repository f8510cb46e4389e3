"""Changed values: names of nested values, and the first ones for lists."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.domain.changed_values import LISTED_MAX, ChangedValue, changed_values, first_values


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, [("b", 2, 3)]),
        (None, {"x": {"y": 1}}, [("x.y", None, 1)]),
        ({"x": {"y": 1}}, None, [("x.y", 1, None)]),
        ({"x": {}}, {"x": {"y": 1}}, [("x.y", None, 1)]),
        (3, 4, [("value", 3, 4)]),
        (None, None, []),
    ],
)
def test_the_difference_names_nested_values(before: Any, after: Any, rows: list[Any]) -> None:
    assert changed_values(before, after) == [ChangedValue(*row) for row in rows]


def test_a_list_has_the_first_values_and_the_number_of_the_others() -> None:
    after = {f"k{n}": n for n in range(LISTED_MAX + 3)}
    values, more = first_values({"k0": 0}, after)
    assert [v.name for v in values] == [f"k{n}" for n in range(1, LISTED_MAX + 1)] and more == 2
    assert first_values({"a": 1}, {"a": 2}) == ([ChangedValue("a", 1, 2)], 0)
    assert first_values(None, {"configs": {}, "group": "", "n": 0}) == ([ChangedValue("n", None, 0)], 0)
    assert first_values({"group": "x"}, {"group": ""}) == ([ChangedValue("group", "x", "")], 0)
