"""Kafka's hash of keys, from which the default partitioner chooses a partition. Pure."""

from __future__ import annotations

import struct

_SEED, _M, _MASK = 0x9747B28C, 0x5BD1E995, 0xFFFFFFFF


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


def key_partition(key: bytes, partitions: int) -> int:
    """The partition that the default partitioner of Kafka's Java client chooses for `key`."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
