"""Formats of keys, values and headers: a registry of deserializers, and `render`, which shows bytes as text.

Invariants: `render` never fails. Bytes that do not fit the requested format are shown as hex, with the reason. The automatic choice never
guesses numbers, because most bytes are a number. Does not contain: schemas (`schema_formats`), masking (`masking`), the schema registry's
client (`controlplane.clients.schema_registry`).
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from controlplane.domain.json_syntax import syntax_problem
from weir_common.json_values import Json
from weir_common.phrases import Phrase, reason_of, sentence
from weir_common.schema_formats import (
    DoesNotFit,
    Schemas,
    SchemaType,
    SchemaUnavailable,
    decode_registered,
    decode_with_schema,
    has_schema_id,
    load_library,
)

NULL = "null"
"""`Rendered.format` of a null value."""

TEXT_CHARS_MAX = 64 * 1024
"""Maximum number of characters of one rendered key, value or header. `Rendered.cut` is set for a longer text."""

INTEGER_CODES = {1: ">b", 2: ">h", 4: ">i", 8: ">q"}
FLOAT_CODES = {4: ">f", 8: ">d"}
"""struct codes by size in bytes, as Kafka's serializers write numbers: big-endian and signed."""

TOO_DEEP = sentence("The value is nested too deeply to be decoded.")

PRINTABLE_CONTROLS = "\t\n\r"


class Format(StrEnum):
    AUTO = "auto"
    TEXT = "text"
    JSON = "json"
    HEX = "hex"
    BASE64 = "base64"
    INTEGER = "integer"
    FLOAT = "float"
    MSGPACK = "msgpack"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    JSON_SCHEMA = "json_schema"


@dataclass(frozen=True, slots=True)
class Decoded:
    """`structure`: the object or array that the bytes contain, as JSON types; None if they contain neither."""

    format: Format
    text: str
    structure: Json = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Rendered:
    """A key, value or header as text. `format`: the format of `text`, or null or masked. `text`: None for null. `size`: bytes before decoding.
    `note`: why the requested format does not fit, or the schema's id. `cut`: `text` is only the beginning."""

    format: str
    text: str | None
    size: int
    note: str = ""
    cut: bool = False


Deserializer = Callable[[bytes, Schemas | None], Decoded]
"""Raises DoesNotFit with a sentence, or SchemaUnavailable."""


def render(data: bytes | None, format: Format = Format.AUTO, schemas: Schemas | None = None) -> Rendered:  # noqa: A002
    """Bytes as text in this format. `schemas`: the schema registry, None if there is none."""
    if data is None:
        return Rendered(NULL, None, 0)
    try:
        decoded = DESERIALIZERS[format](data, schemas)
    except (DoesNotFit, SchemaUnavailable) as error:
        decoded = Decoded(
            Format.HEX, _hex(data), note=sentence("Not {format}: {reason}", format=Phrase(LABELS[format]), reason=error)
        )
    except RecursionError:
        decoded = Decoded(Format.HEX, _hex(data), note=TOO_DEEP)
    return render_decoded(decoded, len(data))


def render_decoded(decoded: Decoded, size: int) -> Rendered:
    """The text of decoded bytes, cut at the limit."""
    text, limit = decoded.text, TEXT_CHARS_MAX
    return Rendered(decoded.format, text[:limit], size, decoded.note, cut=len(text) > limit)


def structure_of(data: bytes, schemas: Schemas | None = None) -> Json:
    """The object or array in these bytes, by the automatic format; None if they contain neither."""
    try:
        return _auto(data, schemas).structure
    except RecursionError:
        return None


def text_of(data: bytes, schemas: Schemas | None = None) -> str:
    """These bytes as text by the automatic format, not cut unless they are hex."""
    try:
        return _auto(data, schemas).text
    except RecursionError:
        return _hex(data)


def json_text(structure: Json) -> str:
    """Encode as JSON. A surrogate without its partner stays an escape sequence."""
    return json.dumps(structure, ensure_ascii=False, default=_json_value).encode(errors="backslashreplace").decode()


def _auto(data: bytes, schemas: Schemas | None) -> Decoded:
    note = ""
    if schemas is not None and has_schema_id(data):
        try:
            return _registered(data, schemas)
        except (DoesNotFit, SchemaUnavailable) as error:
            note = sentence("It starts like a record with a schema ID. {reason}", reason=error)
    for attempt in (_json_object, _printable, _msgpack_object):
        try:
            found = attempt(data)
        except DoesNotFit:
            continue
        return Decoded(found.format, found.text, found.structure, note)
    return Decoded(Format.HEX, _hex(data), note=note)


def _text(data: bytes, schemas: Schemas | None = None) -> Decoded:
    return Decoded(Format.TEXT, _utf8(data))


def _json(data: bytes, schemas: Schemas | None = None) -> Decoded:
    text = _utf8(data)
    return Decoded(Format.JSON, text, _container(_parsed_json(text)))


def _json_object(data: bytes) -> Decoded:
    if data.lstrip()[:1] not in (b"{", b"["):
        raise DoesNotFit(sentence("it is neither an object nor an array."))
    return _json(data)


