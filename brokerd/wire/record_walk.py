"""Validation of the records of one batch without decoding them: checks all lengths and offset deltas, and computes the maximum timestamp.

Invariants: a length is checked before it is used. Nothing is read outside `data`. The result does not depend on where a walk was interrupted.
Pure. The module imports nothing of the project, so that `record_walks` can replace it with the same source compiled by mypyc.
"""

from __future__ import annotations

from struct import Struct, unpack
from typing import Final

LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1
NEAR_MIN: Final = -(2**61)
NEAR_MAX: Final = 2**61
"""mypyc compares numbers up to these without an object for each."""
NO_TIMESTAMP: Final = -1
RECORD_ERRORS_MAX: Final = 1_000
"""Records named in one answer (some 100 bytes each): a batch may have a million records, all of them wrong."""
HEADERS_MAX: Final = 1_000_000
"""Record headers looked at for one batch; each is two lengths to follow."""
RUN_MIN: Final = 10
"""Records that must be left for a run to be tried: fewer cost less one by one."""
RUN_PAUSE: Final = 16
"""Records until the next try after a run that was none: batches whose records all differ should not pay for it."""
TIMESTAMP_VARINT_BYTES: Final = 10
INT_VARINT_BYTES: Final = 5
VARINT_OF_THREE_BYTES: Final = 0x4000
"""The smallest number that needs three bytes."""
HEADER: Final = Struct(">8xi9xh4xqq14xi")
"""Fields of a batch header: length, attributes, base timestamp, largest timestamp, record count."""
RECORDS_AT: Final = 61
"""The position of the first record in a batch."""
LENGTH_OVERHEAD: Final = 12
SINGLE_LENGTHS: Final = range(71 + 51, 8192 + 51)
"""Lengths of batches with one record for which `_single` has a result: the 51 bytes are in front of the record's fields."""
WINDOW_BYTES: Final = 64 * 1024
"""Bytes of a large batch that are copied at a time, because reading bytes is faster than reading a memoryview. A copy of a batch of 1 MB costs more than
its check in a broker: the allocator returns such memory to the system, and each page is mapped again."""
COMPRESSION_OR_TIMESTAMP_TYPE: Final = 0x0F
"""Bits of the attributes: the compression type, and LogAppendTime."""


class Invalid(Exception):
    """The bytes of the batch do not match its header: a length, a count or an offset delta is wrong."""


class Progress:
    """The progress of a walk. `i`: number of the next record, from 0; `p`: its position in bytes; `newest`: the maximum timestamp so far (ms);
    `headers`: number of record headers so far.

    `unkeyed`: numbers of the first RECORD_ERRORS_MAX records without a key. `untimely`: the same for records with a timestamp out of range. None:
    there are no such records.
    """

    __slots__ = ("headers", "i", "newest", "p", "unkeyed", "untimely")

    def __init__(self) -> None:
        self.i = 0
        self.p = 0
        self.newest = NO_TIMESTAMP
        self.headers = 0
        self.unkeyed: list[int] | None = None
        self.untimely: list[int] | None = None


