"""Iceberg types of values: from Avro and JSON schemas, Protobuf descriptors and plain JSON; which columns a table lacks. Pure.

Invariant: every column is optional, so that a record of any version of a schema fits. A type that Iceberg lacks (a union, a recursive record,
a JSON value of any type) becomes JSON text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

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
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

COLUMNS_MAX = 1_000
"""Maximum number of typed columns of a table, nested ones included: metadata and each file's footer list all of them."""

DEPTH_MAX = 8
"""Maximum depth of nested records. Records below it are JSON text, because a recursive schema has no end."""

DECIMAL_DIGITS_MAX = 38

NO_ID = 0
"""Iceberg assigns the IDs of new fields in its commit."""

PROMOTIONS = {(IntegerType, LongType), (FloatType, DoubleType)}

_AVRO = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "bytes": BinaryType(),
    "fixed": BinaryType(),
    "enum": StringType(),
}
_AVRO_LOGICAL = {
    "date": DateType(),
    "time-millis": TimeType(),
    "time-micros": TimeType(),
    "timestamp-millis": TimestamptzType(),
    "timestamp-micros": TimestamptzType(),
    "local-timestamp-millis": TimestampType(),
    "local-timestamp-micros": TimestampType(),
    "uuid": StringType(),
}
_JSON = {"integer": LongType(), "number": DoubleType(), "string": StringType(), "boolean": BooleanType()}


def struct(fields: Mapping[str, IcebergType]) -> StructType:
    return StructType(*(NestedField(NO_ID, name, kind, required=False) for name, kind in fields.items()))


def list_of(element: IcebergType) -> ListType:
    return ListType(NO_ID, element, element_required=False)


def map_of(value: IcebergType) -> MapType:
    return MapType(NO_ID, StringType(), NO_ID, value, value_required=False)


def of_avro(schema: Any, named: Mapping[str, Any] | None = None, depth: int = 0) -> IcebergType:
    """The type of a schema that fastavro has parsed. `named`: record types by full name."""
    known = dict(named or {})
    if isinstance(schema, list):
        branches = [s for s in schema if s != "null"]
        return of_avro(branches[0], known, depth) if len(branches) == 1 else StringType()
    if isinstance(schema, str):
        if schema in _AVRO:
            return _AVRO[schema]
        return of_avro(known[schema], known, depth + 1) if schema in known else StringType()
    kind = schema["type"]
    if (logical := schema.get("logicalType")) == "decimal" and schema.get("precision", 0) <= DECIMAL_DIGITS_MAX:
        return DecimalType(schema["precision"], schema.get("scale", 0))
    if logical in _AVRO_LOGICAL:
        return _AVRO_LOGICAL[logical]
    if isinstance(kind, dict | list):
        return of_avro(kind, known, depth)
    if kind in ("record", "enum", "fixed"):
        known[schema.get("name", "")] = schema
    if kind == "record":
        if depth >= DEPTH_MAX or not schema["fields"]:
            return StringType()
        return struct({f["name"]: of_avro(f["type"], known, depth + 1) for f in schema["fields"]})
    if kind == "array":
        return list_of(of_avro(schema["items"], known, depth + 1))
    if kind == "map":
        return map_of(of_avro(schema["values"], known, depth + 1))
    return _AVRO.get(kind, StringType()) if kind in _AVRO or kind not in known else of_avro(known[kind], known, depth)


