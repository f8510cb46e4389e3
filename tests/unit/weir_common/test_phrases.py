"""Sentences with values that can be shown in another language."""

from __future__ import annotations

import json
from typing import Any

import pytest

from weir_common.durations import Duration, DurationUnit
from weir_common.phrases import (
    Phrase,
    TranslatableText,
    Value,
    counted,
    english,
    from_json,
    joined,
    number_of,
    phrase_to_json,
    render,
    sentence,
    texts_from_json,
    texts_in,
    texts_to_json,
    to_json,
    with_phrase,
)

HOURS = Duration((("1", DurationUnit.HOUR), ("23", DurationUnit.MINUTE)))
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
        (HOURS, "1 h 23 min"),
        (Phrase("in {time}", {"time": HOURS}), "in 1 h 23 min"),
        ([HOURS, "5 s"], "1 h 23 min, 5 s"),
    ],
)
def test_a_value_is_rendered_and_stored(value: Value, text: str) -> None:
    assert render(value, english) == text
    assert render(from_json(json.loads(json.dumps(to_json(value)))), english) == text


def test_only_a_duration_has_the_form_of_the_language() -> None:
    value = from_json(json.loads(json.dumps(to_json([HOURS, "1 h 23 min"]))))
    assert render(value, english, lambda shown: f"<{shown}>") == "<1 h 23 min>, 1 h 23 min"


def test_a_sentence_keeps_its_durations() -> None:
    text = sentence("{age}: {all}", age=HOURS, all=[HOURS, "orders"])
    assert text == "1 h 23 min: 1 h 23 min, orders"
    assert text.phrase.values == {"age": HOURS, "all": [HOURS, "orders"]}


def test_each_part_is_translated() -> None:
    texts = {"{what} ({names})": "{what}: {names}", "{count} groups": "{count} Gruppen", ", ": " und "}
    assert render(NAMES, lambda one, many, count: texts[english(one, many, count)]) == "2 Gruppen: a und {b}"


def test_a_text_without_its_values_is_an_error() -> None:
    with pytest.raises(KeyError):
        str(Phrase("{what}", {"who": "x"}))


def test_a_translatable_text_is_its_english_text() -> None:
    text = TranslatableText.of("2 groups", NAMES)
    assert text == "2 groups" and json.dumps(text) == '"2 groups"' and text.phrase is NAMES


def test_a_sentence_in_a_sentence_is_a_part_of_its_phrase() -> None:
    inner = counted(2, "{count} group", "{count} groups")
    text = sentence("{what} of {names}: {state}", what=inner, names=["a", "b"], state=7)
    assert text == "2 groups of a, b: 7"
    assert render(text.phrase, lambda one, many, count: many or "{state}/{what}") == "7/2 groups"


def test_sentences_are_joined_and_translated_one_by_one() -> None:
    text = joined([sentence("One {n}.", n=1), "Data {x}"])
    assert text == "One 1. Data {x}"
    assert render(text.phrase, lambda one, many, count: one.replace("One", "Eins")) == "Eins 1. Data {x}"
    assert joined([]) == ""


@pytest.mark.parametrize("text", ["plain", sentence("Broker {id} left.", id=3), counted(2, "{count} a", "{count} b")])
def test_a_text_is_stored_with_its_phrase(text: str) -> None:
    stored = json.loads(json.dumps(texts_to_json([text])))
    (found,) = texts_from_json(stored)
    assert found == text and isinstance(found, TranslatableText) == isinstance(text, TranslatableText)
    beside = json.loads(json.dumps(phrase_to_json(text)))
    again = with_phrase(str(text), beside)
    assert again == text and getattr(again, "phrase", None) == getattr(text, "phrase", None)


@pytest.mark.parametrize("stored", [{"text": "x"}, "x", [["x"]], [7], None])
def test_another_value_than_a_list_of_texts_is_an_error(stored: Any) -> None:
    with pytest.raises(TypeError):
        texts_from_json(stored)


@pytest.mark.parametrize("amounts", [["1"], [["1"]], [["1", "week"]], [[1, "h"]]])
def test_a_duration_of_another_form_is_an_error(amounts: Any) -> None:
    with pytest.raises(TypeError):
        from_json({"duration": amounts})


@pytest.mark.parametrize("texts", ["x", {"x": 1}, 7, [7]])
def test_only_a_list_of_texts_is_stored(texts: object) -> None:
    with pytest.raises(TypeError):
        texts_to_json(texts)


def test_the_texts_of_a_module_are_its_constants() -> None:
    constants = {"ONE": "one", "PAIR": ("{count} item", "{count} items"), "lower": "no", "LIMIT": 3}
    assert list(texts_in(constants)) == [("one", ""), ("{count} item", "{count} items")]
