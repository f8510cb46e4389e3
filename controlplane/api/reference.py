"""The OpenAPI schema as rows for the pages of the API reference: operations by their first path segment, and the fields of the named types.

Invariant: everything on the pages comes from the schema, so that they and /api/v1/schema cannot diverge. Does not contain: HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator

METHODS = ("get", "post", "put", "patch", "delete")
NAMED = "#/components/schemas/"
MODIFIERS = ("minimum", "maximum", "minLength", "maxLength", "pattern")
CHOICES_BEGIN = "* `"
"""The text with which drf-spectacular appends the choices of a field to its description. The type already has the choices."""
Schema = Mapping[str, Any]


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
        first = self.description.replace("\n", " ").partition(". ")[0]
        return first if not first or first.endswith(".") else f"{first}."


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
def api_reference() -> tuple[ReferencePage, ...]:
    """All pages, in the order of their nouns. Read once: the schema changes with the program only, and takes seconds."""
    return pages_of(SchemaGenerator().get_schema(request=None, public=True))  # type: ignore[no-untyped-call]


def reference_page(noun: str) -> ReferencePage | None:
    return next((page for page in api_reference() if page.noun == noun), None)


def pages_of(schema: Schema) -> tuple[ReferencePage, ...]:
    named = {name: _reference_type(name, s) for name, s in schema.get("components", {}).get("schemas", {}).items()}
    nouns: dict[str, list[ReferenceOperation]] = {}
    for path, methods in schema["paths"].items():
        for method in METHODS:
            if method in methods:
                operation = _operation(path, method, methods[method])
                nouns.setdefault(operation.noun, []).append(operation)
    return tuple(
        ReferencePage(noun, tuple(operations), tuple(named[n] for n in _closure(operations, named)))
        for noun, operations in sorted(nouns.items())
    )


def _operation(path: str, method: str, operation: Schema) -> ReferenceOperation:
    body = _content(operation.get("requestBody", {}))
    return ReferenceOperation(
        id=operation["operationId"],
        noun=operation["tags"][0],
        method=method.upper(),
        path=path,
        description=operation.get("description", ""),
        parameters=tuple(
            _field(p["name"], p["schema"], required=p.get("required", False), place=p["in"], text=p.get("description"))
            for p in operation.get("parameters", ())
        ),
        body=type_text(body) if body else "",
        body_types=tuple(_names(body)),
        responses=tuple(
            ReferenceResponse(
                status=status,
                description=r.get("description", ""),
                type=type_text(_content(r)) if _content(r) else "",
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


def _reference_type(name: str, s: Schema) -> ReferenceType:
    required = set(s.get("required", ()))
    fields = tuple(_field(n, f, required=n in required) for n, f in s.get("properties", {}).items())
    return ReferenceType(name, s.get("description", ""), type_text(s), tuple(_names(s)), fields)


def _field(name: str, s: Schema, *, required: bool, place: str = "", text: str | None = None) -> ReferenceField:
    described = (text or s.get("description", "")).partition(CHOICES_BEGIN)[0].strip()
    default = "" if "default" not in s or s["default"] in ("", None) else str(s["default"])
    return ReferenceField(name, place, type_text(s), tuple(_names(s)), required, default, described)


def type_text(schema: Schema) -> str:
    """The type in words: "integer (minimum 0)", "list of Broker", "one of a, b"."""
    if "$ref" in schema:
        text = schema["$ref"].removeprefix(NAMED)
    elif "allOf" in schema or "oneOf" in schema:
        parts = [type_text(part) for part in (schema.get("allOf") or schema["oneOf"])]
        text = " or ".join(p for p in parts if p != "one of null")
    elif "enum" in schema:
        text = "one of " + ", ".join("null" if v is None else str(v) or '""' for v in schema["enum"])
    elif schema.get("type") == "array":
        text = f"list of {type_text(schema.get('items', {}))}"
    elif isinstance(schema.get("additionalProperties"), Mapping) and schema["additionalProperties"]:
        text = f"object of {type_text(schema['additionalProperties'])} by name"
    else:
        text = schema.get("type", "any")
        more = [schema["format"]] if "format" in schema else []
        more += [f"{name} {schema[name]}" for name in MODIFIERS if name in schema]
        text += f" ({', '.join(more)})" if more else ""
    return f"{text} or null" if schema.get("nullable") else text


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
