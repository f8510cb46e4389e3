"""Record batches, format v2: look without decoding, check, stamp, build, iterate.

Laws: base offset (+0) and leader epoch (+12) lie outside the CRC (at +17, over +21 on), so the broker stamps them in place and
never unpacks a batch on its way through; whatever is decompressed is bounded. Called by the log, the doors, coordinators and
dump. Must not come in: files, offsets' meaning.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from crc32c import crc32c

from brokerd.wire.compression import DECOMPRESSED_BYTES_MAX, NONE, ZSTD, compress, decompress
from brokerd.wire.compression import CorruptBatch as CorruptBatch
from brokerd.wire.compression import InvalidBatch as InvalidBatch

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size  # 61
LENGTH_OVERHEAD = 12
CRC_AT, CRC_FROM = 17, 21
MAGIC = 2
COMPRESSION, TIMESTAMP_TYPE, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x07, 0x08, 0x10, 0x20, 0x40
SEQUENCE_MAX = 2**31 - 1
RECORDS_PER_BATCH_MAX = 1_000_000
"""librdkafka's largest batch.num.messages. Looking at so many takes some seconds; a header may say 2^31 of them."""
RECORD_BYTES_MIN = 7
"""Of a record without key, value and headers: its length, attributes, two deltas, two lengths and a count."""


class TooMuch(CorruptBatch):
    """More than may be unpacked and looked at for one request."""


class Room:
    """What may still be unpacked and looked at on behalf of one request. One thread serves everybody: a few bytes may hold a second's work,
    and a request thousands of such batches."""

    __slots__ = ("bytes", "records")

    def __init__(self) -> None:
        self.bytes, self.records = ROOM_BYTES, ROOM_RECORDS


ROOM_BYTES = 2 * DECOMPRESSED_BYTES_MAX
"""Unpacked; about a second."""
ROOM_RECORDS = RECORDS_PER_BATCH_MAX
"""Two or three seconds."""


