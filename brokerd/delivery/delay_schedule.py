"""Schedule of the delayed records of one front partition: a state machine without I/O.

Records that are due soon are in memory. The other records are in buckets of BUCKET_MS by delivery time. The caller stores the buckets in files and loads a
bucket shortly before its delivery times. So memory is bounded by the rate of deliveries, not by the number of pending records.

Invariants:
  - A record is due only after its delivery time and after it is replicated.
  - Records with equal delivery times are due in the order of their offsets.
  - A tombstone cancels the pending records with its key and lower offsets, in memory and in buckets.
  - A pending record is in memory or in a bucket, never in both.
Does not contain: records, files, clocks.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

BUCKET_MS = 600_000
"""Duration of a bucket: ten minutes. A year has 52,560 buckets."""
LOAD_AHEAD_MS = 60_000
"""A bucket is loaded this time before its first delivery time."""
DELAY_MS_MAX = 366 * 24 * 3_600_000
SPILL_RECORDS = 4_096
"""Number of records of later buckets that are collected in memory before they are stored together."""
DUE_MAX = 1_000
"""Maximum number of records of one `Due` effect."""


@dataclass(frozen=True, slots=True, order=True)
class PendingRecord:
    """A pending record. `key_digest` has 16 bytes. It is empty for a record without a key, which cannot be cancelled."""

    deliver_at_ms: int
    offset: int
    key_digest: bytes = b""

    @property
    def bucket(self) -> int:
        return self.deliver_at_ms // BUCKET_MS


# -- events ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class DelayedAppended:
    """A delayed record was appended to the leader's log, or was found in it."""

    record: PendingRecord


@dataclass(frozen=True, slots=True)
class TombstoneAppended:
    """Cancels pending records with this key and a lower offset."""

    key_digest: bytes
    offset: int


@dataclass(frozen=True, slots=True)
class TombstonesFound:
    """Tombstones of an indexed segment: the last offset by key. In the order of the log with `TombstoneAppended`."""

    offsets: Mapping[bytes, int]


@dataclass(frozen=True, slots=True)
class BucketsFound:
    """An indexed segment has these pending records, which are not in memory: (bucket, number, earliest delivery time) of each group."""

    groups: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class LaterRequested:
    """Store the records of later buckets that are in memory now."""


@dataclass(frozen=True, slots=True)
class DelayedReplicated:
    """Records below `high_watermark` are replicated."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class BucketLoaded:
    """The records that were stored in a bucket. The caller has deleted the stored bucket."""

    bucket: int
    records: tuple[PendingRecord, ...]


@dataclass(frozen=True, slots=True)
class DelayTick:
    """Time has passed. `room` is the number of records that can be transferred now."""

    room: int


DelayEvent = (
    DelayedAppended
    | TombstoneAppended
    | TombstonesFound
    | BucketsFound
    | LaterRequested
    | DelayedReplicated
    | BucketLoaded
    | DelayTick
)


# -- effects -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Due:
    """Transfer these records now, in this order."""

    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A tombstone has cancelled these records, and their delivery time has passed. They may be deleted."""

    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StoreInBucket:
    """Add these records to the file of a bucket."""

    bucket: int
    records: tuple[PendingRecord, ...]


@dataclass(frozen=True, slots=True)
class LoadBucket:
    """Read the stored records of this bucket and return them once, with `BucketLoaded`. Until then no record of this or a later bucket is due."""

    bucket: int


DelayEffect = Due | Cancelled | StoreInBucket | LoadBucket


@dataclass(slots=True)
class BucketMetrics:
    """The records of one later bucket, in memory and stored. `first_ms`: the earliest delivery time."""

    records: int
    first_ms: int


