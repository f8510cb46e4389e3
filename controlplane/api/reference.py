"""The OpenAPI schema as rows for the pages of the API reference: operations by their first path segment, and the fields of the named types.

Invariants: everything on the pages comes from the schema, so that they and /api/v1/schema cannot diverge. The schema is English; the pages have the language of
the user, from the catalogue `rest` in locale/. Does not contain: HTML.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.conf import settings
from django.utils.translation import to_locale
from drf_spectacular.generators import SchemaGenerator

METHODS = ("get", "post", "put", "patch", "delete")
NAMED = "#/components/schemas/"
MODIFIERS = ("minimum", "maximum", "minLength", "maxLength", "pattern")
CATALOGUE = "rest"
SENTENCE_END = re.compile(r"(?<=\.) |(?<=。)")
Schema = Mapping[str, Any]
Translate = Callable[[str], str]
"""Returns an English text in the language of the page."""


@dataclass(frozen=True, slots=True)
class ReferenceField:
    """A parameter, or a field of a body. `place`: path, query or header, empty for a field. `types`: named types that the type contains."""

    name: str
    place: str
    type: str
    types: tuple[str, ...]
    required: bool
    default: str
    description: str


@dataclass(frozen=True, slots=True)
class ReferenceResponse:
    status: str
    description: str
    type: str
    types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReferenceOperation:
    """`body`: the named type of the request's body, empty without a body or for a body without a named type."""

    id: str
    noun: str
    method: str
    path: str
    description: str
    parameters: tuple[ReferenceField, ...]
    body: str
    body_types: tuple[str, ...]
    responses: tuple[ReferenceResponse, ...]

    @property
    def summary(self) -> str:
        """The first sentence of the description."""
        return SENTENCE_END.split(self.description, maxsplit=1)[0]


@dataclass(frozen=True, slots=True)
class ReferenceType:
    name: str
    description: str
    type: str
    types: tuple[str, ...]
    fields: tuple[ReferenceField, ...]


@dataclass(frozen=True, slots=True)
class ReferencePage:
    """The operations of one noun, and all named types that their bodies contain."""

    noun: str
    operations: tuple[ReferenceOperation, ...]
    types: tuple[ReferenceType, ...]


@cache
def openapi_schema() -> Schema:
    """The schema in English. Generated once: it changes with the program only, and takes seconds."""
    found: Schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return found


@cache
def api_reference(language: str = "en") -> tuple[ReferencePage, ...]:
    """All pages, in the order of their nouns. `language`: a code of Django; without a catalogue the texts are in English."""
    catalogue = gettext.translation(CATALOGUE, settings.LOCALE_PATHS[0], languages=[to_locale(language)], fallback=True)
    return pages_of(openapi_schema(), catalogue.gettext)


def reference_page(noun: str, language: str = "en") -> ReferencePage | None:
    return next((page for page in api_reference(language) if page.noun == noun), None)


def pages_of(schema: Schema, translate: Translate = str) -> tuple[ReferencePage, ...]:
    schemas = schema.get("components", {}).get("schemas", {})
    named = {name: _reference_type(name, s, translate) for name, s in schemas.items()}
    nouns: dict[str, list[ReferenceOperation]] = {}
    for path, methods in schema["paths"].items():
        for method in METHODS:
            if method in methods:
                operation = _operation(path, method, methods[method], translate)
                nouns.setdefault(operation.noun, []).append(operation)
    return tuple(
        ReferencePage(noun, tuple(operations), tuple(named[n] for n in _closure(operations, named)))
        for noun, operations in sorted(nouns.items())
    )


def _translation(text: str | None, translate: Translate) -> str:
    """A text of the schema. The catalogue has it in one line; it has no entry for the empty text."""
    line = " ".join((text or "").split())
    return translate(line) if line else ""


