"""Decodes the records of one batch.

Invariants: a length is checked before it is used. Nothing is read outside `source`. Pure. The module imports nothing of the project, so that `compiled` can
replace it with the same source compiled by Cython; `record_decode.pxd` declares the C types of that build. Does not contain: batch headers, compression.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

VARINT_BITS: Final = 64
INT_VARINT_BITS: Final = 35
"""Bits in the five bytes of the longest varint of 32 bits. The three highest ones are used by no valid number."""
HEADER_FIELDS_BYTES_MIN: Final = 2
"""The minimum size of a header without name and value: the lengths of both."""


Fields = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""(offset, timestamp, key, value, headers) of a record."""
T = TypeVar("T")


class InvalidRecords(Exception):
    """The bytes are not records."""


class TooManyHeaders(Exception):
    """The records have more headers than the caller accepts."""


def decode(
    source: bytes,
    p: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    headers_max: int,
    make: Callable[[Fields], T],
    decoded: list[T],
) -> tuple[int, int]:
    """Decode `count` records from position `p` on, and append the result of `make` for each to `decoded`. Returns (the position after them, the number of their
    headers). Raises InvalidRecords, or TooManyHeaders for more than `headers_max` headers in total; `decoded` then has the records before the invalid one.

    `append_time`: the timestamp of all records, or None if each has its own. The code is optimised for speed: varints of one byte, the most frequent ones,
    are decoded without a function call, so their lines are repeated.
    """
    data = source
    size = len(source)
    headers = 0
    try:
        for _ in range(count):
            n = data[p]
            p += 1
            if n >= 0x80:
                n, p = _varint(data, p - 1, INT_VARINT_BITS)
            end = p + (n >> 1)
            if n & 1 or end > size:
                raise InvalidRecords("a record longer than its batch")
            t = data[p + 1]
            p += 2
            if t >= 0x80:
                t, p = _varint(data, p - 1, VARINT_BITS)
            o = data[p]
            p += 1
            if o >= 0x80:
                o, p = _varint(data, p - 1, INT_VARINT_BITS)
            key = None
            n = data[p]
            p += 1
            if n >= 0x80:
                n, p = _varint(data, p - 1, INT_VARINT_BITS)
            if not n & 1:
                start = p
                p += n >> 1
                if p > size:
                    raise InvalidRecords("a field longer than its batch")
                key = source[start:p]
            value = None
            n = data[p]
            p += 1
            if n >= 0x80:
                n, p = _varint(data, p - 1, INT_VARINT_BITS)
            if not n & 1:
                start = p
                p += n >> 1
                if p > size:
                    raise InvalidRecords("a field longer than its batch")
                value = source[start:p]
            fields: tuple[tuple[str, bytes | None], ...] = ()
            n = data[p]
            p += 1
            if n:
                if n >= 0x80:
                    n, p = _varint(data, p - 1, INT_VARINT_BITS)
                if n & 1 or (n >> 1) > (end - p) // HEADER_FIELDS_BYTES_MIN:
                    raise InvalidRecords("a record with more headers than bytes for them")
                headers += n >> 1
                if headers > headers_max:
                    raise TooManyHeaders
                fields, p = _headers(source, data, p, n >> 1)
            if p != end:
                raise InvalidRecords("a record's length does not fit its fields")
            delta = (t >> 1) ^ -(t & 1)
            timestamp = base_timestamp + delta if append_time is None else append_time
            decoded.append(make((base_offset + ((o >> 1) ^ -(o & 1)), timestamp, key, value, fields)))
    except IndexError:
        raise InvalidRecords("records are cut off") from None
    return p, headers


def _headers(source: bytes, data: bytes, p: int, count: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    """(`count` headers from position `p` on, the position after them). `data`: the bytes of `source`. Raises InvalidRecords, IndexError."""
    size = len(source)
    found = []
    for _ in range(count):
        name = b""
        n = data[p]
        p += 1
        if n >= 0x80:
            n, p = _varint(data, p - 1, INT_VARINT_BITS)
        if not n & 1:
            start = p
            p += n >> 1
            if p > size:
                raise InvalidRecords("a field longer than its batch")
            name = source[start:p]
        value = None
        n = data[p]
        p += 1
        if n >= 0x80:
            n, p = _varint(data, p - 1, INT_VARINT_BITS)
        if not n & 1:
            start = p
            p += n >> 1
            if p > size:
                raise InvalidRecords("a field longer than its batch")
            value = source[start:p]
        found.append((name.decode("utf-8", "replace"), value))
    return tuple(found), p


def _varint(data: bytes, p: int, bits_max: int) -> tuple[int, int]:
    """(the varint at position `p` without zigzag decoding, the position after it). Raises InvalidRecords above `bits_max` bits."""
    n = 0
    shift = 0
    while True:
        byte = data[p]
        p += 1
        if shift > bits_max - 8 and byte >> (bits_max - shift):
            raise InvalidRecords(f"a varint of more than {bits_max} bits")
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            return n, p
        shift += 7
