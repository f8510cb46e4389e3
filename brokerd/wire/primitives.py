"""Functions that the generated code calls: varints, tagged fields, arrays of numbers, records.

Invariant: a length is compared with the remaining bytes before memory of that length is allocated. Does not contain message names.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

SCALARS = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "uint32": ("I", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
}
"""{kind: (format character of `struct`, size in bytes)}."""

STRING_BYTES_MAX = 0x7FFF
"""Kafka's limit for every string, also where a compact length could be larger, because logs store such names with 2-byte lengths."""
SMALL = 17
"""Arrays of numbers below this length are packed, with their length, by one precompiled call. Lists of replicas are shorter than this."""


class Malformed(ValueError):
    """Bytes that do not match the message definition of their version."""


Buffer = bytes | bytearray | memoryview

ElementBudget = list[int]
"""The number of array elements and tagged fields that a message may still have. A few bytes can become large objects and much work."""


def spend(budget: ElementBudget, count: int) -> None:
    budget[0] -= count
    if budget[0] < 0:
        raise Malformed(f"the message exceeds its limit of array elements and tagged fields by {-budget[0]}")


def put_uvarint(out: bytearray, n: int) -> None:
    while n > 0x7F:
        out.append((n & 0x7F) | 0x80)
        n >>= 7
    out.append(n)


def get_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """An unsigned varint of at most 5 bytes and 32 bits."""
    n = shift = 0
    while True:
        byte = buf[pos]
        pos += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            if n > 0xFFFFFFFF:
                raise Malformed("a varint beyond 32 bits")
            return n, pos
        shift += 7
        if shift > 28:
            raise Malformed("a varint of more than 5 bytes")


def get_tag_count(buf: Buffer, pos: int, end: int, budget: ElementBudget) -> tuple[int, int]:
    """The number of tagged fields that follow. Each takes at least two bytes."""
    count, pos = get_uvarint(buf, pos)
    if count * 2 > end - pos:
        raise Malformed(f"{count} tagged fields, {end - pos} bytes remain")
    spend(budget, count)
    return count, pos


def get_tag(buf: Buffer, pos: int, end: int) -> tuple[int, int, int]:
    """(tag, start position of the value, end position of the value)."""
    tag, pos = get_uvarint(buf, pos)
    size, pos = get_uvarint(buf, pos)
    if size > end - pos:
        raise Malformed(f"tagged field {tag} of {size} bytes, {end - pos} remain")
    return tag, pos, pos + size


def skip_tags(buf: Buffer, pos: int, end: int, budget: ElementBudget) -> int:
    """Skip a section of tagged fields when none is known."""
    count, pos = get_tag_count(buf, pos, end, budget)
    for _ in range(count):
        _, _, pos = get_tag(buf, pos, end)
    return pos


def get_string(buf: Buffer, pos: int, n: int) -> str:
    if n > STRING_BYTES_MAX:
        raise Malformed(f"a string of {n} bytes exceeds the maximum of {STRING_BYTES_MAX}")
    return str(buf[pos : pos + n], "utf-8")


def string_bytes(value: str) -> bytes:
    data = value.encode()
    if len(data) > STRING_BYTES_MAX:
        raise ValueError(f"a string of {len(data)} bytes exceeds the maximum of {STRING_BYTES_MAX}")
    return data


def put_tags(out: bytearray, tags: list[tuple[int, bytearray]]) -> None:
    put_uvarint(out, len(tags))
    for tag, data in tags:
        put_uvarint(out, tag)
        put_uvarint(out, len(data))
        out += data


def small_arrays(code: str, flexible: bool) -> list[Callable[..., bytes]]:
    """Return functions pack(encoded length, *numbers), one for each length below SMALL."""
    return [struct.Struct(f">{'B' if flexible else 'i'}{n}{code}").pack for n in range(SMALL)]


def put_numbers(out: bytearray, values: list[int], code: str, flexible: bool) -> None:
    n = len(values)
    if flexible:
        put_uvarint(out, n + 1)
        out += struct.pack(f">{n}{code}", *values)
    else:
        out += struct.pack(f">i{n}{code}", n, *values)


BYTES_LIKE = (bytes, bytearray, memoryview)


def put_records(out: bytearray, regions: list[tuple[int, object]], value: object, flexible: bool) -> None:
    """Records: bytes-like, a file region, or a list of those. The bytes of a region are counted, not copied."""
    pieces = value if isinstance(value, list) else (value,)
    size = sum(map(len, pieces))
    if flexible:
        put_uvarint(out, size + 1)
    else:
        out += struct.pack(">i", size)
    for piece in pieces:
        if isinstance(piece, BYTES_LIKE):
            out += piece
        else:
            regions.append((len(out), piece))