class BatchHeader(NamedTuple):
    """The 61 bytes before a batch's records. `batch_length` counts from +12 on."""

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
    """Every whole batch, without checking it; ends at a partial tail."""
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
    """Check everything of a producer's bytes before the first is written: [(position, header)].

    Raises CorruptBatch (length, CRC) or InvalidBatch (magic, counts, attributes).
    """
    out: list[tuple[int, BatchHeader]] = []
    pos, end, count = 0, len(buf), 0
    view = memoryview(buf)
    while pos < end:
        if end - pos < HEADER_BYTES:
            raise CorruptBatch(f"{end - pos} bytes at the end are no batch")
        header = peek(buf, pos)
        if header.magic != MAGIC:
            raise InvalidBatch(f"record format {header.magic}; only version 2 is accepted")
        if header.batch_length < HEADER_BYTES - LENGTH_OVERHEAD or header.size > end - pos:
            raise CorruptBatch(f"a batch of {header.size} bytes where {end - pos} remain")
        if crc32c(view[pos + CRC_FROM : pos + header.size]) != header.crc:
            raise CorruptBatch("the CRC does not fit the batch")
        if header.record_count <= 0 or header.last_offset_delta != header.record_count - 1:
            raise InvalidBatch(f"{header.record_count} records with a last offset delta of {header.last_offset_delta}")
        if header.attributes & COMPRESSION > ZSTD:
            raise InvalidBatch(f"compression type {header.compression} is unknown")
        room = RECORDS_PER_BATCH_MAX
        if not header.attributes & COMPRESSION:
            room = min(room, (header.size - HEADER_BYTES) // RECORD_BYTES_MIN)
        count += header.record_count
        if header.record_count > room or count > SEQUENCE_MAX:
            # Offsets are given by what the header says: a hundred bytes could jump over 2^31 of them, which no segment can name.
            raise InvalidBatch(f"{header.record_count} records in a batch of {header.size} bytes")
        if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
            raise InvalidBatch("a producer id without sequence or epoch")
        out.append((pos, header))
        pos += header.size
    return out


_LONG, _INT, _UINT = struct.Struct(">q"), struct.Struct(">i"), struct.Struct(">I")


def stamp(buf: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: int) -> None:
    """Write offset and epoch of the batch at `pos`; the CRC stays right."""
    _LONG.pack_into(buf, pos, base_offset)
    _INT.pack_into(buf, pos + 12, leader_epoch)


def stamp_append_time(buf: bytearray | memoryview, pos: int, header: BatchHeader, wall_ms: int) -> None:
    """LogAppendTime: attribute and max timestamp change, so the CRC is computed anew."""
    struct.pack_into(">h", buf, pos + 21, header.attributes | TIMESTAMP_TYPE)
    _LONG.pack_into(buf, pos + 35, wall_ms)
    _UINT.pack_into(buf, pos + CRC_AT, crc32c(memoryview(buf)[pos + CRC_FROM : pos + header.size]))


class Marker(NamedTuple):
    """What a control batch says: how the transaction of its producer ended, by the word of a coordinator of this epoch."""

    commit: bool
    coordinator_epoch: int


_MARKER_KEY, _MARKER_VALUE = struct.Struct(">hh"), struct.Struct(">hi")
ABORT_TYPE, COMMIT_TYPE = 0, 1


def marker(producer_id: int, producer_epoch: int, said: Marker, wall_ms: int) -> bytearray:
    """A control batch in Kafka's format: key (version, type), value (version, coordinator epoch)."""
    key = _MARKER_KEY.pack(0, COMMIT_TYPE if said.commit else ABORT_TYPE)
    record = Record(0, wall_ms, key, _MARKER_VALUE.pack(0, said.coordinator_epoch))
    return bytearray(
        build([record], producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True)
    )


def marker_of(buf: Buffer, pos: int, header: BatchHeader) -> Marker | None:
    """What the control batch at `pos` says; None where compaction has emptied it, or it is of a kind not known here."""
    for record in records_of(buf, pos, header):
        if len(record.key or b"") >= _MARKER_KEY.size and len(record.value or b"") >= _MARKER_VALUE.size:
            kind = _MARKER_KEY.unpack_from(record.key or b"")[1]
            if kind in (ABORT_TYPE, COMMIT_TYPE):
                return Marker(kind == COMMIT_TYPE, _MARKER_VALUE.unpack_from(record.value or b"")[1])
    return None


class Record(NamedTuple):
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def _put_varint(out: bytearray, n: int) -> None:
    n = (n << 1) ^ (n >> 63)
    while n > 0x7F:
        out.append((n & 0x7F) | 0x80)
        n >>= 7
    out.append(n)


def _get_varint(buf: Buffer, pos: int) -> tuple[int, int]:
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
    """A batch of `records`, whose offsets count from the first one's."""
    if not records:
        raise ValueError("a batch needs at least one record")
    first = records[0]
    header = BatchHeader(
        base_offset, 0, leader_epoch, MAGIC, 0,
        compression | (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0),
        records[-1].offset - first.offset, first.timestamp, max(r.timestamp for r in records),
        producer_id, producer_epoch, base_sequence, len(records),
    )  # fmt: skip
    return pack(header, records, first.offset)


def pack(header: BatchHeader, records: Sequence[Record], first_offset: int | None = None) -> bytes:
    """A batch of `records` under `header`, whose length, CRC and count are computed anew.

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
    data = compress(bytes(out), header.compression)
    header = header._replace(
        batch_length=HEADER_BYTES - LENGTH_OVERHEAD + len(data), crc=0, record_count=len(records)
    )  # fmt: skip
    batch = bytearray(HEADER.pack(*header))
    batch += data
    _UINT.pack_into(batch, CRC_AT, crc32c(memoryview(batch)[CRC_FROM:]))
    return bytes(batch)


def recompress(
    buf: Buffer, headers: Sequence[tuple[int, BatchHeader]], compression: int, room: Room | None = None
) -> bytearray:
    """The same batches under another compression (a topic's `compression.type`); those that have it already stay as they are."""
    out = bytearray()
    view = memoryview(buf)
    for pos, header in headers:
        if header.compression == compression:
            out += view[pos : pos + header.size]
            continue
        attributes = (header.attributes & ~COMPRESSION) | compression
        out += pack(header._replace(attributes=attributes), list(records_of(buf, pos, header, room)))
    return out


def iterate(buf: Buffer, room: Room | None = None) -> Iterator[Record]:
    """Every record of every whole batch. Raises CorruptBatch where the records do not fit their batch, TooMuch where `room` has none."""
    for pos, header in batches(buf):
        yield from records_of(buf, pos, header, room)


def records_of(buf: Buffer, pos: int, header: BatchHeader, room: Room | None = None) -> Iterator[Record]:
    """The records of the batch at `pos`. Raises CorruptBatch, TooMuch where `room` has none for them."""
    data = bytes(memoryview(buf)[pos + HEADER_BYTES : pos + header.size])
    if room is not None:
        room.records -= header.record_count
        if room.records < 0:
            raise TooMuch(f"more than {ROOM_RECORDS} records to look at for one request")
    if header.compression:
        data = _unpacked(data, header.compression, room)
    append_time = header.max_timestamp if header.attributes & TIMESTAMP_TYPE else None
    p = 0
    try:
        for _ in range(header.record_count):
            length, p = _get_varint(data, p)
            end = p + length
            if length < 0 or end > len(data):
                raise CorruptBatch("a record longer than its batch")
            p += 1
            delta, p = _get_varint(data, p)
            offset_delta, p = _get_varint(data, p)
            key, p = _get_bytes(data, p)
            value, p = _get_bytes(data, p)
            count, p = _get_varint(data, p)
            headers = []
            for _ in range(count):
                name, p = _get_bytes(data, p)
                content, p = _get_bytes(data, p)
                headers.append(((name or b"").decode("utf-8", "replace"), content))
            if p != end:
                raise CorruptBatch("a record's length does not fit its fields")
            timestamp = header.base_timestamp + delta if append_time is None else append_time
            yield Record(header.base_offset + offset_delta, timestamp, key, value, tuple(headers))
    except IndexError as e:
        raise CorruptBatch("records are cut off") from e


def _unpacked(data: bytes, kind: int, room: Room | None) -> bytes:
    if room is None:
        return decompress(data, kind)
    most = min(DECOMPRESSED_BYTES_MAX, room.bytes)
    if most <= 0:
        raise TooMuch(f"more than {ROOM_BYTES} bytes to unpack for one request")
    try:
        out = decompress(data, kind, most)
    except CorruptBatch:
        room.bytes -= most  # it may have been that many
        raise
    room.bytes -= len(out)
    return out


def _get_bytes(data: Buffer, p: int) -> tuple[bytes | None, int]:
    n, p = _get_varint(data, p)
    if n < 0:
        return None, p
    if p + n > len(data):
        raise CorruptBatch("a field longer than its batch")
    return bytes(data[p : p + n]), p + n