def walk(
    data: bytes,
    upto: int,
    base: int,
    keyed: bool,
    earliest: int,
    latest: int,
    progress: Progress,
    runs: bool,
    window: bool = False,
) -> None:
    """Check the records from `progress.i` to number `upto` (exclusive), and update `progress`. Raises Invalid.

    `base`: base timestamp of the batch header. `keyed`: collect the records without a key in `progress.unkeyed`. `runs`: check records of the same
    layout together. `window`: the batch continues after `data`, so the walk stops before a record that is cut off. NO_TIMESTAMP and timestamps from
    `earliest` to `latest` are valid. The code is optimised for speed: varints of one or two bytes, the most frequent ones, are decoded without a
    function call.
    """
    size = len(data)
    i = progress.i
    p = progress.p
    newest = progress.newest
    last_t = -1
    last_size = -1
    bounded = earliest > LONG_MIN or latest < LONG_MAX
    untimely = False
    try_at = i if runs else upto
    try:
        while i < upto:
            n = data[p]
            if n < 0x80:
                body = p + 1
            else:
                m = data[p + 1]
                if m < 0x80:
                    n += m * 0x80 - 0x80
                    body = p + 2
                else:
                    n, body = _varint(data, p, INT_VARINT_BYTES)
            if n & 1:
                raise Invalid(f"record {i} has a negative length")
            end = body + (n >> 1)
            if end > size:
                if window:
                    break
                raise Invalid(f"record {i} is longer than its batch")
            # The attributes byte at `body` is not checked, because Kafka defines no record attributes.
            t = data[body + 1]
            if t < 0x80:
                at = body + 2
            else:
                m = data[body + 2]
                if m < 0x80:
                    t += m * 0x80 - 0x80
                    at = body + 3
                else:
                    t, at = _varint(data, body + 1, TIMESTAMP_VARINT_BYTES)
            if t != last_t:
                last_t = t
                timestamp = base + ((t >> 1) ^ -(t & 1))
                if timestamp > newest:
                    newest = timestamp
                untimely = (
                    (bounded or not NEAR_MIN <= timestamp <= NEAR_MAX)
                    and not earliest <= timestamp <= latest
                    and timestamp != NO_TIMESTAMP
                )
                if untimely and not LONG_MIN <= timestamp <= LONG_MAX:
                    raise Invalid(f"record {i} has a timestamp of more than 64 bits")
            o = data[at]
            if o < 0x80:
                key = at + 1
            else:
                m = data[at + 1]
                if m < 0x80:
                    o += m * 0x80 - 0x80
                    key = at + 2
                else:
                    o, key = _varint(data, at, INT_VARINT_BYTES)
            if o != i + i:
                raise Invalid(f"record {i} has offset delta {(o >> 1) ^ -(o & 1)}")
            k = data[key]
            if k < 0x80:
                value = key + 1
            else:
                k, value = _varint(data, key, INT_VARINT_BYTES)
            if not k & 1:
                value += k >> 1
            elif keyed:
                progress.unkeyed = _named(progress.unkeyed, i, 1)
            n = data[value]
            if n < 0x80:
                after = value + 1
            else:
                m = data[value + 1]
                if m < 0x80:
                    n += m * 0x80 - 0x80
                    after = value + 2
                else:
                    n, after = _varint(data, value, INT_VARINT_BYTES)
            last = after if n & 1 else after + (n >> 1)
            if data[last]:
                last = _headers(data, i, last, end, progress)
                if last != end:
                    raise Invalid(f"the length of record {i} does not fit its fields")
                alike = False
            elif last + 1 != end:
                raise Invalid(f"the length of record {i} does not fit its fields")
            else:
                alike = not untimely
            if untimely:
                progress.untimely = _named(progress.untimely, i, 1)
            start = p
            p = end
            i += 1
            # After two records of equal length, further records of this length are likely.
            if end - start != last_size:
                last_size = end - start
                continue
            if i < try_at or upto - i < RUN_MIN or not alike or data[start:body] != data[p : p + body - start]:
                continue
            # The next record has the same length. Compare all following records by columns, one column for each byte of a length.
            found, newest_found = _run(data, i, upto, base, earliest, latest, (start, body, at, key, value, after, p))
            if not found:
                try_at = i + RUN_PAUSE
                continue
            if keyed and k & 1:
                progress.unkeyed = _named(progress.unkeyed, i, found)
            if newest_found > newest:
                newest = newest_found
            last_t = -1
            p += found * (p - start)
            i += found
    except IndexError:
        if not window:
            raise Invalid(f"record {i} is cut off") from None
    progress.i = i
    progress.p = p
    progress.newest = newest


def batch_is_valid(batch: bytes, keyed: bool, earliest: int, latest: int, interpreted: bool) -> bool:
    """True if `batch` is one uncompressed batch, all its records are valid and the maximum timestamp of its header is correct. If the result is False,
    the caller must find the reason with `walk`. The parameters are those of `walk`; `interpreted`: this module is not compiled. Most batches need only
    this call, because a function call costs more than the check of a record."""
    length, attributes, base, newest, count = HEADER.unpack_from(batch)
    if length + LENGTH_OVERHEAD != len(batch) or attributes & COMPRESSION_OR_TIMESTAMP_TYPE:
        return False
    if interpreted:
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
        walk(batch, count, base, keyed, earliest, latest, progress, interpreted)
    except Invalid:
        return False
    return _accepted(progress, progress.p, len(batch), newest)


