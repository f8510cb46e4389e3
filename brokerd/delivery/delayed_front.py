"""One led partition of a front topic of delayed messages: delivers each record at its time.

Invariant: a record is due only after every tombstone was read that was stable at its delivery time. Does not contain: the times
(`delay_schedule`), the reading of the log (`front_partition`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from brokerd.cluster.model import Now
from brokerd.delivery import delay_schedule
from brokerd.delivery.delay_lookup import PendingPage, PendingQuery, later_buckets, look_up, packed, unpacked
from brokerd.delivery.delay_schedule import BucketLoaded, DelayedAppended, DelaySchedule, PendingRecord
from brokerd.delivery.delayed_records import DelayProblem, delivered, delivery_time, key_digest
from brokerd.delivery.front_log import FrontTarget
from brokerd.delivery.front_partition import FrontPartition
from brokerd.delivery.transfer_lane import DUE_RECORDS
from brokerd.wire.records import Record
from brokerd.wire.steps import Steps


class DelayedFront(FrontPartition):
    cancelled = 0
    """Records since this broker leads."""
    last_sent: tuple[int, int] | None = None
    """(delivery time of the first record of the batch that was sent last, time of the sending), in Unix ms."""

    def _reset(self) -> None:
        self._schedule = DelaySchedule()
        self._buckets: dict[int, bytearray] = {}

    def next_due_ms(self, now: Now) -> int | None:
        return self._schedule.wake_at_ms(now.wall_ms) if self.waiting else None

    # -- for people --------------------------------------------------------------------------------------------------------
    @property
    def pending(self) -> int:
        """Records that are not due yet. Cancelled ones count until their time."""
        return self._schedule.pending

    @property
    def due(self) -> int:
        """Records whose time has come and whose delivery is not acknowledged."""
        return max(0, self.waiting - self.pending)

    @property
    def earliest_ms(self) -> int | None:
        """The earliest delivery time of a pending record."""
        return self._schedule.earliest_ms

    def counts(self, bounds_ms: Sequence[int]) -> list[int]:
        """Pending records by delivery time; see `DelaySchedule.counts`."""
        return self._schedule.counts(bounds_ms)

    def look_up(self, query: PendingQuery, out_of_time: Callable[[], bool]) -> Steps[PendingPage]:
        """Pending records in the order of their delivery."""
        schedule = self._schedule
        return look_up(
            query, schedule.near_records(), later_buckets(schedule.later_records(), self._buckets), out_of_time
        )

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
                    stored = self._buckets.setdefault(effect.bucket, bytearray())
                    for r in effect.records:
                        stored += packed(r)
                case delay_schedule.LoadBucket():
                    found = unpacked(self._buckets.pop(effect.bucket, b""))
                    self._run_schedule(self._schedule.handle(BucketLoaded(effect.bucket, found), now.wall_ms), now)

    def _select(self, now: Now) -> None:
        lane = self._lanes[FrontTarget.TOPIC]
        while lane.capacity:
            if not lane.due:
                # Twice: the first tick may load a bucket.
                for _ in range(2):
                    tick = delay_schedule.DelayTick(DUE_RECORDS)
                    due = self._schedule.handle(tick, min(now.wall_ms, self._horizon_ms))
                    self._run_schedule(due, now)
            if not lane.select(now):
                return

    def _written(self, record: Record, position: int, now: Now) -> Record:
        if position == 0:
            at = delivery_time(record, record.timestamp)
            if isinstance(at, int):
                self.last_sent = at, now.wall_ms
        return delivered(record, position)

    def _deleted(self) -> None:
        self._schedule.forget_tombstones(self._log.start_offset)
