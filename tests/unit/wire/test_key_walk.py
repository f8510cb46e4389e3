"""The walk over record keys: the Python source and the compiled module collect the same entries as `HashedKeys`, and leave every batch that they
cannot read."""

from __future__ import annotations

from array import array
from types import ModuleType

from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd.storage.key_hashes import HashedKeys
from brokerd.wire import key_walk, records
from brokerd.wire.compression import GZIP
from brokerd.wire.records import Record

POSITION = 1_000_000
BYTES = st.one_of(st.none(), st.binary(max_size=150))
HEADERS = st.lists(st.tuples(st.sampled_from(["id", "trace", ""]), BYTES), max_size=3).map(tuple)
CONTENT = st.lists(
    st.builds(Record, st.just(0), st.integers(0, 2**42), BYTES | st.sampled_from([b"a", b"b"]), BYTES, HEADERS),
    min_size=1,
    max_size=20,
)


def build_batches(contents: list[list[Record]], **options: int) -> tuple[bytes, list[int]]:
    """The batches one after the other, and their positions."""
    out, positions, offset = b"", [], 0
    for content in contents:
        positions.append(len(out))
        numbered = [r._replace(offset=offset + i) for i, r in enumerate(content)]
        out += records.build(numbered, base_offset=offset, **options)
        offset += len(content)
    return out, positions


def collect_entries(
    module: ModuleType, data: bytes, name: str, at: int = 0, space: int = 512
) -> tuple[int, list[int], int, int]:
    """(position of the first batch that was not collected, entries, position of the last collected batch, the offset after it)."""
    entries, hashed = array("Q", bytes(8 * space)), HashedKeys(name)
    walk = module.KeyWalk(entries, array("Q", bytes(16 * space)), hashed.seed, hashed.header_name)
    after = walk.collect(data, at, POSITION, crc32c)
    return after, entries[: walk.count].tolist(), walk.last, walk.next_offset


def expected_entries(data: bytes, name: str, upto: int) -> set[int]:
    return {
        h << 32 | POSITION + pos
        for pos, header in records.batches(data)
        if pos < upto
        for h in HashedKeys(name).of_batch(data, pos, header)
    }


@settings(max_examples=200, deadline=None)
@given(
    contents=st.lists(CONTENT, min_size=1, max_size=5),
    name=st.sampled_from(["", "id", "trace", "none"]),
    tail=st.binary(max_size=70),
)
def test_each_batch_is_collected_once(
    compiled_keys: ModuleType, contents: list[list[Record]], name: str, tail: bytes
) -> None:
    data, positions = build_batches(contents)
    for module in (key_walk, compiled_keys):
        after, entries, last, next_offset = collect_entries(module, data + tail[:60], name)
        assert after == len(data) and last == positions[-1] and next_offset == sum(map(len, contents))
        assert len(entries) == len(set(entries)) and set(entries) == expected_entries(data, name, after)
        assert [e & 0xFFFFFFFF for e in entries] == sorted(e & 0xFFFFFFFF for e in entries), "in log order"


@settings(max_examples=500, deadline=None)
@given(
    contents=st.lists(CONTENT, min_size=1, max_size=3),
    at=st.integers(0, 10_000),
    byte=st.integers(0, 255),
    name=st.sampled_from(["", "id"]),
)
def test_a_changed_byte_ends_the_walk_or_changes_both_results(
    compiled_keys: ModuleType, contents: list[list[Record]], at: int, byte: int, name: str
) -> None:
    """The CRC is that of the changed bytes, so that the walk reads them."""
    data = bytearray(build_batches(contents)[0])
    data[at % len(data)] = byte
    for pos, header in records.batches(data):
        data[pos + 17 : pos + 21] = crc32c(memoryview(data)[pos + 21 : pos + header.size]).to_bytes(4, "big")
    raw = bytes(data)
    results = [collect_entries(module, raw, name) for module in (key_walk, compiled_keys)]
    assert results[0] == results[1]
    after, entries, _, _ = results[0]
    assert set(entries) == expected_entries(raw, name, after)


def test_batches_that_are_compressed_damaged_or_control_are_left(compiled_keys: ModuleType) -> None:
    plain, _ = build_batches([[Record(0, 1, b"k", b"v")]])
    damaged = bytearray(plain)
    damaged[-2] ^= 1
    control = records.build([Record(1, 0, b"k", b"v")], base_offset=1, control=True, producer_id=1, producer_epoch=0)
    compressed = records.build([Record(1, 0, b"k", b"v")], base_offset=1, compression=GZIP)
    for module in (key_walk, compiled_keys):
        for other in (bytes(damaged) + plain, control + plain, compressed + plain, plain[:-1], bytes(100) + plain):
            after, entries, last, next_offset = collect_entries(module, plain + other, "")
            assert (after, len(entries), last, next_offset) == (len(plain), 1, 0, 1)
        assert collect_entries(module, plain + control + plain, "", len(plain) + len(control))[0] == 2 * len(
            plain
        ) + len(control)


