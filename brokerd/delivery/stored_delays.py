"""The pending delayed records of later buckets. Records of indexed segments are in the index files; the other records are in memory.

Invariants: a record is in memory or in one index, never in both. A bucket is taken once. The result of a look-up does not change.
Does not contain: when a bucket is taken (`delay_schedule`), files.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import partial

from brokerd.delivery.delay_lookup import LaterBucket, pack_record
from brokerd.delivery.delay_schedule import PendingRecord
from brokerd.storage.delay_index import STORED, BucketGroup, DelayIndex, InvalidDelayIndex


@dataclass(frozen=True, slots=True)
class PendingSegment:
    """The pending records of an index: those of buckets from `from_bucket` on and offsets from `from_offset` on, except `transferred`."""

    index: DelayIndex
    from_bucket: int = 0
    from_offset: int = 0
    transferred: Set[int] = frozenset()

    def records_of(self, group: BucketGroup) -> bytes:
        """The pending records of a group, each as STORED. Blocks. Raises InvalidDelayIndex."""
        data = self.index.records_of(group)
        if not self.transferred and self.from_offset <= self.index.base_offset:
            return data
        return b"".join(
            data[at : at + STORED.size]
            for at, (_, offset, _) in zip(range(0, len(data), STORED.size), STORED.iter_unpack(data), strict=True)
            if offset >= self.from_offset and offset not in self.transferred
        )


@dataclass(frozen=True, slots=True)
class TakenBucket:
    """The records of a bucket: records in memory, and functions that read records from index files."""

    bucket: int
    memory: bytearray
    parts: tuple[tuple[PendingSegment, BucketGroup], ...]

    def read(self) -> bytes | int:
        """Read all pending records, each as STORED. Blocks. If an index is invalid, the result is the base offset of its segment."""
        found = bytearray(self.memory)
        for segment, group in self.parts:
            try:
                found += segment.records_of(group)
            except InvalidDelayIndex:
                return segment.index.base_offset
        return bytes(found)

    @property
    def readers(self) -> tuple[Callable[[], bytes], ...]:
        """Functions that read the records, for a look-up; see `PendingSegment.records_of`."""
        return tuple(partial(segment.records_of, group) for segment, group in self.parts)


def _parts(segments: Iterable[PendingSegment], bucket: int) -> tuple[tuple[PendingSegment, BucketGroup], ...]:
    return tuple((s, g) for s in segments if bucket >= s.from_bucket for g in s.index.groups_of(bucket))


def _offset(data: bytearray, number: int) -> int:
    offset: int = STORED.unpack_from(data, number * STORED.size)[1]
    return offset


class StoredDelays:
    def __init__(self) -> None:
        self._memory: dict[int, bytearray] = {}
        """The records of each bucket, each as STORED, in the order of their offsets."""
        self._segments: list[PendingSegment] = []

    @property
    def memory_bytes(self) -> int:
        return sum(map(len, self._memory.values()))

    def add(self, bucket: int, records: Iterable[PendingRecord]) -> None:
        """Add records that are in memory. Their offsets are higher than those of earlier calls."""
        stored = self._memory.setdefault(bucket, bytearray())
        for record in records:
            stored += pack_record(record)

    def add_segment(self, segment: PendingSegment) -> None:
        """Add the pending records of an index, which are not in memory."""
        self._segments.append(segment)

    def replace(self, index: DelayIndex, near_until: int) -> bool:
        """Remove the records from memory that are in this index. Returns False, and removes nothing, if the index does not have the same records. Records of
        buckets below `near_until` were taken before."""
        counts: Counter[int] = Counter()
        for group in index.groups():
            if group.bucket >= near_until:
                counts[group.bucket] += group.records
        ranges: dict[int, tuple[int, int]] = {}
        for bucket, data in self._memory.items():
            if bucket < near_until:
                continue
            count, total = counts.pop(bucket, 0), len(data) // STORED.size
            start = 0
            if _offset(data, 0) < index.base_offset:
                start = bisect_left(range(total), index.base_offset, key=partial(_offset, data))
            end = start + count
            if end > total or (end < total and _offset(data, end) < index.end_offset):
                return False
            if count and _offset(data, end - 1) >= index.end_offset:
                return False
            ranges[bucket] = start, end
        if counts:
            return False
        for bucket, (start, end) in ranges.items():
            if end > start:
                data = self._memory[bucket]
                # Create a new object, because a look-up may be reading the old one.
                left = data[: start * STORED.size] + data[end * STORED.size :]
                if left:
                    self._memory[bucket] = left
                else:
                    del self._memory[bucket]
        self._segments.append(PendingSegment(index, near_until))
        return True

    def take(self, bucket: int) -> TakenBucket:
        """Remove the bucket and return it. The caller reads its records once."""
        return TakenBucket(bucket, self._memory.pop(bucket, bytearray()), _parts(self._segments, bucket))

    def later_buckets(
        self,
        buckets: Iterable[int],
        records: Mapping[int, tuple[PendingRecord, ...]],
        taken: Iterable[TakenBucket],
    ) -> Iterator[LaterBucket]:
        """Yield the later buckets for a look-up, in the order of their times and in their current state. `records`: of `buckets`, not stored yet.
        `taken`: buckets that are being read."""
        memory = {bucket: (data, len(data)) for bucket, data in self._memory.items()}
        segments, being_read = tuple(self._segments), {t.bucket: t for t in taken}
        nothing = bytearray(), 0

        def later(bucket: int) -> LaterBucket:
            found = being_read.get(bucket)
            if found is None:
                data, length = memory.get(bucket, nothing)
                found = TakenBucket(bucket, data, _parts(segments, bucket))
            else:
                length = len(found.memory)
            return LaterBucket(bucket, records.get(bucket, ()), found.memory, length, found.readers)

        return map(later, sorted({*buckets, *being_read}))

    def forget_below(self, offset: int) -> None:
        """Remove the indexes of segments below the log start offset: they have no pending records."""
        self._segments = [s for s in self._segments if s.index.end_offset > offset]