def _operation(path: str, method: str, operation: Schema, translate: Translate) -> ReferenceOperation:
    body = _content(operation.get("requestBody", {}))
    return ReferenceOperation(
        id=operation["operationId"],
        noun=operation["tags"][0],
        method=method.upper(),
        path=path,
        description=_translation(operation.get("description"), translate),
        parameters=tuple(
            _field(
                p["name"],
                {"description": p.get("description"), **p["schema"]},
                translate,
                required=p.get("required", False),
                place=p["in"],
            )
            for p in operation.get("parameters", ())
        ),
        body=type_text(body, translate) if body else "",
        body_types=tuple(_names(body)),
        responses=tuple(
            ReferenceResponse(
                status=status,
                description=_translation(r.get("description"), translate),
                type=type_text(_content(r), translate) if _content(r) else "",
                types=tuple(_names(_content(r))),
            )
            for status, r in sorted(operation["responses"].items())
        ),
    )


def _content(body: Schema) -> Schema:
    """The schema of the first media type of a body."""
    contents: Mapping[str, Schema] = body.get("content", {})
    found: Schema = next((c["schema"] for c in contents.values() if "schema" in c), {})
    return found


def _reference_type(name: str, s: Schema, translate: Translate) -> ReferenceType:
    required = set(s.get("required", ()))
    fields = tuple(_field(n, f, translate, required=n in required) for n, f in s.get("properties", {}).items())
    described = _translation(s.get("description"), translate)
    return ReferenceType(name, described, type_text(s, translate), tuple(_names(s)), fields)


def _field(name: str, s: Schema, translate: Translate, *, required: bool, place: str = "") -> ReferenceField:
    described = _translation(s.get("description"), translate)
    default = "" if "default" not in s or s["default"] in ("", None) else str(s["default"])
    return ReferenceField(name, place, type_text(s, translate), tuple(_names(s)), required, default, described)


def type_text(schema: Schema, translate: Translate = str) -> str:
    """The type in words: "integer (minimum 0)", "list of Broker", "one of a, b"."""
    if "$ref" in schema:
        text = schema["$ref"].removeprefix(NAMED)
    elif "allOf" in schema or "oneOf" in schema:
        parts = [part for part in (schema.get("allOf") or schema["oneOf"]) if part.get("enum") != [None]]
        text = translate(" or ").join(type_text(part, translate) for part in parts)
    elif "enum" in schema:
        values = ", ".join("null" if v is None else str(v) or '""' for v in schema["enum"])
        text = translate("one of {values}").format(values=values)
    elif schema.get("type") == "array":
        text = translate("list of {type}").format(type=type_text(schema.get("items", {}), translate))
    elif isinstance(schema.get("additionalProperties"), Mapping) and schema["additionalProperties"]:
        item = type_text(schema["additionalProperties"], translate)
        text = translate("object of {type} by name").format(type=item)
    else:
        text = schema.get("type") or translate("any")
        more = [schema["format"]] if "format" in schema else []
        more += [translate(f"{name} {{value}}").format(value=schema[name]) for name in MODIFIERS if name in schema]
        text += f" ({', '.join(more)})" if more else ""
    return translate("{type} or null").format(type=text) if schema.get("nullable") else text


def _names(schema: object) -> Iterator[str]:
    """The named types that a schema contains directly."""
    if isinstance(schema, Mapping):
        if "$ref" in schema:
            yield schema["$ref"].removeprefix(NAMED)
        for key, value in schema.items():
            if key not in ("properties", "enum", "default"):
                yield from _names(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _names(value)


def _closure(operations: Iterable[ReferenceOperation], named: Mapping[str, ReferenceType]) -> list[str]:
    """The named types of these operations, and the types inside them, at any depth."""
    found: set[str] = set()
    left = [n for o in operations for n in (*o.body_types, *(t for r in o.responses for t in r.types))]
    left += [n for o in operations for p in o.parameters for n in p.types]
    while left:
        name = left.pop()
        if name in named and name not in found:
            found.add(name)
            left += [*named[name].types, *(n for f in named[name].fields for n in f.types)]
    return sorted(found)
