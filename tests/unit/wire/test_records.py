"""Record batches: inspect, validate, stamp, build, decompress within limits."""

from __future__ import annotations

import random
import struct

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd.wire import records
from brokerd.wire.compression import COMPRESSION_NAMES, GZIP, LZ4, SNAPPY, ZSTD
from brokerd.wire.records import CorruptBatch, InvalidBatch, Record
from brokerd.wire.steps import run_now

CODECS = list(COMPRESSION_NAMES)
blob = st.none() | st.binary(max_size=60)


def sample_records(count: int, first: int = 0, size: int = 20) -> list[Record]:
    return [Record(first + i, 1_000 + i, b"k%d" % i, bytes(size), (("h", b"x"), ("null", None))) for i in range(count)]


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=25, deadline=None)
@given(
    fields=st.lists(
        st.tuples(st.integers(-(2**40), 2**40), blob, blob, st.lists(st.tuples(st.text(max_size=5), blob), max_size=3)),
        min_size=1,
        max_size=8,
    )
)
def test_a_built_batch_is_read_back(
    codec: int, fields: list[tuple[int, bytes, bytes, list[tuple[str, bytes]]]]
) -> None:
    given_records = [Record(70 + i, t, k, v, tuple(h)) for i, (t, k, v, h) in enumerate(fields)]
    batch = records.build(given_records, base_offset=70, compression=codec)
    ((pos, header),) = records.check(batch)
    assert (pos, header.size, header.compression) == (0, len(batch), codec)
    assert header.max_timestamp == max(r.timestamp for r in given_records)
    assert header.next_offset == 70 + len(fields)
    assert list(records.iterate(batch)) == given_records


def test_a_changed_base_offset_keeps_the_crc() -> None:
    batch = bytearray(b"...." + records.build(sample_records(3), producer_id=9, producer_epoch=1, base_sequence=5))
    records.stamp(batch, 4, 1_000_000_007, 42)
    ((_, header),) = records.check(memoryview(batch)[4:])
    assert (header.base_offset, header.partition_leader_epoch, header.last_offset) == (1_000_000_007, 42, 1_000_000_009)
    assert [r.offset for r in records.iterate(memoryview(batch)[4:])] == [1_000_000_007, 1_000_000_008, 1_000_000_009]


def test_log_append_time_applies_to_every_record_with_a_valid_crc() -> None:
    batch = bytearray(records.build(sample_records(3), compression=ZSTD))
    records.stamp_append_time(batch, 0, records.peek(batch), 77)
    assert records.check(batch)[0][1].max_timestamp == 77
    assert {r.timestamp for r in records.iterate(batch)} == {77}


@pytest.mark.parametrize("codec", CODECS)
def test_every_flipped_byte_under_the_crc_is_detected(codec: int) -> None:
    batch = records.build(sample_records(4), compression=codec)
    for at in range(16, len(batch)):
        damaged = bytearray(batch)
        damaged[at] ^= 0x10
        with pytest.raises((CorruptBatch, InvalidBatch)):
            records.check(damaged)


def test_every_truncation_of_a_payload_is_detected() -> None:
    payload = records.build(sample_records(2)) + records.build(sample_records(3))
    first = len(records.build(sample_records(2)))
    for length in range(1, len(payload)):
        if length != first:
            with pytest.raises((CorruptBatch, InvalidBatch)):
                records.check(payload[:length])
    assert [pos for pos, _ in records.batches(payload[:-1])] == [0]


def patch_batch(batch: bytes, at: int, fmt: str, value: int) -> bytes:
    from crc32c import crc32c

    out = bytearray(batch)
    struct.pack_into(fmt, out, at, value)
    struct.pack_into(">I", out, records.CRC_AT, crc32c(memoryview(out)[records.CRC_FROM :]))
    return bytes(out)


@pytest.mark.parametrize(
    ("at", "fmt", "value"),
    [(16, ">b", 1), (21, ">h", 5), (23, ">i", 7), (57, ">i", 0), (57, ">i", -1), (43, ">q", 3)],
    ids=[
        "old magic",
        "unknown compression",
        "too many offsets",
        "no records",
        "negative count",
        "producer without epoch",
    ],
)
def test_a_complete_but_invalid_batch_is_rejected(at: int, fmt: str, value: int) -> None:
    with pytest.raises(InvalidBatch):
        records.check(patch_batch(records.build(sample_records(2)), at, fmt, value))


@pytest.mark.parametrize("codec", CODECS)
def test_garbage_in_a_batch_with_a_valid_crc_raises_only_corrupt_batch(codec: int) -> None:
    rng = random.Random(7)
    whole = records.build(sample_records(5, size=200), compression=codec)
    for _ in range(300):
        batch = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            batch[rng.randrange(records.HEADER_BYTES, len(batch))] = rng.randrange(256)
        try:
            list(records.iterate(patch_batch(bytes(batch), 57, ">i", rng.choice([5, 5, 6, 2**31 - 1]))))
        except CorruptBatch:
            pass


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
@pytest.mark.parametrize("size", [10, 3_000_000])
def test_an_uncompressed_batch_is_compressed_by_every_codec(codec: int, size: int) -> None:
    """Its records are a view into the request, not bytes."""
    payload = records.build([Record(0, 1, None, bytes(size))])
    out = run_now(records.recompress(memoryview(payload), records.check(payload), codec, records.UnpackBudget()))
    assert [h.compression for _, h in records.check(out)] == [codec]
    assert list(records.iterate(out)) == list(records.iterate(payload))


