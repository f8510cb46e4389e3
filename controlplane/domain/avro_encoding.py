"""JSON values as Avro's binary encoding. Pure.

One walk over schema and value both checks and encodes, so that the encoded branch of a union is the branch that was checked. Parsing of schemas is
fastavro's (`weir_common.schema_formats.avro_types`). Bytes are hexadecimal, and times, decimals and UUIDs are text, as `formats` shows them; Avro's
numbers for them are accepted, too. A value of a union is written as it is, or as {"name of the branch": value}, as Avro's JSON encoding has it.
A missing field gets the default of the schema. Does not contain: samples (`schema_samples`).
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from controlplane.domain.value_faults import NOTHING, ROOT, Faults, ValueFault, ValueMisfit, element, member
from weir_common.json_values import Json, JsonObject
from weir_common.schema_formats import Schema, avro_types

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNIT_OF = {"millis": timedelta(milliseconds=1), "micros": timedelta(microseconds=1)}
DECIMAL_BITS_MAX = 8 * 1024
"""Maximum number of digits of an unscaled decimal. Precisions in Avro schemas have some tens of digits."""

AvroType = Any
"""A schema in the form in which fastavro parses it: the name of a type, an object with `type`, or an array of branches."""
AvroOptions = Mapping[str, AvroType]
"""A type as an object, a field of a record, or named types."""


def encode_avro(schema: Schema, text: str) -> bytes:
    """The value in this JSON. Raises ValueMisfit, SchemaUnavailable, and ValueError for text that is not JSON."""
    parsed, named = avro_types(schema)
    walk = _Walk(named)
    data = walk.write(parsed, json.loads(text, parse_float=Decimal), ROOT)
    if walk.faults:
        raise ValueMisfit(walk.faults)
    return data


def branch_name(kind: AvroType) -> str:
    """The name of a union's branch, as Avro's JSON encoding has it."""
    if isinstance(kind, Mapping):
        return str(kind.get("name") or branch_name(kind["type"]))
    return "union" if isinstance(kind, list) else str(kind)


def resolve_type(kind: AvroType, named: AvroOptions) -> AvroType:
    """The definition behind a name. The type of an object without one of its own is that of its `type`."""
    if isinstance(kind, str) and kind in named:
        return named[kind]
    if isinstance(kind, Mapping) and isinstance(kind["type"], Mapping | list):
        return resolve_type(kind["type"], named)
    return kind


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
        logical = options.get("logicalType")
        if logical and (name, logical) in LOGICAL and not self.raw:
            return self._logical(name, logical, options, value, path)
        return self._plain(name, options, value, path)

    def _plain(self, name: str, options: AvroOptions, value: Json, path: str) -> bytes:
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
                return self._misfit(path, f"one of {', '.join(options['symbols'])}", value)
            case "fixed":
                data = self._binary(value)
                if data is not None and len(data) == options["size"]:
                    return data
                return self._misfit(path, f"{options['size']} bytes in hexadecimal", value)
            case _:
                expected, encode = PRIMITIVES[name]
                written = encode(value) if name != "bytes" else _with_length(self._binary(value))
                return self._misfit(path, expected, value) if written is None else written

    def _binary(self, value: Json) -> bytes | None:
        if not isinstance(value, str):
            return None
        try:
            return value.encode("latin-1") if self.raw else bytes.fromhex(value.removeprefix("0x"))
        except ValueError:
            return None

    def _logical(self, name: str, logical: str, options: AvroOptions, value: Json, path: str) -> bytes:
        expected, convert = LOGICAL[name, logical]
        try:
            converted = convert(value, options)
        except (ValueError, ArithmeticError, InvalidOperation, OverflowError):
            converted = None
        if converted is None:
            return self._misfit(path, expected.format(**{"scale": 0, **options}), value)
        if isinstance(converted, bytes):
            return converted if name == "fixed" else _with_length(converted) or b""
        return self._plain(name, options, converted, path)

    def _record(self, options: AvroOptions, value: Json, path: str) -> bytes:
        if not isinstance(value, dict):
            return self._misfit(path, f"an object ({options['name']})", value)
        fields = options["fields"]
        known = {f["name"] for f in fields}
        for name in value.keys() - known:
            self.faults.add(
                member(path, name), f"no field of this name; {options['name']} has {_first_names(known)}", value[name]
            )
        return b"".join(self._field(field, value, path) for field in fields)

    def _field(self, field: AvroOptions, value: JsonObject, path: str) -> bytes:
        name = field["name"]
        if name in value:
            return self.write(field["type"], value[name], member(path, name))
        if "default" not in field:
            expected = f"a value ({branch_name(field['type'])})"
            self.faults.append_fault(ValueFault(member(path, name), expected, NOTHING))
            return b""
        defaults = _Walk(self.named, raw=True)
        return defaults.write(field["type"], field["default"], member(path, name))

    def _array(self, options: AvroOptions, value: Json, path: str) -> bytes:
        if not isinstance(value, list):
            return self._misfit(path, "an array", value)
        items = [self.write(options["items"], item, element(path, i)) for i, item in enumerate(value)]
        return _blocks(items)

    def _map(self, options: AvroOptions, value: Json, path: str) -> bytes:
        if not isinstance(value, dict):
            return self._misfit(path, "an object (a map)", value)
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
        return self._misfit(path, f"one of {', '.join(names)}", value)

    def _accepts(self, branch: AvroType, value: Json) -> bool:
        """Return whether the branch has values of this kind: objects or arrays."""
        kind = resolve_type(branch, self.named)
        name = kind["type"] if isinstance(kind, Mapping) else kind
        if isinstance(value, dict):
            return name in ("record", "error", "map")
        return isinstance(value, list) and name == "array"

    def _misfit(self, path: str, expected: str, value: Json) -> bytes:
        self.faults.add(path, expected, value)
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


PRIMITIVES: dict[str, tuple[str, Callable[[Json], bytes | None]]] = {
    "null": ("null", lambda value: b"" if value is None else None),
    "boolean": ("true or false", lambda value: bytes([value]) if isinstance(value, bool) else None),
    "int": ("an integer of 32 bits", _integer(32)),
    "long": ("an integer of 64 bits", _integer(64)),
    "float": ("a number of 32 bits", _real("<f")),
    "double": ("a number", _real("<d")),
    "bytes": ("bytes in hexadecimal", lambda value: None),
    "string": ("a text", _text),
}
"""The expected value of a primitive type, and its encoding: None for a value that does not fit."""


def _first_names(names: set[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:10]) + (f" and {len(ordered) - 10} more" if len(ordered) > 10 else "")


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
LOGICAL: dict[tuple[str, str], tuple[str, Convert]] = {
    ("bytes", "decimal"): ("a decimal of at most {precision} digits, {scale} after the point", _decimal),
    ("fixed", "decimal"): ("a decimal of at most {precision} digits, {scale} after the point", _decimal),
    ("string", "uuid"): ("a UUID", _uuid),
    ("fixed", "uuid"): ("a UUID", _uuid),
    ("int", "date"): ("a date (2024-01-31) or days since 1970", _date),
    ("int", "time-millis"): ("a time (12:30:00) or milliseconds of the day", _time("millis")),
    ("long", "time-micros"): ("a time (12:30:00) or microseconds of the day", _time("micros")),
    ("long", "timestamp-millis"): ("a time (2024-01-31T12:30:00Z) or milliseconds since 1970", _timestamp("millis")),
    ("long", "timestamp-micros"): ("a time (2024-01-31T12:30:00Z) or microseconds since 1970", _timestamp("micros")),
    ("long", "local-timestamp-millis"): (
        "a local time (2024-01-31T12:30:00) or milliseconds since 1970",
        _timestamp("millis", local=True),
    ),
    ("long", "local-timestamp-micros"): (
        "a local time (2024-01-31T12:30:00) or microseconds since 1970",
        _timestamp("micros", local=True),
    ),
}
"""Text forms of logical types: what is expected, and the conversion to the type below or to bytes. Others are written as the type below."""
