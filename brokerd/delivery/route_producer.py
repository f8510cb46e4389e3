"""Producer id, epoch and sequence numbers of a route's batches in a target partition. Pure.

A route is one producer for each of its source partitions. The sequence number of its last record in a target partition is the offset of that record in the
source partition, modulo 2^31. The producer epoch contains the higher bits. The log of the target partition therefore contains the position of the route, in the
same batch as the records. Batches of one producer are in the order of their offsets, with gaps. Does not contain: the log, requests.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from uuid import UUID

from brokerd.wire import records
from brokerd.wire.compression import NONE
from brokerd.wire.records import SEQUENCE_MAX, Record

SEQUENCE_BITS = 31
NOTHING = -1
"""No record of this route is in the target partition."""
UNKNOWN = -2
"""The leader does not know which records are in the target partition."""
ROUTE_PRODUCERS = 1 << 62
"""Producer IDs of routes have this bit. IDs of clients are smaller."""


def route_producer_id(route_id: str, source_id: UUID, partition: int) -> int:
    """The producer id of a route. It is the same for each leader of the source partition."""
    digest = hashlib.blake2b(f"{route_id}/{source_id}/{partition}".encode(), digest_size=8).digest()
    return ROUTE_PRODUCERS | (int.from_bytes(digest, "big") & (ROUTE_PRODUCERS - 1))


def last_source_offset(producer_epoch: int, last_sequence: int) -> int:
    return producer_epoch << SEQUENCE_BITS | last_sequence


def route_batch(source_records: Sequence[Record], producer_id: int, last: int, compression: int = NONE) -> bytes:
    """A batch of these records. `last`: the source offset of the last one. `compression`: codec number; a batch that it does not make smaller is not
    compressed, so that no batch is larger than its records."""

    def build_batch(codec: int) -> bytes:
        return records.build(
            [r._replace(offset=i) for i, r in enumerate(source_records)],
            producer_id=producer_id,
            producer_epoch=last >> SEQUENCE_BITS,
            base_sequence=((last & SEQUENCE_MAX) - len(source_records) + 1) & SEQUENCE_MAX,
            compression=codec,
        )

    plain = build_batch(NONE)
    if compression == NONE:
        return plain
    compressed = build_batch(compression)
    return compressed if len(compressed) < len(plain) else plain
