"""Faults of a value that is encoded with a schema: where, what the schema requires, what was found, and what helps. Pure.

Invariants: a list of faults is limited, and so is the part of the value that a fault shows. A sentence has a phrase, so pages translate it. Does not contain:
the encodings (`avro_encoding`, `protobuf_encoding`, `json_schema_encoding`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from weir_common.json_values import Json, JsonObject
from weir_common.phrases import counted, joined, sentence

FAULTS_MAX = 50
"""Maximum number of faults of one value that are collected: more than a person corrects at the same time."""

FOUND_CHARS_MAX = 60
"""Maximum number of characters of a found value in a fault."""

NAMES_MAX = 20
"""Maximum number of names of fields, symbols or types in a fault."""

ROOT = "$"
PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class JsonKind(StrEnum):
    """Kinds of JSON values that are often confused, because only quotation marks distinguish them."""

    NUMBER = "number"
    BOOLEAN = "boolean"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class ValueFault:
    """`path`: as in masking rules, with positions of arrays: $.lines[0].price. `sentence`: what is wrong there, with its phrase."""

    path: str
    sentence: str


class ValueMisfit(Exception):
    """The value does not fit the schema. `faults`: at least one."""

    def __init__(self, faults: list[ValueFault]) -> None:
        super().__init__(" ".join(f.sentence for f in faults))
        self.faults = faults


class Faults(list[ValueFault]):
    """Collects faults up to the limit."""

    def add(self, path: str, expected: str, value: Json, kind: JsonKind | None = None) -> None:
        self.append_fault(wrong_value(path, expected, value, kind))

    def append_fault(self, fault: ValueFault) -> None:
        if len(self) < FAULTS_MAX and fault not in self:
            self.append(fault)


def wrong_value(path: str, expected: str, value: Json, kind: JsonKind | None = None) -> ValueFault:
    """The fault of a value that the schema does not allow. `expected`: a phrase after "must be". `kind`: of the expected value, if quotation marks decide."""
    found = found_text(value)
    if path == ROOT:
        wrong = sentence("The value must be {expected}, but it is {found}.", expected=expected, found=found)
    else:
        wrong = sentence("{path} must be {expected}, but it is {found}.", path=path, expected=expected, found=found)
    help_text = _quotation_help(value, kind)
    return ValueFault(path, joined([wrong, help_text]) if help_text else wrong)


def missing_field(path: str, expected: str = "") -> ValueFault:
    """The fault of a required field without a value. `expected`: a phrase, "" if the schema does not say it here."""
    if expected:
        text = sentence("{path} is missing, and the schema requires it: add {expected}.", path=path, expected=expected)
    else:
        text = sentence("{path} is missing, and the schema requires it: add the field.", path=path)
    return ValueFault(path, text)


def unknown_field(path: str, owner: str, names: Sequence[str]) -> ValueFault:
    """The fault of a field that the schema does not have. `owner`: the type, "" if it has no name. `names`: the fields of the type."""
    known = listed(sorted(names))
    if not names:
        text = sentence("The schema has no field {path}: remove it.", path=path)
    elif owner:
        text = sentence(
            "The schema has no field {path}: rename or remove it. Fields of {owner}: {names}.",
            path=path,
            owner=owner,
            names=known,
        )
    else:
        text = sentence(
            "The schema has no field {path}: rename or remove it. Fields here: {names}.", path=path, names=known
        )
    return ValueFault(path, text)


def surplus_fields(path: str, names: Sequence[str]) -> ValueFault:
    """The fault of an object with several fields that exclude each other."""
    if path == ROOT:
        text = sentence("The value may have only one of the fields {names}: remove the others.", names=names)
    else:
        text = sentence("{path} may have only one of the fields {names}: remove the others.", path=path, names=names)
    return ValueFault(path, text)


def listed(names: Sequence[str]) -> str:
    """The first names, with the number of the others."""
    first, more = ", ".join(names[:NAMES_MAX]), len(names) - NAMES_MAX
    return counted(more, "{names} and {count} other", "{names} and {count} others", names=first) if more > 0 else first


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
            return sentence("the number {number}", number=shorten(str(value)))
        case str():
            return sentence("the text {text}", text=_quote(shorten(value)))
        case list():
            return counted(len(value), "an array of {count} element", "an array of {count} elements")
        case dict():
            return _object_text(value) if value else sentence("an empty object")
    return type(value).__name__


def shorten(text: str) -> str:
    return text if len(text) <= FOUND_CHARS_MAX else text[: FOUND_CHARS_MAX - 1] + "…"


def _object_text(value: JsonObject) -> str:
    names, more = ", ".join(_quote(shorten(name)) for name in list(value)[:3]), len(value) - 3
    if more > 0:
        return counted(
            more,
            "an object with the fields {names} and {count} other",
            "an object with the fields {names} and {count} others",
            names=names,
        )
    return counted(len(value), "an object with the field {names}", "an object with the fields {names}", names=names)


def _quotation_help(value: Json, kind: JsonKind | None) -> str:
    if kind is JsonKind.TEXT and isinstance(value, int | float | Decimal):
        return sentence("Put it in quotation marks.")
    if not isinstance(value, str):
        return ""
    is_number = kind is JsonKind.NUMBER and NUMBER.fullmatch(value)
    is_boolean = kind is JsonKind.BOOLEAN and value in ("true", "false")
    return sentence("Remove the quotation marks.") if is_number or is_boolean else ""


NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?")
"""A number of JSON."""


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).encode(errors="backslashreplace").decode()
