"""Errors of the package jsonschema as faults with plain sentences. Pure.

Invariant: each keyword of JSON Schema that rejects a value has a text; a keyword of another vocabulary is named as it is. Does not contain: the validation
(`json_schema_encoding`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from controlplane.domain.value_faults import (
    ROOT,
    JsonKind,
    ValueFault,
    element,
    found_text,
    listed,
    member,
    missing_field,
    shorten,
    unknown_field,
    wrong_value,
)
from weir_common.json_values import Json
from weir_common.phrases import counted, sentence

SchemaError = Any
"""jsonschema.ValidationError; the package is optional."""

TYPE_TEXTS = {
    "null": "null",
    "boolean": sentence("true or false"),
    "integer": sentence("an integer"),
    "number": sentence("a number"),
    "string": sentence("text"),
    "array": sentence("an array"),
    "object": sentence("an object"),
}
TYPE_KINDS = {
    "boolean": JsonKind.BOOLEAN,
    "integer": JsonKind.NUMBER,
    "number": JsonKind.NUMBER,
    "string": JsonKind.TEXT,
}


def faults_of(error: SchemaError) -> list[ValueFault]:
    """The faults of one error of the validation. At least one."""
    keyword, required, value = error.validator, error.validator_value, error.instance
    path = path_of(error)
    if error.schema is False:
        # The library does not give the path of this value.
        return [
            ValueFault(path, sentence("The schema does not allow {found} here: remove it.", found=found_text(value)))
        ]
    if _is_about_name(error):
        text = sentence(
            "The name of the field {path} must be {expected}.", path=member(path, value), expected=_text(error)
        )
        return [ValueFault(path, text)]
    match keyword:
        case "required" if isinstance(required, list):
            properties = error.schema.get("properties", {})
            missing = [name for name in required if name not in value]
            return [missing_field(member(path, name), _schema_text(properties.get(name))) for name in missing]
        case "additionalProperties" if required is False and "patternProperties" not in error.schema:
            known = list(error.schema.get("properties", {}))
            return [unknown_field(member(path, name), "", known) for name in value if name not in known]
        case "anyOf" | "oneOf" if meant := _meant_branch(error.context):
            return [fault for inner in meant for fault in faults_of(inner)]
        case "type":
            types = required if isinstance(required, list) else [required]
            kinds = [TYPE_KINDS[name] for name in types if name in TYPE_KINDS]
            return [wrong_value(path, _text(error), value, kinds[0] if len(kinds) == 1 else None)]
    return [wrong_value(path, _text(error), value)]


def path_of(error: SchemaError) -> str:
    """The place of the error's value."""
    path = ROOT
    for part in error.absolute_path:
        path = element(path, part) if isinstance(part, int) else member(path, part)
    return path


def _is_about_name(error: SchemaError) -> bool:
    """Return whether the value is the name of a field, and the path that of the object."""
    path = list(error.relative_schema_path)
    return path[-2:-1] == ["propertyNames"] and path[-3:-2] != ["properties"]


def _meant_branch(errors: Iterable[SchemaError]) -> list[SchemaError]:
    """The errors of the only branch that can be meant: no other one accepts the type or the constants of the value."""
    branches: dict[int, list[SchemaError]] = {}
    for error in errors:
        branches.setdefault(error.relative_schema_path[0], []).append(error)
    for excluding in (_is_other_type, _is_other_constant):
        left = {n: found for n, found in branches.items() if not any(map(excluding, found))}
        if len(left) == 1:
            return next(iter(left.values()))
        branches = left or branches
    return []


def _is_other_type(error: SchemaError) -> bool:
    return error.validator == "type" and not error.relative_path


def _is_other_constant(error: SchemaError) -> bool:
    return error.validator in ("const", "enum") and len(error.relative_path) <= 1


def _schema_text(definition: Json) -> str:
    """The values that a schema accepts, as far as its type or its list of values says it."""
    if not isinstance(definition, dict):
        return ""
    if isinstance(allowed := definition.get("enum"), list):
        return _one_of(allowed)
    return _types_text(definition["type"]) if "type" in definition else ""


