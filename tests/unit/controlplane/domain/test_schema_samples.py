"""Samples fit their schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controlplane.domain.schema_encoding import encode_with_schema
from controlplane.domain.schema_samples import sample, sample_text
from tests.unit.controlplane.domain.protobuf_files import order_schema, required_schema
from tests.unit.controlplane.domain.test_avro_encoding import SCHEMA as AVRO
from tests.unit.controlplane.domain.test_avro_encoding import schema as avro
from tests.unit.controlplane.domain.test_json_schema_encoding import SCHEMA as JSON
from tests.unit.controlplane.domain.test_json_schema_encoding import schema as json_schema
from weir_common.schema_formats import Schema

TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [{"name": "left", "type": ["null", "Tree"]}, {"name": "all", "type": {"type": "array", "items": "Tree"}}],
}
LOGICAL = {
    "type": "record",
    "name": "L",
    "fields": [
        {"name": "a", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4}},
        {"name": "b", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "c", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "d", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
    ],
}


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (AVRO, ""),
        (avro(TREE), ""),
        (avro(LOGICAL), ""),
        (avro("string"), ""),
        (order_schema(), ""),
        (order_schema(), "Order.Line"),
        (required_schema(), ""),
        (JSON, ""),
        (
            json_schema(
                {"allOf": [{"properties": {"a": {"type": "integer", "exclusiveMinimum": 4}}, "required": ["a", "b"]}]}
            ),
            "",
        ),
        (json_schema({"$ref": "#/$defs/x", "$defs": {"x": {"type": "string", "minLength": 9}}}), ""),
        (json_schema({"type": "array", "minItems": 3, "items": {"type": "number", "multipleOf": 5}}), ""),
        (json_schema({"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}}), ""),
    ],
)
def test_the_sample_of_a_schema_fits_it(schema: Schema, message: str) -> None:
    text = sample_text(schema, message)
    assert encode_with_schema(schema, text, "value", message)


def test_samples_of_recursive_types_end() -> None:
    loop: Any = {"type": "object", "properties": {"child": {"$ref": "#"}}}
    assert len(json.dumps(sample(json_schema(loop)))) < 500
    assert len(sample_text(order_schema())) < 10_000


def test_defaults_and_examples_are_preferred() -> None:
    given = {"properties": {"a": {"default": 3}, "b": {"examples": ["x"]}, "c": {"const": 1}, "d": {"enum": ["z"]}}}
    assert sample(json_schema(given)) == {"a": 3, "b": "x", "c": 1, "d": "z"}
