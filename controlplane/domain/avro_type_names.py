"""Types of Avro schemas as fastavro parses them: their definitions, their names, and the texts for the values that they have. Pure.

Does not contain: the encoding (`avro_encoding`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from controlplane.domain.value_faults import JsonKind, listed
from weir_common.phrases import counted, sentence

AvroType = Any
"""A schema in the form in which fastavro parses it: the name of a type, an object with `type`, or an array of branches."""
AvroOptions = Mapping[str, AvroType]
"""A type as an object, a field of a record, or named types."""

KINDS = {
    **dict.fromkeys(("int", "long", "float", "double"), JsonKind.NUMBER),
    "boolean": JsonKind.BOOLEAN,
    "string": JsonKind.TEXT,
}


def branch_name(kind: AvroType) -> str:
    """The name of a union's branch, as Avro's JSON encoding has it."""
    if isinstance(kind, Mapping):
        return str(kind.get("name") or branch_name(kind["type"]))
    return "union" if isinstance(kind, list) else str(kind)


def resolve_type(kind: AvroType, named: AvroOptions) -> AvroType:
    """The definition behind a name. The type of an object without one of its own is that of its `type`."""
    if isinstance(kind, str) and kind in named:
        return named[kind]
    if isinstance(kind, Mapping) and isinstance(kind["type"], Mapping | list):
        return resolve_type(kind["type"], named)
    return kind


def json_kind(kind: AvroType, named: AvroOptions) -> JsonKind | None:
    """The kind of JSON value of a primitive type, or of a union of it and null."""
    kind = resolve_type(kind, named)
    if isinstance(kind, list):
        others = [branch for branch in kind if branch != "null"]
        return json_kind(others[0], named) if len(others) == 1 else None
    name, options = (kind["type"], kind) if isinstance(kind, Mapping) else (kind, {})
    return None if (name, options.get("logicalType")) in LOGICAL_TEXTS else KINDS.get(name)


def expected_text(kind: AvroType, named: AvroOptions, *, logical: bool = True) -> str:
    """The values of a type, as a phrase after "must be". `logical`: in the text form of the logical type, if it has one."""
    kind = resolve_type(kind, named)
    if isinstance(kind, list):
        return _union_text(kind, named)
    name, options = (kind["type"], kind) if isinstance(kind, Mapping) else (kind, {})
    if logical and (text := LOGICAL_TEXTS.get((name, options.get("logicalType")))):
        return text(options)
    match name:
        case "record" | "error":
            return sentence("an object ({name})", name=options["name"])
        case "array":
            return sentence("an array")
        case "map":
            return sentence("an object (a map)")
        case "enum":
            return sentence("one of {names}", names=listed(options["symbols"]))
        case "fixed":
            size = options["size"]
            return counted(size, "{count} byte in hexadecimal", "{count} bytes in hexadecimal")
    return PRIMITIVE_TEXTS[name]


def _union_text(branches: list[AvroType], named: AvroOptions) -> str:
    others = [branch for branch in branches if branch != "null"]
    if len(others) == 1:
        return sentence("null or {text}", text=expected_text(others[0], named))
    names = [branch_name(resolve_type(branch, named)) for branch in branches]
    return sentence("a value of one of the types {names}", names=listed(names))


PRIMITIVE_TEXTS = {
    "null": "null",
    "boolean": sentence("true or false"),
    "int": sentence("an integer of 32 bits"),
    "long": sentence("an integer of 64 bits"),
    "float": sentence("a number of 32 bits"),
    "double": sentence("a number"),
    "bytes": sentence("bytes in hexadecimal, for example 00ff"),
    "string": sentence("text"),
}


def _decimal_text(options: AvroOptions) -> str:
    return sentence(
        "a decimal number with at most {precision} digits, {scale} of them after the point",
        precision=options["precision"],
        scale=options.get("scale", 0),
    )


def _uuid_text(_: AvroOptions) -> str:
    return sentence("a UUID")


LOGICAL_TEXTS: dict[tuple[str, str | None], Callable[[AvroOptions], str]] = {
    ("bytes", "decimal"): _decimal_text,
    ("fixed", "decimal"): _decimal_text,
    ("string", "uuid"): _uuid_text,
    ("fixed", "uuid"): _uuid_text,
    ("int", "date"): lambda _: sentence("a date (2024-01-31) or the days since 1970"),
    ("int", "time-millis"): lambda _: sentence("a time (12:30:00) or the milliseconds since midnight"),
    ("long", "time-micros"): lambda _: sentence("a time (12:30:00) or the microseconds since midnight"),
    ("long", "timestamp-millis"): lambda _: sentence("a time (2024-01-31T12:30:00Z) or the milliseconds since 1970"),
    ("long", "timestamp-micros"): lambda _: sentence("a time (2024-01-31T12:30:00Z) or the microseconds since 1970"),
    ("long", "local-timestamp-millis"): lambda _: sentence(
        "a local time (2024-01-31T12:30:00) or the milliseconds since 1970"
    ),
    ("long", "local-timestamp-micros"): lambda _: sentence(
        "a local time (2024-01-31T12:30:00) or the microseconds since 1970"
    ),
}
"""Values of logical types in their text form. Others are shown as the type below."""