def _printable(data: bytes) -> Decoded:
    text = _utf8(data)
    if any(c < " " and c not in PRINTABLE_CONTROLS for c in text):
        raise DoesNotFit(sentence("it contains control characters."))
    return Decoded(Format.TEXT, text)


def _integer(data: bytes, schemas: Schemas | None = None) -> Decoded:
    return Decoded(Format.INTEGER, str(_number(data, INTEGER_CODES)))


def _float(data: bytes, schemas: Schemas | None = None) -> Decoded:
    return Decoded(Format.FLOAT, repr(_number(data, FLOAT_CODES)))


def _number(data: bytes, codes: dict[int, str]) -> Json:
    if len(data) not in codes:
        sizes = ", ".join(str(size) for size in codes)
        raise DoesNotFit(sentence("it has {count} bytes; this format has {sizes}.", count=len(data), sizes=sizes))
    number: int | float = struct.unpack(codes[len(data)], data)[0]
    return number


def _msgpack(data: bytes, schemas: Schemas | None = None) -> Decoded:
    msgpack = load_library("msgpack")
    try:
        value = msgpack.unpackb(data, raw=False, strict_map_key=False, unicode_errors="backslashreplace")
        plain = plain_value(value)
        return Decoded(Format.MSGPACK, json_text(plain), _container(plain))
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise DoesNotFit(_reason(error)) from None


def _msgpack_object(data: bytes) -> Decoded:
    try:
        found = _msgpack(data)
    except SchemaUnavailable as error:
        raise DoesNotFit(reason_of(error)) from None
    if found.structure is None:
        raise DoesNotFit(sentence("it is neither a map nor an array."))
    return found


def _with_schema(requested: SchemaType | None, format_: Format | None) -> Deserializer:
    def decode(data: bytes, schemas: Schemas | None) -> Decoded:
        schema, value = (
            decode_registered(data, schemas) if requested is None else decode_with_schema(data, schemas, requested)
        )
        plain = plain_value(value)
        note = sentence("Schema ID {id}.", id=schema.id)
        return Decoded(format_ or FORMAT_OF[schema.type], json_text(plain), _container(plain), note)

    return decode


FORMAT_OF = {
    SchemaType.AVRO: Format.AVRO,
    SchemaType.PROTOBUF: Format.PROTOBUF,
    SchemaType.JSON: Format.JSON_SCHEMA,
}
_registered = _with_schema(None, None)

DESERIALIZERS: dict[Format, Deserializer] = {
    Format.AUTO: _auto,
    Format.TEXT: _text,
    Format.JSON: _json,
    Format.HEX: lambda data, _: Decoded(Format.HEX, _hex(data)),
    Format.BASE64: lambda data, _: Decoded(Format.BASE64, base64.b64encode(data).decode()),
    Format.INTEGER: _integer,
    Format.FLOAT: _float,
    Format.MSGPACK: _msgpack,
    Format.AVRO: _with_schema(SchemaType.AVRO, Format.AVRO),
    Format.PROTOBUF: _with_schema(SchemaType.PROTOBUF, Format.PROTOBUF),
    Format.JSON_SCHEMA: _with_schema(SchemaType.JSON, Format.JSON_SCHEMA),
}
"""The registry. A new format is a member of Format, an entry here and a label."""

LABELS = {
    Format.AUTO: "automatic",
    Format.TEXT: "text",
    Format.JSON: "JSON",
    Format.HEX: "hex",
    Format.BASE64: "Base64",
    Format.INTEGER: "integer",
    Format.FLOAT: "float",
    Format.MSGPACK: "MessagePack",
    Format.AVRO: "Avro",
    Format.PROTOBUF: "Protobuf",
    Format.JSON_SCHEMA: "JSON Schema",
}


def plain_value(value: Json) -> Json:
    """The value with text as keys. Keys that are UTF-8 bytes are decoded, so that a masking rule finds them."""
    if isinstance(value, dict):
        return {_key(k): plain_value(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(v) for v in value]
    return value if isinstance(value, str | int | float | bool | None) else _json_value(value)


def _key(key: Json) -> str:
    return key.decode(errors="backslashreplace") if isinstance(key, bytes) else str(key)


def _json_value(value: Json) -> str:
    """Bytes as hex, and other types of Avro and MessagePack (times, decimals, UUIDs) as their usual text."""
    return bytes(value).hex() if isinstance(value, bytes | bytearray | memoryview) else str(value)


def _container(value: Json) -> Json:
    return value if isinstance(value, dict | list) else None


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DoesNotFit(sentence("it is not UTF-8 (byte {at}).", at=error.start)) from None


def _parsed_json(text: str) -> Json:
    try:
        value: Json = json.loads(text)
        return value
    except json.JSONDecodeError as error:
        raise DoesNotFit(syntax_problem(error)) from None
    except (ValueError, RecursionError) as error:
        raise DoesNotFit(_reason(error)) from None


def _reason(error: Exception) -> str:
    return f"{str(error) or type(error).__name__}."


def _hex(data: bytes) -> str:
    return data[: TEXT_CHARS_MAX // 2 + 1].hex()
