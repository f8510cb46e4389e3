"""Encodes a message with its version (int16) before it, as Kafka stores record values. Used for private messages inside other messages.

Does not contain: the versions that a reader supports, the meaning of the messages.
"""

from __future__ import annotations

import struct
from typing import TypeVar

from brokerd.wire.schema import Struct, packer, unpacker

T = TypeVar("T", bound=Struct)
_VERSION = struct.Struct(">h")


class UnknownVersion(ValueError):
    """The message has a version that this program does not know."""


def encode(body: Struct, version: int) -> bytes:
    out = bytearray(_VERSION.pack(version))
    packer(type(body), version, _flexible(type(body), version))(body, out, [])
    return bytes(out)


def decode(cls: type[T], data: bytes, version_max: int, elements_max: int = 1_000) -> T:
    """The message in `data`, of version 0 to `version_max`, with at most `elements_max` array elements. Raises UnknownVersion for a later version, and
    ValueError for invalid bytes."""
    try:
        (version,) = _VERSION.unpack_from(data)
        if not 0 <= version <= version_max:
            raise UnknownVersion(f"{cls.__name__} of version {version}")
        unpack = unpacker(cls, version, _flexible(cls, version))
        body, _ = unpack(memoryview(data), _VERSION.size, len(data), [elements_max])
    except (struct.error, IndexError) as e:
        raise ValueError(f"{cls.__name__} is cut off: {e}") from e
    assert isinstance(body, cls)
    return body


def _flexible(cls: type[Struct], version: int) -> bool:
    return cls.FLEXIBLE is not None and version >= cls.FLEXIBLE
