"""Records of later buckets in memory and in indexes: each is taken once, and an index replaces exactly the records that it has."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from brokerd.delivery.delay_lookup import unpack_records
from brokerd.delivery.delay_schedule import BUCKET_MS, PendingRecord
from brokerd.delivery.offset_set import OffsetSet
from brokerd.delivery.stored_delays import PendingSegment, StoredDelays
from brokerd.storage.delay_index import DelayIndex, DelayIndexBuilder, LogFile, SegmentIdentity, open_contents


def record(offset: int, bucket: int) -> PendingRecord:
    return PendingRecord(bucket * BUCKET_MS + offset % 7, offset, bytes([1 + offset % 5]) * 16)


class MemoryIndex:
    """An index whose file is a bytearray."""

    def __init__(self, base: int, end: int, records: list[PendingRecord]) -> None:
        builder, self.file = DelayIndexBuilder(base, BUCKET_MS), bytearray(1_000)
        for r in records:
            builder.add_record(r.deliver_at_ms, r.offset, r.key_digest)
        self._write(*builder.run())
        identity = SegmentIdentity(base, 0, 0, crc32c(b""))
        tail, at, header = builder.finish(identity, end, end)
        self._write(tail, at)
        self._write(header, 0)
        size = at + len(tail)
        self.index: DelayIndex = open_contents(self._read, size, LogFile(lambda n, p: b"", base, 0), BUCKET_MS).index

    def _write(self, data: bytes, at: int) -> None:
        self.file[at : at + len(data)] = data

    def _read(self, length: int, position: int) -> bytes:
        return bytes(self.file[position : position + length])


RECORDS = [record(offset, 3 + offset % 3) for offset in range(60)]


def in_memory(records: list[PendingRecord]) -> StoredDelays:
    stored = StoredDelays()
    for r in records:
        stored.add(r.bucket, [r])
    return stored


def take_offsets(stored: StoredDelays, bucket: int) -> list[int]:
    found = stored.take(bucket).read()
    assert isinstance(found, bytes)
    return [r.offset for r in unpack_records(found)]


def test_an_index_replaces_what_it_has_in_any_order() -> None:
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        stored = in_memory(RECORDS)
        for part in order:
            first, end = 20 * part, 20 * part + 20
            assert stored.replace(MemoryIndex(first, end, RECORDS[first:end]).index, 0)
        assert stored.memory_bytes == 0
        for bucket in (3, 4, 5):
            assert sorted(take_offsets(stored, bucket)) == [r.offset for r in RECORDS if r.bucket == bucket]


def test_records_of_near_buckets_are_not_taken_again() -> None:
    stored = in_memory(RECORDS)
    first = take_offsets(stored, 3)
    assert stored.replace(MemoryIndex(0, 60, RECORDS).index, 4)
    assert stored.memory_bytes == 0 and take_offsets(stored, 3) == []
    assert sorted([*first, *take_offsets(stored, 4), *take_offsets(stored, 5)]) == list(range(60))


@pytest.mark.parametrize(
    "other",
    [RECORDS[:19], [*RECORDS[:19], record(19, 9)], RECORDS[1:20], [r for r in RECORDS[:20] if r.bucket != 4]],
)
def test_an_index_with_other_records_replaces_nothing(other: list[PendingRecord]) -> None:
    stored = in_memory(RECORDS)
    before = stored.memory_bytes
    assert not stored.replace(MemoryIndex(0, 20, other).index, 0)
    assert stored.memory_bytes == before
    assert sorted(o for bucket in (3, 4, 5) for o in take_offsets(stored, bucket)) == list(range(60))


def test_transferred_and_deleted_records_of_an_index_are_left_out() -> None:
    stored = StoredDelays()
    stored.add_segment(PendingSegment(MemoryIndex(0, 60, RECORDS).index, 0, 10, OffsetSet(range(30, 60))))
    assert sorted(o for bucket in (3, 4, 5) for o in take_offsets(stored, bucket)) == list(range(10, 30))


def test_a_damaged_index_is_named() -> None:
    stored, index = StoredDelays(), MemoryIndex(40, 60, RECORDS[40:])
    stored.add_segment(PendingSegment(index.index))
    index.file[200] ^= 1
    assert [stored.take(b).read() for b in (3, 4, 5)].count(40) == 1


def test_a_look_up_sees_each_record_once_whatever_happens_meanwhile() -> None:
    stored = in_memory(RECORDS[:50])
    being_read = stored.take(3)
    unstored = {5: tuple(r for r in RECORDS[50:] if r.bucket == 5)}
    found = stored.later_buckets({4, 5}, unstored, [being_read])
    assert stored.replace(MemoryIndex(0, 20, RECORDS[:20]).index, 4)
    stored.add(4, [record(100, 4)])
    stored.take(5)
    buckets = list(found)
    assert [b.bucket for b in buckets] == [3, 4, 5]
    offsets = [r.offset for b in buckets for r in (*b.records, *unpack_records(b.stored[: b.stored_bytes]))]
    assert sorted(offsets) == [r.offset for r in RECORDS if r.offset < 50 or r.bucket == 5]
    again = list(stored.later_buckets({4}, {}, ()))
    indexed = [r.offset for b in again for read in b.parts for r in unpack_records(read())]
    assert indexed == [r.offset for r in RECORDS[:20] if r.bucket == 4]


def test_segments_below_the_log_start_are_forgotten() -> None:
    stored = StoredDelays()
    stored.add_segment(PendingSegment(MemoryIndex(0, 20, RECORDS[:20]).index))
    stored.forget_below(20)
    assert take_offsets(stored, 3) == []
