"""Sentences with names and values that a console can show in another language. Pure.

A text is English with placeholders, and the key of a translation. Its values are names and numbers, which no language changes, other phrases, and lists of
these. Invariant: the stored form has the texts and the values, so a translation needs no parsing of a sentence. Does not contain: translations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, Union

from weir_common.json_values import Json, JsonObject

Value: TypeAlias = Union[str, "Phrase", Sequence["Value"]]
"""The values of a sequence are shown with commas between them."""
Translate: TypeAlias = Callable[[str, str, int], str]
"""(text, plural or "", count) -> the text in a language."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """`plural`: the text for another `count` than 1; "" = the same."""

    text: str
    values: Mapping[str, Value] = field(default_factory=dict)
    plural: str = ""
    count: int = 1

    def __str__(self) -> str:
        return render(self, english)


class TranslatableText(str):
    """A stored English text, with the phrase that it was made of."""

    __slots__ = ("phrase",)
    phrase: Phrase

    @classmethod
    def of(cls, text: str, phrase: Phrase) -> TranslatableText:
        made = cls(text)
        made.phrase = phrase
        return made


def sentence(text: str, **values: Value) -> TranslatableText:
    """A sentence for a page, in English until the page translates it."""
    phrase = Phrase(text, values)
    return TranslatableText.of(str(phrase), phrase)


def counted(count: int, text: str, plural: str, **values: Value) -> TranslatableText:
    """As `sentence`, with `{count}` and a plural."""
    phrase = Phrase(text, {"count": f"{count:,}", **values}, plural, count)
    return TranslatableText.of(str(phrase), phrase)


def english(text: str, plural: str, count: int) -> str:
    return plural if plural and count != 1 else text


def render(value: Value, translate: Translate) -> str:
    """Raises KeyError for a text whose placeholders have no values."""
    if isinstance(value, str):
        return value
    if isinstance(value, Phrase):
        text = translate(value.text, value.plural, value.count)
        return text.format(**{name: render(v, translate) for name, v in value.values.items()})
    return ", ".join(render(v, translate) for v in value)


def number_of(count: int, text: str, plural: str) -> Phrase:
    """`{count} partition` or `{count} partitions`."""
    return Phrase(text, {"count": f"{count:,}"}, plural, count)


def to_json(value: Value) -> Json:
    if isinstance(value, str):
        return value
    if isinstance(value, Phrase):
        made: JsonObject = {"text": value.text}
        if value.values:
            made["values"] = {name: to_json(v) for name, v in value.values.items()}
        return made | ({"plural": value.plural, "count": value.count} if value.plural else {})
    return [to_json(v) for v in value]


def from_json(stored: Json) -> Value:
    """Raises TypeError for JSON that `to_json` does not write."""
    match stored:
        case str():
            return stored
        case list():
            return [from_json(v) for v in stored]
        case {"text": str(text), **rest}:
            values, plural, count = rest.get("values", {}), rest.get("plural", ""), rest.get("count", 1)
            if isinstance(values, dict) and isinstance(plural, str) and isinstance(count, int):
                return Phrase(text, {name: from_json(v) for name, v in values.items()}, plural, count)
    raise TypeError(f"not a stored phrase: {stored!r}")
