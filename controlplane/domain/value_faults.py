"""Faults of a value that is encoded with a schema: where, what was expected, what was found. Pure.

Invariants: a list of faults is limited, and so is the part of the value that a fault shows. Does not contain: the encodings (`avro_encoding`,
`protobuf_encoding`, `json_schema_encoding`).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from decimal import Decimal

from weir_common.json_values import Json, JsonObject

FAULTS_MAX = 50
"""Maximum number of faults of one value that are collected: more than a person corrects at the same time."""

FOUND_CHARS_MAX = 60
"""Maximum number of characters of a found value in a fault."""

ROOT = "$"
PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class ValueFault:
    """`path`: as in masking rules, with positions of arrays: $.lines[0].price. `expected` and `found`: phrases."""

    path: str
    expected: str
    found: str

    @property
    def sentence(self) -> str:
        return f"{self.path}: expected {self.expected}, found {self.found}."


class ValueMisfit(Exception):
    """The value does not fit the schema. `faults`: at least one."""

    def __init__(self, faults: list[ValueFault]) -> None:
        super().__init__(" ".join(f.sentence for f in faults))
        self.faults = faults


class Faults(list[ValueFault]):
    """Collects faults up to the limit."""

    def add(self, path: str, expected: str, value: Json) -> None:
        self.append_fault(ValueFault(path, expected, found_text(value)))

    def append_fault(self, fault: ValueFault) -> None:
        if len(self) < FAULTS_MAX and fault not in self:
            self.append(fault)


def member(path: str, name: object) -> str:
    """The path of a field of the object at `path`."""
    return f"{path}.{name}" if PLAIN_NAME.fullmatch(str(name)) else f"{path}[{_quote(str(name))}]"


def element(path: str, position: int) -> str:
    return f"{path}[{position}]"


def found_text(value: Json) -> str:
    """A value of JSON in a sentence, with its type."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float() | Decimal():
            return f"the number {shorten(str(value))}"
        case str():
            return f"the text {_quote(shorten(value))}"
        case list():
            return f"an array of {len(value)} elements" if len(value) != 1 else "an array of 1 element"
        case dict():
            return f"an object with {_names(value)}" if value else "an empty object"
    return type(value).__name__


NOTHING = "nothing"
"""The found value where a required field is missing."""


def shorten(text: str) -> str:
    return text if len(text) <= FOUND_CHARS_MAX else text[: FOUND_CHARS_MAX - 1] + "…"


def _names(value: JsonObject) -> str:
    names = ", ".join(_quote(shorten(name)) for name in list(value)[:3])
    return f"{names} and {len(value) - 3} more" if len(value) > 3 else names


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).encode(errors="backslashreplace").decode()