def _types_text(types: Json) -> str:
    texts = [TYPE_TEXTS.get(str(name), str(name)) for name in (types if isinstance(types, list) else [types])]
    text = texts[0] if texts else ""
    for other in texts[1:]:
        text = sentence("{first} or {second}", first=text, second=other)
    return text


def _one_of(values: list[Json]) -> str:
    return sentence("one of {names}", names=listed([_json(value) for value in values]))


def _text(error: SchemaError) -> str:
    """The requirement of the keyword, as a phrase after "must be"."""
    keyword = error.validator
    if keyword in ("anyOf", "oneOf"):
        return _choice_text(error)
    if text := TEXTS.get(keyword):
        return text(error.validator_value)
    return sentence("as {keyword} requires ({value})", keyword=keyword, value=_json(error.validator_value))


def _choice_text(error: SchemaError) -> str:
    if not error.context:
        return sentence("a value that fits only one schema of oneOf (it fits several)")
    return sentence(
        "a value that fits one of the {count} schemas of {keyword} (it fits none)",
        count=len(error.validator_value),
        keyword=error.validator,
    )


def _json(value: Json) -> str:
    return shorten(json.dumps(value, ensure_ascii=False, default=str))


TEXTS: dict[str, Callable[..., str]] = {
    "type": _types_text,
    "enum": _one_of,
    "const": lambda value: _json(value),
    "minimum": lambda limit: sentence("at least {limit}", limit=limit),
    "maximum": lambda limit: sentence("at most {limit}", limit=limit),
    "exclusiveMinimum": lambda limit: sentence("more than {limit}", limit=limit),
    "exclusiveMaximum": lambda limit: sentence("less than {limit}", limit=limit),
    "multipleOf": lambda factor: sentence("a multiple of {factor}", factor=factor),
    "minLength": lambda n: counted(n, "text of at least {count} character", "text of at least {count} characters"),
    "maxLength": lambda n: counted(n, "text of at most {count} character", "text of at most {count} characters"),
    "pattern": lambda pattern: sentence("text that matches the regular expression {pattern}", pattern=shorten(pattern)),
    "format": lambda name: sentence("text in the format {name}", name=name),
    "minItems": lambda n: counted(n, "an array of at least {count} element", "an array of at least {count} elements"),
    "maxItems": lambda n: counted(n, "an array of at most {count} element", "an array of at most {count} elements"),
    "uniqueItems": lambda _: sentence("an array without equal elements"),
    "contains": lambda _: sentence('an array with an element that fits the schema of "contains"'),
    "minContains": lambda n: counted(
        n,
        'an array with at least {count} element that fits the schema of "contains"',
        'an array with at least {count} elements that fit the schema of "contains"',
    ),
    "maxContains": lambda n: counted(
        n,
        'an array with at most {count} element that fits the schema of "contains"',
        'an array with at most {count} elements that fit the schema of "contains"',
    ),
    "additionalItems": lambda _: sentence("an array without further elements"),
    "items": lambda _: sentence("an array without further elements"),
    "unevaluatedItems": lambda _: sentence("an array without further elements"),
    "minProperties": lambda n: counted(
        n, "an object with at least {count} field", "an object with at least {count} fields"
    ),
    "maxProperties": lambda n: counted(
        n, "an object with at most {count} field", "an object with at most {count} fields"
    ),
    "additionalProperties": lambda _: sentence("an object without other fields than those of the schema"),
    "unevaluatedProperties": lambda _: sentence("an object without other fields than those of the schema"),
    "dependentRequired": lambda needed: sentence(
        "an object with all fields that its other fields need ({value})", value=_json(needed)
    ),
    "dependencies": lambda needed: sentence(
        "an object with all fields that its other fields need ({value})", value=_json(needed)
    ),
    "not": lambda schema: sentence("a value that does not fit the schema {value}", value=_json(schema)),
}
"""By the keyword of JSON Schema, from its value."""
