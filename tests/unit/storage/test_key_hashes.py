"""The hashes of a batch: each key and each value of the chosen header, of any batch that can be decoded; nothing raises for one that cannot."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd.storage.key_hashes import HashedKeys
from brokerd.storage.key_index import header_hash, header_seed, key_hash
from brokerd.wire import records
from brokerd.wire.records import Record

BYTES = st.one_of(st.none(), st.binary(max_size=200))
HEADERS = st.lists(st.tuples(st.sampled_from(["id", "trace", ""]), BYTES), max_size=3).map(tuple)
RECORDS = st.lists(st.builds(Record, st.just(0), st.integers(0, 2**42), BYTES, BYTES, HEADERS), min_size=1, max_size=20)


def expected_hashes(content: list[Record], name: str) -> set[int]:
    out = {key_hash(r.key) for r in content if r.key is not None}
    if name:
        out |= {header_hash(v, header_seed(name)) for r in content for n, v in r.headers if n == name and v is not None}
    return out


@settings(max_examples=200, deadline=None)
@given(content=RECORDS, name=st.sampled_from(["", "id", "trace", "none"]), compression=st.integers(0, 4))
def test_each_key_and_each_value_of_the_header_has_its_hash(content: list[Record], name: str, compression: int) -> None:
    content = [r._replace(offset=i) for i, r in enumerate(content)]
    data = b"before" + records.build(content, compression=compression)
    assert HashedKeys(name).of_batch(data, 6, records.peek(data, 6)) == expected_hashes(content, name)


@settings(max_examples=300, deadline=None)
@given(content=RECORDS, at=st.integers(0, 10_000), byte=st.integers(0, 255), name=st.sampled_from(["", "id"]))
def test_a_batch_that_cannot_be_decoded_raises_nothing(content: list[Record], at: int, byte: int, name: str) -> None:
    data = bytearray(records.build([r._replace(offset=i) for i, r in enumerate(content)]))
    data[61 + at % max(1, len(data) - 61)] = byte
    found = HashedKeys(name).of_batch(data, 0, records.peek(data))
    try:
        readable = list(records.iterate(data))
    except records.CorruptBatch:
        return
    assert found == expected_hashes(readable, name), "what a look-up can return is indexed"


def test_a_control_batch_has_no_keys() -> None:
    data = records.build([Record(0, 0, b"k", b"v")], control=True, producer_id=1, producer_epoch=0)
    assert HashedKeys().of_batch(data, 0, records.peek(data)) == set()
