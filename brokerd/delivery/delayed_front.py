"""A partition of a front topic of delayed messages that this broker leads: delivers each record at its delivery time.

A new leader reads closed segments from their delay indexes. While it leads, it replaces the records in memory by the indexes of the segments that were
closed since then. So its memory depends on the size of a segment, not on the number of pending records.

Invariants: a record is due only after all tombstones were read that were stable at its delivery time. An index that cannot be read is discarded, and
the partition is read again without it. Does not contain: the times (`delay_schedule`), the reading of the log (`front_partition`), the records of later
buckets (`stored_delays`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from brokerd.cluster.model import Now
from brokerd.delivery import delay_schedule
from brokerd.delivery.delay_lookup import PendingPage, PendingQuery, look_up, unpack_records
from brokerd.delivery.delay_schedule import BucketLoaded, BucketsFound, DelayedAppended, DelaySchedule, PendingRecord
from brokerd.delivery.delayed_records import DelayProblem, build_delivered_record, delivery_time, key_digest
from brokerd.delivery.front_log import FrontTarget, IndexedSegment
from brokerd.delivery.front_partition import FrontPartition, FrontState
from brokerd.delivery.journal import decode
from brokerd.delivery.stored_delays import PendingSegment, StoredDelays, TakenBucket
from brokerd.storage.delay_index import IndexContents
from brokerd.wire.records import Record
from brokerd.wire.steps import Steps


class DelayedFront(FrontPartition):
    _generation = 0
    """Incremented whenever the partition is read again: results of earlier jobs are ignored."""
    cancelled = 0
    """Number of cancelled records since this broker became the leader."""
    last_sent: tuple[int, int] | None = None
    """(delivery time of the first record in the last sent batch, time at which the batch was sent), in Unix ms."""

    def _reset(self) -> None:
        self._schedule = DelaySchedule()
        self._stored = StoredDelays()
        self._generation += 1
        self._opening = False
        self._contents: dict[int, IndexContents] = {}
        """Contents of indexes that were read together with the journals and are not used yet, by base offset."""
        self._examined: set[int] = set()
        """Base offsets of the segments whose index is in use, or cannot be used."""
        self._taken: deque[TakenBucket] = deque()
        """Buckets that are being read from index files, one at a time."""
        self._index_at_ms = 0
        self._due_known = False
        """True if the buckets that were due at the start have been read. The indexes of these buckets also contain records that were already transferred."""

    def next_due_ms(self, now: Now) -> int | None:
        return self._schedule.wake_at_ms(now.wall_ms) if self.waiting else None

    @property
    def ready(self) -> bool:
        return super().ready and self._due_known

    # -- metrics and look-ups --------------------------------------------------------------------------------------------------------
    @property
    def pending(self) -> int:
        """The number of records that are not due yet. Cancelled records count until their delivery time. Overdue records count while their bucket, or an
        earlier bucket, is being read."""
        return min(self._schedule.pending, self.waiting)

    @property
    def due(self) -> int:
        """The number of records whose delivery time has passed and whose delivery is not acknowledged."""
        return max(0, self.waiting - self.pending)

    @property
    def earliest_ms(self) -> int | None:
        """The earliest delivery time of a pending record."""
        return self._schedule.earliest_ms

    @property
    def memory_bytes(self) -> int:
        """Bytes of the records of later buckets that are in memory because no index contains them."""
        return self._stored.memory_bytes

    def counts(self, bounds_ms: Sequence[int]) -> list[int]:
        """Pending records by delivery time; see `DelaySchedule.counts`."""
        return self._schedule.counts(bounds_ms)

    def look_up(self, query: PendingQuery, out_of_time: Callable[[], bool]) -> Steps[PendingPage]:
        """Pending records in the order of their delivery."""
        schedule = self._schedule
        later = self._stored.later_buckets(schedule.later_buckets(), schedule.later_records(), self._taken)
        return look_up(query, schedule.near_records(), later, out_of_time)

    def is_cancelled(self, record: PendingRecord) -> bool:
        return self._schedule.is_cancelled(record)

    # -- delivery ----------------------------------------------------------------------------------------------------------
    def _read_until(self, offset: int, now: Now) -> None:
        self._schedule.handle(delay_schedule.DelayedReplicated(offset), now.wall_ms)

    def _add(self, record: Record, now: Now) -> None:
        if self._was_transferred(record.offset):
            return
        at = delivery_time(record, record.timestamp)
        if isinstance(at, DelayProblem):
            self.discarded += 1
            return
        digest = key_digest(record.key)
        if at is None:
            self._schedule.handle(delay_schedule.TombstoneAppended(digest, record.offset), now.wall_ms)
            return
        self._count((record.offset,), 1)
        added = DelayedAppended(PendingRecord(at, record.offset, digest))
        self._run_schedule(self._schedule.handle(added, now.wall_ms), now)

    def _run_schedule(self, effects: list[delay_schedule.DelayEffect], now: Now) -> None:
        for effect in effects:
            match effect:
                case delay_schedule.Due():
                    self._lanes[FrontTarget.TOPIC].due.extend(effect.offsets)
                case delay_schedule.Cancelled():
                    self.cancelled += len(effect.offsets)
                    self._release(effect.offsets)
                case delay_schedule.StoreInBucket():
                    self._stored.add(effect.bucket, effect.records)
                case delay_schedule.LoadBucket():
                    self._load(self._stored.take(effect.bucket), now)

    def _load(self, taken: TakenBucket, now: Now) -> None:
        if not taken.parts:
            self._on_bucket_loaded(taken, bytes(taken.memory), now)
            return
        self._taken.append(taken)
        if len(self._taken) == 1:
            self._read_taken(now)

    def _read_taken(self, now: Now) -> None:
        taken, generation = self._taken[0], self._generation

        def done(result: bytes | int | None) -> None:
            if self.closed or generation != self._generation:
                return
            if not isinstance(result, bytes):
                if result is not None:
                    self._log.discard_index(result)
                self._begin()
                return
            self._taken.popleft()
            self._on_bucket_loaded(taken, result, now)
            if self._taken:
                self._read_taken(now)
            else:
                self._due_known = True

        self._log.run(taken.read, done)

    def _on_bucket_loaded(self, bucket: TakenBucket, data: bytes, now: Now) -> None:
        loaded = BucketLoaded(bucket.bucket, unpack_records(data))
        self._run_schedule(self._schedule.handle(loaded, now.wall_ms), now)

    # -- indexes -----------------------------------------------------------------------------------------------------------
    @property
    def _waits_for_index(self) -> bool:
        return self._opening and self.state is FrontState.JOURNAL

    def _open(self, segment: IndexedSegment, then: Callable[[IndexContents], None]) -> None:
        self._opening, generation = True, self._generation
        self._examined.add(segment.base_offset)

        def done(contents: IndexContents | None) -> None:
            if self.closed or generation != self._generation:
                return
            self._opening = False
            if contents is None:
                self._log.discard_index(segment.base_offset)
                if self.state is FrontState.ACTIVE:
                    self._examined.discard(segment.base_offset)  # the index is built again
            else:
                then(contents)

        self._log.run(segment.open, done)

    def _pass_index(self, upto: int, now: Now) -> bool:
        if self.state is FrontState.JOURNAL:
            return self._pass_journal(upto)
        if not self._contents:
            return False
        offset = self._next_offset
        found = next((c for c in self._contents.values() if c.index.base_offset <= offset < c.index.end_offset), None)
        if found is None:
            return False
        del self._contents[found.index.base_offset]
        if found.index.end_offset > upto or offset > max(found.index.base_offset, self._log.start_offset):
            return False  # the segment is read record by record
        self._use(found, now)
        return True

    def _on_all_records_known(self, now: Now) -> None:
        self._contents.clear()
        tick = delay_schedule.DelayTick(0)
        self._run_schedule(self._schedule.handle(tick, min(now.wall_ms, self._horizon_ms)), now)
        self._due_known = not self._taken

    def _pass_journal(self, upto: int) -> bool:
        """The journal entries of the next segment, from its index."""
        offset = self._next_offset
        segment = next((s for s in self._log.indexed_segments() if s.base_offset <= offset < s.end_offset), None)
        if segment is None or segment.end_offset > upto or self._opening:
            return False
        contents = self._contents.get(segment.base_offset)
        if contents is None:
            if segment.base_offset not in self._examined:
                self._open(segment, self._add_contents)
            return False
        for at, value in contents.journal:
            if at >= offset:
                self._journals[FrontTarget.TOPIC].add(decode(value))
        self._contents[segment.base_offset] = replace(contents, journal=())
        self._next_offset = segment.end_offset
        return True

    def _add_contents(self, contents: IndexContents) -> None:
        self._contents[contents.index.base_offset] = contents

    def _use(self, contents: IndexContents, now: Now) -> None:
        """The records of a segment, from its index."""
        index, first = contents.index, self._next_offset
        transferred = self._transferred[FrontTarget.TOPIC]
        self.discarded += contents.discarded
        self._schedule.handle(delay_schedule.TombstonesFound(contents.tombstones), now.wall_ms)
        delayed = int.from_bytes(contents.bitmap, "little") >> (first - index.base_offset)
        waiting = delayed & ~transferred.bits(first, index.end_offset)
        if waiting:
            self._count_bits(first, waiting)
            self._stored.add_segment(
                PendingSegment(index, 0, first, transferred if waiting != delayed else frozenset())
            )
            groups = tuple((g.bucket, g.records, g.first_ms) for g in index.groups())
            self._schedule.handle(BucketsFound(groups), now.wall_ms)
        self._next_offset = index.end_offset

    def _use_new_indexes(self, now: Now) -> None:
        """Replace records in memory by the indexes of segments that were closed since then."""
        if self._opening or now.mono_ms < self._index_at_ms:
            return
        for segment in self._log.indexed_segments():
            if segment.base_offset not in self._examined and segment.end_offset <= self._next_offset:
                self._open(segment, lambda contents: self._replace(contents, now))
                return
        self._index_at_ms = now.mono_ms + self._limits.index_interval_ms

    def _replace(self, contents: IndexContents, now: Now) -> None:
        self._run_schedule(self._schedule.handle(delay_schedule.LaterRequested(), now.wall_ms), now)
        self._stored.replace(contents.index, self._schedule.near_until)

    # -- the topic ---------------------------------------------------------------------------------------------------------
    def _select(self, now: Now) -> None:
        self._use_new_indexes(now)
        lane = self._lanes[FrontTarget.TOPIC]
        while lane.capacity:
            if not lane.due:
                # Two ticks: the first one may load a bucket.
                for _ in range(2):
                    tick = delay_schedule.DelayTick(self._limits.batch_records)
                    due = self._schedule.handle(tick, min(now.wall_ms, self._horizon_ms))
                    self._run_schedule(due, now)
            if not lane.select(now):
                return

    def _build_delivered(self, record: Record, position: int, now: Now) -> Record:
        if position == 0:
            at = delivery_time(record, record.timestamp)
            if isinstance(at, int):
                self.last_sent = at, now.wall_ms
        return build_delivered_record(record, position)

    def _on_records_deleted(self) -> None:
        self._schedule.forget_tombstones(self._log.start_offset)
        self._stored.forget_below(self._log.start_offset)
