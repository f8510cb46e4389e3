"""Sentences with names and values that a console can show in another language. Pure.

A text is English with placeholders, and the key of a translation. Its values are names, numbers and durations, other phrases, and lists of these. A
language changes the phrases and the units of durations, never a string. Invariant: the stored form has the texts and the values, so a translation needs no parsing of a
sentence. Does not contain: translations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, Union

from weir_common.durations import Duration, duration_from_json, duration_to_json
from weir_common.json_values import Json, JsonObject

Value: TypeAlias = Union[str, Duration, "Phrase", Sequence["Value"]]
"""The values of a sequence are shown with LIST_SEPARATOR between them."""
LIST_SEPARATOR = ", "
"""Is translated too: Chinese has its own comma for lists."""
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


def sentence(text: str, /, **values: object) -> TranslatableText:
    """A sentence for a page, in English until the page translates it. A value that is a sentence itself is translated, too, and so is the reason of an
    exception. Other values than names, durations, phrases and lists of these are shown as `str` shows them."""
    return _text_of(Phrase(text, {name: _value(v) for name, v in values.items()}))


def counted(count: int, text: str, plural: str, /, **values: object) -> TranslatableText:
    """As `sentence`, with `{count}` and a plural."""
    return _text_of(
        Phrase(text, {"count": f"{count:,}", **{name: _value(v) for name, v in values.items()}}, plural, count)
    )


def joined(texts: Iterable[str], between: str = " ") -> TranslatableText:
    """The sentences one after another, with `between` between them."""
    parts = [_value(text) for text in texts]
    form = between.join(f"{{part_{n}}}" for n in range(len(parts)))
    return _text_of(Phrase(form, {f"part_{n}": part for n, part in enumerate(parts)}))


def reason_of(error: BaseException) -> str:
    """The text of an exception, with its phrase. `str(error)` has no phrase."""
    first = error.args[0] if error.args else ""
    return first if isinstance(first, str) else str(error)


def texts_in(constants: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """(text, its plural or "") of each constant, by its name: a text, or a pair of a text and its plural."""
    for name, value in constants.items():
        if name.isupper():
            match value:
                case str():
                    yield value, ""
                case (str(text), str(plural)):
                    yield text, plural


def _text_of(phrase: Phrase) -> TranslatableText:
    return TranslatableText.of(str(phrase), phrase)


def _value(value: object) -> Value:
    if isinstance(value, BaseException):
        value = reason_of(value)
    if isinstance(value, TranslatableText):
        return value.phrase
    if isinstance(value, str | Duration | Phrase):
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(part, str | Duration | Phrase) for part in value):
        return [_value(part) for part in value]
    return str(value)


def english(text: str, plural: str, count: int) -> str:
    return plural if plural and count != 1 else text


def render(value: Value, translate: Translate, localized: Callable[[Duration], str] = str) -> str:
    """`localized`: the form of a duration in the language. Raises KeyError for a text whose placeholders have no values."""
    if isinstance(value, str):
        return value
    if isinstance(value, Duration):
        return localized(value)
    if isinstance(value, Phrase):
        text = translate(value.text, value.plural, value.count)
        return text.format(**{name: render(v, translate, localized) for name, v in value.values.items()})
    return translate(LIST_SEPARATOR, "", 1).join(render(v, translate, localized) for v in value)


def number_of(count: int, text: str, plural: str) -> Phrase:
    """`{count} partition` or `{count} partitions`."""
    return Phrase(text, {"count": f"{count:,}"}, plural, count)


def to_json(value: Value) -> Json:
    if isinstance(value, str):
        return value
    if isinstance(value, Duration):
        return duration_to_json(value)
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
        case {"duration": list(amounts)}:
            return duration_from_json(amounts)
        case {"text": str(text), **rest}:
            values, plural, count = rest.get("values", {}), rest.get("plural", ""), rest.get("count", 1)
            if isinstance(values, dict) and isinstance(plural, str) and isinstance(count, int):
                return Phrase(text, {name: from_json(v) for name, v in values.items()}, plural, count)
    raise TypeError(f"not a stored phrase: {stored!r}")


def text_to_json(text: str) -> Json:
    """The stored form of a text: its phrase, or the text itself if it has none."""
    return to_json(text.phrase) if isinstance(text, TranslatableText) else text


def text_from_json(stored: Json) -> str:
    """The English text of the stored form, with its phrase. Raises TypeError for JSON that `text_to_json` does not write."""
    value = from_json(stored)
    if isinstance(value, Phrase):
        return _text_of(value)
    if isinstance(value, str):
        return value
    raise TypeError(f"not a stored text: {stored!r}")


def with_phrase(text: str, stored: JsonObject) -> str:
    """A text of a text column, with the phrase of its second column. `stored` empty: the text has no phrase."""
    phrase = from_json(stored) if stored else ""
    return TranslatableText.of(text, phrase) if isinstance(phrase, Phrase) else text


def phrase_to_json(text: str) -> JsonObject:
    """The value of the phrase column of a text column, for `with_phrase`."""
    stored = text_to_json(text)
    return stored if isinstance(stored, dict) else {}


def texts_to_json(texts: object) -> Json:
    """Raises TypeError for another value than a list or tuple of texts."""
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"not a list of texts: {texts!r}")
    return [text_to_json(text) for text in texts]


def texts_from_json(stored: Json) -> tuple[str, ...]:
    """Raises TypeError for JSON that is no list of stored texts."""
    if not isinstance(stored, list):
        raise TypeError(f"not a list of stored texts: {stored!r}")
    return tuple(map(text_from_json, stored))
