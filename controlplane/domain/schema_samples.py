"""A sample value of a schema, to be edited and produced. Pure.

Invariants: a sample is small: recursive types end at a depth. The sample of an Avro or Protobuf schema fits its schema. That of a JSON Schema may
not, for example where a text must match a pattern. Does not contain: the encodings (`schema_encoding`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from controlplane.domain.avro_encoding import LOGICAL
from controlplane.domain.avro_type_names import AvroOptions, AvroType, resolve_type
from controlplane.domain.protobuf_encoding import message_type
from weir_common.json_values import Json
from weir_common.schema_formats import Schema, SchemaType, avro_types, load_library

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

DEPTH_MAX = 5
"""Maximum number of levels of a sample: deeper optional parts are omitted."""

STRING_CHARS_MAX = 1_000
"""Maximum number of characters of a sample text with a minLength."""

DAY, TIME, INSTANT = "2024-01-31", "12:30:00", "2024-01-31T12:30:00Z"
UUID_TEXT = "00000000-0000-0000-0000-000000000000"


def sample_text(schema: Schema, message_name: str = "") -> str:
    """Indented JSON. Raises SchemaUnavailable, and UnknownMessage for a message type that the file does not have."""
    return json.dumps(sample(schema, message_name), indent=2, ensure_ascii=False)


def sample(schema: Schema, message_name: str = "") -> object:
    match schema.type:
        case SchemaType.AVRO:
            parsed, named = avro_types(schema)
            return _avro(parsed, named, 0)
        case SchemaType.PROTOBUF:
            return _protobuf(message_type(schema, message_name)[0], 0)
        case SchemaType.JSON:
            return _json(json.loads(schema.text), _documents(schema), 0)


AVRO_SAMPLES: dict[str, Json] = {
    "null": None,
    "boolean": True,
    "int": 1,
    "long": 1,
    "float": 1.5,
    "double": 1.5,
    "bytes": "00",
    "string": "text",
}
LOGICAL_SAMPLES = {
    "decimal": "0",
    "uuid": UUID_TEXT,
    "date": DAY,
    "time-millis": TIME,
    "time-micros": TIME,
    "timestamp-millis": INSTANT,
    "timestamp-micros": INSTANT,
    "local-timestamp-millis": INSTANT.rstrip("Z"),
    "local-timestamp-micros": INSTANT.rstrip("Z"),
}


def _avro(kind: AvroType, named: AvroOptions, depth: int) -> object:
    kind = resolve_type(kind, named)
    if isinstance(kind, list):
        if "null" in kind and depth >= DEPTH_MAX:
            return None
        branch = next((b for b in kind if b != "null"), "null")
        return _avro(branch, named, depth)
    name, options = (kind["type"], kind) if isinstance(kind, Mapping) else (kind, {})
    if (name, options.get("logicalType")) in LOGICAL:
        return LOGICAL_SAMPLES[options["logicalType"]]
    match name:
        case "record" | "error":
            return {f["name"]: _avro(f["type"], named, depth + 1) for f in options["fields"]}
        case "array":
            return [] if depth >= DEPTH_MAX else [_avro(options["items"], named, depth + 1)]
        case "map":
            return {} if depth >= DEPTH_MAX else {"key": _avro(options["values"], named, depth + 1)}
        case "enum":
            return options["symbols"][0]
        case "fixed":
            return "00" * options["size"]
        case _:
            return AVRO_SAMPLES[name]


WELL_KNOWN_SAMPLES: dict[str, Json] = {
    "Timestamp": INSTANT,
    "Duration": "1s",
    "FieldMask": "",
    "Struct": {},
    "ListValue": [],
    "Value": "text",
    "Empty": {},
    "StringValue": "text",
    "BytesValue": "AA==",
    "BoolValue": True,
    "Int32Value": 1,
    "Int64Value": "1",
    "UInt32Value": 1,
    "UInt64Value": "1",
    "FloatValue": 1.5,
    "DoubleValue": 1.5,
}


def _protobuf(descriptor: Descriptor, depth: int) -> dict[str, object]:
    """Return a sample of the message. A oneof has only its first field. Messages below the depth are omitted."""
    shown: dict[str, object] = {}
    for field in descriptor.fields:
        group = field.containing_oneof
        if group is not None and group.fields[0].name != field.name:
            continue
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            values = kind.fields_by_name["value"]
            inner = _protobuf_value(values, depth)
            shown[field.name] = {} if inner is None else {_map_key(kind.fields_by_name["key"]): inner}
            continue
        inner = _protobuf_value(field, depth)
        if inner is not None:
            shown[field.name] = [inner] if field.is_repeated else inner
    return shown


def _map_key(field: FieldDescriptor) -> str:
    value = _protobuf_value(field, 0)
    return json.dumps(value) if not isinstance(value, str) else value


def _protobuf_value(field: FieldDescriptor, depth: int) -> object:
    """Return a sample value of the field; None: the sample does not contain the field."""
    if (message := field.message_type) is not None:
        if message.file.package == "google.protobuf":
            return WELL_KNOWN_SAMPLES.get(message.name)
        return None if depth >= DEPTH_MAX and not field.is_required else _protobuf(message, depth + 1)
    if field.enum_type is not None:
        return field.enum_type.values[0].name
    kinds = load_library("google.protobuf.descriptor").FieldDescriptor
    match field.type:
        case kinds.TYPE_STRING:
            return "text"
        case kinds.TYPE_BYTES:
            return "AA=="
        case kinds.TYPE_BOOL:
            return True
        case kinds.TYPE_FLOAT | kinds.TYPE_DOUBLE:
            return 1.5
    return 1


def _documents(schema: Schema) -> dict[str, object]:
    """The definitions that `$ref` can name, "" is the schema itself."""
    return {"": json.loads(schema.text)} | {name: json.loads(text) for name, text in schema.references}


FORMAT_SAMPLES = {
    "date-time": INSTANT,
    "date": DAY,
    "time": f"{TIME}Z",
    "email": "name@example.com",
    "uuid": UUID_TEXT,
    "uri": "https://example.com",
    "ipv4": "127.0.0.1",
    "hostname": "example.com",
}


def _json(definition: object, documents: Mapping[str, object], depth: int, document: str = "") -> Any:
    if not isinstance(definition, dict) or depth > DEPTH_MAX * 2:
        return None
    for keyword in ("const", "default"):
        if keyword in definition:
            return definition[keyword]
    for keyword in ("examples", "enum"):
        if definition.get(keyword):
            return definition[keyword][0]
    if "$ref" in definition:
        found, document = _resolve_reference(str(definition["$ref"]), documents, document)
        return _json(found, documents, depth + 1, document)
    merged = _merge_variants(definition, documents, document)
    json_type = merged.get("type") or (
        "object" if "properties" in merged else "array" if "items" in merged else "string"
    )
    json_type = next((k for k in json_type if k != "null"), "null") if isinstance(json_type, list) else json_type
    match json_type:
        case "object":
            return _json_object(merged, documents, depth, document)
        case "array":
            items = merged.get("items", {})
            count = max(1, int(merged.get("minItems", 1)))
            one = (
                []
                if depth >= DEPTH_MAX or not isinstance(items, dict)
                else [_json(items, documents, depth + 1, document)]
            )
            return one * min(count, 10)
        case "integer" | "number":
            return _json_number(merged, json_type)
        case "boolean":
            return True
        case "null":
            return None
    text = FORMAT_SAMPLES.get(str(merged.get("format")), "text").ljust(
        min(int(merged.get("minLength", 0)), STRING_CHARS_MAX), "x"
    )
    return text[: int(merged.get("maxLength", len(text)))]


def _json_object(
    definition: dict[str, Any], documents: Mapping[str, object], depth: int, document: str
) -> dict[str, Any]:
    required = set(definition.get("required", ()))
    properties = definition.get("properties", {})
    shown = {
        name: _json(inner, documents, depth + 1, document)
        for name, inner in properties.items()
        if depth < DEPTH_MAX or name in required
    }
    return shown | dict.fromkeys(sorted(required - properties.keys()), "text")


def _json_number(definition: dict[str, Any], json_type: str) -> int | float:
    low = definition.get("minimum", definition.get("exclusiveMinimum"))
    if isinstance(low, int | float) and not isinstance(low, bool):
        return low + 1 if "minimum" not in definition else low
    step = definition.get("multipleOf", 1)
    high = definition.get("maximum", definition.get("exclusiveMaximum", step))
    if isinstance(high, int | float) and high < step:
        return high - (0 if "maximum" in definition else 1)
    return step if json_type == "integer" or "multipleOf" in definition else 1.5


def _merge_variants(definition: dict[str, Any], documents: Mapping[str, object], document: str) -> dict[str, Any]:
    """The definition with all parts of `allOf`, and with the first part of `oneOf` and `anyOf`."""
    merged = dict(definition)
    parts = [*merged.pop("allOf", ()), *merged.pop("oneOf", ())[:1], *merged.pop("anyOf", ())[:1]]
    for part in parts:
        if isinstance(part, dict) and "$ref" in part:
            part = _resolve_reference(str(part["$ref"]), documents, document)[0]
        if isinstance(part, dict):
            both = {**merged.get("properties", {}), **part.get("properties", {})}
            merged = {**merged, **part, **({"properties": both} if both else {})}
    return merged


def _resolve_reference(reference: str, documents: Mapping[str, object], document: str) -> tuple[object, str]:
    """The definition of a `$ref`, and the document that has it; ({}, "") if it is unknown."""
    name, _, pointer = reference.partition("#")
    name = name or document
    found: object = documents.get(name)
    for step in filter(None, pointer.split("/")):
        key = step.replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, dict) else None
    return ({}, "") if found is None else (found, name)
