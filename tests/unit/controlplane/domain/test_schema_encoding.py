"""Values with a schema ID, read by Confluent's deserializers and by ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka.schema_registry import topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.schema_registry.schema_registry_client import Schema as ConfluentSchema
from confluent_kafka.schema_registry.schema_registry_client import SchemaRegistryClient
from confluent_kafka.serialization import MessageField, SerializationContext

from controlplane.domain.errors import MisfitValue, Rejected
from controlplane.domain.schema_encoding import TOO_DEEP, encode_with_schema
from tests.unit.controlplane.domain.protobuf_files import order_schema
from tests.unit.controlplane.domain.test_avro_encoding import ORDER as AVRO_ORDER
from tests.unit.controlplane.domain.test_json_schema_encoding import LINE
from weir_common.schema_formats import Schema, SchemaType, protobuf_class, protobuf_file

BY_TOPIC = {"subject.name.strategy": topic_subject_name_strategy}
CONTEXT = SerializationContext("orders", MessageField.VALUE)
AVRO = Schema(1, SchemaType.AVRO, json.dumps({**AVRO_ORDER, "fields": AVRO_ORDER["fields"][:3]}))
JSON = Schema(5, SchemaType.JSON, json.dumps(LINE))


class LocalSchemaRegistry(SchemaRegistryClient):
    """Confluent's client with one schema, without a server."""

    def __init__(self, schema: Schema) -> None:
        super().__init__({"url": "http://127.0.0.1:1"})
        self._schema = ConfluentSchema(schema.text, schema.type.value)

    def get_schema(self, *_: Any, **__: Any) -> ConfluentSchema:
        return self._schema


def test_avro_is_read_by_confluents_deserializer() -> None:
    data = encode_with_schema(AVRO, '{"id": 7, "price": "1.20", "at": "2024-01-31T12:30:00Z"}', "value")
    read = AvroDeserializer(LocalSchemaRegistry(AVRO), conf=BY_TOPIC)(data, CONTEXT)
    assert read["id"] == 7 and str(read["price"]) == "1.20" and read["at"].isoformat() == "2024-01-31T12:30:00+00:00"


@pytest.mark.parametrize(("name", "value"), [("Order", {"id": "7"}), ("Other.Inner", {"x": 4})])
def test_protobuf_is_read_by_confluents_deserializer(name: str, value: dict[str, Any]) -> None:
    schema = order_schema()
    data = encode_with_schema(schema, json.dumps(value), "value", name)
    outer, _, inner = name.partition(".")
    descriptor = protobuf_file(schema).message_types_by_name[outer]
    cls = protobuf_class(descriptor.nested_types_by_name[inner] if inner else descriptor)
    read = ProtobufDeserializer(cls, {"use.deprecated.format": False})(data, CONTEXT)
    field, number = next(iter(value.items()))
    assert getattr(read, field) == int(number)


def test_json_is_read_by_confluents_deserializer() -> None:
    data = encode_with_schema(JSON, '{"price": 1.5}', "value")
    read = JSONDeserializer(JSON.text, schema_registry_client=LocalSchemaRegistry(JSON), conf=BY_TOPIC)
    assert read(data, CONTEXT) == {"price": 1.5}


@pytest.mark.parametrize(
    ("schema", "text", "field", "reason"),
    [
        (AVRO, "{", "key", "Not JSON: the name of a field is missing"),
        (AVRO, "[" * 100_000, "key", TOO_DEEP),
        (order_schema(), "{}", "key_message", "has no message type 'Nothing'"),
    ],
)
def test_what_cannot_be_encoded_is_rejected_at_its_field(schema: Schema, text: str, field: str, reason: str) -> None:
    with pytest.raises(Rejected) as rejection:
        encode_with_schema(schema, text, "key", "Nothing")
    assert rejection.value.field == field and reason in rejection.value.reason


def test_faults_of_a_value_have_their_paths() -> None:
    with pytest.raises(MisfitValue) as rejection:
        encode_with_schema(JSON, '{"price": "x"}', "value")
    assert rejection.value.faults == (("$.price", '$.price must be a number, but it is the text "x".'),)
    assert rejection.value.field == "value" and rejection.value.sentences == [rejection.value.reason]
