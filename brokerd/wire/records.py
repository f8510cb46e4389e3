"""Record batches, format v2: read headers without decompression, validate, stamp, build, iterate. No files.

Invariants: base offset (at byte 0) and leader epoch (at byte 12) are not covered by the CRC (at byte 17, over the bytes from 21 on). So the broker stamps them
in place and never decompresses a batch to store it. The size of decompressed data is limited.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import NamedTuple

from crc32c import crc32c

from brokerd.wire import record_decode
from brokerd.wire.compiled import find_compiled
from brokerd.wire.compression import DECOMPRESSED_BYTES_MAX, NONE, ZSTD, TooLarge, compress, decompress
from brokerd.wire.compression import CorruptBatch as CorruptBatch
from brokerd.wire.compression import InvalidBatch as InvalidBatch
from brokerd.wire.steps import Steps, run_now

_decoder: ModuleType = find_compiled(record_decode) or record_decode
DECODER_COMPILED = _decoder is not record_decode
HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size  # 61
LENGTH_OVERHEAD = 12
CRC_AT, CRC_FROM = 17, 21
MAGIC = 2
COMPRESSION, TIMESTAMP_TYPE, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x07, 0x08, 0x10, 0x20, 0x40
SEQUENCE_MAX = 2**31 - 1
RECORDS_PER_BATCH_MAX = 1_000_000
"""librdkafka's largest batch.num.messages. As many records take some seconds to inspect. A header may claim 2^31 records."""
RECORD_BYTES_MIN = 7
"""The minimum size of a record without key, value and headers: its length, attributes, two deltas, two lengths and a count."""


HEADERS_PER_BATCH_MAX = 1_000_000
"""The maximum number of record headers in one batch. A header of two bytes takes a hundred bytes of memory when it is decoded."""
TOO_MANY_HEADERS = f"more than {HEADERS_PER_BATCH_MAX} record headers in one request: send smaller requests"
DECODED_TOGETHER = 100
"""Number of records that are decoded before the first of them is used."""


class TooMuch(CorruptBatch):
    """The request exceeds its limit of decompressed bytes or inspected records."""


class UnpackBudget:
    """The remaining budget of one request: bytes to decompress and records to inspect. The budget protects the only event loop thread. A batch of a few
    bytes may need a second of CPU time, and a request may contain thousands of such batches."""

    __slots__ = ("batch_bytes", "batches", "bytes", "headers", "records")

    def __init__(
        self,
        bytes_max: int | None = None,
        records_max: int | None = None,
        batch_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    ) -> None:
        self.bytes = ROOM_BYTES if bytes_max is None else bytes_max
        self.records = ROOM_RECORDS if records_max is None else records_max
        self.headers, self.batches, self.batch_bytes = HEADERS_PER_BATCH_MAX, 1 << 31, batch_bytes_max

    @staticmethod
    def for_lookups() -> UnpackBudget:
        """The budget of one search by timestamp. Call `next_partition` before each of its partitions."""
        budget = UnpackBudget(LOOKUP_BYTES, LOOKUP_RECORDS, LOOKUP_BATCH_BYTES)
        budget.next_partition()
        return budget

    def next_partition(self) -> None:
        self.batches = LOOKUP_BATCHES

    def begin_batch(self, header: BatchHeader) -> None:
        """Raises TooMuch if the budget does not cover another batch with the record count of its header."""
        self.batches -= 1
        self.records -= max(0, header.record_count)
        if self.batches < 0 or self.records < 0:
            raise TooMuch(
                f"more than {ROOM_RECORDS} records in compressed batches of one request: send smaller requests"
            )


