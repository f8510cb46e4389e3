"""Sentences about values that do not fit."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.domain.value_faults import (
    FAULTS_MAX,
    NAMES_MAX,
    Faults,
    JsonKind,
    ValueFault,
    found_text,
    listed,
    member,
    missing_field,
    unknown_field,
    wrong_value,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (1.5, "the number 1.5"),
        ('a"b', 'the text "a\\"b"'),
        ("x" * 100, f'the text "{"x" * 59}…"'),
        ([1], "an array of 1 element"),
        ([1, 2], "an array of 2 elements"),
        ({}, "an empty object"),
        ({"a": 1}, 'an object with the field "a"'),
        ({"a": 1, "b": 2}, 'an object with the fields "a", "b"'),
        ({"a": 1, "b": 2, "c": 3, "d": 4}, 'an object with the fields "a", "b", "c" and 1 other'),
        ({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}, 'an object with the fields "a", "b", "c" and 2 others'),
    ],
)
def test_a_found_value_has_its_type(value: Any, text: str) -> None:
    assert text in found_text(value)


def test_names_that_are_no_words_are_quoted_in_a_path() -> None:
    assert member("$", "a_1") == "$.a_1" and member("$.a", "card number") == '$.a["card number"]'


def test_faults_are_limited_and_none_is_repeated() -> None:
    faults = Faults()
    for n in range(FAULTS_MAX + 10):
        faults.append_fault(ValueFault(f"$[{n}]", "x"))
        faults.append_fault(ValueFault(f"$[{n}]", "x"))
    assert len(faults) == FAULTS_MAX and len(set(faults)) == FAULTS_MAX


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        ("7", JsonKind.NUMBER, '$.a must be x, but it is the text "7". Remove the quotation marks.'),
        ("1e5", JsonKind.NUMBER, '$.a must be x, but it is the text "1e5". Remove the quotation marks.'),
        ("seven", JsonKind.NUMBER, '$.a must be x, but it is the text "seven".'),
        ("true", JsonKind.BOOLEAN, '$.a must be x, but it is the text "true". Remove the quotation marks.'),
        (7, JsonKind.TEXT, "$.a must be x, but it is the number 7. Put it in quotation marks."),
        (False, JsonKind.TEXT, "$.a must be x, but it is false. Put it in quotation marks."),
        (None, JsonKind.TEXT, "$.a must be x, but it is null."),
        (7, None, "$.a must be x, but it is the number 7."),
    ],
)
def test_a_wrong_value_says_when_only_quotation_marks_are_wrong(value: Any, kind: JsonKind | None, text: str) -> None:
    assert wrong_value("$.a", "x", value, kind).sentence == text


def test_the_whole_value_has_no_path() -> None:
    assert (
        wrong_value("$", "an object", []).sentence == "The value must be an object, but it is an array of 0 elements."
    )


def test_a_missing_and_an_unknown_field_say_what_to_do() -> None:
    assert missing_field("$.a", "text").sentence == "$.a is missing, and the schema requires it: add text."
    assert missing_field("$.a").sentence == "$.a is missing, and the schema requires it: add the field."
    assert unknown_field("$.a", "", []).sentence == "The schema has no field $.a: remove it."
    named, unnamed = unknown_field("$.a", "Order", ["id", "at"]), unknown_field("$.a", "", ["id"])
    assert named.sentence == "The schema has no field $.a: rename or remove it. Fields of Order: at, id."
    assert unnamed.sentence.endswith("Fields here: id.")


def test_names_are_limited() -> None:
    names = [f"n{i}" for i in range(NAMES_MAX + 1)]
    assert listed(names[:-1]) == ", ".join(names[:-1]) and listed(names).endswith(f"n{NAMES_MAX - 1} and 1 other")
