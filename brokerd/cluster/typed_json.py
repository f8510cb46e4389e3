"""Frozen dataclasses as JSON values and back, by their type annotations.

Invariants: `decode` returns a value of the declared type or raises Malformed, for any input. Unknown keys are ignored, so that a newer program may
add fields; a missing key needs a default. Supported: str, int, float, bool, UUID, StrEnum, `X | None`, tuples, Mapping, dataclasses, object and Any
(plain JSON). The stored name of a field is its `stored` metadata. Does not contain: the meaning of the values.

It is not `controlplane.db.codec`, which reads columns that the control plane has written. Here the input comes from other processes, of other versions
or from users: unknown keys are accepted, every field is written, and depth, integers and texts are limited to what can be stored and sent again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, NoReturn, Union, get_args, get_origin, get_type_hints
from uuid import UUID

from brokerd.cluster.metadata import stored_name

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

DEPTH_MAX = 32
"""Nesting of a plain JSON value. A deeper one could be read, but not be written again by a deeper caller."""
INT_MAX = 2**63 - 1
"""The largest integer of the Kafka protocol and of a database row."""


class MalformedJson(ValueError):
    """The bytes are no JSON, or a value does not have the declared type."""


def parse(data: bytes) -> object:
    """JSON bytes as Python values. Raises Malformed."""
    try:
        return json.loads(data, parse_constant=_not_json)
    except (ValueError, RecursionError) as e:
        raise MalformedJson(f"not JSON: {str(e)[:100]}") from e


def encode(value: object) -> object:
    """A value that `json.dumps` accepts. Keys of mappings become strings."""
    if is_dataclass(value) and not isinstance(value, type):
        return encode_record(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, tuple | list):
        return [encode(v) for v in value]
    if isinstance(value, Mapping):
        return {str(k): encode(v) for k, v in value.items()}
    return value


def encode_record(record: DataclassInstance) -> dict[str, object]:
    """A dataclass as an object of JSON."""
    return {stored_name(f): encode(getattr(record, f.name)) for f in fields(record)}


def decode(declared: Any, data: object, path: str = "") -> Any:
    """The JSON value `data` as a value of the type `declared`. Raises MalformedJson, with the path, the value and the expected type."""
    origin = get_origin(declared)
    if declared is Any or declared is object:
        return _plain(data, path, DEPTH_MAX)
    if origin is Union or origin is UnionType:
        return _optional(declared, data, path)
    if origin is tuple:
        return _tuple(get_args(declared), data, path)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(get_args(declared), data, path)
    if is_dataclass(declared):
        return _record(declared, data, path)
    if issubclass(declared, Enum) or declared is UUID:
        try:
            return declared(_text(data, path))
        except ValueError:
            _wrong(path, data, declared)
    return _scalar(declared, data, path)


def _record(declared: Any, data: object, path: str) -> object:
    if not isinstance(data, Mapping):
        _wrong(path, data, Mapping)
    values = {}
    for name, stored, kind, required in _fields(declared):
        if stored in data:
            values[name] = decode(kind, data[stored], f"{path}.{stored}" if path else stored)
        elif required:
            raise MalformedJson(f"{path or 'request'}: {stored} is missing")
    return declared(**values)


@cache
def _fields(declared: type) -> tuple[tuple[str, str, object, bool], ...]:
    """(name, stored name, type, whether it is required) of each field."""
    hints = get_type_hints(declared)
    return tuple(
        (f.name, stored_name(f), hints[f.name], f.default is MISSING and f.default_factory is MISSING)
        for f in fields(declared)
    )


def _optional(declared: object, data: object, path: str) -> object:
    if data is None and NoneType in get_args(declared):
        return None
    (kind,) = (a for a in get_args(declared) if a is not NoneType)
    return decode(kind, data, path)


def _tuple(kinds: tuple[object, ...], data: object, path: str) -> object:
    if not isinstance(data, list):
        _wrong(path, data, list)
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(data)
    if len(kinds) != len(data):
        raise MalformedJson(
            f"{path[:100] or 'request'}: invalid value {ascii(data)[:50]}, expected an array of {len(kinds)} values"
        )
    return tuple(decode(kind, v, f"{path}[{i}]") for i, (kind, v) in enumerate(zip(kinds, data, strict=True)))


def _mapping(kinds: tuple[object, ...], data: object, path: str) -> object:
    if not isinstance(data, Mapping):
        _wrong(path, data, Mapping)
    key, value = kinds
    return {_key(key, k, path): decode(value, v, f"{path}.{k[:50]}") for k, v in data.items()}


def _key(kind: object, text: str, path: str) -> object:
    if kind is int:
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < len(str(INT_MAX))):
            _wrong(path, text, int)
        return int(text)
    return _text(text, path)


def _scalar(kind: Any, data: object, path: str) -> object:
    if kind is str:
        return _text(data, path)
    # In Python, bool is a subclass of int. In a request, a bool is not a valid number. A whole number stays one in a field of type float.
    fits = type(data) in (int, float) if kind is float else type(data) is kind
    if not fits or (isinstance(data, int) and not -INT_MAX <= data <= INT_MAX):
        _wrong(path, data, kind)
    return data


def _text(data: object, path: str) -> str:
    """A string that can be stored: JSON may contain half of a surrogate pair, which no database and no log file accepts."""
    if not isinstance(data, str):
        _wrong(path, data, str)
    try:
        data.encode()
    except UnicodeEncodeError:
        _wrong(path, data, str)
    return data


def _plain(data: object, path: str, depth: int) -> object:
    if depth == 0:
        raise MalformedJson(f"{path[:100]}: nested deeper than {DEPTH_MAX} levels")
    if isinstance(data, Mapping):
        for k, v in data.items():
            _text(k, path)
            _plain(v, path, depth - 1)
    elif isinstance(data, list):
        for v in data:
            _plain(v, path, depth - 1)
    elif isinstance(data, str):
        _text(data, path)
    elif isinstance(data, int | float) and not -INT_MAX <= data <= INT_MAX:
        _wrong(path, data, int)
    return data


EXPECTED: dict[object, str] = {
    str: "a string of Unicode characters",
    int: f"a whole number of at most {INT_MAX}",
    float: "a number",
    bool: "true or false",
    UUID: "a UUID",
    Mapping: "an object",
    list: "an array",
}


def _wrong(path: str, data: object, kind: Any) -> NoReturn:
    expected = EXPECTED.get(kind) or "one of " + ", ".join(str(member.value) for member in kind)
    raise MalformedJson(f"{path[:100] or 'request'}: invalid value {ascii(data)[:50]}, expected {expected[:200]}")


def _not_json(constant: str) -> NoReturn:
    raise MalformedJson(f"not JSON: {constant}")
