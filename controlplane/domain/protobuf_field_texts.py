"""Texts for the JSON values that a Protobuf field accepts, by its type. Pure.

Does not contain: the encoding (`protobuf_encoding`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.domain.value_faults import JsonKind, listed
from weir_common.phrases import sentence
from weir_common.schema_formats import load_library

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor

INTEGER_32, INTEGER_64 = sentence("an integer of 32 bits"), sentence("an integer of 64 bits")
UNSIGNED_32, UNSIGNED_64 = sentence("an integer of 32 bits, 0 or more"), sentence("an integer of 64 bits, 0 or more")
NUMBER = sentence("a number")

SCALARS = {
    "double": NUMBER,
    "float": sentence("a number of 32 bits"),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), INTEGER_32),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), INTEGER_64),
    **dict.fromkeys(("uint32", "fixed32"), UNSIGNED_32),
    **dict.fromkeys(("uint64", "fixed64"), UNSIGNED_64),
    "bool": sentence("true or false"),
    "string": sentence("text"),
    "bytes": sentence("bytes in Base64, for example AP8="),
}
"""By the name of the type in Protobuf."""

WELL_KNOWN = {
    "google.protobuf.Timestamp": sentence("a time (2024-01-31T12:30:00Z)"),
    "google.protobuf.Duration": sentence("a duration in seconds (1.5s)"),
    "google.protobuf.FieldMask": sentence("names of fields with commas between them"),
    "google.protobuf.Struct": sentence("an object"),
    "google.protobuf.ListValue": sentence("an array"),
}
"""Message types with a JSON form of their own."""


def expected_text(field: FieldDescriptor) -> str:
    """The values of the field, as a phrase after "must be"."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return sentence("an object (a map)")
    if field.enum_type is not None:
        return sentence("one of {names}", names=listed([value.name for value in field.enum_type.values]))
    if field.message_type is not None:
        name = field.message_type.full_name
        return WELL_KNOWN.get(name) or sentence("a value of the type {name}", name=name)
    return SCALARS[_scalar(field)]


def json_kind(field: FieldDescriptor) -> JsonKind | None:
    """The kind of JSON value of a field that has no message or enum. Protobuf also accepts numbers in quotation marks."""
    if field.message_type is not None or field.enum_type is not None:
        return None
    return {"bool": JsonKind.BOOLEAN, "string": JsonKind.TEXT}.get(_scalar(field))


def _scalar(field: FieldDescriptor) -> str:
    kinds = load_library("google.protobuf.descriptor_pb2").FieldDescriptorProto.Type
    return str(kinds.Name(field.type)).removeprefix("TYPE_").lower()
