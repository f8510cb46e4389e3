"""JSON values as Avro's binary encoding. Pure.

One walk over schema and value both checks and encodes, so that the encoded branch of a union is the branch that was checked. Parsing of schemas is
fastavro's (`weir_common.schema_formats.avro_types`). Bytes are hexadecimal, and times, decimals and UUIDs are text, as `formats` shows them; Avro's
numbers for them are accepted, too. A value of a union is written as it is, or as {"name of the branch": value}, as Avro's JSON encoding has it.
A missing field gets the default of the schema. Does not contain: the texts of types (`avro_type_names`), samples (`schema_samples`).
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation

from controlplane.domain.avro_type_names import (
    AvroOptions,
    AvroType,
    branch_name,
    expected_text,
    json_kind,
    resolve_type,
)
from controlplane.domain.value_faults import ROOT, Faults, ValueMisfit, element, member, missing_field, unknown_field
from weir_common.json_values import Json, JsonObject
from weir_common.schema_formats import Schema, avro_types

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNIT_OF = {"millis": timedelta(milliseconds=1), "micros": timedelta(microseconds=1)}
DECIMAL_BITS_MAX = 8 * 1024
"""Maximum number of digits of an unscaled decimal. Precisions in Avro schemas have some tens of digits."""


def encode_avro(schema: Schema, text: str) -> bytes:
    """The value in this JSON. Raises ValueMisfit, SchemaUnavailable, and ValueError for text that is not JSON."""
    parsed, named = avro_types(schema)
    walk = _Walk(named)
    data = walk.write(parsed, json.loads(text, parse_float=Decimal), ROOT)
    if walk.faults:
        raise ValueMisfit(walk.faults)
    return data


class _Walk:
    """`faults` collects the faults; the bytes are invalid if there are any. With `raw`, bytes are text with one character per byte, as in default values."""

    def __init__(self, named: AvroOptions, raw: bool = False) -> None:
        self.named = named
        self.raw = raw
        self.faults = Faults()

    def write(self, kind: AvroType, value: Json, path: str) -> bytes:
        kind = resolve_type(kind, self.named)
        if isinstance(kind, list):
            return self._union(kind, value, path)
        name, options = (kind["type"], kind) if isinstance(kind, Mapping) else (kind, {})
        convert = None if self.raw else LOGICAL.get((name, options.get("logicalType")))
        return self._plain(kind, value, path) if convert is None else self._logical(kind, convert, value, path)

    def _plain(self, kind: AvroType, value: Json, path: str) -> bytes:
        name, options = (kind["type"], kind) if isinstance(kind, Mapping) else (kind, {})
        match name:
            case "record" | "error":
                return self._record(options, value, path)
            case "array":
                return self._array(options, value, path)
            case "map":
                return self._map(options, value, path)
            case "enum":
                if value in options["symbols"] and isinstance(value, str):
                    return _long(options["symbols"].index(value))
            case "fixed":
                data = self._binary(value)
                if data is not None and len(data) == options["size"]:
                    return data
            case "bytes":
                if (written := _with_length(self._binary(value))) is not None:
                    return written
            case _:
                if (written := PRIMITIVES[name](value)) is not None:
                    return written
        return self._misfit(path, kind, value, logical=False)

    def _binary(self, value: Json) -> bytes | None:
        if not isinstance(value, str):
            return None
        try:
            return value.encode("latin-1") if self.raw else bytes.fromhex(value.removeprefix("0x"))
        except ValueError:
            return None

    def _logical(self, kind: AvroOptions, convert: Convert, value: Json, path: str) -> bytes:
        try:
            converted = convert(value, kind)
        except (ValueError, ArithmeticError, InvalidOperation, OverflowError):
            converted = None
        if converted is None:
            return self._misfit(path, kind, value)
        if isinstance(converted, bytes):
            return converted if kind["type"] == "fixed" else _with_length(converted) or b""
        return self._plain(kind, converted, path)

    def _record(self, options: AvroOptions, value: Json, path: str) -> bytes:
        if not isinstance(value, dict):
            return self._misfit(path, options, value)
        fields = options["fields"]
        known = [f["name"] for f in fields]
        for name in value:
            if name not in known:
                self.faults.append_fault(unknown_field(member(path, name), options["name"], known))
        return b"".join(self._field(field, value, path) for field in fields)

    def _field(self, field: AvroOptions, value: JsonObject, path: str) -> bytes:
        name = field["name"]
        if name in value:
            return self.write(field["type"], value[name], member(path, name))
        if "default" not in field:
            self.faults.append_fault(missing_field(member(path, name), expected_text(field["type"], self.named)))
            return b""
        defaults = _Walk(self.named, raw=True)
        return defaults.write(field["type"], field["default"], member(path, name))

    def _array(self, options: AvroOptions, value: Json, path: str) -> bytes:
        if not isinstance(value, list):
            return self._misfit(path, options, value)
        items = [self.write(options["items"], item, element(path, i)) for i, item in enumerate(value)]
        return _blocks(items)

    def _map(self, options: AvroOptions, value: Json, path: str) -> bytes:
        if not isinstance(value, dict):
            return self._misfit(path, options, value)
        return _blocks(
            [
                (_text(name) or b"") + self.write(options["values"], inner, member(path, name))
                for name, inner in value.items()
            ]
        )

    def _union(self, branches: list[AvroType], value: Json, path: str) -> bytes:
        """Encode with the first branch that fits. The faults of a branch are reported if it is the only branch that can be meant."""
        tried: list[tuple[AvroType, Faults]] = []
        for position, branch in enumerate(branches):
            attempt = _Walk(self.named, self.raw)
            data = attempt.write(branch, value, path)
            if not attempt.faults:
                return _long(position) + data
            tried.append((branch, attempt.faults))
        names = [branch_name(resolve_type(b, self.named)) for b in branches]
        if isinstance(value, dict) and len(value) == 1 and (name := next(iter(value))) in names:
            position = names.index(name)
            return _long(position) + self.write(branches[position], value[name], member(path, name))
        meant = [faults for branch, faults in tried if self._accepts(branch, value)]
        if len(meant) == 1:
            for fault in meant[0]:
                self.faults.append_fault(fault)
            return b""
        return self._misfit(path, branches, value)

    def _accepts(self, branch: AvroType, value: Json) -> bool:
        """Return whether the branch has values of this kind: objects or arrays."""
        kind = resolve_type(branch, self.named)
        name = kind["type"] if isinstance(kind, Mapping) else kind
        if isinstance(value, dict):
            return name in ("record", "error", "map")
        return isinstance(value, list) and name == "array"

    def _misfit(self, path: str, kind: AvroType, value: Json, *, logical: bool = True) -> bytes:
        expected = expected_text(kind, self.named, logical=logical)
        self.faults.add(path, expected, value, json_kind(kind, self.named))
        return b""


def _long(number: int) -> bytes:
    """Encode an int or long as Avro does: zigzag, then seven bits per byte, the lowest first."""
    rest = (number << 1) ^ (number >> 63)
    written = bytearray()
    while rest > 0x7F:
        written.append(rest & 0x7F | 0x80)
        rest >>= 7
    written.append(rest)
    return bytes(written)


def _integer(bits: int) -> Callable[[Json], bytes | None]:
    def encode(value: Json) -> bytes | None:
        if not isinstance(value, int) or isinstance(value, bool) or not -(1 << bits - 1) <= value < 1 << bits - 1:
            return None
        return _long(value)

    return encode


def _real(code: str) -> Callable[[Json], bytes | None]:
    def encode(value: Json) -> bytes | None:
        if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
            return None
        try:
            return struct.pack(code, float(value))
        except OverflowError:
            return None

    return encode


def _with_length(data: bytes | None) -> bytes | None:
    return None if data is None else _long(len(data)) + data


def _text(value: Json) -> bytes | None:
    try:
        return _with_length(value.encode()) if isinstance(value, str) else None
    except UnicodeEncodeError:
        return None


def _blocks(items: list[bytes]) -> bytes:
    """An array or map: one block, then the block of no items."""
    return (_long(len(items)) + b"".join(items) if items else b"") + b"\0"


PRIMITIVES: dict[str, Callable[[Json], bytes | None]] = {
    "null": lambda value: b"" if value is None else None,
    "boolean": lambda value: bytes([value]) if isinstance(value, bool) else None,
    "int": _integer(32),
    "long": _integer(64),
    "float": _real("<f"),
    "double": _real("<d"),
    "string": _text,
}
"""The encoding of a primitive type: None for a value that does not fit."""


def _decimal(value: Json, options: AvroOptions) -> bytes | None:
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        return None
    number = Decimal(value)
    scale, precision = int(options.get("scale", 0)), int(options["precision"])
    if not number.is_finite() or abs(number.adjusted()) > DECIMAL_BITS_MAX:
        return None
    sign, digits, exponent = number.as_tuple()
    shift = scale + int(exponent)
    unscaled = int("".join(map(str, digits)))
    if shift < 0:
        unscaled, lost = divmod(unscaled, 10**-shift)
        if lost:
            return None
    else:
        unscaled *= 10**shift
    if len(str(unscaled)) > precision:
        return None
    signed: int = -unscaled if sign else unscaled
    size = int(options["size"]) if options["type"] == "fixed" else (signed + (signed < 0)).bit_length() // 8 + 1
    return signed.to_bytes(size, "big", signed=True)


def _uuid(value: Json, options: AvroOptions) -> bytes | str | None:
    if not isinstance(value, str):
        return None
    parsed = uuid.UUID(value)
    return parsed.bytes if options["type"] == "fixed" else value


def _date(value: Json, _: AvroOptions) -> int | None:
    if isinstance(value, str):
        return (date.fromisoformat(value) - EPOCH.date()).days
    return value if isinstance(value, int) else None


def _time(unit: str) -> Callable[[Json, AvroOptions], int | None]:
    def convert(value: Json, _: AvroOptions) -> int | None:
        if not isinstance(value, str):
            return value if isinstance(value, int) else None
        at = time.fromisoformat(value)
        if at.tzinfo is not None:
            return None
        since = timedelta(hours=at.hour, minutes=at.minute, seconds=at.second, microseconds=at.microsecond)
        return since // UNIT_OF[unit]

    return convert


def _timestamp(unit: str, local: bool = False) -> Callable[[Json, AvroOptions], int | None]:
    def convert(value: Json, _: AvroOptions) -> int | None:
        if not isinstance(value, str):
            return value if isinstance(value, int) else None
        at = datetime.fromisoformat(value)
        if local and at.tzinfo is not None:
            return None
        return (at.replace(tzinfo=at.tzinfo or UTC) - EPOCH) // UNIT_OF[unit]

    return convert


Convert = Callable[[Json, AvroOptions], bytes | str | int | None]
LOGICAL: dict[tuple[str, str | None], Convert] = {
    ("bytes", "decimal"): _decimal,
    ("fixed", "decimal"): _decimal,
    ("string", "uuid"): _uuid,
    ("fixed", "uuid"): _uuid,
    ("int", "date"): _date,
    ("int", "time-millis"): _time("millis"),
    ("long", "time-micros"): _time("micros"),
    ("long", "timestamp-millis"): _timestamp("millis"),
    ("long", "timestamp-micros"): _timestamp("micros"),
    ("long", "local-timestamp-millis"): _timestamp("millis", local=True),
    ("long", "local-timestamp-micros"): _timestamp("micros", local=True),
}
"""Text forms of logical types: the conversion to the type below or to bytes. Others are written as the type below."""
