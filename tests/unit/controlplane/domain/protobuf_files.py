"""A Protobuf file as a registry serializes it, for tests of values with a schema."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf import descriptor_pb2 as pb

from weir_common.schema_formats import Schema, SchemaType

FIELD = pb.FieldDescriptorProto


def order_schema(schema_id: int = 3) -> Schema:
    """shop.Order with nested Line, a map, an enum, a timestamp and a oneof; shop.Other behind it."""
    file = pb.FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    order = file.message_type.add(name="Order")
    line = order.nested_type.add(name="Line")
    _add(line, "price", 1, FIELD.TYPE_DOUBLE)
    entry = order.nested_type.add(name="TagsEntry", options=pb.MessageOptions(map_entry=True))
    _add(entry, "key", 1, FIELD.TYPE_STRING)
    _add(entry, "value", 2, FIELD.TYPE_INT32)
    state = order.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=1)
    _add(order, "id", 1, FIELD.TYPE_INT64)
    _add(order, "lines", 2, FIELD.TYPE_MESSAGE, ".shop.Order.Line", repeated=True)
    _add(order, "tags", 3, FIELD.TYPE_MESSAGE, ".shop.Order.TagsEntry", repeated=True)
    _add(order, "state", 4, FIELD.TYPE_ENUM, ".shop.Order.State")
    _add(order, "created_at", 5, FIELD.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    _add(order, "raw", 6, FIELD.TYPE_BYTES)
    order.oneof_decl.add(name="payment")
    _add(order, "card", 7, FIELD.TYPE_STRING).oneof_index = 0
    _add(order, "cash", 8, FIELD.TYPE_BOOL).oneof_index = 0
    _add(order, "parent", 9, FIELD.TYPE_MESSAGE, ".shop.Order")
    other = file.message_type.add(name="Other")
    inner = other.nested_type.add(name="Inner")
    _add(inner, "x", 1, FIELD.TYPE_UINT32)
    return Schema(schema_id, SchemaType.PROTOBUF, base64.b64encode(file.SerializeToString()).decode())


def required_schema() -> Schema:
    """A proto2 message with a required field."""
    file = pb.FileDescriptorProto(name="required.proto", syntax="proto2")
    message = file.message_type.add(name="Strict")
    message.field.add(name="id", number=1, type=FIELD.TYPE_INT32, label=FIELD.LABEL_REQUIRED)
    return Schema(4, SchemaType.PROTOBUF, base64.b64encode(file.SerializeToString()).decode())


def _add(message: Any, name: str, number: int, kind: Any, type_name: str = "", *, repeated: bool = False) -> Any:
    label = FIELD.LABEL_REPEATED if repeated else FIELD.LABEL_OPTIONAL
    field = message.field.add(name=name, number=number, type=kind, label=label)
    if type_name:
        field.type_name = type_name
    return field