ROOM_BYTES = 2 * DECOMPRESSED_BYTES_MAX
"""Bytes to decompress for one produce request: about a second, outside the event loop."""
ROOM_RECORDS = RECORDS_PER_BATCH_MAX
"""Records to inspect for one produce request: half a second, in steps."""
LOOKUP_BATCHES = 16
"""Batches to inspect for one partition. A search needs one or two, unless the headers of a producer's batches are wrong."""
LOOKUP_BATCH_BYTES = 32 * 1024 * 1024
"""Decompressed bytes of one batch in a search by timestamp. For a larger batch the result is the batch's first offset."""
LOOKUP_BYTES, LOOKUP_RECORDS = 256 * 1024 * 1024, 4_000_000
"""Bytes to decompress and records to inspect for all partitions of one search by timestamp: enough for a hundred partitions with batches of a MiB."""
UNPACKED_ON_THE_LOOP_BYTES = 256 * 1024
"""Bytes that are decompressed on the event loop's thread: about 0.3 ms. Larger data is decompressed on another thread."""


class BatchHeader(NamedTuple):
    """The 61 bytes before the records of a batch. `batch_length` counts from byte 12 on."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        return self.batch_length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, wrapped at 2^31."""
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX


Buffer = bytes | bytearray | memoryview


def peek(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header at `pos`. Raises struct.error when fewer than 61 bytes remain."""
    return BatchHeader._make(HEADER.unpack_from(buf, pos))


def batches(buf: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Every complete batch, without checks. Ends at a partial tail."""
    pos, end = 0, len(buf)
    while end - pos >= HEADER_BYTES:
        header = peek(buf, pos)
        if header.batch_length < HEADER_BYTES - LENGTH_OVERHEAD or end - pos < header.size:
            return
        yield pos, header
        pos += header.size


def crc_is_right(buf: Buffer, pos: int, header: BatchHeader) -> bool:
    return bool(crc32c(memoryview(buf)[pos + CRC_FROM : pos + header.size]) == header.crc)


def check(buf: Buffer) -> list[tuple[int, BatchHeader]]:
    """Check all of a producer's bytes before the first one is written. Returns [(position, header)].

    Raises CorruptBatch (length, CRC) or InvalidBatch (magic, counts, attributes).
    """
    out: list[tuple[int, BatchHeader]] = []
    pos, end, count = 0, len(buf), 0
    view = memoryview(buf)
    while pos < end:
        if end - pos < HEADER_BYTES:
            raise CorruptBatch(f"the last {end - pos} bytes are shorter than a batch header")
        header = peek(buf, pos)
        if header.magic != MAGIC:
            raise InvalidBatch(f"message format {header.magic} is not supported; only version 2 is")
        size = header.batch_length + LENGTH_OVERHEAD
        if size < HEADER_BYTES or size > end - pos:
            raise CorruptBatch(f"the header has a batch of {size} bytes, but {end - pos} bytes are left")
        if crc32c(view[pos + CRC_FROM : pos + size]) != header.crc:
            raise CorruptBatch("the CRC of the batch is wrong")
        records = header.record_count
        if records <= 0 or header.last_offset_delta != records - 1:
            raise InvalidBatch(
                f"the batch has {records} records, but its last offset delta is {header.last_offset_delta}"
            )
        if header.attributes & COMPRESSION > ZSTD:
            raise InvalidBatch(f"compression type {header.compression} is unknown")
        fits = header.attributes & COMPRESSION or records * RECORD_BYTES_MIN <= size - HEADER_BYTES
        count += records
        if not fits or records > RECORDS_PER_BATCH_MAX or count > SEQUENCE_MAX:
            # Offsets are assigned by the header: a hundred bytes could skip 2^31 offsets, more than a segment can contain.
            raise InvalidBatch(f"a batch of {size} bytes must not have {records} records")
        if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
            raise InvalidBatch("the batch has a producer id, but no sequence or epoch")
        out.append((pos, header))
        pos += size
    return out


_LONG, _INT, _UINT = struct.Struct(">q"), struct.Struct(">i"), struct.Struct(">I")


def stamp(buf: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Write base offset and leader epoch of the batch at `pos`. The CRC stays valid."""
    _LONG.pack_into(buf, pos, base_offset)
    _INT.pack_into(buf, pos + 12, leader_epoch)


def stamp_append_time(buf: bytearray | memoryview, pos: int, header: BatchHeader, wall_ms: int) -> None:
    """LogAppendTime: attributes and maximum timestamp change, so the CRC is computed again."""
    struct.pack_into(">h", buf, pos + 21, header.attributes | TIMESTAMP_TYPE)
    _LONG.pack_into(buf, pos + 35, wall_ms)
    _UINT.pack_into(buf, pos + CRC_AT, crc32c(memoryview(buf)[pos + CRC_FROM : pos + header.size]))


def stamp_max_timestamp(buf: bytearray | memoryview, pos: int, header: BatchHeader, timestamp: int) -> BatchHeader:
    """Write `timestamp`, the maximum timestamp of the records, into the header, and compute the CRC again. Returns the new header."""
    _LONG.pack_into(buf, pos + 35, timestamp)
    crc = crc32c(memoryview(buf)[pos + CRC_FROM : pos + header.size])
    _UINT.pack_into(buf, pos + CRC_AT, crc)
    return header._replace(max_timestamp=timestamp, crc=crc)


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


_make_record: Callable[[record_decode.Fields], Record] = partial(tuple.__new__, Record)
"""`Record._make` without a call of Python code."""


def _put_varint(out: bytearray, n: int) -> None:
    n = (n << 1) ^ (n >> 63)
    while n > 0x7F:
        out.append((n & 0x7F) | 0x80)
        n >>= 7
    out.append(n)


def get_varint(buf: Buffer, pos: int) -> tuple[int, int]:
    n = shift = 0
    while True:
        byte = buf[pos]
        pos += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (n >> 1) ^ -(n & 1), pos
        shift += 7
        if shift > 63:
            raise CorruptBatch("a varint of more than 10 bytes")


def build(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    compression: int = NONE,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """A batch of `records`, whose offsets are relative to the first one."""
    if not records:
        raise ValueError("a batch needs at least one record")
    first = records[0]
    header = BatchHeader(
        base_offset,
        0,
        leader_epoch,
        MAGIC,
        0,
        compression | (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0),
        records[-1].offset - first.offset,
        first.timestamp,
        max(r.timestamp for r in records),
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    return pack(header, records, first.offset)


def pack(header: BatchHeader, records: Sequence[Record], first_offset: int | None = None) -> bytes:
    """A batch of `records` under `header`, whose length, CRC and count are computed again.

    Offsets count from `first_offset` (the header's by default), so that a compacted batch keeps its gaps and its bounds.
    """
    if first_offset is None:
        first_offset = header.base_offset
    out = bytearray()
    for record in records:
        body = bytearray(b"\0")
        _put_varint(body, record.timestamp - header.base_timestamp)
        _put_varint(body, record.offset - first_offset)
        for field in (record.key, record.value):
            if field is None:
                body.append(1)
            else:
                _put_varint(body, len(field))
                body += field
        _put_varint(body, len(record.headers))
        for name, value in record.headers:
            encoded = name.encode()
            _put_varint(body, len(encoded))
            body += encoded
            if value is None:
                body.append(1)
            else:
                _put_varint(body, len(value))
                body += value
        _put_varint(out, len(body))
        out += body
    return bytes(
        build_from_payload(header._replace(record_count=len(records)), compress(bytes(out), header.compression))
    )


def build_from_payload(header: BatchHeader, data: bytes) -> bytearray:
    """A batch of `data`, unchanged, under `header` with the length and CRC of `data`."""
    header = header._replace(batch_length=HEADER_BYTES - LENGTH_OVERHEAD + len(data), crc=0)
    batch = bytearray(HEADER.pack(*header))
    batch += data
    _UINT.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[CRC_FROM:]))
    return batch


def recompress(
    buf: Buffer,
    headers: Sequence[tuple[int, BatchHeader]],
    compression: int,
    budget: UnpackBudget,
    level: int | None = None,
) -> Steps[bytearray]:
    """The batches with compression type `compression` (the topic's `compression.type`), at `level` of the codec. Batches that already have this type are
    unchanged. The records are decompressed and compressed, but not decoded. Raises CorruptBatch, or TooMuch if `budget` does not cover a batch."""
    out = bytearray()
    view = memoryview(buf)
    for pos, header in headers:
        if header.compression == compression:
            out += view[pos : pos + header.size]
            continue
        budget.begin_batch(header)
        data = yield from decompress_records(buf, pos, header, budget)
        if len(data) <= UNPACKED_ON_THE_LOOP_BYTES:
            packed = compress(data, compression, level)
        else:
            packed = yield partial(compress, data, compression, level)
        attributes = (header.attributes & ~COMPRESSION) | compression
        out += build_from_payload(header._replace(attributes=attributes), packed)
    return out


def iterate(buf: Buffer, budget: UnpackBudget | None = None) -> Iterator[Record]:
    """Every record of every complete batch. Raises CorruptBatch if the records do not match their batch, TooMuch if `budget` is used up."""
    for pos, header in batches(buf):
        yield from records_of(buf, pos, header, budget)


def records_of(buf: Buffer, pos: int, header: BatchHeader, budget: UnpackBudget | None = None) -> Iterator[Record]:
    """The records of the batch at `pos`. Raises CorruptBatch, or TooMuch if `budget` does not cover them."""
    if budget is None:
        headers_left = HEADERS_PER_BATCH_MAX
        if header.compression:
            budget = UnpackBudget(records_max=SEQUENCE_MAX)
    else:
        headers_left = budget.headers
    if budget is not None:
        budget.begin_batch(header)
    if header.compression:
        assert budget is not None
        data = bytes(run_now(decompress_records(buf, pos, header, budget)))
    else:
        data = bytes(memoryview(buf)[pos + HEADER_BYTES : pos + header.size])
        _check_size(data, header)
    append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE else None
    p, left = 0, header.record_count
    while left > 0:
        found: list[Record] = []
        problem: CorruptBatch | None = None
        try:
            p, headers = _decoder.decode(
                data,
                p,
                min(left, DECODED_TOGETHER),
                header.base_offset,
                header.base_timestamp,
                append_time,
                headers_left,
                _make_record,
                found,
            )
            headers_left -= headers
        except _decoder.TooManyHeaders:
            problem = TooMuch(TOO_MANY_HEADERS)
        except _decoder.InvalidRecords as e:
            problem = CorruptBatch(str(e))
        if budget is not None:
            budget.headers = headers_left
        yield from found
        if problem is not None:
            raise problem
        left -= DECODED_TOGETHER


def decompress_records(buf: Buffer, pos: int, header: BatchHeader, budget: UnpackBudget) -> Steps[Buffer]:
    """The bytes of a batch's records, decompressed within `budget`. Raises CorruptBatch if they are too short for the header's record count,
    TooMuch."""
    data: Buffer = memoryview(buf)[pos + HEADER_BYTES : pos + header.size]
    if header.compression:
        most = min(budget.batch_bytes, budget.bytes)
        if most <= 0:
            raise TooMuch(f"more than {ROOM_BYTES} bytes to unpack for one request")
        tried = min(most, UNPACKED_ON_THE_LOOP_BYTES)
        try:
            try:
                data = decompress(data, header.compression, tried)
            except TooLarge:
                tried = most
                data = yield partial(decompress, bytes(data), header.compression, most)
        except CorruptBatch:
            budget.bytes -= tried  # the failed attempt may have decompressed as many bytes
            raise
        budget.bytes -= len(data)
    _check_size(data, header)
    return data


def _check_size(data: Buffer, header: BatchHeader) -> None:
    if header.record_count * RECORD_BYTES_MIN > len(data):
        raise CorruptBatch(f"{len(data)} bytes where {header.record_count} records should be")
