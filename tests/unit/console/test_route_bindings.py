"""Rows of a form and the bindings of a route have the same meaning."""

from __future__ import annotations

import json
from typing import Any

import pytest

from console.route_bindings import (
    ROW,
    ROWS_MAX,
    BindingRowsField,
    BindingRowsWidget,
    BindingText,
    bindings_of,
    edit_rows,
    input_of,
    rows_of,
    text_of,
)

BINDINGS: list[dict[str, Any]] = [
    {"target": "paid", "match": {"kind": "key", "value": ""}},
    {"target": "eu", "match": {"kind": "pattern", "value": "eu.*.#"}, "sample_percent": 12.5, "sample_by": "offset"},
    {"target": "a", "match": {"kind": "headers_all", "headers": [{"name": "kind", "value": "x=y"}, {"name": "any"}]}},
    {"target": "b", "match": {"kind": "headers_any", "headers": [{"name": "kind", "value": ""}]}, "drop_key": True},
    {
        "target": "c",
        "match": {"kind": "all"},
        "set_headers": [{"name": "from", "value": "orders"}],
        "remove_headers": ["secret", "trace"],
        "key_from_header": "id",
    },
]


def test_rows_have_the_meaning_of_their_bindings() -> None:
    rows = rows_of(BINDINGS)
    assert rows is not None
    found, problems = bindings_of(rows)
    assert not problems and found == BINDINGS


@pytest.mark.parametrize(
    "binding",
    [
        {"target": "t", "match": {"kind": "headers_all", "headers": [{"name": "a=b", "value": "c"}]}},
        {"target": "t", "match": {"kind": "headers_all", "headers": [{"name": "a", "value": "two\nlines"}]}},
        {"target": "t", "match": {"kind": "key", "value": "with\rCR"}},
        {"target": " ", "match": {"kind": "key", "value": "x"}},
        {"target": "t", "match": {"kind": "of the future"}},
    ],
)
def test_bindings_that_rows_would_change_are_edited_as_json(binding: dict[str, Any]) -> None:
    assert rows_of([binding]) is None


def test_a_route_with_many_bindings_is_edited_as_json() -> None:
    assert rows_of(BINDINGS[:1] * ROWS_MAX) is not None and rows_of(BINDINGS[:1] * (ROWS_MAX + 1)) is None


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"target": ""}, "target"),
        ({"kind": ""}, "kind"),
        ({"kind": "headers_all", "match": ""}, "match"),
        ({"kind": "headers_any", "match": "=x"}, "match"),
        ({"kind": "pattern", "match": ""}, "match"),
        ({"kind": "all", "match": "x"}, "match"),
        ({"sample_percent": "0"}, "sample_percent"),
        ({"sample_percent": "nan"}, "sample_percent"),
        ({"sample_percent": "half"}, "sample_percent"),
        ({"key_from_header": "id", "drop_key": "on"}, "drop_key"),
    ],
)
def test_a_reason_is_beside_its_input(changes: dict[str, str], where: str) -> None:
    good = {**ROW, "target": "t", "match": "k"}
    _, problems = bindings_of([good, {**good, **changes}])
    assert [(row, [*found]) for row, found in problems.items()] == [(1, [where])]


def test_an_unknown_field_is_reported_at_the_start_of_its_row() -> None:
    assert input_of(()) == input_of(("of_the_future",)) == "target"
    assert input_of(("match", "headers", "1", "name")) == "match"


def test_typed_rows_are_read_with_the_line_breaks_of_a_text() -> None:
    typed = {"b-rows": "2", "b-0-target": "t", "b-0-match": "a=1\r\nb=2", "b-1-kind": "all", "b-1-drop_key": "on"}
    first, second = BindingRowsWidget().value_from_datadict(typed, {}, "b")
    assert first["match"] == "a=1\nb=2" and second["kind"] == "all" and second["drop_key"] == "on"
    assert BindingRowsWidget().value_from_datadict({"b-rows": "many"}, {}, "b") == []
    assert len(BindingRowsWidget().value_from_datadict({"b-rows": "999999"}, {}, "b")) == ROWS_MAX


def test_buttons_add_and_remove_rows() -> None:
    rows = [{**ROW, "target": name} for name in "abc"]
    added, focus = edit_rows(rows, "add")
    assert [r["target"] for r in added] == ["a", "b", "c", ""] and focus == 3
    removed, focus = edit_rows(rows, "1")
    assert [r["target"] for r in removed] == ["a", "c"] and focus == 1
    assert edit_rows(rows[:1], "0") == ([dict(ROW)], 0)
    assert edit_rows(rows, "x")[0] == rows
    full = [dict(ROW)] * ROWS_MAX
    assert edit_rows(full, "add") == (full, ROWS_MAX - 1)


def test_texts_of_a_row_are_escaped() -> None:
    hostile = {**ROW, "target": '"><b>', "match": "</textarea><b>"}
    shown = BindingRowsWidget().render("bindings", [hostile])
    assert "<b>" not in shown


def test_an_empty_form_is_not_valid() -> None:
    field = BindingRowsField()
    with pytest.raises(Exception, match="Correct the bindings"):
        field.clean([])
    assert [*field.widget.problems] == [0]


def test_the_text_of_a_binding_has_its_match_its_conditions_and_the_options_that_are_set() -> None:
    assert text_of(BINDINGS[0]) == BindingText("paid", "Key is equal", [""], [])
    assert text_of(BINDINGS[1]) == BindingText(
        "eu", "Key matches pattern", ["eu.*.#"], [("Sample", "12.5 % by offset")]
    )
    assert text_of(BINDINGS[2]).conditions == ["kind=x=y", "any"]
    assert text_of(BINDINGS[3]).options == [("Without key", "")]
    assert text_of(BINDINGS[4]).options == [
        ("Set headers", "from=orders"),
        ("Remove headers", "secret\ntrace"),
        ("Key from header", "id"),
    ]


def test_a_binding_that_rows_cannot_have_is_shown_as_json() -> None:
    binding = {"target": "a", "match": {"kind": "headers_any", "headers": [{"name": "a=b", "value": "c"}]}}
    assert rows_of([binding]) is None
    found = text_of(binding)
    assert found.target == "a" and json.loads(found.definition) == binding and not found.match
