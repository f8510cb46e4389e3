"""Validation of the records of one batch by columns, for brokers without the compiled `record_walk`.

Records of equal layout have the same byte at the same place, so a slice with the length of a record as its step contains this byte of all of them. It is
compared together, without a loop in Python. Everything that does not fit is left to `record_walk.walk`. Invariant: the results are those of the walk.
Pure.
"""

from __future__ import annotations

from struct import Struct, unpack
from typing import Final

from brokerd.wire.record_walk import (
    COMPRESSION,
    COMPRESSION_OR_TIMESTAMP_TYPE,
    LENGTH_OVERHEAD,
    LONG_MAX,
    LONG_MIN,
    NO_TIMESTAMP,
    RECORDS_AT,
    Buffer,
    Invalid,
    Progress,
    Shape,
    walk,
)

HEADER: Final = Struct(">8xi9xh4xqq14xi")
"""Fields of a batch header: length, attributes, base timestamp, largest timestamp, record count."""
SUMMARY: Final = Struct(">8xi10xB34xi")
"""Fields of a batch header: length, low byte of the attributes, record count."""
COPIED_BYTES_MAX: Final = 4 * 1024 * 1024
"""Batches up to this size are copied, because reading bytes is faster than reading a memoryview."""
SINGLE_LENGTHS: Final = range(71 + 51, 8192 + 51)
"""Lengths of batches with one record for which `_single` has a result: the 51 bytes are in front of the record's fields."""
VARINT_OF_THREE_BYTES: Final = 0x4000
"""The smallest number that needs three bytes."""


def plain_records(batch: Buffer) -> int:
    """Like `record_walk.plain_records`."""
    if len(batch) < RECORDS_AT:
        return -1
    count: int
    length, attributes, count = SUMMARY.unpack_from(batch)
    if length + LENGTH_OVERHEAD != len(batch) or attributes & COMPRESSION:
        return -1
    return max(0, count)


def batch_is_valid(view: Buffer, keyed: bool, earliest: int, latest: int) -> bool:
    """Like `record_walk.batch_is_valid`, but False also for batches of more than COPIED_BYTES_MAX."""
    if not RECORDS_AT <= len(view) <= COPIED_BYTES_MAX:
        return False
    batch = bytes(view)
    length, attributes, base, newest, count = HEADER.unpack_from(batch)
    if length + LENGTH_OVERHEAD != len(batch) or attributes & COMPRESSION_OR_TIMESTAMP_TYPE:
        return False
    if count == 1 and newest == base and not keyed and earliest <= base <= latest:
        start = _SINGLE.get(length)
        if start is None and length in SINGLE_LENGTHS:
            start = _single(length)
        if start is not None and batch.startswith(start, RECORDS_AT) and not batch[-1]:
            return True
    if 0 < count <= len(_ONE) and _alike(batch, count, base, newest, keyed, earliest, latest):
        return True
    progress = Progress()
    progress.p = RECORDS_AT
    try:
        walk(batch, count, base, keyed, earliest, latest, progress, run)
    except Invalid:
        return False
    return progress.complies(newest, len(batch))


def _single(length: int) -> bytes:
    """The expected bytes before the value, in a batch of this length with a single record. The record has no key and no headers, and its timestamp is the
    base timestamp. `length` is in SINGLE_LENGTHS, so the varints of the record length and the value length have two bytes each."""
    size = length + LENGTH_OVERHEAD - RECORDS_AT - 2
    value = size - 7
    found = bytes([size << 1 & 0x7F | 0x80, size >> 6, 0, 0, 0, 1, value << 1 & 0x7F | 0x80, value >> 6])
    _SINGLE[length] = found
    return found


