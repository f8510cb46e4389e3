"""The partition that a client's default partitioner chooses for a key. Pure.

Two defaults exist: the Java client uses murmur2, librdkafka (and the clients on it) CRC-32. A topic does not record which client produced to it, so
both are candidates. Neither is correct for a producer with a custom partitioner, or for records that were written before partitions were added.
"""

from __future__ import annotations

import struct
import zlib
from enum import StrEnum

_SEED, _M, _MASK = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


class Partitioner(StrEnum):
    MURMUR2 = "murmur2"
    CRC32 = "crc32"


def key_partitions(key: bytes, partitions: int) -> dict[Partitioner, int]:
    """The partition of each default partitioner for a key of at least one byte, in a topic with so many partitions."""
    return {
        Partitioner.MURMUR2: (murmur2(key) & 0x7FFFFFFF) % partitions,
        Partitioner.CRC32: zlib.crc32(key) % partitions,
    }


def murmur2(data: bytes) -> int:
    """Kafka's 32-bit murmur2, as an unsigned number."""
    h = (_SEED ^ len(data)) & _MASK
    whole = len(data) & ~3
    for (k,) in struct.iter_unpack("<I", data[:whole]):
        k = (k * _M) & _MASK
        k ^= k >> 24
        k = (k * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
    if tail := data[whole:]:
        h ^= int.from_bytes(tail, "little")
        h = (h * _M) & _MASK
    h ^= h >> 13
    h = (h * _M) & _MASK
    return h ^ (h >> 15)
