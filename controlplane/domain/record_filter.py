"""Filters of a read of records: key, value, JSON path, header. Pure.

Invariant: a filter costs time in proportion to the record. There are no regular expressions and no code of users. Bytes are compared as bytes, and
text is UTF-8. Does not contain: the scan (`domain.record_scan`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from brokerd.wire.records import Record
from controlplane.domain.errors import Rejected
from weir_common.json_values import Json
from weir_common.phrases import sentence

FILTER_CHARS_MAX = 1_000
"""Maximum length of one filter."""

PATH_STEPS_MAX = 20
"""Maximum number of steps of a JSON path."""

BRANCHES_MAX = 10_000
"""Maximum number of elements that the wildcards of a path compare in one record."""

Matcher = Callable[[Record], bool]


class JsonOperator(StrEnum):
    EQUAL = "=="
    UNEQUAL = "!="
    AT_LEAST = ">="
    AT_MOST = "<="
    GREATER = ">"
    LESS = "<"
    CONTAINS = "contains"


_STEP = re.compile(r'\.([A-Za-z_@-][\w@-]*)|\[(\d{1,9})\]|\[(\*)\]|\["((?:[^"\\]|\\.)*)"\]')
_CONDITION = re.compile(r"\s*(==|=(?!=)|!=|>=|<=|>|<|contains\b)\s*(.*\S)\s*", re.DOTALL)

_ORDER: Mapping[JsonOperator, Callable[[Any, Any], bool]] = {
    JsonOperator.AT_LEAST: lambda a, b: bool(a >= b),
    JsonOperator.AT_MOST: lambda a, b: bool(a <= b),
    JsonOperator.GREATER: lambda a, b: bool(a > b),
    JsonOperator.LESS: lambda a, b: bool(a < b),
}


@dataclass(frozen=True, slots=True)
class JsonCondition:
    """`$.flight.carrier == "UA"`. `path`: names, indexes, and None for every element. A record whose value is no JSON or lacks the path does not
    match, also with `!=`."""

    path: tuple[str | int | None, ...]
    operator: JsonOperator
    literal: Json

    @staticmethod
    def parse(text: str) -> JsonCondition:
        """Raises Rejected with the position of the error."""
        text = text.strip()
        if not text.startswith("$"):
            text = f"${text}" if text[:1] in (".", "[") else f"$.{text}"
        path: list[str | int | None] = []
        at = 1
        while match := _STEP.match(text, at):
            name, index, wildcard, quoted = match.groups()
            path.append(name or (int(index) if index else None if wildcard else _unquote(quoted)))
            at = match.end()
        condition = _CONDITION.fullmatch(text, at)
        if not path or condition is None:
            raise Rejected(
                sentence(
                    '{text} is not understood. Write a path, an operator and a value: $.flight.carrier == "UA". Operators: {operators}.',
                    text=repr(text[at : at + 40]),
                    operators=", ".join(JsonOperator),
                ),
                "json",
            )
        if len(path) > PATH_STEPS_MAX:
            raise Rejected(
                sentence("The path has {count} steps; use at most {max}.", count=len(path), max=PATH_STEPS_MAX), "json"
            )
        operator = JsonOperator("==" if condition[1] == "=" else condition[1])
        return JsonCondition(tuple(path), operator, _literal(condition[2]))

    def matcher(self) -> Matcher:
        # A value without the bytes of the last name cannot match; JSON is parsed for the others only.
        name = next((s for s in reversed(self.path) if isinstance(s, str)), "")
        needle = name.encode() if name.isascii() and '"' not in name and "\\" not in name else b""

        def matches(record: Record) -> bool:
            value = record.value
            if value is None or (needle and needle not in value and b"\\" not in value):
                return False
            try:
                document = json.loads(value)
            except (ValueError, RecursionError):
                return False
            return any(self._compares(found) for found in _values(document, self.path))

        return matches

    def _compares(self, node: Json) -> bool:
        operator, literal = self.operator, self.literal
        if operator is JsonOperator.EQUAL:
            return _equal(node, literal)
        if operator is JsonOperator.UNEQUAL:
            return not _equal(node, literal)
        if operator is JsonOperator.CONTAINS:
            if isinstance(node, str):
                return str(literal) in node
            return isinstance(node, list) and any(_equal(x, literal) for x in node[:BRANCHES_MAX])
        if isinstance(literal, str) != isinstance(node, str) or not isinstance(node, str | int | float):
            return False
        if isinstance(node, bool) or not isinstance(literal, str | int | float) or isinstance(literal, bool):
            return False
        return _ORDER[operator](node, literal)


def _unquote(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        raise Rejected(sentence('"{text}" is not a JSON string.', text=text), "json") from None


def _literal(text: str) -> Json:
    """A JSON value; other text is a string without quotes."""
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value


def _equal(node: Json, literal: Json) -> bool:
    """Return whether both values are equal. As in JSON, true is not 1. A literal without quotes also equals text of the same form: `zip == 20095`."""
    if isinstance(node, bool) or isinstance(literal, bool):
        return node is literal
    if isinstance(node, str) and isinstance(literal, int | float):
        return node == str(literal)
    return bool(node == literal)


def _values(document: Json, path: tuple[str | int | None, ...]) -> Iterator[Json]:
    """The values at a path, at most BRANCHES_MAX."""
    now = [document]
    for step in path:
        following: list[Json] = []
        for value in now:
            if step is None:
                if isinstance(value, list):
                    following.extend(value[: BRANCHES_MAX - len(following)])
                elif isinstance(value, dict):
                    following.extend(list(value.values())[: BRANCHES_MAX - len(following)])
            elif isinstance(step, int):
                if isinstance(value, list) and step < len(value):
                    following.append(value[step])
            elif isinstance(value, dict) and step in value:
                following.append(value[step])
        now = following
    return iter(now)


@dataclass(frozen=True, slots=True)
class RecordFilters:
    """Conditions that a record must meet, "" = none. `header`: `name=value`, or `name` for a header with any value. `expression`: CEL. It is evaluated
    after the others, by `record_expression.ExpressionFilter`; `matcher` does not contain it."""

    key: str = ""
    key_contains: str = ""
    value_contains: str = ""
    json: str = ""
    header: str = ""
    expression: str = ""

    def __bool__(self) -> bool:
        return any(getattr(self, f.name) for f in fields(self))

    def matcher(self) -> Matcher | None:
        """None without a filter. Raises Rejected for a filter that is not understood."""
        for f in fields(self):
            if len(getattr(self, f.name)) > FILTER_CHARS_MAX:
                raise Rejected(sentence("The filter is longer than {max} characters.", max=FILTER_CHARS_MAX), f.name)
        # The cheapest test is first.
        tests: list[Matcher] = []
        if self.key:
            tests.append(_key_equals(self.key.encode()))
        if self.key_contains:
            tests.append(_key_contains(self.key_contains.encode()))
        if self.header:
            tests.append(_header_equals(self.header))
        if self.value_contains:
            tests.append(_value_contains(self.value_contains.encode()))
        if self.json:
            tests.append(JsonCondition.parse(self.json).matcher())
        if len(tests) < 2:
            return tests[0] if tests else None
        return lambda record: all(test(record) for test in tests)


def _key_equals(key: bytes) -> Matcher:
    return lambda record: record.key == key


def _key_contains(part: bytes) -> Matcher:
    return lambda record: record.key is not None and part in record.key


def _value_contains(part: bytes) -> Matcher:
    return lambda record: record.value is not None and part in record.value


def _header_equals(text: str) -> Matcher:
    name, with_value, value = text.partition("=")
    if not name:
        raise Rejected("The name of the header is missing: write name=value.", "header")
    if not with_value:
        return lambda record: any(n == name for n, _ in record.headers)
    expected = (name, value.encode())
    return lambda record: expected in record.headers
