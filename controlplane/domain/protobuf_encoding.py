"""JSON values as Protobuf messages, and the header of the message type. Pure.

The JSON is Protobuf's own mapping: bytes are Base64, 64-bit integers may be text, and fields have their names or their JSON names. The library's
parser decides about each leaf; the walk around it finds all faults, where the parser alone stops at the first. Does not contain: the pool of
descriptors (`weir_common.schema_formats.protobuf_file`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from controlplane.domain.protobuf_field_texts import expected_text, json_kind
from controlplane.domain.value_faults import (
    NAMES_MAX,
    ROOT,
    Faults,
    ValueMisfit,
    element,
    member,
    missing_field,
    surplus_fields,
    unknown_field,
    wrong_value,
)
from weir_common.json_values import Json
from weir_common.phrases import sentence
from weir_common.schema_formats import (
    WELL_KNOWN_PACKAGE,
    Schema,
    SchemaUnavailable,
    load_library,
    protobuf_class,
    protobuf_file,
)

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

JSON_FORMAT = "google.protobuf.json_format"


def encode_protobuf(schema: Schema, text: str, message_name: str = "") -> bytes:
    """The list of message indexes and the message. `message_name`: full name, or the part behind the package; empty: the first message of the file.
    Raises ValueMisfit, SchemaUnavailable, UnknownMessage, and ValueError for text that is not JSON."""
    descriptor, indexes = message_type(schema, message_name)
    value = json.loads(text)
    faults = Faults()
    _check(descriptor, value, ROOT, faults)
    if faults:
        raise ValueMisfit(faults)
    json_format, message = load_library(JSON_FORMAT), protobuf_class(descriptor)()
    try:
        json_format.ParseDict(value, message)
    except json_format.ParseError as error:
        raise ValueMisfit(
            [
                wrong_value(
                    ROOT,
                    sentence("a valid {name} ({error})", name=descriptor.full_name, error=str(error)[:200].rstrip(".")),
                    value,
                )
            ]
        ) from None
    if missing := message.FindInitializationErrors():
        raise ValueMisfit([missing_field(f"{ROOT}.{name}") for name in missing])
    return _indexes(indexes) + bytes(message.SerializeToString())


class UnknownMessage(Exception):
    """The file has no message type of this name. The text is a sentence."""


def message_type(schema: Schema, name: str) -> tuple[Descriptor, tuple[int, ...]]:
    """The descriptor of a message type and its path in the file. Raises UnknownMessage and SchemaUnavailable."""
    file = protobuf_file(schema)
    known = list(_types(file.message_types_by_name.values(), ()))
    for descriptor, indexes in known:
        if name in ("", descriptor.full_name, descriptor.full_name.removeprefix(f"{file.package}.")):
            return descriptor, indexes
    if not known:
        raise SchemaUnavailable(sentence("Schema ID {id} has no message type.", id=schema.id))
    names = ", ".join(d.full_name for d, _ in known[:NAMES_MAX])
    raise UnknownMessage(
        sentence(
            "Schema ID {id} has no message type {name}. It has {names}.",
            id=schema.id,
            name=repr(name[:100]),
            names=names,
        )
    )


def _types(descriptors: Iterable[Descriptor], path: tuple[int, ...]) -> Iterator[tuple[Descriptor, tuple[int, ...]]]:
    for index, descriptor in enumerate(descriptors):
        yield descriptor, (*path, index)
        yield from _types(descriptor.nested_types, (*path, index))


def _indexes(indexes: tuple[int, ...]) -> bytes:
    """Zigzag numbers with their count; the first type of a file is a single zero byte."""
    return b"\0" if indexes == (0,) else b"".join(_varint(n << 1) for n in (len(indexes), *indexes))


def _varint(number: int) -> bytes:
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])


def _check(descriptor: Descriptor, value: Json, path: str, faults: Faults) -> None:
    """Faults of a message that is not well-known."""
    if not isinstance(value, dict):
        faults.add(path, sentence("an object ({name})", name=descriptor.full_name), value)
        return
    fields = {n: f for f in descriptor.fields for n in (f.name, f.json_name)}
    for name, inner in value.items():
        at = member(path, name)
        if name not in fields:
            extension = name.startswith("[") and name.endswith("]")
            if not extension:
                known = [f.name for f in descriptor.fields]
                faults.append_fault(unknown_field(at, descriptor.full_name, known))
        elif inner is not None:
            _check_field(descriptor, fields[name], inner, at, faults)
    for group in descriptor.oneofs:
        given = [n for n, inner in value.items() if inner is not None and fields.get(n) in list(group.fields)]
        if len(given) > 1:
            faults.append_fault(surplus_fields(path, given))


def _check_field(descriptor: Descriptor, field: FieldDescriptor, value: Json, path: str, faults: Faults) -> None:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        if not isinstance(value, dict):
            faults.add(path, sentence("an object (a map)"), value)
            return
        inner = kind.fields_by_name["value"]
        for key, item in value.items():
            if _is_plain(inner.message_type):
                _check(inner.message_type, item, member(path, key), faults)
                item = {}
            _check_leaf(descriptor, field, {key: item}, item, member(path, key), faults, inner)
    elif field.is_repeated:
        if not isinstance(value, list):
            faults.add(path, sentence("an array"), value)
            return
        for i, item in enumerate(value):
            if _is_plain(kind):
                _check(kind, item, element(path, i), faults)
            else:
                _check_leaf(descriptor, field, [item], item, element(path, i), faults)
    elif _is_plain(kind):
        _check(kind, value, path, faults)
    else:
        _check_leaf(descriptor, field, value, value, path, faults)


def _is_plain(kind: Descriptor | None) -> bool:
    """A message type without a JSON mapping of its own."""
    return kind is not None and not kind.full_name.startswith(WELL_KNOWN_PACKAGE)


def _check_leaf(
    descriptor: Descriptor,
    field: FieldDescriptor,
    value: Json,
    text: Json,
    path: str,
    faults: Faults,
    expected: FieldDescriptor | None = None,
) -> None:
    """`value`: the value as the field has it, `text`: the part of it at `path`. `expected`: the field whose type that part has."""
    json_format = load_library(JSON_FORMAT)
    try:
        json_format.ParseDict({field.name: value}, protobuf_class(descriptor)())
    except json_format.ParseError:
        faults.add(path, expected_text(expected or field), text, json_kind(expected or field))
