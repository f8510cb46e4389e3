"""Decoding of values, and the reasons of dead letters. Avro and Protobuf schemas are real ones."""

from __future__ import annotations

import base64
import io
import json
import struct

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from pipeline.lake.typed import Decoder, DoesNotFitTable
from weir_common.lake import DeadLetterReason, ValueFormat
from weir_common.schema_formats import RegistryUnreachable, Schema, SchemaType, SchemaUnavailable

AVRO = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}],
}


def protobuf_file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="x.proto", package="x", syntax="proto3")
    message = file.message_type.add(name="M")
    message.field.add(name="id", number=1, type=3, label=1)  # int64
    message.field.add(name="tags", number=2, type=9, label=3)  # repeated string
    return file


class Registry:
    def schema(self, schema_id: int) -> Schema:
        if schema_id == 1:
            return Schema(1, SchemaType.AVRO, json.dumps(AVRO))
        if schema_id == 2:
            return Schema(2, SchemaType.PROTOBUF, base64.b64encode(protobuf_file().SerializeToString()).decode())
        if schema_id == 3:
            return Schema(3, SchemaType.JSON, json.dumps({"type": "object", "properties": {"a": {"type": "integer"}}}))
        if schema_id == 4:
            return Schema(4, SchemaType.AVRO, '"string"')
        if schema_id == 5:
            raise RegistryUnreachable("no response")
        raise SchemaUnavailable("unknown")


def frame_payload(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + struct.pack(">I", schema_id) + payload


def avro(schema: object, value: object) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def registry_decoder() -> Decoder:
    return Decoder(ValueFormat.REGISTRY, Registry())


def test_an_avro_value_and_its_columns() -> None:
    decoder = registry_decoder()
    found = decoder.decode(frame_payload(1, avro(AVRO, {"id": 7, "name": "x"})))
    assert found is not None and found.value == {"id": 7, "name": "x"} and found.schema_id == 1
    assert [(f.name, str(f.field_type)) for f in decoder.type_of(found).fields] == [("id", "long"), ("name", "string")]


def test_a_protobuf_value_and_its_columns() -> None:
    pool = descriptor_pool.DescriptorPool()
    pool.Add(protobuf_file())
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName("x.M"))(id=5, tags=["a"])
    decoder = registry_decoder()
    found = decoder.decode(frame_payload(2, b"\0" + message.SerializeToString()))
    assert found is not None and found.value == {"id": "5", "tags": ["a"]}
    assert [(f.name, str(f.field_type)) for f in decoder.type_of(found).fields] == [
        ("id", "long"),
        ("tags", "list<string>"),
    ]


def test_a_json_value_with_a_schema_and_a_single_avro_value() -> None:
    decoder = registry_decoder()
    found = decoder.decode(frame_payload(3, b'{"a": 1}'))
    assert found is not None and found.value == {"a": 1}
    single = decoder.decode(frame_payload(4, avro("string", "x")))
    assert single is not None and single.value == {"value": "x"}
    assert str(decoder.type_of(single).fields[0].field_type) == "string"


@pytest.mark.parametrize(
    ("value_format", "data", "reason"),
    [
        (ValueFormat.JSON, b"{", DeadLetterReason.NOT_JSON),
        (ValueFormat.REGISTRY, b"{}", DeadLetterReason.NO_SCHEMA_ID),
        (ValueFormat.REGISTRY, frame_payload(9, b"x"), DeadLetterReason.UNKNOWN_SCHEMA),
        (ValueFormat.REGISTRY, frame_payload(1, b"\x02\x08"), DeadLetterReason.DOES_NOT_MATCH_SCHEMA),
    ],
)
def test_a_value_that_does_not_fit_has_its_reason(
    value_format: ValueFormat, data: bytes, reason: DeadLetterReason
) -> None:
    with pytest.raises(DoesNotFitTable) as error:
        Decoder(value_format, Registry()).decode(data)
    assert error.value.reason is reason


def test_a_registry_that_does_not_respond_is_an_error_of_the_run() -> None:
    with pytest.raises(RegistryUnreachable):
        registry_decoder().decode(frame_payload(5, b"x"))


def test_null_values_and_raw_topics_have_no_columns() -> None:
    assert registry_decoder().decode(None) is None
    assert Decoder(ValueFormat.RAW, None).decode(b"x") is None


def test_a_json_value_that_is_no_object_has_one_column() -> None:
    found = Decoder(ValueFormat.JSON, None).decode(b"[1]")
    assert found is not None and found.value == {"value": [1]}
