"""Encoded requests of a hostile client: valid requests of Kafka's protocol that are expensive. A broker that rejects them would reject normal clients
too. Does not contain: sockets.
"""

from __future__ import annotations

import struct

from crc32c import crc32c

from brokerd.wire.apis import ApiKey
from brokerd.wire.compression import ZSTD, compress
from brokerd.wire.framing import encode_request
from brokerd.wire.messages import FetchRequest, ListOffsetsRequest, ProduceRequest
from brokerd.wire.records import CRC_AT, CRC_FROM, HEADER, HEADER_BYTES, BatchHeader

LIST_OFFSETS_VERSION, FETCH_VERSION, PRODUCE_VERSION = 7, 11, 9


def _varint(n: int) -> bytes:
    n <<= 1
    out = bytearray()
    while n > 0x7F:
        out.append((n & 0x7F) | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def tiny_batch(count: int, timestamp_ms: int) -> bytes:
    """A valid batch of `count` empty records. Only the last one has a later timestamp, by 1 ms: a search for it reads all of them."""
    out = bytearray()
    for i in range(count):
        body = b"\0" + (b"\2" if i == count - 1 else b"\0") + _varint(i) + b"\1\1\0"
        out += _varint(len(body)) + body
    packed = compress(bytes(out), ZSTD)
    header = BatchHeader(
        0, HEADER_BYTES - 12 + len(packed), -1, 2, 0, ZSTD, count - 1, timestamp_ms, timestamp_ms + 1, -1, -1, -1, count
    )
    batch = bytearray(HEADER.pack(*header)) + packed
    struct.pack_into(">I", batch, CRC_AT, crc32c(bytes(batch[CRC_FROM:])))
    return bytes(batch)


def list_offsets(topic: str, timestamp_ms: int, partition: int = 0) -> bytes:
    r = ListOffsetsRequest
    partition_request = r.ListOffsetsPartition(
        partition_index=partition, current_leader_epoch=-1, timestamp=timestamp_ms
    )
    body = r(replica_id=-1, isolation_level=0, topics=[r.ListOffsetsTopic(name=topic, partitions=[partition_request])])
    return encode_request(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, 1, "hostile", body)


def fetch_that_waits(topic: str, offset: int, *, min_bytes: int, wait_ms: int, partition: int = 0) -> bytes:
    r = FetchRequest
    partition_request = r.FetchPartition(
        partition=partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        log_start_offset=-1,
        partition_max_bytes=1 << 20,
    )
    body = r(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 30,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[r.FetchTopic(topic=topic, partitions=[partition_request])],
        forgotten_topics_data=[],
        rack_id="",
    )
    return encode_request(ApiKey.FETCH, FETCH_VERSION, 1, "hostile", body)


def produce(topic: str, data: bytes, *, acks: int = -1, partition: int = 0) -> bytes:
    r = ProduceRequest
    part = r.PartitionProduceData(index=partition, records=data)
    body = r(acks=acks, timeout_ms=30_000, topic_data=[r.TopicProduceData(name=topic, partition_data=[part])])
    return encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 1, "client", body)
