"""The key index: every key of the segment is found in its batches, newest first; a damaged or foreign file is rejected and never gives a wrong
result."""

from __future__ import annotations

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd.storage import key_index
from brokerd.storage.key_index import (
    NO_HEADER,
    InvalidKeyIndex,
    KeyIndex,
    KeyIndexBuilder,
    LogFile,
    SegmentIdentity,
    header_hash,
    header_seed,
    key_hash,
)

BATCH_BYTES = 100
Batches = list[set[int]]


def log_of(batches: Batches) -> bytes:
    """A log whose batch i is at position 100 i."""
    return b"".join(bytes([i % 251]) * BATCH_BYTES for i in range(len(batches)))


def file_of(batches: Batches, seed: int = NO_HEADER) -> bytearray:
    builder, out, log = KeyIndexBuilder(), bytearray(), log_of(batches)

    def write_at(data: bytes, at: int) -> None:
        out.extend(bytes(max(0, at + len(data) - len(out))))
        out[at : at + len(data)] = data

    for i, hashes in enumerate(batches):
        builder.add(hashes, i * BATCH_BYTES)
        if builder.full:
            write_at(*builder.run((i + 1) * BATCH_BYTES))
    write_at(*builder.run(len(log)))
    last = len(log) - BATCH_BYTES
    identity = SegmentIdentity(7, len(log), last, crc32c(log[last : last + key_index.BATCH_HEADER_BYTES]))
    table, at, header = builder.finish(identity, seed)
    write_at(table, at)
    write_at(header, 0)
    return out


def open_index(data: bytes | bytearray, batches: Batches, seed: int = NO_HEADER) -> KeyIndex:
    log = log_of(batches)
    of_log = LogFile(lambda length, position: log[position : position + length], 7, len(log))
    return KeyIndex.of_file(lambda length, position: bytes(data[position : position + length]), len(data), of_log, seed)


def expected_positions(batches: Batches, wanted: int, below: int) -> list[int]:
    return [i * BATCH_BYTES for i in reversed(range(len(batches))) if wanted in batches[i] and i * BATCH_BYTES < below]


HASHES = st.one_of(st.integers(0, 7), st.integers(0, 2**32 - 1), st.sampled_from([2**32 - 1, 2**31]))
BATCHES = st.lists(st.sets(HASHES, max_size=30), min_size=1, max_size=40)


