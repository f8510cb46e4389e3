"""Types of columns from schemas and values, and the columns that a table lacks."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestamptzType,
)

from pipeline.lake import columns


def text(kind: IcebergType) -> str:
    return str(kind)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("long", LongType()),
        (["null", "int"], IntegerType()),
        (["int", "string"], StringType()),
        ({"type": "long", "logicalType": "timestamp-millis"}, TimestamptzType()),
        ({"type": "int", "logicalType": "date"}, DateType()),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, DecimalType(9, 2)),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, StringType()),
        ({"type": "array", "items": "long"}, columns.list_of(LongType())),
        ({"type": "map", "values": "boolean"}, columns.map_of(BooleanType())),
    ],
)
def test_avro_types(schema: Any, expected: IcebergType) -> None:
    assert text(columns.of_avro(schema)) == text(expected)


def test_an_avro_record_that_contains_itself_ends_as_text() -> None:
    node = {"type": "record", "name": "node", "fields": [{"name": "next", "type": ["null", "node"]}]}
    assert str(columns.of_avro(node)).count("struct") < columns.DEPTH_MAX
    assert "string" in str(columns.of_avro(node))


def test_json_schema_types() -> None:
    kind = columns.of_json_schema(
        {
            "type": "object",
            "properties": {
                "a": {"type": "integer"},
                "b": {"type": ["null", "number"]},
                "c": {"type": "array", "items": {"type": "string"}},
                "d": {"type": "object"},
                "e": {"oneOf": []},
            },
        }
    )
    assert [text(f.field_type) for f in kind.fields] == ["long", "double", "list<string>", "string", "string"]  # type: ignore[attr-defined]


def test_plain_json_types() -> None:
    found = [columns.of_json_value(v) for v in (True, 1, 1.5, "x", {"a": 1}, [1], None)]
    assert [None if t is None else str(t) for t in found] == [
        "boolean",
        "long",
        "double",
        "string",
        "string",
        "string",
        None,
    ]


def test_missing_columns_are_new_names_and_wider_types() -> None:
    present = columns.struct({"a": IntegerType(), "in": columns.struct({"x": LongType()})})
    assert columns.missing_fields(present, columns.struct({"a": IntegerType()})) is None
    needed = columns.struct(
        {"a": LongType(), "b": StringType(), "in": columns.struct({"x": LongType(), "y": DoubleType()})}
    )
    found = columns.missing_fields(present, needed)
    assert found is not None
    assert [f.name for f in found.fields] == ["a", "b", "in"]
    assert "y" in str(found) and "x" not in str(found)


def test_a_column_keeps_a_type_that_is_wide_enough() -> None:
    assert columns.missing_fields(columns.struct({"a": LongType()}), columns.struct({"a": IntegerType()})) is None


@pytest.mark.parametrize(
    ("needed", "error"),
    [
        (columns.struct({"a": StringType()}), columns.TypeConflict),
        (columns.struct({"A": LongType()}), columns.ColumnNameConflict),
        (columns.struct({"x.y": LongType()}), columns.ColumnNameConflict),
        (columns.struct({"": LongType()}), columns.ColumnNameConflict),
        (columns.struct({"b": LongType(), "B": LongType()}), columns.ColumnNameConflict),
    ],
)
def test_columns_that_a_table_cannot_have(needed: StructType, error: type[Exception]) -> None:
    with pytest.raises(error):
        columns.missing_fields(columns.struct({"a": LongType()}), needed)
