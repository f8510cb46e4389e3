"""Searches the records of a batch by timestamp without decoding them: only lengths and deltas are read.

Invariants: every length is checked before it is used. A walk can be interrupted every RECORDS_PER_STEP records. It raises only CorruptBatch or
TooMuch. Does not contain complete records.
"""

from __future__ import annotations

from collections.abc import Iterator

from brokerd.wire.records import (
    TIMESTAMP_TYPE,
    BatchHeader,
    Buffer,
    CorruptBatch,
    UnpackBudget,
    decompress_records,
    get_varint,
)
from brokerd.wire.steps import RECORDS_PER_STEP, Steps

VARINT_ONE_BYTE = 0x80
"""A byte below this value is a complete varint."""


def fields(data: Buffer, count: int) -> Iterator[tuple[int, int]]:
    """(offset delta, timestamp delta) of `count` records in `data`."""
    p, size = 0, len(data)
    try:
        for _ in range(count):
            byte = data[p]
            if byte < VARINT_ONE_BYTE:
                length, p = (byte >> 1) ^ -(byte & 1), p + 1
            else:
                length, p = get_varint(data, p)
            end = p + length
            if length < 0 or end > size:
                raise CorruptBatch("a record longer than its batch")
            p += 1  # attributes
            byte = data[p]
            if byte < VARINT_ONE_BYTE:
                timestamp_delta, p = (byte >> 1) ^ -(byte & 1), p + 1
            else:
                timestamp_delta, p = get_varint(data, p)
            byte = data[p]
            if byte < VARINT_ONE_BYTE:
                offset_delta, p = (byte >> 1) ^ -(byte & 1), p + 1
            else:
                offset_delta, p = get_varint(data, p)
            if p >= end:
                raise CorruptBatch("a record's length does not fit its fields")
            p = end
            yield offset_delta, timestamp_delta
    except IndexError as e:
        raise CorruptBatch("records are cut off") from e


def first_since(
    buf: Buffer, pos: int, header: BatchHeader, timestamp: int, start_offset: int, room: UnpackBudget
) -> Steps[tuple[int, int] | None]:
    """(offset, timestamp) of the first record of the batch at `pos` that is neither older than `timestamp` nor below `start_offset`."""
    room.begin_batch(header)
    data = yield from decompress_records(buf, pos, header, room)
    append_time = bool(header.attributes & TIMESTAMP_TYPE)
    delta_min = timestamp - header.base_timestamp
    offset_min = start_offset - header.base_offset
    for i, (offset_delta, delta) in enumerate(fields(data, header.record_count), 1):
        if offset_delta >= offset_min and (append_time or delta >= delta_min):
            found = header.max_timestamp if append_time else header.base_timestamp + delta
            if found >= timestamp:
                return header.base_offset + offset_delta, found
        if not i % RECORDS_PER_STEP:
            yield None
    return None