@settings(max_examples=150, deadline=None)
@given(
    batches=BATCHES,
    wanted=HASHES,
    run=st.sampled_from([1, 5, 1000]),
    bucket=st.sampled_from([1, 4, 512]),
    cut=st.integers(0, 45),
)
def test_every_batch_with_the_key_is_found_newest_first_whatever_the_runs_and_buckets(
    batches: Batches, wanted: int, run: int, bucket: int, cut: int
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(key_index, "RUN_ENTRIES", run)
        patched.setattr(key_index, "BUCKET_ENTRIES", bucket)
        index = open_index(file_of(batches), batches)
        assert index.entries == sum(map(len, batches))
        for hash_ in {wanted, *set().union(*batches)}:
            assert list(index.positions(hash_, cut * BATCH_BYTES)) == expected_positions(
                batches, hash_, cut * BATCH_BYTES
            )


@settings(max_examples=150, deadline=None)
@given(
    batches=BATCHES,
    more=BATCHES,
    run=st.sampled_from([1, 5, 1000]),
    parts=st.sets(st.integers(0, 40)),
    cut=st.integers(0, 45),
)
def test_a_part_of_an_index_finds_the_batches_that_it_covers_also_when_the_build_continues(
    batches: Batches, more: Batches, run: int, parts: set[int], cut: int
) -> None:
    builder, out = KeyIndexBuilder(), bytearray()

    def add(position: int, hashes: set[int]) -> None:
        builder.add(hashes, position)
        if builder.unwritten >= run:
            data, at = builder.run(position + BATCH_BYTES)
            out.extend(bytes(max(0, at + len(data) - len(out))))
            out[at : at + len(data)] = data

    for i, hashes in enumerate(batches):
        add(i * BATCH_BYTES, hashes)
        if i in parts:
            builder.part(NO_HEADER, 0, 0)
    part = builder.part(5, len(batches) * BATCH_BYTES, 77)
    for i, hashes in enumerate(more):
        add((len(batches) + i) * BATCH_BYTES, hashes)
    index = KeyIndex(lambda length, position: bytes(out[position : position + length]), part.runs, part.tail)
    for hash_ in {*set().union(*batches, *more), 0xFF000000, 0xFF}:
        assert list(index.positions(hash_, cut * BATCH_BYTES)) == expected_positions(batches, hash_, cut * BATCH_BYTES)
    assert (part.seed, part.log_end, part.end_offset) == (5, len(batches) * BATCH_BYTES, 77)


@settings(max_examples=200, deadline=None)
@given(batches=BATCHES, at=st.integers(0, 10_000), bit=st.integers(0, 7), data=st.data())
def test_a_flipped_bit_is_rejected_or_changes_nothing(batches: Batches, at: int, bit: int, data: st.DataObject) -> None:
    wanted = data.draw(st.sampled_from(sorted(set().union(*batches)) or [0]))
    damaged = file_of(batches)
    damaged[at % len(damaged)] ^= 1 << bit
    try:
        found = list(open_index(damaged, batches).positions(wanted, 1 << 31))
    except InvalidKeyIndex:
        return
    assert found == expected_positions(batches, wanted, 1 << 31)


@settings(max_examples=100, deadline=None)
@given(batches=BATCHES, cut=st.integers(1, 10_000))
def test_a_cut_off_file_is_rejected(batches: Batches, cut: int) -> None:
    whole = file_of(batches)
    with pytest.raises(InvalidKeyIndex):
        open_index(whole[: len(whole) - 1 - cut % len(whole)], batches)


def test_an_index_of_another_segment_content_version_or_header_is_rejected() -> None:
    batches: Batches = [{1}, {2}, {3}]
    whole = file_of(batches)
    for other in ([{1}, {2}], [{1}, {2}, {3}, {4}]):
        with pytest.raises(InvalidKeyIndex, match="earlier content"):
            open_index(whole, other)
    with pytest.raises(InvalidKeyIndex, match=r"weir\.index\.header"):
        open_index(whole, batches, header_seed("order-id"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(key_index, "VERSION", 1)
        with pytest.raises(InvalidKeyIndex, match="version 0 is unknown"):
            open_index(whole, batches)
    log = log_of(batches)
    changed = log[:200] + b"x" * BATCH_BYTES
    rewritten = LogFile(lambda length, position: changed[position : position + length], 7, len(log))
    with pytest.raises(InvalidKeyIndex, match="earlier content"):
        KeyIndex.of_file(
            lambda length, position: bytes(whole[position : position + length]), len(whole), rewritten, NO_HEADER
        )


def test_the_index_of_a_gibibyte_of_one_kibibyte_records_is_below_one_percent() -> None:
    records = 100_000
    batches: Batches = [{key_hash(b"order-%d" % (16 * i + j)) for j in range(16)} for i in range(records // 16)]
    assert len(file_of(batches)) < 0.01 * records * 1024


def test_a_search_reads_one_bucket_of_each_run() -> None:
    batches: Batches = [{key_hash(b"order-%d" % (16 * i + j)) for j in range(16)} for i in range(6_250)]
    data, log = file_of(batches), log_of(batches)
    read: list[int] = []

    def read_and_record(length: int, position: int) -> bytes:
        read.append(length)
        return bytes(data[position : position + length])

    of_log = LogFile(lambda length, position: log[position : position + length], 7, len(log))
    index = KeyIndex.of_file(read_and_record, len(data), of_log, NO_HEADER)
    assert list(index.positions(key_hash(b"order-99"), 1 << 31)) == [6 * BATCH_BYTES]
    assert sum(read) < 12_000 < len(data) // 60


def test_a_header_value_and_a_key_of_the_same_bytes_have_different_hashes() -> None:
    assert header_seed("") == NO_HEADER != header_seed("a") != header_seed("b")
    assert len({key_hash(b"7"), header_hash(b"7", header_seed("a")), header_hash(b"7", header_seed("b"))}) == 3
