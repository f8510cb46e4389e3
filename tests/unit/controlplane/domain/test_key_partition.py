"""The default partitioners of clients."""

from __future__ import annotations

from controlplane.domain.key_partition import Partitioner, key_partitions


def test_both_default_partitioners_are_candidates() -> None:
    # crc32(b"foobar") = 0x9ef61f95
    assert key_partitions(b"foobar", 7) == {
        Partitioner.MURMUR2: (-790332482 & 0x7FFFFFFF) % 7,
        Partitioner.CRC32: 0x9EF61F95 % 7,
    }
