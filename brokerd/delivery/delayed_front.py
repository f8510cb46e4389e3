"""One led partition of a front topic of delayed messages: delivers each record at its time.

Invariant: a record is due only after every tombstone was read that was stable at its delivery time. Does not contain: the times
(`delay_schedule`), the reading of the log (`front_partition`).
"""

from __future__ import annotations

import struct

from brokerd.cluster.model import Now
from brokerd.delivery import delay_schedule
from brokerd.delivery.delay_schedule import BucketLoaded, DelayedAppended, DelaySchedule, PendingRecord
from brokerd.delivery.delayed_records import DelayProblem, delivered, delivery_time, key_digest
from brokerd.delivery.front_log import FrontTarget
from brokerd.delivery.front_partition import FrontPartition
from brokerd.delivery.transfer_lane import DUE_RECORDS
from brokerd.wire.records import Record

_STORED = struct.Struct(">qq16s")
NO_KEY = b"\0" * 16


class DelayedFront(FrontPartition):
    cancelled = 0
    """Records since this broker leads."""

    def _reset(self) -> None:
        self._schedule = DelaySchedule()
        self._buckets: dict[int, bytearray] = {}

    def next_due_ms(self, now: Now) -> int | None:
        return self._schedule.wake_at_ms(now.wall_ms) if self.waiting else None

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
                        stored += _STORED.pack(r.deliver_at_ms, r.offset, r.key_digest or NO_KEY)
                case delay_schedule.LoadBucket():
                    data = self._buckets.pop(effect.bucket, b"")
                    found = tuple(
                        PendingRecord(at, offset, b"" if digest == NO_KEY else digest)
                        for at, offset, digest in _STORED.iter_unpack(data)
                    )
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
        return delivered(record, position)

    def _deleted(self) -> None:
        self._schedule.forget_tombstones(self._log.start_offset)
