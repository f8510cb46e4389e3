"""A slow and strict reader of batches: what a consumer needs, without the product's own decoder. The oracle for validation.

Checks the lengths, varints, deltas, counts and timestamps of each record, and that no byte is left over.
"""

from __future__ import annotations

from brokerd.replication.replica import Replica
from brokerd.runtime.broker import BrokerServer
from brokerd.wire import records
from brokerd.wire.compression import decompress


class Unreadable(Exception):
    pass


def read_varint(data: bytes, p: int, bytes_max: int) -> tuple[int, int]:
    n = 0
    for i in range(bytes_max):
        if p + i >= len(data):
            raise Unreadable
        n |= (data[p + i] & 0x7F) << (7 * i)
        if data[p + i] < 0x80:
            return (n >> 1) ^ -(n & 1), p + i + 1
    raise Unreadable


def read_bytes(data: bytes, p: int, *, nullable: bool = True) -> tuple[bytes | None, int]:
    n, p = read_varint(data, p, 5)
    if n < 0:
        if not nullable:
            raise Unreadable
        return None, p
    if p + n > len(data):
        raise Unreadable
    return data[p : p + n], p + n


def read_strictly(data: bytes, count: int, base: int) -> tuple[int, list[int]]:
    """(largest timestamp, the records without a key), read one by one. Raises Unreadable."""
    p, newest, unkeyed = 0, -1, []
    for i in range(count):
        length, p = read_varint(data, p, 5)
        if length < 0 or p + length > len(data):
            raise Unreadable
        body, p = data[p : p + length], p + length
        if not body:
            raise Unreadable
        delta, q = read_varint(body, 1, 10)
        offset, q = read_varint(body, q, 5)
        key, q = read_bytes(body, q)
        _, q = read_bytes(body, q)
        headers, q = read_varint(body, q, 5)
        if offset != i or headers < 0 or headers > len(body) or not -(2**63) <= base + delta < 2**63:
            raise Unreadable
        for _ in range(headers):
            _, q = read_bytes(body, q, nullable=False)
            _, q = read_bytes(body, q)
        if q != len(body):
            raise Unreadable
        newest = max(newest, base + delta)
        unkeyed += [i] if key is None else []
    if p != len(data):
        raise Unreadable
    return newest, unkeyed


def clients_logs(broker: BrokerServer) -> list[Replica]:
    """Logs that clients write to. Coordinators have their own decoder for their records."""
    image = broker.replica_manager.image
    return [r for r in broker.replica_manager.hosted.values() if not image.topics[r.tp.topic_id].internal]


def unreadable(replica: Replica, since: int) -> str | None:
    """Why a consumer cannot read the log from `since` on, or None."""
    at, end = max(since, replica.log.start_offset), replica.log.end_offset
    while at < end:
        data = bytes(replica.log.read(at, 1 << 20, end).bytes())
        found = list(records.batches(data))
        for pos, header in found:
            inside = data[pos + records.HEADER_BYTES : pos + header.size]
            try:
                newest, _ = read_strictly(
                    decompress(inside, header.compression) if header.compression else inside,
                    header.record_count,
                    header.base_timestamp,
                )
            except (Unreadable, records.CorruptBatch):
                return f"the batch at offset {header.base_offset} is accepted and cannot be read"
            if header.record_count != header.last_offset_delta + 1:
                return f"the batch at offset {header.base_offset} has {header.record_count} records, its last delta is {header.last_offset_delta}"
            if not header.attributes & records.TIMESTAMP_TYPE and newest != header.max_timestamp:
                return f"the batch at offset {header.base_offset} has {newest} as its largest timestamp, its header says {header.max_timestamp}"
            at = header.next_offset
        if not found:
            return f"no batch at offset {at}, the log ends at {end}"
    return None
