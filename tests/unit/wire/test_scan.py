"""Scanning records for one field: the same result as decoding them, at a bounded cost, and invalid records are rejected."""

from __future__ import annotations

import random
import struct

import pytest
from crc32c import crc32c

from brokerd.wire import records
from brokerd.wire.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from brokerd.wire.records import CorruptBatch, Record, TooMuch, UnpackBudget
from brokerd.wire.scan import first_since
from brokerd.wire.steps import Ended, next_step, run_now

CODECS = (NONE, GZIP, SNAPPY, LZ4, ZSTD)


def batch_with_records(data: bytes, codec: int, count: int) -> bytes:
    """A batch of arbitrary bytes with a correct CRC, whose header gives `count` records."""
    packed = compress(data, codec)
    header = records.BatchHeader(
        0, records.HEADER_BYTES - 12 + len(packed), 0, 2, 0, codec, count - 1, 0, 10, -1, -1, -1, count
    )
    batch = bytearray(records.HEADER.pack(*header)) + packed
    struct.pack_into(">I", batch, records.CRC_AT, crc32c(bytes(batch[records.CRC_FROM :])))
    return bytes(batch)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", range(5))
def test_a_scan_finds_the_same_as_decoding(codec: int, seed: int) -> None:
    rng = random.Random(seed)
    made = [
        Record(
            100 + i,
            rng.choice([5, 70, 1_000, 2**40]) + rng.randrange(50),
            rng.choice([None, b"", b"key", bytes(200)]),
            rng.choice([None, b"", bytes(rng.randrange(300))]),
            (("h", None),) * rng.randrange(3),
        )
        for i in range(300)
    ]
    batch = records.build(made, base_offset=100, compression=codec)
    ((pos, header),) = records.check(batch)
    for timestamp in (0, 60, 119, 1_030, 2**40, 2**41):
        for start in (0, 100, 250, 399, 400):
            expected = next(
                ((r.offset, r.timestamp) for r in made if r.timestamp >= timestamp and r.offset >= start), None
            )
            assert run_now(first_since(batch, pos, header, timestamp, start, UnpackBudget())) == expected


@pytest.mark.parametrize("codec", CODECS)
def test_garbage_raises_only_corrupt_batch(codec: int) -> None:
    rng = random.Random(3)
    whole = records.build([Record(i, i, b"k", bytes(50), (("h", b"x"),)) for i in range(20)])[records.HEADER_BYTES :]
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        batch = batch_with_records(bytes(data), codec, rng.choice([1, 19, 20, 21]))
        header = records.peek(batch)
        try:
            run_now(first_since(batch, 0, header, 1 << 50, 0, UnpackBudget()))
        except CorruptBatch:
            pass


@pytest.mark.parametrize("codec", CODECS)
def test_an_impossible_count_is_rejected_before_the_scan(codec: int) -> None:
    data = b"\x0c\0\0\0\1\1\0" * 1_000
    lying = batch_with_records(data, codec, 1_001)
    with pytest.raises(CorruptBatch, match="where 1001 records should be"):
        run_now(first_since(lying, 0, records.peek(lying), 1, 0, UnpackBudget()))
    with pytest.raises(CorruptBatch, match="where 1001 records should be"):
        list(records.iterate(lying))


def test_headers_are_counted_and_limited_by_their_bytes() -> None:
    """A compressed record of 1,468 bytes had 5,000,000 headers: 6.6 s and 430 MB to decode."""
    count = records.HEADERS_PER_BATCH_MAX + 1

    def varint(n: int) -> bytes:
        out = bytearray()
        records._put_varint(out, n)
        return bytes(out)

    def with_headers(says: int, has: int) -> bytes:
        body = b"\0\0\0\1\1" + varint(says) + b"\0\1" * has
        return batch_with_records(varint(len(body)) + body, ZSTD, 1)

    many = with_headers(count, count)
    assert len(many) < 2_000
    with pytest.raises(TooMuch, match="headers"):
        list(records.iterate(many))
    assert run_now(first_since(many, 0, records.peek(many), 0, 0, UnpackBudget())) == (0, 0), (
        "a search does not look at headers"
    )
    for lying in (with_headers(10, 4), with_headers(-1, 0)):
        with pytest.raises(CorruptBatch):
            list(records.iterate(lying))
    room = UnpackBudget()
    few = with_headers(600_000, 600_000)
    assert len(next(iter(records.iterate(few, room))).headers) == 600_000
    with pytest.raises(TooMuch):
        next(iter(records.iterate(few, room)))


def test_a_million_compressed_records_are_scanned_in_steps_in_the_background() -> None:
    batch = batch_with_records(b"\x0c\0\0\0\1\1\0" * 1_000_000, ZSTD, 1_000_000)
    assert len(batch) < 1_000
    steps = first_since(batch, 0, records.peek(batch), 5, 0, UnpackBudget())
    job = next_step(steps)
    assert callable(job), "what unpacks to more than a little is a job"
    count, step = 0, next_step(steps, job())
    while not isinstance(step, Ended):
        assert step is None
        count, step = count + 1, next_step(steps)
    assert count > 1_000


def test_a_look_up_has_a_lower_memory_limit_than_an_append() -> None:
    batch = batch_with_records(bytes(records.LOOKUP_BATCH_BYTES + 1), ZSTD, 1)
    header = records.peek(batch)
    with pytest.raises(CorruptBatch, match="after decompression"):
        run_now(first_since(batch, 0, header, 1, 0, UnpackBudget.for_lookups()))
    small = batch_with_records(b"\x0c\0\0\0\1\1\0", NONE, 1)
    room = UnpackBudget.for_lookups()
    for _ in range(records.LOOKUP_BATCHES):
        run_now(first_since(small, 0, records.peek(small), 1, 0, room))
    with pytest.raises(TooMuch):
        run_now(first_since(small, 0, records.peek(small), 1, 0, room))
    room.next_partition()
    assert run_now(first_since(small, 0, records.peek(small), 1, 0, room)) is None