def _alike(batch: bytes, count: int, base: int, newest: int, keyed: bool, earliest: int, latest: int) -> bool:
    """True if the batch consists of `count` valid records (1 to 64) with equal lengths. If the result is False, `walk` must check the batch. Each byte of
    the lengths is compared in all records together, so that the Python source needs no loop over the records."""
    size = len(batch) - RECORDS_AT
    stride = size // count
    end = RECORDS_AT + stride
    if stride * count != size or not earliest + TIMESTAMP_BIAS <= base <= latest - TIMESTAMP_BIAS:
        return False
    try:
        n = batch[RECORDS_AT]
        body = RECORDS_AT + 1
        if n >= 0x80:
            n += batch[body] * 0x80 - 0x80
            body += 1
        k = batch[body + 3]
        value = body + 4 if k & 1 else body + 4 + (k >> 1)
        v = batch[value]
        after = value + 1
        if v >= 0x80:
            v += batch[after] * 0x80 - 0x80
            after += 1
        if (
            n != 2 * (end - body)
            or n >= VARINT_OF_THREE_BYTES
            or v >= VARINT_OF_THREE_BYTES
            or k >= 0x80
            or (k & 1 and keyed)
            or (after if v & 1 else after + (v >> 1)) != end - 1
            or batch[end - 1]
        ):
            return False
    except IndexError:
        return False
    timestamps = batch[body + 1 :: stride]
    if not timestamps.isascii():
        return False
    if count == 1:
        if batch[body + 2]:
            return False
    elif (
        batch[body + 2 :: stride] != _ONE[:count]
        or batch[RECORDS_AT::stride].count(n if n < 0x80 else n & 0x7F | 0x80) != count
        or (n >= 0x80 and batch[body - 1 :: stride].count(n >> 7) != count)
        or batch[body + 3 :: stride].count(k) != count
        or batch[value::stride].count(v if v < 0x80 else v & 0x7F | 0x80) != count
        or (v >= 0x80 and batch[after - 1 :: stride].count(v >> 7) != count)
        or batch[end - 1 :: stride].count(0) != count
    ):
        return False
    return newest == max(NO_TIMESTAMP, base + max(timestamps.translate(_BIASED)) - TIMESTAMP_BIAS)


def run(data: Buffer, i: int, upto: int, base: int, earliest: int, latest: int, shape: Shape) -> tuple[int, int]:
    """(number of records from `i` on with the same layout as the previous record, their maximum timestamp). A record counts only if all its lengths are
    equal to those of the previous record, its timestamp is valid and its offset delta is correct. `shape`: the field positions of the previous record."""
    start, body, at, key, value, after, end = shape
    stride = end - start
    count = min(upto - i, (len(data) - end) // stride)
    if at - body > 3 or key - at > 2:
        return 0, 0  # the timestamp delta or the offset delta has more than two bytes
    count = min(count, (64 if key - at == 1 else 8192) - i)
    columns = [*range(start, body), *range(key, key + _varint_bytes(data, key)), *range(value, after), end - 1]
    for column in columns:
        first = column + stride
        found = bytes(data[first : first + stride * count : stride])
        count -= len(found.lstrip(data[column : column + 1]))
        if count < 2:
            return 0, 0
    if not _deltas_follow(data, at + stride, stride, key - at, i, count):
        return 0, 0
    first = body + 1 + stride
    low = bytes(data[first : first + stride * count : stride])
    if at - body == 2:
        if not low.isascii():
            return 0, 0
        deltas = set(low)
    else:
        high = bytes(data[first + 1 : first + 1 + stride * count : stride])
        if not high.isascii() or min(low) < 0x80:
            return 0, 0
        pairs = bytearray(2 * count)
        pairs[::2], pairs[1::2] = low, high
        deltas = {n & 0x7F | n >> 8 << 7 for n in set(unpack(f"<{count}H", pairs))}
    signed = [(t >> 1) ^ -(t & 1) for t in deltas]
    oldest, newest = base + min(signed), base + max(signed)
    if oldest < max(earliest, LONG_MIN) or newest > min(latest, LONG_MAX):
        return 0, 0
    return count, newest


def _deltas_follow(data: Buffer, first: int, stride: int, width: int, i: int, count: int) -> bool:
    end = first + stride * count
    if width == 1:
        return bytes(data[first:end:stride]) == _ONE[i : i + count]
    return (
        bytes(data[first:end:stride]) == _LOW[i : i + count]
        and bytes(data[first + 1 : end + 1 : stride]) == _HIGH[i : i + count]
    )


_ONE: Final = bytes([2 * i for i in range(64)])
_LOW: Final = bytes([2 * i & 0x7F | 0x80 for i in range(8192)])
_HIGH: Final = bytes([2 * i >> 7 for i in range(8192)])
"""Offset deltas as varints: of one byte; the low and the high byte of two."""
_SINGLE: Final[dict[int, bytes]] = {}
"""Results of `_single`. At most one for each of SINGLE_LENGTHS: a MB."""
TIMESTAMP_BIAS: Final = 64
_BIASED: Final = bytes([((t >> 1) ^ -(t & 1)) + TIMESTAMP_BIAS for t in range(128)]) + bytes(128)
"""Zigzag numbers of one byte, increased by TIMESTAMP_BIAS, in their order."""


def _varint_bytes(data: Buffer, at: int) -> int:
    """The size in bytes of the varint at position `at`."""
    p = at
    while data[p] >= 0x80:
        p += 1
    return p + 1 - at
