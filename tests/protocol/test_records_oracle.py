"""Our record codec against kafka-python's: each reads what the other wrote, for every compression."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from brokerd.wire import records
from brokerd.wire.compression import COMPRESSION_NAMES
from brokerd.wire.records import Record

CODECS = list(COMPRESSION_NAMES)
blob = st.none() | st.binary(max_size=300)
wanted = st.lists(
    st.tuples(st.integers(0, 2**42), blob, blob, st.lists(st.tuples(st.text(max_size=8), blob), max_size=3)),
    min_size=1,
    max_size=20,
)


def as_records(fields: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]) -> list[Record]:
    return [Record(i, t, k, v, tuple(h)) for i, (t, k, v, h) in enumerate(fields)]


def read_by_oracle(data: bytes) -> list[Record]:
    out = []
    batches = MemoryRecords(data)
    while (batch := batches.next_batch()) is not None:
        assert isinstance(batch, DefaultRecordBatch)
        assert batch.validate_crc()
        out += [Record(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in batch]
    return out


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=30, deadline=None)
@given(fields=wanted)
def test_the_oracle_reads_what_we_build(codec: int, fields: list) -> None:
    ours = as_records(fields)
    assert read_by_oracle(records.build(ours, compression=codec)) == ours


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=30, deadline=None)
@given(fields=wanted)
def test_we_read_what_the_oracle_builds(codec: int, fields: list) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=77,
        producer_epoch=3,
        base_sequence=12,
        batch_size=1 << 20,
    )
    theirs = as_records(fields)
    for r in theirs:
        builder.append(r.offset, r.timestamp, r.key, r.value, list(r.headers))
    data = bytearray(builder.build())
    ((_, header),) = records.check(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 12)
    assert list(records.iterate(data)) == theirs
    records.stamp(data, 0, 5_000, 9)
    assert [r.offset for r in read_by_oracle(bytes(data))] == [5_000 + r.offset for r in theirs]


@pytest.mark.parametrize("codec", CODECS)
def test_both_agree_on_a_large_batch(codec: int) -> None:
    big = [Record(i, 1_600_000_000_000 + i, b"%d" % i, bytes([i % 251]) * 700) for i in range(500)]
    assert read_by_oracle(records.build(big, compression=codec)) == big


def test_both_see_the_same_header_of_a_control_batch() -> None:
    marker = [Record(0, 5, b"\0\0\0\1", b"\0\0\0\0\0\7")]
    data = records.build(marker, base_offset=31, producer_id=1, producer_epoch=2, transactional=True, control=True)
    batch = DefaultRecordBatch(data)
    header = records.peek(data)
    assert batch.is_control_batch is header.is_control is True
    assert batch.is_transactional is header.is_transactional is True
    assert (batch.base_offset, batch.next_offset, batch.size_in_bytes) == (31, header.next_offset, header.size)