def large_batch_is_valid(batch: memoryview, keyed: bool, earliest: int, latest: int) -> bool:
    """As `batch_is_valid`, but WINDOW_BYTES are copied and checked at a time. False also for a batch with a record that is larger than a window. Only the
    compiled module gains by it: the Python source checks records of one layout together, and a window has few of them."""
    length, attributes, base, newest, count = HEADER.unpack_from(batch)
    if length + LENGTH_OVERHEAD != len(batch) or attributes & COMPRESSION_OR_TIMESTAMP_TYPE:
        return False
    progress = Progress()
    at = RECORDS_AT
    try:
        while progress.i < count:
            progress.p = 0
            window = bytes(batch[at : at + WINDOW_BYTES])
            walk(window, count, base, keyed, earliest, latest, progress, False, True)
            if not progress.p:
                return False
            at += progress.p
    except Invalid:
        return False
    return _accepted(progress, at, len(batch), newest)


def _accepted(progress: Progress, end: int, size: int, newest: int) -> bool:
    return progress.newest == newest and end == size and progress.unkeyed is None and progress.untimely is None


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
    the lengths is compared in all records at once, so that the Python source needs no loop over the records."""
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


def _named(records: list[int] | None, first: int, count: int) -> list[int]:
    """`records` extended by the `count` record numbers from `first` on, up to RECORD_ERRORS_MAX numbers."""
    if records is None:
        records = []
    records += range(first, first + min(count, RECORD_ERRORS_MAX - len(records)))
    return records


def _run(
    data: bytes,
    i: int,
    upto: int,
    base: int,
    earliest: int,
    latest: int,
    shape: tuple[int, int, int, int, int, int, int],
) -> tuple[int, int]:
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


def _deltas_follow(data: bytes, first: int, stride: int, width: int, i: int, count: int) -> bool:
    end = first + stride * count
    if width == 1:
        return bytes(data[first:end:stride]) == _ONE[i : i + count]
    return (
        bytes(data[first:end:stride]) == _LOW[i : i + count]
        and bytes(data[first + 1 : end + 1 : stride]) == _HIGH[i : i + count]
    )


def _headers(data: bytes, i: int, p: int, end: int, progress: Progress) -> int:
    """The position after the headers of record `i`. The header count is at position `p`; the record ends at `end`. Raises Invalid."""
    count, p = _varint(data, p, INT_VARINT_BYTES)
    if count & 1 or count >> 1 > end - p:
        raise Invalid(f"record {i} has a wrong number of headers")
    progress.headers += count >> 1
    if progress.headers > HEADERS_MAX:
        raise Invalid(f"more than {HEADERS_MAX} record headers in a batch")
    for _ in range(count >> 1):
        n, p = _varint(data, p, INT_VARINT_BYTES)
        if n & 1:
            raise Invalid(f"record {i} has a header without a name")
        p += n >> 1
        n, p = _varint(data, p, INT_VARINT_BYTES)
        if not n & 1:
            p += n >> 1
        if p > end:
            raise Invalid(f"the headers of record {i} are longer than the record")
    return p


_ONE: Final = bytes([2 * i for i in range(64)])
_LOW: Final = bytes([2 * i & 0x7F | 0x80 for i in range(8192)])
_HIGH: Final = bytes([2 * i >> 7 for i in range(8192)])
"""Offset deltas as varints: of one byte; the low and the high byte of two."""
_SINGLE: Final[dict[int, bytes]] = {}
"""Results of `_single`. At most one for each of SINGLE_LENGTHS: a MB."""
TIMESTAMP_BIAS: Final = 64
_BIASED: Final = bytes([((t >> 1) ^ -(t & 1)) + TIMESTAMP_BIAS for t in range(128)]) + bytes(128)
"""Zigzag numbers of one byte, increased by TIMESTAMP_BIAS, in their order."""


def _varint_bytes(data: bytes, at: int) -> int:
    """The size in bytes of the varint at position `at`."""
    p = at
    while data[p] >= 0x80:
        p += 1
    return p + 1 - at


def _varint(data: bytes, p: int, bytes_max: int) -> tuple[int, int]:
    """(the varint at position `p` without zigzag decoding, the position after it). Raises Invalid above `bytes_max` bytes."""
    n = 0
    shift = 0
    first = p
    while True:
        byte = data[p]
        p += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            return n, p
        if p - first >= bytes_max:
            raise Invalid(f"a varint of more than {bytes_max} bytes")
        shift += 7
