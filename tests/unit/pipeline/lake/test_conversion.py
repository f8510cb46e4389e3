"""Values of columns: what fits, and what would be cut or rounded and therefore does not fit."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from typing import Any

import pytest
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestamptzType,
)

from pipeline.lake.columns import list_of, map_of, struct
from pipeline.lake.conversion import Mismatch, converter

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (LongType(), 5, 5),
        (LongType(), "5", 5),
        (LongType(), None, None),
        (DoubleType(), 5, 5.0),
        (DoubleType(), "Infinity", float("inf")),
        (StringType(), "x", "x"),
        (StringType(), {"a": [1, b"x", NOW]}, '{"a":[1,"eA==","2026-01-01T00:00:00+00:00"]}'),
        (StringType(), uuid.UUID(int=1), str(uuid.UUID(int=1))),
        (BinaryType(), b"x", b"x"),
        (BinaryType(), "eA==", b"x"),
        (DecimalType(4, 2), decimal.Decimal("1.5"), decimal.Decimal("1.50")),
        (TimestamptzType(), NOW, NOW),
        (list_of(LongType()), (1, None), [1, None]),
        (map_of(LongType()), {"a": 1}, [("a", 1)]),
        (struct({"a": LongType(), "b": StringType()}), {"a": 1, "z": 2}, {"a": 1, "b": None}),
    ],
)
def test_a_value_that_fits(kind: IcebergType, value: Any, expected: Any) -> None:
    assert converter(kind)(value) == expected


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (LongType(), 1.0),
        (LongType(), True),
        (LongType(), 2**63),
        (LongType(), "x"),
        (IntegerType(), 2**31),
        (DoubleType(), 2**53 + 1),
        (DoubleType(), "1.5"),
        (DoubleType(), True),
        (BooleanType(), 1),
        (BinaryType(), "no base64"),
        (DecimalType(4, 2), decimal.Decimal("1.555")),
        (DecimalType(4, 2), decimal.Decimal(1000)),
        (TimestamptzType(), "2026"),
        (list_of(LongType()), "x"),
        (struct({"a": LongType()}), [1]),
    ],
)
def test_a_value_that_does_not_fit(kind: IcebergType, value: Any) -> None:
    with pytest.raises(Mismatch):
        converter(kind)(value)
