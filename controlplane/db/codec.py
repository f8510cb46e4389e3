"""Codec between frozen dataclasses and JSON values, derived from the type hints. Pure.

Supported: None, bool, int, float, str, X | None, list and tuple of one type, tuples of fixed length, mappings with text keys, dataclasses of
these. A field with its default value is not encoded. Decoding verifies each type and raises ValueError with the path of the first wrong value.

It is not `brokerd.cluster.typed_json`, because the sources differ. A column is written by this program and read many rows at a time: an unknown key is
an error, since saving the row would lose it, and the decoders of a type are built once. A request comes from a program of any version.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

Decoder = Callable[[object, str], object]


def encode(value: object) -> object:
    """The JSON value of a dataclass or of a container of them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((f, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {f.name: encode(v) for f, v in pairs if f.default is dataclasses.MISSING or v != f.default}
    if isinstance(value, list | tuple):
        return [encode(v) for v in value]
    if isinstance(value, Mapping):
        return {k: encode(v) for k, v in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} has no JSON value")


def decode(kind: object, value: object) -> Any:
    """Convert a JSON value to the type `kind`. Raises ValueError with the path of an invalid value."""
    return _decoder(kind)(value, "")


@cache
def _decoder(kind: Any) -> Decoder:
    if kind in (Any, object):
        return lambda value, path: value
    if dataclasses.is_dataclass(kind):
        return _of_dataclass(kind)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        (inner,) = [a for a in args if a is not type(None)]
        some = _decoder(inner)
        return lambda value, path: None if value is None else some(value, path)
    if origin in (list, tuple):
        return _of_sequence(origin, args)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _of_mapping(_decoder(args[1]))
    return _of_simple(kind)


def _of_simple(kind: type) -> Decoder:
    allowed = (int, float) if kind is float else (kind,)

    def decode(value: object, path: str) -> object:
        if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"{path or 'the value'}: {value!r} is no {kind.__name__}")
        return value

    return decode


def _of_sequence(origin: type, args: tuple[object, ...]) -> Decoder:
    fixed = origin is tuple and args[-1] is not Ellipsis
    items = [_decoder(a) for a in args if a is not Ellipsis]

    def decode(value: object, path: str) -> object:
        if not isinstance(value, list | tuple) or (fixed and len(value) != len(items)):
            raise ValueError(f"{path or 'the value'}: {value!r} is no list{f' of {len(items)}' if fixed else ''}")
        return origin((items[i] if fixed else items[0])(v, f"{path}[{i}]") for i, v in enumerate(value))

    return decode


def _of_mapping(item: Decoder) -> Decoder:
    def decode(value: object, path: str) -> object:
        if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
            raise ValueError(f"{path or 'the value'}: {value!r} is no object")
        return {k: item(v, f"{path}.{k}") for k, v in value.items()}

    return decode


def _of_dataclass(kind: Any) -> Decoder:
    hints = typing.get_type_hints(kind)
    fields = {f.name: _decoder(hints[f.name]) for f in dataclasses.fields(kind)}

    def decode(value: object, path: str) -> object:
        if not isinstance(value, Mapping):
            raise ValueError(f"{path or 'the value'}: {value!r} is no {kind.__name__}")
        if unknown := sorted(set(value) - set(fields)):
            raise ValueError(f"{path or 'the value'}: {kind.__name__} has no {unknown[0]!r}")
        try:
            return kind(**{k: fields[k](v, f"{path}.{k}" if path else k) for k, v in value.items()})
        except TypeError as e:
            raise ValueError(f"{path or 'the value'}: {e}") from e

    return decode
