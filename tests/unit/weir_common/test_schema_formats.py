"""Values with a schema: Avro, Protobuf and JSON Schema, as Confluent's serializers write them."""

from __future__ import annotations

import base64
import io
import json
import struct
from typing import Any

import pytest

from controlplane.domain.formats import Format, render, structure_of
from weir_common import schema_formats
from weir_common.schema_formats import Schema, SchemaType, SchemaUnavailable

fastavro = pytest.importorskip("fastavro")
descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "card", "type": "Card"},
        {"name": "note", "type": ["null", "string"]},
    ],
}
CARD = {"type": "record", "name": "Card", "fields": [{"name": "number", "type": "string"}]}


class FakeSchemaRegistry:
    """A registry of some schemas."""

    def __init__(self, *schemas: Schema) -> None:
        self._schemas = {s.id: s for s in schemas}

    def schema(self, schema_id: int) -> Schema:
        if schema_id not in self._schemas:
            raise SchemaUnavailable(f"The registry has no schema ID {schema_id}.")
        return self._schemas[schema_id]


def frame_with_schema_id(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + struct.pack(">I", schema_id) + payload


AVRO = Schema(7, SchemaType.AVRO, json.dumps(ORDER), (("card", json.dumps(CARD)),))
JSON = Schema(8, SchemaType.JSON, "{}")


def avro_bytes(value: dict[str, Any]) -> bytes:
    named: dict[str, Any] = {}
    fastavro.parse_schema(CARD, named_schemas=named)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(ORDER, named_schemas=named), value)
    return out.getvalue()


ORDER_VALUE = {"id": 5, "card": {"number": "4111"}, "note": None}


@pytest.mark.parametrize("wanted", [Format.AUTO, Format.AVRO])
def test_avro_with_a_referenced_schema(wanted: Format) -> None:
    shown = render(frame_with_schema_id(7, avro_bytes(ORDER_VALUE)), wanted, FakeSchemaRegistry(AVRO))
    assert (shown.format, json.loads(shown.text or "")) == (Format.AVRO, ORDER_VALUE)
    assert shown.note == "Schema ID 7."


def test_json_with_a_schema_id() -> None:
    shown = render(frame_with_schema_id(8, b'{"a": 1}'), Format.AUTO, FakeSchemaRegistry(JSON))
    assert (shown.format, shown.text) == (Format.JSON_SCHEMA, '{"a": 1}')


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (frame_with_schema_id(7, b"\x0a"), "the bytes do not match schema ID 7"),
        (frame_with_schema_id(7, avro_bytes(ORDER_VALUE) + b"!"), "more bytes follow the value of schema ID 7"),
        (frame_with_schema_id(8, b"{}"), "schema ID 8 has the type JSON"),
        (frame_with_schema_id(9, b"{}"), "The registry has no schema ID 9."),
        (b"{}", "it does not start with a zero byte and a schema ID"),
    ],
)
def test_a_value_that_does_not_match_its_schema_has_a_reason(data: bytes, reason: str) -> None:
    shown = render(data, Format.AVRO, FakeSchemaRegistry(AVRO, JSON))
    assert shown.format == Format.HEX and reason in shown.note
    assert structure_of(frame_with_schema_id(9, b"{}"), FakeSchemaRegistry(AVRO)) is None


def proto_file(name: str, **fields: Any) -> Any:
    return descriptor_pb2.FileDescriptorProto(name=name, package="shop", syntax="proto3", **fields)


def field(name: str, number: int, kind: int, type_name: str = "") -> Any:
    return descriptor_pb2.FieldDescriptorProto(
        name=name, number=number, type=kind, type_name=type_name or None, label=1
    )


def serialize_to_base64(file: Any) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


STRING, MESSAGE = 9, 11


def protobuf_schema() -> Schema:
    card = proto_file("", message_type=[{"name": "Card", "field": [field("number", 1, STRING)]}])
    line = {"name": "Line", "field": [field("sku", 1, STRING)]}
    order = {
        "name": "Order",
        "field": [field("card", 1, MESSAGE, ".shop.Card"), field("at", 2, MESSAGE, ".google.protobuf.Timestamp")],
        "nested_type": [line],
    }
    main = proto_file("default", dependency=["card.proto", "google/protobuf/timestamp.proto"], message_type=[order])
    return Schema(10, SchemaType.PROTOBUF, serialize_to_base64(main), (("card.proto", serialize_to_base64(card)),))


def test_protobuf_with_an_imported_file_and_a_well_known_type() -> None:
    order = b"\x0a\x06\x0a\x044111" + b"\x12\x02\x08\x01"
    shown = render(frame_with_schema_id(10, b"\0" + order), Format.PROTOBUF, FakeSchemaRegistry(protobuf_schema()))
    assert json.loads(shown.text or "") == {"card": {"number": "4111"}, "at": "1970-01-01T00:00:01Z"}, shown.note
    by_index = render(frame_with_schema_id(10, b"\x02\x00" + order), Format.AUTO, FakeSchemaRegistry(protobuf_schema()))
    assert (by_index.format, by_index.text) == (Format.PROTOBUF, shown.text)


def test_protobuf_message_of_a_nested_type() -> None:
    nested = frame_with_schema_id(10, b"\x04\x00\x00" + b"\x0a\x02ab")
    assert json.loads(render(nested, Format.AUTO, FakeSchemaRegistry(protobuf_schema())).text or "") == {"sku": "ab"}


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"\x02\x0a", "schema ID 10 has no message type [5]"),
        (b"\xff\xff\xff\xff\xff\xff", "no valid list of message indexes"),
        (b"\x80", "no valid list of message indexes"),
        (b"\0\x0a\xff", "the bytes do not match schema ID 10"),
    ],
)
def test_a_protobuf_value_that_does_not_match_its_schema_has_a_reason(payload: bytes, reason: str) -> None:
    assert (
        reason in render(frame_with_schema_id(10, payload), Format.PROTOBUF, FakeSchemaRegistry(protobuf_schema())).note
    )


def test_a_registry_that_returns_protobuf_as_source_is_named() -> None:
    source = FakeSchemaRegistry(Schema(11, SchemaType.PROTOBUF, 'syntax = "proto3"; message A {}'))
    assert "must support format=serialized" in render(frame_with_schema_id(11, b"\0"), Format.PROTOBUF, source).note


def test_a_schema_that_is_not_valid_is_named() -> None:
    broken = FakeSchemaRegistry(Schema(12, SchemaType.AVRO, "{}"), Schema(13, SchemaType.PROTOBUF, "AAAA"))
    assert "not a valid Avro schema" in render(frame_with_schema_id(12, b"\0"), Format.AVRO, broken).note
    assert "not a valid Protobuf schema" in render(frame_with_schema_id(13, b"\0"), Format.PROTOBUF, broken).note


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_import_error(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(schema_formats.importlib, "import_module", raise_import_error)
    shown = render(b"\x80", Format.MSGPACK)
    assert shown.format == Format.HEX and "msgpack is not installed; install the extra weir[formats]" in shown.note
    assert render(b"\x80").format == Format.HEX, "the automatic format works without it"
