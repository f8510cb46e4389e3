"""The partition that a client's default partitioner chooses for a key. Pure.

Two defaults exist: the Java client uses murmur2, librdkafka (and the clients on it) CRC-32. A topic does not record which client produced to it, so
both are candidates. Neither is correct for a producer with a custom partitioner. Does not contain: earlier numbers of partitions
(`selectors.topic_growth`).
"""

from __future__ import annotations

import zlib
from enum import StrEnum

from brokerd.wire.murmur2 import key_partition


class Partitioner(StrEnum):
    MURMUR2 = "murmur2"
    CRC32 = "crc32"


def key_partitions(key: bytes, partitions: int) -> dict[Partitioner, int]:
    """The partition of each default partitioner for a key of at least one byte, in a topic with this number of partitions."""
    return {
        Partitioner.MURMUR2: key_partition(key, partitions),
        Partitioner.CRC32: zlib.crc32(key) % partitions,
    }
