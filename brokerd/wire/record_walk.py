"""Validation of the records of one batch without decoding them: checks all lengths and offset deltas, and computes the maximum timestamp.

Invariants: a length is checked before it is used. Nothing is read outside `data`. The result does not depend on where a walk was interrupted.
Pure. The module imports nothing of the project, so that `compiled` can replace it with the same source compiled by Cython. `record_walk.pxd`
declares the C types of that build. The integers of the source fit these types: a varint has at most 64 bits, a position is never negative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

LONG_MAX: Final = 2**63 - 1
LONG_MIN: Final = -LONG_MAX - 1
NEAR_MAX: Final = 2**61
NO_DELTA: Final = 2**62
"""The sum of a base timestamp of at most NEAR_MAX and a delta below NO_DELTA (before zigzag decoding) has no overflow in 64 bits."""
NO_TIMESTAMP: Final = -1
RECORD_ERRORS_MAX: Final = 1_000
"""Records named in one response (some 100 bytes each): a batch may have a million records, all of them wrong."""
HEADERS_MAX: Final = 1_000_000
"""Record headers looked at for one batch; each is two lengths to follow."""
RUN_MIN: Final = 10
"""Records that must be left for a run to be tried: fewer cost less one by one."""
RUN_PAUSE: Final = 16
"""Records until the next try after a run that was none: batches whose records all differ should not pay for it."""
VARINT_BITS: Final = 64
INT_VARINT_BITS: Final = 35
"""Bits in the five bytes of the longest varint of 32 bits. The three highest ones are used by no valid number."""
LENGTH_AT: Final = 8
ATTRIBUTES_AT: Final = 22
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
COUNT_AT: Final = 57
RECORDS_AT: Final = 61
"""Positions in a batch: fields of its header (of the attributes the low byte), and the first record."""
LENGTH_OVERHEAD: Final = 12
COMPRESSION: Final = 0x07
COMPRESSION_OR_TIMESTAMP_TYPE: Final = 0x0F
"""Bits of the attributes: the compression type, and LogAppendTime."""
Buffer = bytes | bytearray | memoryview
Shape = tuple[int, int, int, int, int, int, int]
"""Positions of a record: its start, attributes, offset delta, key length, value length, the end of the value length, its end."""
Runs = Callable[[Buffer, int, int, int, int, int, Shape], tuple[int, int]]
"""`record_columns.run`: (number of records from the given one on with the layout of the previous record, their maximum timestamp)."""


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

    def complies(self, newest: int, size: int) -> bool:
        """Return whether all records were valid, end at position `size`, and have this maximum timestamp."""
        return self.newest == newest and self.p == size and self.unkeyed is None and self.untimely is None


def walk(
    data: Buffer,
    upto: int,
    base: int,
    keyed: bool,
    earliest: int,
    latest: int,
    progress: Progress,
    runs: Runs | None,
) -> None:
    """Check the records from `progress.i` to number `upto` (exclusive), and update `progress`. Raises Invalid.

    `base`: base timestamp of the batch header. `keyed`: collect the records without a key in `progress.unkeyed`. `runs`: checks records of the same
    layout together, which is faster in the Python source. NO_TIMESTAMP and timestamps from `earliest` to `latest` are valid. The code is optimised for
    speed: varints of one or two bytes, the most frequent ones, are decoded without a function call.
    """
    size = len(data)
    i = progress.i
    p = progress.p
    newest = progress.newest
    near = -NEAR_MAX <= base <= NEAR_MAX
    last_t = NO_DELTA
    last_size = -1
    untimely = False
    try_at = i if runs is not None else upto
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
                    n, body = _varint(data, p, INT_VARINT_BITS)
            if n & 1:
                raise Invalid(f"record {i} has a negative length")
            end = body + (n >> 1)
            if end > size:
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
                    t, at = _varint(data, body + 1, VARINT_BITS)
            if t != last_t or t >= NO_DELTA:
                last_t = t
                delta = (t >> 1) ^ -(t & 1)
                if near and t < NO_DELTA:
                    timestamp = base + delta
                else:
                    timestamp = _far_timestamp(base, delta, i)
                if timestamp > newest:
                    newest = timestamp
                untimely = not earliest <= timestamp <= latest and timestamp != NO_TIMESTAMP
            o = data[at]
            if o < 0x80:
                key = at + 1
            else:
                m = data[at + 1]
                if m < 0x80:
                    o += m * 0x80 - 0x80
                    key = at + 2
                else:
                    o, key = _varint(data, at, INT_VARINT_BITS)
            if o != i + i:
                raise Invalid(f"record {i} has offset delta {(o >> 1) ^ -(o & 1)}")
            k = data[key]
            if k < 0x80:
                value = key + 1
            else:
                k, value = _varint(data, key, INT_VARINT_BITS)
            if not k & 1:
                value += k >> 1
            elif keyed:
                progress.unkeyed = _add_record_numbers(progress.unkeyed, i, 1)
            n = data[value]
            if n < 0x80:
                after = value + 1
            else:
                m = data[value + 1]
                if m < 0x80:
                    n += m * 0x80 - 0x80
                    after = value + 2
                else:
                    n, after = _varint(data, value, INT_VARINT_BITS)
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
                progress.untimely = _add_record_numbers(progress.untimely, i, 1)
            start = p
            p = end
            i += 1
            if runs is None:
                continue
            # After two records of equal length, further records of this length are likely.
            if end - start != last_size:
                last_size = end - start
                continue
            if i < try_at or upto - i < RUN_MIN or not alike or data[p] != data[start]:
                continue
            # The next record may have the same length. Compare all following records by columns, one column for each byte of a length.
            found, newest_found = runs(data, i, upto, base, earliest, latest, (start, body, at, key, value, after, p))
            if not found:
                try_at = i + RUN_PAUSE
                continue
            if keyed and k & 1:
                progress.unkeyed = _add_record_numbers(progress.unkeyed, i, found)
            if newest_found > newest:
                newest = newest_found
            last_t = NO_DELTA
            p += found * (p - start)
            i += found
    except IndexError:
        raise Invalid(f"record {i} is cut off") from None
    progress.i = i
    progress.p = p
    progress.newest = newest


def batch_is_valid(batch: Buffer, keyed: bool, earliest: int, latest: int) -> bool:
    """True if `batch` is one uncompressed batch, all its records are valid and the maximum timestamp of its header is correct. If the result is False,
    the caller must find the reason with `walk`. The parameters are those of `walk`. Most batches need only this call, because a function call costs more
    than the check of a record. `record_columns` has the version for brokers without the compiled module."""
    size = len(batch)
    if size < RECORDS_AT or _number(batch, LENGTH_AT, 4) + LENGTH_OVERHEAD != size:
        return False
    if batch[ATTRIBUTES_AT] & COMPRESSION_OR_TIMESTAMP_TYPE:
        return False
    progress = Progress()
    progress.p = RECORDS_AT
    count, base = _number(batch, COUNT_AT, 4), _number(batch, BASE_TIMESTAMP_AT, 8)
    try:
        walk(batch, count, base, keyed, earliest, latest, progress, None)
    except Invalid:
        return False
    return progress.complies(_number(batch, MAX_TIMESTAMP_AT, 8), size)


def plain_records(batch: Buffer) -> int:
    """The record count in the header of `batch`, if it is one uncompressed batch, else -1. A negative count is 0 here; the batch is rejected later."""
    size = len(batch)
    if size < RECORDS_AT or _number(batch, LENGTH_AT, 4) + LENGTH_OVERHEAD != size:
        return -1
    if batch[ATTRIBUTES_AT] & COMPRESSION:
        return -1
    return max(0, _number(batch, COUNT_AT, 4))


def _number(data: Buffer, at: int, size: int) -> int:
    """The signed big-endian number of `size` bytes at position `at`."""
    n = data[at]
    if n >= 0x80:
        n -= 0x100
    for i in range(at + 1, at + size):
        n = n * 0x100 + data[i]
    return n


def _far_timestamp(base: int, delta: int, i: int) -> int:
    """The timestamp of record `i`, where the sum might need more than 64 bits. Raises Invalid if it does."""
    timestamp = base + delta
    if not LONG_MIN <= timestamp <= LONG_MAX:
        raise Invalid(f"record {i} has a timestamp of more than 64 bits")
    return timestamp


def _add_record_numbers(records: list[int] | None, first: int, count: int) -> list[int]:
    """`records` extended by the `count` record numbers from `first` on, up to RECORD_ERRORS_MAX numbers."""
    if records is None:
        records = []
    records += range(first, first + min(count, RECORD_ERRORS_MAX - len(records)))
    return records


def _headers(data: Buffer, i: int, p: int, end: int, progress: Progress) -> int:
    """The position after the headers of record `i`. The header count is at position `p`; the record ends at `end`. Raises Invalid."""
    count, p = _varint(data, p, INT_VARINT_BITS)
    if count & 1 or count >> 1 > end - p:
        raise Invalid(f"record {i} has a wrong number of headers")
    progress.headers += count >> 1
    if progress.headers > HEADERS_MAX:
        raise Invalid(f"more than {HEADERS_MAX} record headers in a batch")
    for _ in range(count >> 1):
        n, p = _varint(data, p, INT_VARINT_BITS)
        if n & 1:
            raise Invalid(f"record {i} has a header without a name")
        p += n >> 1
        n, p = _varint(data, p, INT_VARINT_BITS)
        if not n & 1:
            p += n >> 1
        if p > end:
            raise Invalid(f"the headers of record {i} are longer than the record")
    return p


def _varint(data: Buffer, p: int, bits_max: int) -> tuple[int, int]:
    """(the varint at position `p` without zigzag decoding, the position after it). Raises Invalid above `bits_max` bits."""
    n = 0
    shift = 0
    while True:
        byte = data[p]
        p += 1
        if shift > bits_max - 8 and byte >> (bits_max - shift):
            raise Invalid(f"a varint of more than {bits_max} bits")
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            return n, p
        shift += 7
