"""Avro's binary encoding, read by fastavro."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from controlplane.domain.avro_encoding import encode_avro
from controlplane.domain.formats import json_text, plain_value
from controlplane.domain.value_faults import ValueMisfit
from weir_common.schema_formats import Schema, SchemaType, avro_types

CUSTOMER = {"type": "record", "name": "Customer", "namespace": "shop", "fields": [{"name": "name", "type": "string"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "customer", "type": ["null", "Customer", "string"]},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}, "default": "NEW"},
        {"name": "lines", "type": {"type": "array", "items": "double"}, "default": []},
        {"name": "tags", "type": {"type": "map", "values": ["null", "string"]}, "default": {}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}, "default": "\u0001\u00ff"},
    ],
}
SCHEMA = Schema(1, SchemaType.AVRO, json.dumps(ORDER), (("customer", json.dumps(CUSTOMER)),))
ORDER_VALUE = {"id": 7, "price": "12.30", "at": "2024-01-31T12:30:00Z", "customer": {"name": "Ann"}}


def schema(definition: Any) -> Schema:
    return Schema(2, SchemaType.AVRO, json.dumps(definition))


def read(definition: Schema, data: bytes) -> Any:
    source = io.BytesIO(data)
    value = fastavro.schemaless_reader(source, avro_types(definition)[0], None)
    assert source.read() == b"", "bytes are left"
    return value


def encode_and_decode(definition: Schema, value: Any) -> Any:
    """The value as the console shows it after it was encoded."""
    return json.loads(json_text(plain_value(read(definition, encode_avro(definition, json.dumps(value))))))


def test_a_record_with_defaults_and_a_referenced_type() -> None:
    assert encode_and_decode(SCHEMA, ORDER_VALUE) == {
        **ORDER_VALUE,
        "at": "2024-01-31 12:30:00+00:00",
        "state": "NEW",
        "lines": [],
        "tags": {},
        "hash": "01ff",
    }


def test_a_value_as_the_console_shows_it_can_be_encoded_again() -> None:
    shown = encode_and_decode(
        SCHEMA, {**ORDER_VALUE, "lines": [1, 2.5], "tags": {"a b": None, "c": "d"}, "hash": "0a0b"}
    )
    assert encode_and_decode(SCHEMA, shown) == shown


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("null", None, None),
        ("boolean", False, False),
        ("int", -(2**31), -(2**31)),
        ("long", 2**63 - 1, 2**63 - 1),
        ("long", -(2**63), -(2**63)),
        ("float", 0.5, 0.5),
        ("double", 3, 3.0),
        ("bytes", "0x00ff", "00ff"),
        ("string", "é" * 100, "é" * 100),
        ({"type": "string"}, "x", "x"),
        (["null", "long", "string"], "a", "a"),
        (["string", {"type": "map", "values": "string"}], {"string": "a"}, {"string": "a"}),
        (["null", "string"], {"string": "a"}, "a"),
        ({"type": "int", "logicalType": "date"}, "2024-01-31", "2024-01-31"),
        ({"type": "int", "logicalType": "date"}, 0, "1970-01-01"),
        ({"type": "int", "logicalType": "time-millis"}, "12:30:00.250", "12:30:00.250000"),
        ({"type": "long", "logicalType": "time-micros"}, "12:30:00", "12:30:00"),
        ({"type": "long", "logicalType": "timestamp-micros"}, "1969-12-31T23:59:59Z", "1969-12-31 23:59:59+00:00"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "2024-01-31T12:30:00", "2024-01-31 12:30:00"),
        ({"type": "long", "logicalType": "unknown"}, 5, 5),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}, -12.8, "-12.8"),
        ({"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 5}, "-5", "-5"),
        ({"type": "string", "logicalType": "uuid"}, "6b1f" + "0" * 28, "6b1f0000-0000-0000-0000-000000000000"),
    ],
)
def test_each_type_is_encoded_and_decoded(kind: Any, value: Any, shown: Any) -> None:
    assert encode_and_decode(schema(kind), value) == shown


def test_a_union_of_records_takes_the_branch_that_fits_or_is_named() -> None:
    definition = schema(
        [
            {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]},
            {
                "type": "record",
                "name": "B",
                "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int", "default": 1}],
            },
        ]
    )
    assert encode_and_decode(definition, {"x": 1}) == {"x": 1}
    assert encode_and_decode(definition, {"x": 1, "y": 2}) == {"x": 1, "y": 2}
    assert encode_and_decode(definition, {"B": {"x": 1}}) == {"x": 1, "y": 1}


def test_all_faults_at_once_with_their_paths() -> None:
    wrong = {"id": "7", "price": "1.234", "customer": {"nam": "Ann"}, "lines": [1, None], "extra": True}
    with pytest.raises(ValueMisfit) as misfit:
        encode_avro(SCHEMA, json.dumps(wrong))
    sentences = {f.path: f.sentence for f in misfit.value.faults}
    assert (
        sentences["$.id"] == '$.id must be an integer of 64 bits, but it is the text "7". Remove the quotation marks.'
    )
    decimal = "a decimal number with at most 6 digits, 2 of them after the point"
    assert sentences["$.price"] == f'$.price must be {decimal}, but it is the text "1.234".'
    time = "a time (2024-01-31T12:30:00Z) or the milliseconds since 1970"
    assert sentences["$.at"] == f"$.at is missing, and the schema requires it: add {time}."
    assert sentences["$.customer.name"] == "$.customer.name is missing, and the schema requires it: add text."
    assert sentences["$.customer.nam"].startswith("The schema has no field $.customer.nam: rename or remove it.")
    assert "Fields of shop.Customer: name" in sentences["$.customer.nam"]
    assert sentences["$.lines[1]"] == "$.lines[1] must be a number, but it is null."
    assert sentences["$.extra"].startswith("The schema has no field $.extra")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int", 2**31, "an integer of 32 bits"),
        ("long", 2**63, "an integer of 64 bits"),
        ("long", True, "an integer of 64 bits"),
        ("float", 1e300, "a number of 32 bits"),
        ("boolean", 1, "true or false"),
        ("bytes", "0g", "bytes in hexadecimal, for example 00ff"),
        ("string", "\ud800", "text"),
        ({"type": "fixed", "name": "F", "size": 2}, "00", "2 bytes in hexadecimal"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "C", "one of A, B"),
        ({"type": "int", "logicalType": "date"}, "2024-02-31", "a date (2024-01-31) or the days since 1970"),
        ({"type": "int", "logicalType": "date"}, 2**40, "an integer of 32 bits"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2},
            "123",
            "a decimal number with at most 2 digits, 0 of them after the point",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2},
            "1E999999999",
            "a decimal number with at most 2 digits, 0 of them after the point",
        ),
        ({"type": "string", "logicalType": "uuid"}, "x", "a UUID"),
        (["null", "long"], "a", "null or an integer of 64 bits"),
        (["null", "long"], "7", "null or an integer of 64 bits"),
        ({"type": "string", "logicalType": "date"}, 7, "text"),
        (
            ["null", {"type": "array", "items": "long"}, {"type": "map", "values": "long"}],
            1,
            "a value of one of the types null, array, map",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_named(kind: Any, value: Any, expected: str) -> None:
    with pytest.raises(ValueMisfit) as misfit:
        encode_avro(schema(kind), json.dumps(value))
    (fault,) = misfit.value.faults
    assert fault.path == "$"
    assert fault.sentence.startswith(f"The value must be {expected}, but it is ")