class DelaySchedule:
    def __init__(self, stored: Iterable[int] = ()) -> None:
        """`stored`: the buckets that have files."""
        self._near: list[PendingRecord] = []
        self._near_until = 0
        """Records of lower buckets are in memory."""
        self._near_seconds: Counter[int] = Counter()
        """Records of `_near` by the second of their delivery time."""
        self._metrics: dict[int, BucketMetrics] = {}
        """Metrics of the buckets in `_later` and `_stored`, by bucket."""
        self._later: defaultdict[int, list[PendingRecord]] = defaultdict(list)
        self._later_count = 0
        self._stored = set(stored)
        self._loading: dict[int, BucketMetrics] = {}
        self._cancelled: dict[bytes, int] = {}
        """Offset of the last tombstone by key."""
        self._high_watermark = 0

    def handle(self, event: DelayEvent, now_ms: int) -> list[DelayEffect]:
        if isinstance(event, DelayedAppended):
            return self._add(event.record, now_ms)
        if isinstance(event, TombstoneAppended):
            self._cancelled[event.key_digest] = event.offset
            return []
        if isinstance(event, TombstonesFound):
            self._cancelled.update(event.offsets)
            return []
        if isinstance(event, BucketsFound):
            for bucket, records, first_ms in event.groups:
                self._count_later(bucket, records, first_ms)
            self._stored.update(bucket for bucket, _, _ in event.groups)
            return []
        if isinstance(event, LaterRequested):
            return self._spill()
        if isinstance(event, DelayedReplicated):
            self._high_watermark = max(self._high_watermark, event.high_watermark)
            return []
        if isinstance(event, BucketLoaded):
            self._loading.pop(event.bucket, None)
            self._push(event.records)
            return []
        return self._tick(event.room, now_ms)

    @property
    def in_memory(self) -> int:
        """The number of pending records in memory."""
        return len(self._near) + self._later_count

    @property
    def pending(self) -> int:
        """The number of records that are not due yet, or that cannot be transferred yet. Cancelled records count until their delivery time."""
        return len(self._near) + sum(f.records for f in (*self._metrics.values(), *self._loading.values()))

    @property
    def earliest_ms(self) -> int | None:
        """The earliest delivery time of a pending record."""
        times = [f.first_ms for f in (*self._metrics.values(), *self._loading.values())]
        if self._near:
            times.append(self._near[0].deliver_at_ms)
        return min(times, default=None)

    def counts(self, bounds_ms: Sequence[int]) -> list[int]:
        """Numbers of pending records by delivery time: before the first bound, between each two bounds, after the last bound. `bounds_ms` are ascending.
        Delivery times are rounded down to a second, and in later buckets to the start of the bucket, so that the work does not depend on the number of
        records."""
        found = [0] * (len(bounds_ms) + 1)
        for second, records in self._near_seconds.items():
            found[bisect_right(bounds_ms, second * 1_000)] += records
        for bucket, metrics in (*self._metrics.items(), *self._loading.items()):
            found[bisect_right(bounds_ms, bucket * BUCKET_MS)] += metrics.records
        return found

    @property
    def near_until(self) -> int:
        """Records of lower buckets are in memory, or are being loaded."""
        return self._near_until

    def is_cancelled(self, record: PendingRecord) -> bool:
        return self._cancelled.get(record.key_digest, -1) > record.offset

    def near_records(self) -> tuple[PendingRecord, ...]:
        """A copy of the records that are due soon, unordered."""
        return tuple(self._near)

    def later_buckets(self) -> set[int]:
        """The buckets with records that are not due soon."""
        return {*self._stored, *self._later}

    def later_records(self) -> dict[int, tuple[PendingRecord, ...]]:
        """A copy of the records of later buckets that are not stored, by bucket. At most SPILL_RECORDS."""
        return {bucket: tuple(records) for bucket, records in self._later.items()}

    def forget_tombstones(self, log_start: int) -> None:
        """Remove tombstones below the log start offset: they have no pending records."""
        self._cancelled = {key: offset for key, offset in self._cancelled.items() if offset >= log_start}

    def wake_at_ms(self, now_ms: int) -> int | None:
        """The time of the next `DelayTick` that has an effect."""
        times = [bucket * BUCKET_MS - LOAD_AHEAD_MS for bucket in (*self._stored, *self._later)]
        if self._near:
            times.append(self._near[0].deliver_at_ms)
        return max(now_ms, min(times)) if times else None

    def _add(self, record: PendingRecord, now_ms: int) -> list[DelayEffect]:
        self._near_until = max(self._near_until, (now_ms + LOAD_AHEAD_MS) // BUCKET_MS + 1)
        if record.bucket < self._near_until:
            self._push((record,))
            return []
        self._count_later(record.bucket, 1, record.deliver_at_ms)
        self._later[record.bucket].append(record)
        self._later_count += 1
        return self._spill() if self._later_count >= SPILL_RECORDS else []

    def _count_later(self, bucket: int, records: int, first_ms: int) -> None:
        metrics = self._metrics.get(bucket)
        if metrics is None:
            self._metrics[bucket] = BucketMetrics(records, first_ms)
        else:
            metrics.records += records
            metrics.first_ms = min(metrics.first_ms, first_ms)

    def _push(self, records: Iterable[PendingRecord]) -> None:
        for record in records:
            heapq.heappush(self._near, record)
            self._near_seconds[record.deliver_at_ms // 1_000] += 1

    def _pop(self) -> PendingRecord:
        record = heapq.heappop(self._near)
        second = record.deliver_at_ms // 1_000
        self._near_seconds[second] -= 1
        if not self._near_seconds[second]:
            del self._near_seconds[second]
        return record

    def _spill(self) -> list[DelayEffect]:
        effects: list[DelayEffect] = [
            StoreInBucket(bucket, tuple(records)) for bucket, records in sorted(self._later.items())
        ]
        self._stored.update(self._later)
        self._later.clear()
        self._later_count = 0
        return effects

    def _tick(self, room: int, now_ms: int) -> list[DelayEffect]:
        effects = self._load_near(now_ms)
        due: list[int] = []
        cancelled: list[int] = []
        while self._near and self._near[0].deliver_at_ms <= now_ms and len(due) < min(room, DUE_MAX):
            first = self._near[0]
            # A bucket that is still being read can contain records that are due before this record.
            if first.offset >= self._high_watermark or any(bucket <= first.bucket for bucket in self._loading):
                break
            self._pop()
            (cancelled if self.is_cancelled(first) else due).append(first.offset)
        if cancelled:
            effects.append(Cancelled(tuple(cancelled)))
        if due:
            effects.append(Due(tuple(due)))
        return effects

    def _load_near(self, now_ms: int) -> list[DelayEffect]:
        self._near_until = max(self._near_until, (now_ms + LOAD_AHEAD_MS) // BUCKET_MS + 1)
        for bucket in [b for b in self._later if b < self._near_until]:
            records = self._later.pop(bucket)
            self._later_count -= len(records)
            self._metrics[bucket].records -= len(records)
            if not self._metrics[bucket].records:
                del self._metrics[bucket]
            self._push(records)
        near = sorted(b for b in self._stored if b < self._near_until)
        self._stored.difference_update(near)
        for bucket in near:
            self._loading[bucket] = self._metrics.pop(bucket, BucketMetrics(0, bucket * BUCKET_MS))
        return [LoadBucket(bucket) for bucket in near]
