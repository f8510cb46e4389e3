"""Comparison of replicas: equal, different, and unknown are three results."""

from __future__ import annotations

from crc32c import crc32c

from brokerd.wire import records
from brokerd.wire.records import Record
from controlplane.domain.compare import ComparedReplica, compare_responses


def batch(offset: int, value: bytes = b"v") -> bytes:
    return offset.to_bytes(8, "big") + bytes(records.build([Record(0, 1, b"k", value)]))[8:]


DATA = batch(0) + batch(1) + batch(2)


def replica(data: bytes = DATA, start: int = 0, high_watermark: int = 3) -> ComparedReplica:
    return ComparedReplica(start, high_watermark, data)


def test_equal_bytes_are_equal_and_the_result_names_the_range_and_the_checksum() -> None:
    found = compare_responses(0, 3, 1, {1: replica(), 2: replica()})
    assert (found.equal, found.first, found.after, found.size, found.crc) == (True, 0, 3, len(DATA), crc32c(DATA))
    assert "Offsets 0 to 3 are equal on 2 replicas" in found.text


def test_only_batches_below_every_high_watermark_are_compared() -> None:
    other = DATA[: len(batch(0)) * 2] + batch(2, b"different")
    found = compare_responses(0, 3, 1, {1: replica(), 2: replica(other, high_watermark=2)})
    assert (found.equal, found.after) == (True, 2)


def test_different_bytes_are_different() -> None:
    found = compare_responses(0, 3, 1, {1: replica(), 2: replica(batch(0) + batch(1, b"w") + batch(2))})
    assert found.equal is False and "Broker 2 and the leader 1 have different records" in found.text


def test_a_replica_that_starts_later_than_its_leader_is_different() -> None:
    found = compare_responses(0, 3, 1, {1: replica(), 2: replica(start=1)})
    assert found.equal is False and "The log of broker 2 starts at offset 1" in found.text


def test_a_short_response_is_unknown_and_neither_equal_nor_different() -> None:
    assert compare_responses(0, 3, 1, {1: replica(), 2: replica(DATA[:40])}).equal is None
    assert compare_responses(0, 3, 1, {1: replica(b""), 2: replica()}).equal is None


def test_an_empty_range_is_equal() -> None:
    assert compare_responses(3, 3, 1, {1: replica(b""), 2: replica(b"")}).equal is True


def test_a_comparison_continues_with_its_checksum_after_it_was_stored() -> None:
    first = compare_responses(0, 1, 1, {1: replica(), 2: replica()})
    resumed = first.to_stored().to_comparison()
    rest = DATA[len(batch(0)) :]
    last = compare_responses(1, 3, 1, {1: replica(rest), 2: replica(rest)}, resumed.crc)
    assert (resumed.equal, resumed.after, last.crc) == (None, 1, crc32c(DATA))
