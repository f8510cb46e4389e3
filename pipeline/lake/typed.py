"""Values of records as typed rows: decodes a value, finds the type that its columns need, and gives the reason if it does not fit. No Spark, no
table.

Invariants: a record has either a row or a reason. A registry that does not respond is an error of the run, never the reason of a dead letter.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from pyiceberg.types import StructType

from pipeline.lake import columns
from weir_common.lake import DeadLetterReason, ValueFormat
from weir_common.schema_formats import (
    DoesNotFit,
    RegistryUnreachable,
    Schema,
    Schemas,
    SchemaType,
    SchemaUnavailable,
    avro_types,
    decode_registered,
    has_schema_id,
    protobuf_message,
)

SINGLE = "value"
"""The column of a value that is no record, such as an Avro string."""


class DoesNotFitTable(Exception):
    """The record does not fit the table and is stored in the table of dead letters, with the reason."""

    def __init__(self, reason: DeadLetterReason, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True, slots=True)
class TypedValue:
    """`value`: by column. `schema_id`: of the registry. `types`: identifies the type of the columns (a schema, or the types of a JSON object)."""

    value: dict[str, Any]
    schema_id: int | None
    types: tuple[object, ...]


class Decoder:
    """Decodes the values of one topic."""

    def __init__(self, value_format: ValueFormat, schemas: Schemas | None) -> None:
        self._format, self._schemas = value_format, schemas
        self._types: dict[tuple[object, ...], StructType] = {}

    def decode(self, data: bytes | None) -> TypedValue | None:
        """The typed value; None for a null value and for raw topics. Raises DoesNotFitTable and RegistryUnreachable."""
        if data is None or self._format is ValueFormat.RAW:
            return None
        return self._json(data) if self._format is ValueFormat.JSON else self._decode_registered(data)

    def type_of(self, decoded: TypedValue) -> StructType:
        """The columns of this value."""
        return self._types[decoded.types]

    def _json(self, data: bytes) -> TypedValue:
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            raise DoesNotFitTable(DeadLetterReason.NOT_JSON, "The value is not JSON.") from None
        value = found if isinstance(found, dict) else {SINGLE: found}
        kinds = {name: kind for name, v in value.items() if (kind := columns.of_json_value(v)) is not None}
        types = tuple((name, str(kind)) for name, kind in kinds.items())
        if types not in self._types:
            if len(self._types) >= columns.COLUMNS_MAX:
                self._types.clear()
            self._types[types] = columns.struct(kinds)
        return TypedValue(value, None, types)

    def _decode_registered(self, data: bytes) -> TypedValue:
        if not has_schema_id(data):
            raise DoesNotFitTable(
                DeadLetterReason.NO_SCHEMA_ID, "The value does not start with a zero byte and a schema ID."
            )
        try:
            schema, found = decode_registered(data, self._schemas)
            types: tuple[object, ...] = (schema.id,)
            if schema.type is SchemaType.PROTOBUF:
                types = (schema.id, protobuf_message(schema, data)[0].DESCRIPTOR.full_name)
            if types not in self._types:
                self._types[types] = _type_of_schema(schema, data)
        except RegistryUnreachable:
            raise
        except SchemaUnavailable as e:
            raise DoesNotFitTable(DeadLetterReason.UNKNOWN_SCHEMA, str(e)) from None
        except DoesNotFit as e:
            raise DoesNotFitTable(DeadLetterReason.DOES_NOT_MATCH_SCHEMA, f"The value does not fit: {e}") from None
        fields = self._types[types].fields
        is_record = isinstance(found, dict) and not (len(fields) == 1 and fields[0].name == SINGLE)
        return TypedValue(found if is_record else {SINGLE: found}, schema.id, types)


def _type_of_schema(schema: Schema, data: bytes) -> StructType:
    if schema.type is SchemaType.AVRO:
        kind = columns.of_avro(*avro_types(schema))
    elif schema.type is SchemaType.PROTOBUF:
        kind = columns.of_protobuf(protobuf_message(schema, data)[0].DESCRIPTOR)
    else:
        try:
            kind = columns.of_json_schema(json.loads(schema.text))
        except ValueError:
            raise SchemaUnavailable(f"Schema ID {schema.id} is not JSON.") from None
    return kind if isinstance(kind, StructType) else columns.struct({SINGLE: kind})
