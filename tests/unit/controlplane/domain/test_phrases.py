"""Sentences with values that can be shown in another language."""

from __future__ import annotations

import json

import pytest

from controlplane.domain.phrases import Phrase, TranslatableText, Value, english, from_json, number_of, render, to_json

NAMES = Phrase("{what} ({names})", {"what": number_of(2, "{count} group", "{count} groups"), "names": ["a", "{b}"]})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("orders", "orders"),
        (["a", Phrase("{n} more", {"n": "2"})], "a, 2 more"),
        (number_of(1, "{count} group", "{count} groups"), "1 group"),
        (number_of(1200, "{count} group", "{count} groups"), "1,200 groups"),
        (NAMES, "2 groups (a, {b})"),
        (Phrase("none"), "none"),
    ],
)
def test_a_value_is_rendered_and_stored(value: Value, text: str) -> None:
    assert render(value, english) == text
    assert render(from_json(json.loads(json.dumps(to_json(value)))), english) == text


def test_each_part_is_translated() -> None:
    texts = {"{what} ({names})": "{what}: {names}", "{count} groups": "{count} Gruppen"}
    assert render(NAMES, lambda one, many, count: texts[english(one, many, count)]) == "2 Gruppen: a, {b}"


def test_a_text_without_its_values_is_an_error() -> None:
    with pytest.raises(KeyError):
        str(Phrase("{what}", {"who": "x"}))


def test_a_translatable_text_is_its_english_text() -> None:
    text = TranslatableText.of("2 groups", NAMES)
    assert text == "2 groups" and json.dumps(text) == '"2 groups"' and text.phrase is NAMES
