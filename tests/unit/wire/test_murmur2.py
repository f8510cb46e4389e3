"""The hash of keys, with the values of Kafka's own test of murmur2."""

from __future__ import annotations

import pytest

from brokerd.wire.murmur2 import key_partition, murmur2


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_kafka(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


def test_the_partition_is_that_of_the_default_partitioner() -> None:
    assert key_partition(b"foobar", 7) == (-790332482 & 0x7FFFFFFF) % 7
