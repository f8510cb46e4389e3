"""Sentences about values that do not fit."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.domain.value_faults import FAULTS_MAX, Faults, ValueFault, found_text, member


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
        ({"a": 1, "b": 2, "c": 3, "d": 4}, 'an object with "a", "b", "c" and 1 more'),
    ],
)
def test_a_found_value_has_its_type(value: Any, text: str) -> None:
    assert text in found_text(value)


def test_names_that_are_no_words_are_quoted_in_a_path() -> None:
    assert member("$", "a_1") == "$.a_1" and member("$.a", "card number") == '$.a["card number"]'


def test_faults_are_limited_and_none_is_repeated() -> None:
    faults = Faults()
    for n in range(FAULTS_MAX + 10):
        faults.append_fault(ValueFault(f"$[{n}]", "x", "y"))
        faults.append_fault(ValueFault(f"$[{n}]", "x", "y"))
    assert len(faults) == FAULTS_MAX and len(set(faults)) == FAULTS_MAX
