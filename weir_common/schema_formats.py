"""Values with a schema of a Confluent-compatible registry: one zero byte, the schema's id in four bytes, the encoded value.

Invariant: a schema comes only from the `Schemas` object that the caller gives; no other network or file is read. Avro and Protobuf need the
packages of the extra `formats`.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import io
import json
import struct
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from weir_common.phrases import sentence

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.message import Message

MAGIC = 0
HEADER_BYTES = 5
"""The zero byte and the schema's id."""

PARSED_SCHEMAS_MAX = 256
"""Maximum number of parsed schemas that are kept; more than the schemas of the topics that an operator looks at."""

INDEXES_MAX = 32
"""Depth of nested message types in a Protobuf header. A larger number is not a header."""

WELL_KNOWN_FOLDER, WELL_KNOWN_PACKAGE = "google/protobuf/", "google.protobuf."
WELL_KNOWN = {
    f"{WELL_KNOWN_FOLDER}{name}.proto": f"{WELL_KNOWN_PACKAGE}{name}_pb2"
    for name in (
        "any",
        "api",
        "descriptor",
        "duration",
        "empty",
        "field_mask",
        "source_context",
        "struct",
        "timestamp",
        "type",
        "wrappers",
    )
}
"""Files of Protobuf itself, which a registry does not return, and the modules that contain them."""


class DoesNotFit(Exception):
    """The bytes do not have the format. The text completes a sentence."""


PROBLEM_CHARS_MAX = 200
"""Maximum number of characters of a library's error in a sentence."""


class SchemaUnavailable(Exception):
    """The format needs something that is not available: the registry, a schema or a package. The text is a sentence."""


class RegistryUnreachable(SchemaUnavailable):
    """The registry did not respond or rejected the request. A later request may succeed."""


class SchemaType(StrEnum):
    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON = "JSON"


@dataclass(frozen=True, slots=True)
class Schema:
    """`text`: the definition. For Protobuf it is a FileDescriptorProto in Base64, as the registry serializes it. `references`: (name, text) of the
    definitions that it uses, each after those that it uses itself."""

    id: int
    type: SchemaType
    text: str
    references: tuple[tuple[str, str], ...] = ()


class Schemas(Protocol):
    def schema(self, schema_id: int) -> Schema:
        """The schema of this id. Raises SchemaUnavailable."""