def of_json_schema(schema: Any, depth: int = 0) -> IcebergType:
    """The type of a JSON Schema. Properties that are not described are only in the raw value."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    if isinstance(kind, list):
        kinds = [k for k in kind if k != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    if kind == "object" and depth < DEPTH_MAX and schema.get("properties"):
        return struct({n: of_json_schema(s, depth + 1) for n, s in schema["properties"].items()})
    if kind == "array" and isinstance(schema.get("items"), dict) and depth < DEPTH_MAX:
        return list_of(of_json_schema(schema["items"], depth + 1))
    return _JSON.get(str(kind), StringType())


def of_json_value(value: object) -> IcebergType | None:
    """The type of a member of a plain JSON object. None for null, which has none. Objects and arrays become JSON text."""
    if value is None:
        return None
    if isinstance(value, bool):
        return BooleanType()
    if isinstance(value, int):
        return LongType()
    return DoubleType() if isinstance(value, float) else StringType()


def of_protobuf(descriptor: Descriptor, depth: int = 0) -> IcebergType:
    """The type of a message as `json_format.MessageToDict` with field names returns it: 64-bit integers are text there and numbers here."""
    if depth >= DEPTH_MAX or not descriptor.fields or descriptor.full_name.startswith("google.protobuf."):
        return StringType()
    return struct({f.name: _protobuf_field(f, depth) for f in descriptor.fields})


_PROTOBUF_CPP = {1: IntegerType(), 2: LongType(), 3: LongType(), 4: DecimalType(20, 0), 5: DoubleType(), 6: FloatType()}
"""Column types by `FieldDescriptor.cpp_type`: int32, int64, uint32, uint64, double, float."""
_PROTOBUF_BOOL, _PROTOBUF_MESSAGE, _PROTOBUF_BYTES = 7, 10, 12


def _protobuf_field(field: FieldDescriptor, depth: int) -> IcebergType:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        return map_of(_protobuf_single(message.fields_by_name["value"], depth))
    single = _protobuf_single(field, depth)
    return list_of(single) if field.is_repeated else single


def _protobuf_single(field: FieldDescriptor, depth: int) -> IcebergType:
    if field.cpp_type == _PROTOBUF_MESSAGE:
        return of_protobuf(field.message_type, depth + 1)
    if field.cpp_type == _PROTOBUF_BOOL:
        return BooleanType()
    if field.type == _PROTOBUF_BYTES:
        return BinaryType()
    return _PROTOBUF_CPP.get(field.cpp_type, StringType())


def missing_fields(present: StructType | None, needed: StructType) -> StructType | None:
    """The fields of `needed` that `present` lacks or must widen, with their parents. None if there are none. Raises Conflict."""
    lower = {f.name.lower(): f for f in present.fields} if present is not None else {}
    out: dict[str, IcebergType] = {}
    names: set[str] = set()
    for field in needed.fields:
        if not field.name or "." in field.name or field.name.lower() in names:
            raise ColumnNameConflict(f"{field.name!r} is not a valid name of a column, or differs only in case")
        names.add(field.name.lower())
        there = lower.get(field.name.lower())
        if there is None:
            out[field.name] = field.field_type
            continue
        if there.name != field.name:
            raise ColumnNameConflict(f"{field.name!r} differs from the column {there.name!r} only in case")
        if (change := _change(there.field_type, field.field_type, field.name)) is not None:
            out[field.name] = change
    return struct(out) if out else None


def _change(present: IcebergType, needed: IcebergType, name: str) -> IcebergType | None:
    if isinstance(present, StructType) and isinstance(needed, StructType):
        return missing_fields(present, needed)
    if isinstance(present, ListType) and isinstance(needed, ListType):
        inner = _change(present.element_type, needed.element_type, f"{name}.element")
        return None if inner is None else list_of(inner)
    if isinstance(present, MapType) and isinstance(needed, MapType):
        inner = _change(present.value_type, needed.value_type, f"{name}.value")
        return None if inner is None else map_of(inner)
    if present == needed or (type(needed), type(present)) in PROMOTIONS:
        return None
    if (type(present), type(needed)) in PROMOTIONS:
        return needed
    raise TypeConflict(f"column {name!r} has the type {present}, the schema has {needed}")


class TypeConflict(Exception):
    """A column has a type that cannot become the needed one."""


class ColumnNameConflict(Exception):
    """A name that a column cannot have in addition to the current ones."""


def leaves(kind: IcebergType) -> Iterator[IcebergType]:
    """The primitive columns of a type."""
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from leaves(field.field_type)
    elif isinstance(kind, ListType):
        yield from leaves(kind.element_type)
    elif isinstance(kind, MapType):
        yield from leaves(kind.key_type)
        yield from leaves(kind.value_type)
    else:
        yield kind