def test_a_batch_without_space_is_left_as_a_whole(compiled_keys: ModuleType) -> None:
    first, second = (
        [Record(0, 1, b"k%d" % i, b"") for i in range(10)],
        [Record(0, 1, b"m%d" % i, b"") for i in range(7)],
    )
    data, positions = build_batches([first, second])
    headed, _ = build_batches([[Record(0, 1, b"k", b"", tuple(("id", b"%d" % i) for i in range(40)))]])
    for module in (key_walk, compiled_keys):
        after, entries, _, _ = collect_entries(module, data, "", space=16)
        assert after == positions[1] and len(entries) == 10
        assert collect_entries(module, data, "", after, 16)[:1] == (len(data),)
        assert collect_entries(module, data, "", 0, 8)[:2] == (0, [])
        assert collect_entries(module, headed, "id", 0, 16)[:2] == (0, [])


@settings(max_examples=100, deadline=None)
@given(entries=st.lists(st.integers(0, 2**64 - 1), max_size=300), bits=st.integers(1, 8))
def test_buckets_keep_the_order_of_their_entries(compiled_keys: ModuleType, entries: list[int], bits: int) -> None:
    for module in (key_walk, compiled_keys):
        given_, ordered, ends = array("Q", entries), array("Q", bytes(8 * len(entries))), array("Q", bytes(8 << bits))
        module.in_buckets(given_, 64 - bits, ordered, ends)
        buckets = [[e for e in entries if e >> (64 - bits) == b] for b in range(1 << bits)]
        assert ordered.tolist() == [e for bucket in buckets for e in bucket]
        assert ends.tolist() == [sum(map(len, buckets[: b + 1])) for b in range(1 << bits)]


@settings(max_examples=100, deadline=None)
@given(contents=st.lists(CONTENT, min_size=1, max_size=3), name=st.sampled_from(["", "id"]))
def test_without_a_table_each_occurrence_is_collected_and_no_crc_is_checked(
    compiled_keys: ModuleType, contents: list[list[Record]], name: str
) -> None:
    data, positions = build_batches(contents)
    wrong = bytearray(data)
    for pos in positions:
        wrong[pos + 17] ^= 1
    for module in (key_walk, compiled_keys):
        entries, hashed = array("Q", bytes(8 * 512)), HashedKeys(name)
        walk = module.KeyWalk(entries, array("Q"), hashed.seed, hashed.header_name)
        assert walk.collect(wrong, 0, POSITION, None) == len(data) and walk.last == positions[-1]
        indexed = [
            POSITION + pos
            for pos, records_ in zip(positions, contents, strict=True)
            for r in records_
            for _ in [r.key, *(value for header, value in r.headers if name and header == name)]
            if _ is not None
        ]
        assert [e & 0xFFFFFFFF for e in entries[: walk.count]] == indexed
        assert set(entries[: walk.count]) == expected_entries(data, name, len(data))


@settings(max_examples=100, deadline=None)
@given(entries=st.lists(st.integers(0, 2**64 - 2) | st.sampled_from([0, 1, 2**40, 2**63]), max_size=200))
def test_distinct_keeps_the_first_of_equal_entries(compiled_keys: ModuleType, entries: list[int]) -> None:
    for module in (key_walk, compiled_keys):
        left = array("Q", entries)
        count = module.distinct(left, array("Q", bytes(8 << (2 * len(entries)).bit_length())))
        assert left[:count].tolist() == list(dict.fromkeys(entries))


@settings(max_examples=100, deadline=None)
@given(key=st.binary(max_size=100), seed=st.integers(1, 2**32 - 1))
def test_the_checksum_is_the_crc_of_the_library(key: bytes, seed: int) -> None:
    assert key_walk._checksum(b"..." + key, 3, 3 + len(key), 0) == crc32c(key)
    assert key_walk._checksum(key, 0, len(key), seed) == crc32c(key, seed)


def payload(data: bytes) -> tuple[bytes, int]:
    """The records of the only batch without its header, and their number."""
    (batch,) = records.batches(data)
    return data[records.HEADER_BYTES :], batch[1].record_count


@settings(max_examples=200, deadline=None)
@given(content=CONTENT, slots=st.sampled_from([1, 7, 16_384]))
def test_each_record_has_the_slot_of_its_key(compiled_keys: ModuleType, content: list[Record], slots: int) -> None:
    data, _ = build_batches([content])
    for module in (key_walk, compiled_keys):
        found = array("Q", bytes(8 * len(content)))
        module.key_slots(*payload(data), slots, found)
        assert found.tolist() == [
            i << 32 | (0 if r.key is None else crc32c(r.key) % slots + 1) for i, r in enumerate(content)
        ]


@settings(max_examples=500, deadline=None)
@given(content=CONTENT, at=st.integers(0, 10_000), byte=st.integers(0, 255), cut=st.integers(0, 40))
def test_changed_records_are_read_equally_or_not_at_all(
    compiled_keys: ModuleType, content: list[Record], at: int, byte: int, cut: int
) -> None:
    whole, count = payload(build_batches([content])[0])
    changed = bytearray(whole[: len(whole) - cut])
    if changed:
        changed[at % len(changed)] = byte
    outcomes = []
    for module in (key_walk, compiled_keys):
        found = array("Q", bytes(8 * count))
        try:
            module.key_slots(bytes(changed), count, 16_384, found)
            outcomes.append(found.tolist())
        except module.NotCollected:
            outcomes.append([])
    assert outcomes[0] == outcomes[1]