def load_library(name: str) -> Any:
    """A package of the extra `formats`. Raises SchemaUnavailable."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise SchemaUnavailable(
            sentence("The Python package {package} is not installed; install the extra weir[formats].", package=package)
        ) from None


def problem_of(error: Exception) -> str:
    """The class and the first line of an error of a library, for a person who corrects a schema."""
    first, _, _ = str(getattr(error, "message", "") or error).partition("\n")
    name = type(error).__name__
    return f"{name}: {first[:PROBLEM_CHARS_MAX].rstrip('.')}" if first else name


def has_schema_id(data: bytes) -> bool:
    return len(data) > HEADER_BYTES and data[0] == MAGIC


def decode_with_schema(data: bytes, schemas: Schemas | None, requested: SchemaType) -> tuple[Schema, Any]:
    """The schema and the value. Raises DoesNotFit, also for a schema of another type, and SchemaUnavailable."""
    schema = _schema_of(data, schemas)
    if schema.type is not requested:
        raise DoesNotFit(sentence("schema ID {id} has the type {type}.", id=schema.id, type=schema.type))
    return schema, _decode(schema, data)


def decode_registered(data: bytes, schemas: Schemas | None) -> tuple[Schema, Any]:
    """The schema and the value, for a schema of any type. Raises DoesNotFit and SchemaUnavailable."""
    schema = _schema_of(data, schemas)
    return schema, _decode(schema, data)


def _schema_of(data: bytes, schemas: Schemas | None) -> Schema:
    if schemas is None:
        raise SchemaUnavailable(sentence("No schema registry is configured (WEIR_SCHEMA_REGISTRY_URL)."))
    if not has_schema_id(data):
        raise DoesNotFit(sentence("it does not start with a zero byte and a schema ID."))
    (schema_id,) = struct.unpack(">I", data[1:HEADER_BYTES])
    return schemas.schema(schema_id)


def _decode(schema: Schema, data: bytes) -> Any:
    payload = data[HEADER_BYTES:]
    if schema.type is SchemaType.AVRO:
        return _avro(schema, payload)
    return _protobuf(schema, data) if schema.type is SchemaType.PROTOBUF else _json(payload)


def _mismatch(schema: Schema, error: Exception) -> DoesNotFit:
    return DoesNotFit(
        sentence("the bytes do not match schema ID {id} ({error}).", id=schema.id, error=type(error).__name__)
    )


def _json(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        raise DoesNotFit(sentence("the bytes after the schema ID are not JSON.")) from None


def _avro(schema: Schema, payload: bytes) -> Any:
    (parsed, _), source = avro_types(schema), io.BytesIO(payload)
    try:
        value = load_library("fastavro").schemaless_reader(source, parsed, None)
    except Exception as error:  # noqa: BLE001 - fastavro raises errors of many types for bytes that do not match.
        raise _mismatch(schema, error) from None
    if source.read(1):
        raise DoesNotFit(sentence("more bytes follow the value of schema ID {id}.", id=schema.id))
    return value


@lru_cache(maxsize=PARSED_SCHEMAS_MAX)
def avro_types(schema: Schema) -> tuple[Any, dict[str, Any]]:
    """The definition as fastavro parses it, and the named types that it uses by full name. Raises SchemaUnavailable."""
    fastavro = load_library("fastavro")
    named: dict[str, Any] = {}
    try:
        for _, text in schema.references:
            fastavro.parse_schema(json.loads(text), named_schemas=named)
        return fastavro.parse_schema(json.loads(schema.text), named_schemas=named), named
    except Exception as error:  # noqa: BLE001 - a definition of the registry may be wrong in any way.
        raise SchemaUnavailable(
            sentence("Schema ID {id} is not a valid Avro schema ({error}).", id=schema.id, error=problem_of(error))
        ) from None


def protobuf_message(schema: Schema, data: bytes) -> tuple[type[Message], bytes]:
    """The class of the message that `data` contains, header included, and the encoded message. Raises DoesNotFit and SchemaUnavailable."""
    indexes, rest = _message_indexes(data[HEADER_BYTES:])
    return _message_class(schema, indexes), rest


def _protobuf(schema: Schema, data: bytes) -> Any:
    message_class, rest = protobuf_message(schema, data)
    json_format, message = load_library("google.protobuf.json_format"), message_class()
    try:
        message.ParseFromString(rest)
        return json_format.MessageToDict(message, preserving_proto_field_name=True)
    except Exception as error:  # noqa: BLE001 - DecodeError, and TypeError for an unknown type in an Any.
        raise _mismatch(schema, error) from None


def _message_indexes(payload: bytes) -> tuple[tuple[int, ...], bytes]:
    """The path of the message type in its file, and the bytes after it. A single 0 stands for the first type."""
    count, at = _varint(payload, 0)
    if count == 0:
        return (0,), payload[at:]
    if not 0 < count <= INDEXES_MAX:
        raise DoesNotFit(sentence("it has no valid list of message indexes."))
    indexes = []
    for _ in range(count):
        index, at = _varint(payload, at)
        indexes.append(index)
    return tuple(indexes), payload[at:]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number of at most 5 bytes, and the position after it."""
    number = 0
    for shift in range(0, 35, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise DoesNotFit(sentence("it has no valid list of message indexes."))


@lru_cache(maxsize=PARSED_SCHEMAS_MAX)
def _message_class(schema: Schema, indexes: tuple[int, ...]) -> type[Message]:
    types = list(protobuf_file(schema).message_types_by_name.values())
    try:
        for index in indexes[:-1]:
            types = list(types[index].nested_types)
        return protobuf_class(types[indexes[-1]])
    except IndexError:
        raise DoesNotFit(
            sentence("schema ID {id} has no message type {indexes}.", id=schema.id, indexes=str(list(indexes)))
        ) from None


def protobuf_class(descriptor: Descriptor) -> type[Message]:
    """The class of a message type of `protobuf_file`."""
    found: type[Message] = load_library("google.protobuf.message_factory").GetMessageClass(descriptor)
    return found


@lru_cache(maxsize=PARSED_SCHEMAS_MAX)
def protobuf_file(schema: Schema) -> FileDescriptor:
    """The descriptor of the file, with the files that it imports in the same pool. Raises SchemaUnavailable."""
    descriptor_pb2 = load_library("google.protobuf.descriptor_pb2")
    pool = load_library("google.protobuf.descriptor_pool").DescriptorPool()
    added: set[str] = set()

    def add(text: str, name: str) -> FileDescriptor:
        file = descriptor_pb2.FileDescriptorProto()
        file.ParseFromString(base64.b64decode(text, validate=True))
        file.name = name or file.name
        for dependency in file.dependency:
            add_well_known(dependency)
        pool.AddSerializedFile(file.SerializeToString())
        return pool.FindFileByName(file.name)

    def add_well_known(name: str) -> None:
        if name not in WELL_KNOWN or name in added:
            return
        added.add(name)
        descriptor = load_library(WELL_KNOWN[name]).DESCRIPTOR
        for dependency in descriptor.dependencies:
            add_well_known(dependency.name)
        pool.AddSerializedFile(descriptor.serialized_pb)

    try:
        for name, text in schema.references:
            add(text, name)
        return add(schema.text, "")
    except binascii.Error:
        raise SchemaUnavailable(
            sentence(
                "The registry returned schema ID {id} as source text. It must support format=serialized.", id=schema.id
            )
        ) from None
    except SchemaUnavailable:
        raise
    except Exception as error:  # noqa: BLE001 - a definition of the registry may be wrong in any way.
        raise SchemaUnavailable(
            sentence("Schema ID {id} is not a valid Protobuf schema ({error}).", id=schema.id, error=problem_of(error))
        ) from None
