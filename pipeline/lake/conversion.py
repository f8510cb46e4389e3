"""Typed values as values of Iceberg types. Pure. Arrow would cut 1.5 to 1 in an integer column, so the types are checked here.

`converter` compiles a type to a function once; the function runs for each record.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import decimal
import json
import uuid
from collections.abc import Callable
from typing import Any

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

Converter = Callable[[Any], Any]

EXACT_IN_DOUBLE = 2**53


class Mismatch(Exception):
    """A value does not have the type of its column. The text is a sentence."""


def converter(kind: IcebergType, path: str = "data") -> Converter:
    """A function from a decoded value to one that Arrow stores as `kind`. The function raises Mismatch."""
    if isinstance(kind, StructType):
        return _of_struct(kind, path)
    if isinstance(kind, ListType):
        element = converter(kind.element_type, f"{path}.element")
        return _nullable(lambda v: [element(x) for x in _check_type(v, (list, tuple), kind, path)])
    if isinstance(kind, MapType):
        inner = converter(kind.value_type, f"{path}.value")
        return _nullable(lambda v: [(str(k), inner(x)) for k, x in _check_type(v, (dict,), kind, path).items()])
    if isinstance(kind, IntegerType):
        return _integer(kind, path, 32)
    if isinstance(kind, LongType):
        return _integer(kind, path, 64)
    if isinstance(kind, FloatType | DoubleType):
        return _nullable(lambda v: _float(v, kind, path))
    if isinstance(kind, StringType):
        return _nullable(_text)
    if isinstance(kind, BinaryType):
        return _nullable(lambda v: _bytes(v, kind, path))
    if isinstance(kind, DecimalType):
        return _nullable(lambda v: _decimal(v, kind, path))
    return _nullable(lambda v: _check_type(v, (_python_type(kind),), kind, path))


def _python_type(kind: IcebergType) -> type:
    if isinstance(kind, BooleanType):
        return bool
    if isinstance(kind, DateType):
        return dt.date
    if isinstance(kind, TimeType):
        return dt.time
    assert isinstance(kind, TimestampType | TimestamptzType), kind
    return dt.datetime


def _nullable(function: Converter) -> Converter:
    return lambda v: None if v is None else function(v)


def _check_type(value: object, kinds: tuple[type, ...], kind: IcebergType, path: str) -> Any:
    if not isinstance(value, kinds):
        raise _mismatch(value, kind, path)
    return value


def _mismatch(value: object, kind: IcebergType, path: str) -> Mismatch:
    return Mismatch(f"Column {path} has the type {kind}; the record has a value of type {type(value).__name__}.")


def _of_struct(kind: StructType, path: str) -> Converter:
    fields = [(f.name, converter(f.field_type, f"{path}.{f.name}")) for f in kind.fields]

    def convert(value: object) -> dict[str, Any] | None:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise _mismatch(value, kind, path)
        return {name: inner(value.get(name)) for name, inner in fields}

    return convert


def _integer(kind: IcebergType, path: str, bits: int) -> Converter:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def convert(value: object) -> int | None:
        if value is None:
            return None
        if isinstance(value, str):  # Protobuf's JSON form writes 64-bit integers as text
            try:
                value = int(value)
            except ValueError:
                raise _mismatch(value, kind, path) from None
        if isinstance(value, bool) or not isinstance(value, int):
            raise _mismatch(value, kind, path)
        if not low <= value <= high:
            raise Mismatch(f"Column {path} has the type {kind}; the record has the number {value}, which does not fit.")
        return value

    return convert


def _float(value: object, kind: IcebergType, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _mismatch(value, kind, path)
    if isinstance(value, str) and value not in ("NaN", "Infinity", "-Infinity"):  # as in Protobuf's JSON form
        raise _mismatch(value, kind, path)
    if isinstance(value, int) and abs(value) > EXACT_IN_DOUBLE:
        raise Mismatch(f"Column {path} has the type {kind}, which cannot store {value} exactly.")
    return float(value)


def _bytes(value: object, kind: IcebergType, path: str) -> bytes:
    if isinstance(value, str):  # as in Protobuf's JSON form
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error:
            raise _mismatch(value, kind, path) from None
    return bytes(_check_type(value, (bytes, bytearray, memoryview), kind, path))


def _decimal(value: object, kind: DecimalType, path: str) -> decimal.Decimal:
    try:
        found = decimal.Decimal(_check_type(value, (decimal.Decimal, int, str), kind, path))
        context = decimal.Context(prec=kind.precision, traps=[decimal.InvalidOperation, decimal.Inexact])
        return found.quantize(decimal.Decimal(1).scaleb(-kind.scale), context=context)
    except (decimal.InvalidOperation, decimal.Inexact):
        raise _mismatch(value, kind, path) from None


def _text(value: object) -> str:
    """Text as it is; any other value as JSON text, because columns of several types are text."""
    if isinstance(value, str):
        return value
    if isinstance(value, uuid.UUID):
        return str(value)
    return json.dumps(value, default=_json_default, separators=(",", ":"), ensure_ascii=False)


def _json_default(value: object) -> str:
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)