def test_recompression_changes_only_the_codec() -> None:
    payload = records.build(sample_records(2), compression=GZIP, producer_id=4, producer_epoch=0, base_sequence=8)
    payload += records.build(sample_records(3, first=2), base_offset=2, compression=LZ4)
    out = run_now(records.recompress(payload, records.check(payload), ZSTD, records.UnpackBudget()))
    assert [h.compression for _, h in records.check(out)] == [ZSTD] * 2
    assert list(records.iterate(out)) == list(records.iterate(payload))
    same = [h._replace(batch_length=0, crc=0, attributes=0) for _, h in records.check(out)]
    assert same == [h._replace(batch_length=0, crc=0, attributes=0) for _, h in records.check(payload)]


@pytest.mark.parametrize(("codec", "low", "high"), [(GZIP, 1, 9), (LZ4, 1, 12), (ZSTD, -131_072, 19)])
def test_a_higher_level_compresses_better(codec: int, low: int, high: int) -> None:
    words = [b"%d:%d;" % (i * 7919 % 1009, i * i % 77) for i in range(4_000)]
    payload = records.build([Record(0, 1, None, b"".join(words))])

    def recompress_at(level: int | None) -> bytes:
        found = run_now(records.recompress(payload, records.check(payload), codec, records.UnpackBudget(), level))
        assert list(records.iterate(found)) == list(records.iterate(payload))
        return bytes(found)

    assert len(recompress_at(high)) < len(recompress_at(low))
    assert recompress_at(None) in {recompress_at(level) for level in range(1, 10)}


def test_a_compressed_batch_keeps_gaps_and_bounds() -> None:
    batch = records.build(sample_records(5, first=10), base_offset=10, base_sequence=3, producer_id=1, producer_epoch=0)
    header = records.peek(batch)
    thinned = records.pack(header, [r for r in records.iterate(batch) if r.offset in (11, 13)])
    kept = records.peek(thinned)
    assert (kept.base_offset, kept.last_offset, kept.record_count, kept.base_sequence) == (10, 14, 2, 3)
    assert [r.offset for r in records.iterate(thinned)] == [11, 13]
    assert records.crc_is_right(thinned, 0, kept)
    assert list(records.iterate(records.pack(header, []))) == []


def test_sequences_wrap_after_the_largest_int32() -> None:
    batch = records.build(sample_records(3), producer_id=1, producer_epoch=0, base_sequence=records.SEQUENCE_MAX - 1)
    assert records.peek(batch).last_sequence == 0


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_with_an_impossible_record_count_is_rejected(codec: int) -> None:
    """Offsets are assigned by the record count. A batch of some hundred bytes skipped 2^31 offsets, and its segment could never be closed."""
    least = [Record(i, 0, None, None) for i in range(3)]
    data = bytearray(records.build(least, compression=codec))
    records.check(data)

    def set_record_count(count: int) -> bytearray:
        struct.pack_into(">i", data, 57, count)
        struct.pack_into(">i", data, 23, count - 1)
        struct.pack_into(">I", data, records.CRC_AT, crc32c(bytes(data[records.CRC_FROM :])))
        return data

    most = records.RECORDS_PER_BATCH_MAX if codec else 3
    assert len(records.check(set_record_count(most))) == 1
    for count in (most + 1, 2**31 - 1):
        with pytest.raises(InvalidBatch, match=f"must not have {count} records"):
            records.check(set_record_count(count))


@pytest.mark.parametrize("codec", CODECS[1:])
def test_the_uncompressed_size_of_one_request_is_limited(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request of 65 KB contained ten batches that decompress to 200 MiB each: five seconds of the only thread, and more with more batches."""
    monkeypatch.setattr(records, "ROOM_BYTES", 100_000)
    monkeypatch.setattr(records, "ROOM_RECORDS", 10)
    data = records.build(sample_records(4, size=8_000), compression=codec)  # 32 KB decompressed
    room = records.UnpackBudget()
    for _ in range(2):
        assert len(list(records.iterate(data, room))) == 4
    with pytest.raises(records.TooMuch, match="10 records"):
        list(records.iterate(data, room))
    room = records.UnpackBudget()
    large = records.build(sample_records(1, size=60_000), compression=codec)
    assert len(list(records.iterate(large, room))) == 1
    with pytest.raises(CorruptBatch):
        list(records.iterate(large, room))  # the remaining budget limits decompression
    with pytest.raises(records.TooMuch, match="100000 bytes"):
        list(records.iterate(large, room))
    assert len(list(records.iterate(large))) == 1, "a caller without a budget has no such bound"
