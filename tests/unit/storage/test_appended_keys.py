"""Entries that are collected when batches are appended: those of the batches in the segment, up to the first gap."""

from __future__ import annotations

from array import array

import pytest

from brokerd.storage import appended_keys
from brokerd.storage.appended_keys import ENTRIES_FIRST, AppendedKeys, CollectedRange
from brokerd.storage.key_hashes import HashedKeys
from brokerd.wire import records
from brokerd.wire.compression import GZIP
from brokerd.wire.records import Record

START = 1_000


def batch(*keys: bytes, base: int = 0, compression: int = 0, header: bytes | None = None) -> bytearray:
    headers = (("id", header),) if header is not None else ()
    content = [Record(base + i, 5, key, b"value", headers) for i, key in enumerate(keys)]
    return bytearray(records.build(content, base_offset=base, compression=compression))


def append_batches(collected: AppendedKeys, *batches: bytearray) -> int:
    """Append the batches from START on. Returns the position after them."""
    position = START
    for data in batches:
        collected.on_appended(data, position)
        position += len(data)
    return position


def entries(name: str, *placed: tuple[int, bytearray]) -> set[int]:
    hashed = HashedKeys(name)
    return {
        h << 32 | position + at
        for position, data in placed
        for at, header in records.batches(data)
        for h in hashed.of_batch(data, at, header)
    }


def test_entries_of_all_appends_in_log_order() -> None:
    first, second = batch(b"a", b"b", b"a"), batch(b"c", base=3) + batch(b"d", b"e", base=4)
    collected = AppendedKeys(HashedKeys(), START)
    end = append_batches(collected, first, second)
    taken = collected.take(end)
    assert taken is not None
    last = START + len(first) + len(batch(b"c"))
    assert (taken.start, taken.end, taken.last, taken.next_offset) == (START, end, last, 6)
    assert len(taken.entries) == 6 and set(taken.entries) == entries("", (START, first), (START + len(first), second))
    assert collected.take(end) is None, "taken once"


def test_the_collection_continues_where_the_last_one_ended() -> None:
    collected = AppendedKeys(HashedKeys(), START)
    middle = append_batches(collected, batch(b"a"))
    collected.take(middle)
    after = batch(b"b", base=1)
    collected.on_appended(after, middle)
    taken = collected.take(middle + len(after))
    assert taken is not None and (taken.start, taken.end) == (middle, middle + len(after))
    assert set(taken.entries) == entries("", (middle, after))


@pytest.mark.parametrize("behind", [True, False], ids=["in an append of its own", "in the same append"])
def test_nothing_is_collected_from_a_gap_on_until_the_entries_are_taken(behind: bool) -> None:
    plain, packed, later = batch(b"a"), batch(b"b", base=1, compression=GZIP), batch(b"c", base=2)
    collected = AppendedKeys(HashedKeys(), START)
    end = append_batches(collected, *([plain, packed, later] if behind else [plain + packed + later]))
    taken = collected.take(end)
    assert taken is not None and (taken.end, taken.next_offset) == (START + len(plain), 1)
    assert set(taken.entries) == entries("", (START, plain))
    collected.on_appended(later, end)
    again = collected.take(end + len(later))
    assert again is not None and again.start == end and again.last == end


def test_space_grows_with_the_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [b"k%d" % i for i in range(3 * ENTRIES_FIRST)]
    many = batch(*keys, header=b"x")
    collected = AppendedKeys(HashedKeys("id"), START)
    small = batch(b"a", header=b"y")
    end = append_batches(collected, small, many)
    taken = collected.take(end)
    assert taken is not None and taken.end == end and len(taken.entries) == 2 * len(keys) + 2
    assert set(taken.entries) == entries("id", (START, small), (START + len(small), many))
    monkeypatch.setattr(appended_keys, "ENTRIES_MAX", 2 * ENTRIES_FIRST)
    bounded = AppendedKeys(HashedKeys("id"), START)
    append_batches(bounded, small, many)
    assert bounded.count == 2 and bounded.take(end) == CollectedRange(
        START, START + len(small), array("Q", bounded_entries(small)), START, 1
    )


def bounded_entries(data: bytearray) -> list[int]:
    """The entries of a batch with one record: its key, then the value of its header."""
    hashed = HashedKeys("id")
    key = HashedKeys().of_batch(data, 0, records.peek(data))
    value = hashed.of_batch(data, 0, records.peek(data)) - key
    return [h << 32 | START for h in (*key, *value)]
