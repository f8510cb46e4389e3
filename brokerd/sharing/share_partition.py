"""The records in flight of one partition for one share group (KIP-932; Kafka: SharePartition). Pure state machine, without clock and logging.

Invariants: `runs` are sorted and cover all offsets from `start` to below `end` exactly once. A record has one holder until its lock ends or the
holder acknowledges it. A final state never changes. An acknowledgement is durable when the write that contains it has ended. At most one write is
in progress; changes during a write go into the next write. Does not contain: reads of the log, the share coordinator, sessions.

| state        | event                                        | next state                                                |
|--------------|----------------------------------------------|-----------------------------------------------------------|
| AVAILABLE    | acquire                                      | ACQUIRED, the delivery count increases                    |
| AVAILABLE    | the log has no such record, or it is aborted | ARCHIVED                                                  |
| ACQUIRED     | accept                                       | ACKNOWLEDGED                                              |
| ACQUIRED     | gap                                          | ARCHIVED                                                  |
| ACQUIRED     | reject                                       | ARCHIVING with dead letters, else ARCHIVED                |
| ACQUIRED     | release, end of the lock                     | AVAILABLE, or as after reject if no delivery is left      |
| ACQUIRED     | end of the share session                     | AVAILABLE, the delivery count decreases                   |
| ACQUIRED     | renew                                        | ACQUIRED with a new end of the lock                       |
| ACQUIRED     | the log start offset has passed the record   | ARCHIVED, as in Kafka; a later acknowledgement is ignored |
| ARCHIVING    | the dead letter is written                   | ARCHIVED                                                  |
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from brokerd.coordinator.share_state.state import ShareState, StateBatch, StateUpdate
from brokerd.sharing.acknowledgements import acknowledged_ranges
from brokerd.sharing.delivery import (
    Acknowledgement,
    AcknowledgeType,
    Acquired,
    FailedRun,
    LogBatch,
    OffsetRun,
    RecordState,
)
from brokerd.sharing.hash_slots import HashSlots
from brokerd.sharing.offset_runs import OffsetRuns
from brokerd.wire.errors import ErrorCode

RESULT = {
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
}


@dataclass(slots=True)
class SharePartition:
    """`lock_ms`: duration of a lock. `deliveries_max`: deliveries of a record. `locks_max`: offsets from `start` to below `end`."""

    state_epoch: int
    leader_epoch: int
    start: int
    end: int
    lock_ms: int
    deliveries_max: int
    locks_max: int
    renew: bool = True
    dead_letters: bool = False
    """Records that are rejected, or that have reached the delivery count limit, are archived after their dead letters are written."""
    available: int = 0
    """Number of offsets in state AVAILABLE."""
    archiving: int = 0
    """Number of offsets in state ARCHIVING."""
    finished: int = 0
    """Number of offsets from `start` on in a final state."""
    next_expiry_ms: int | None = None
    """No lock ends before this time (mono ms)."""
    log_start: int = 0
    """Records below this offset are deleted. None of them is AVAILABLE or ACQUIRED."""
    slots: HashSlots | None = None
    """The hash slots of the records in flight, if the group keeps the order of each key."""
    writes_begun: int = 0
    writes_done: int = 0
    _dirty: bool = False
    _runs: OffsetRuns = field(default_factory=OffsetRuns)

    @property
    def runs(self) -> Sequence[OffsetRun]:
        return self._runs.runs

    @staticmethod
    def load(
        state: ShareState, leader_epoch: int, start: int, *, lock_ms: int, deliveries_max: int, locks_max: int
    ) -> SharePartition:
        """The share partition in a stored state, with `start` if the state has no start offset. Offsets between stored batches were not
        acknowledged, so they are available."""
        new = SharePartition(
            state.state_epoch, leader_epoch, start, start, lock_ms, deliveries_max, locks_max, _dirty=state.start < 0
        )
        for batch in state.batches:
            if batch.last < start:
                continue
            first = max(batch.first, start)
            if first > new.end:
                new._append(OffsetRun(new.end, first - 1, RecordState.AVAILABLE))
            rejected = batch.state == RecordState.ARCHIVING and batch.deliveries < deliveries_max
            state_ = RecordState(batch.state)
            new._append(OffsetRun(first, batch.last, state_, batch.deliveries, rejected=rejected))
        new._advance_start()
        return new

    # -- acquiring -----------------------------------------------------------------------------------------------------
    def keep_key_order(self, required: bool) -> None:
        """Called before each acquisition. `required`: a record is acquired only if no other member holds a record with the same key."""
        slots = self.slots if required else None
        if required and (slots is None or slots.has_unknown_holders):
            held = any(r.state is RecordState.ACQUIRED for r in self._runs.runs)
            slots = HashSlots(held) if slots is None or not held else slots
        self.slots = slots

    def fetch_offset(self, member: str = "") -> int | None:
        """The first offset to read for the next acquisition of a member. None: the limit of records in flight is reached."""
        if self.available and self.slots is None:
            return next(r.first for r in self._runs.runs if r.state is RecordState.AVAILABLE)
        if self.available and self.slots is not None:
            offset = self.slots.first_acquirable(self._runs.runs, member, (self.available, self.end))
            if offset is not None:
                return offset
        return self.end if self.end - self.start < self.locks_max else None

    def fetch_end(self, records_max: int, offset: int) -> int:
        """The end (exclusive) of the offsets to read from `offset` on for `records_max` records, if each offset has a record."""
        found = 0
        for run in self._runs.overlapping(offset, self.end) if self.available else ():
            if run.state is RecordState.AVAILABLE and run.last >= offset:
                found += run.last + 1 - max(run.first, offset)
                if found >= records_max:
                    return run.last + 1 - (found - records_max)
        room = max(0, self.start + self.locks_max - self.end)
        return self.end + min(records_max - found, room)

    def acquire(
        self,
        member: str,
        offset: int,
        batches: Sequence[LogBatch],
        records_max: int,
        now_ms: int,
        *,
        exact: bool = False,
        batch_size: int = 0,
    ) -> list[Acquired]:
        """Acquire records for a member. `batches`: the log from `offset` on, without gaps between read batches. `exact`: at most
        `records_max` records; otherwise the last batch is acquired as a whole. `batch_size`: the preferred size of the results."""
        acquired: list[Acquired] = []
        records_left, until_ms = records_max, now_ms + self.lock_ms
        if self.slots is not None and self.slots.has_unknown_holders:
            return acquired
        for batch in batches:
            if records_left <= 0:
                break
            self._absent(offset, batch.first - 1)
            first = max(offset, batch.first)
            if self.end < first:
                break  # the limit of records in flight is reached
            offset = batch.last + 1
            if not batch.deliver:
                self._absent(first, batch.last)
                continue
            new_batch = True
            for run in self._available_runs(first, batch.last):
                if self.slots is not None and not self._may_acquire_part(self.slots, run, member):
                    continue
                if exact and run.size > records_left:
                    self._runs.split(self._runs.index(run.first), run.first + records_left)
                    # `run` is now the part that fits
                self._hold(run, member, until_ms)
                records_left -= run.size
                self._report(acquired, run, new_batch, batch_size)
                new_batch = False
                if exact and records_left <= 0:
                    break
        if acquired:
            self.next_expiry_ms = until_ms if self.next_expiry_ms is None else min(self.next_expiry_ms, until_ms)
        self._advance_start()
        return acquired

    def _may_acquire_part(self, slots: HashSlots, run: OffsetRun, member: str) -> bool:
        """Return whether a member may acquire the first records of an available run. The run is shortened to the records with the same result."""
        acquirable, last = slots.may_acquire(run.first, run.last, member)
        if last < run.last:
            self._runs.split(self._runs.index(run.first), last + 1)
        return acquirable

    def _available_runs(self, first: int, last: int) -> Iterator[OffsetRun]:
        """The available runs between two offsets, and a new run for the offsets above `end`, up to the limit of records in flight. If the caller shortens a
        run, its rest is the next one."""
        at = max(first, self.start)
        i = self._runs.index(at)
        while at <= last:
            if at >= self.end:
                last = min(last, self.start + self.locks_max - 1)
                if self.end > last:
                    return
                self._append(OffsetRun(self.end, last, RecordState.AVAILABLE))
                i = len(self._runs.runs) - 1
            run = self._runs.runs[i]
            if run.state is RecordState.AVAILABLE:
                if run.first < at:
                    self._runs.split(i, at)
                    i += 1
                    run = self._runs.runs[i]
                if run.last > last:
                    self._runs.split(i, last + 1)
                yield run
            at = run.last + 1
            i += 1

    def _hold(self, run: OffsetRun, member: str, until_ms: int) -> None:
        self.available -= run.size
        run.state, run.member, run.until_ms = RecordState.ACQUIRED, member, until_ms
        run.count += 1
        run.dirty = False
        if self.slots is not None:
            self.slots.hold(run.first, run.last, member)

    @staticmethod
    def _report(acquired: list[Acquired], run: OffsetRun, new_batch: bool, batch_size: int) -> None:
        if acquired:
            last = acquired[-1]
            full = new_batch and last.last - last.first + 1 >= batch_size > 0
            if last.last + 1 == run.first and last.deliveries == run.count and not full:
                acquired[-1] = last._replace(last=run.last)
                return
        acquired.append(Acquired(run.first, run.last, run.count))

    def _absent(self, first: int, last: int) -> None:
        """Archive the available records between these offsets, because the log has no records to deliver there."""
        if first <= self.end <= last:
            # One run, so the limit of records in flight does not apply.
            self._append(OffsetRun(self.end, last, RecordState.ARCHIVED, dirty=True))
            self._dirty = True
        for run in list(self._available_runs(max(first, self.start), min(last, self.end - 1))):
            self._change(run, RecordState.ARCHIVED)

    # -- acknowledging -------------------------------------------------------------------------------------------------
    def acknowledge(
        self, member: str, acknowledgements: Sequence[Acknowledgement], now_ms: int, *, renew: bool = False
    ) -> ErrorCode:
        """Apply all acknowledgements of a member, or none of them. Acknowledgements of deleted records have no effect. `renew`: the request may renew locks."""
        ranges = acknowledged_ranges(
            acknowledgements, max(self.start, self.log_start), self.end, renew=renew and self.renew
        )
        if isinstance(ranges, ErrorCode):
            return ranges
        for first, last, _ in ranges:
            for run in self._runs.overlapping(first, last):
                if run.state is not RecordState.ACQUIRED or run.member != member:
                    return ErrorCode.INVALID_RECORD_STATE
        for first, last, kind in ranges:
            for run in self._runs.split_at(first, last):
                if kind is AcknowledgeType.RENEW:
                    run.until_ms = now_ms + self.lock_ms
                else:
                    self._end_lock(run, RESULT[kind], rejected=kind is AcknowledgeType.REJECT)
        self._advance_start()
        return ErrorCode.NONE

    def release(self, member: str) -> bool:
        """Release the records of a member whose share session has ended. Returns whether there were any."""
        acquired = [r for r in self._runs.runs if r.state is RecordState.ACQUIRED and r.member == member]
        for run in acquired:
            run.count -= 1
            self._change(run, RecordState.AVAILABLE)
        self._advance_start()
        return bool(acquired)

    def expire(self, now_ms: int) -> bool:
        """End the expired locks. Returns whether a lock has ended."""
        if self.next_expiry_ms is None or self.next_expiry_ms > now_ms:
            return False
        acquired = [r for r in self._runs.runs if r.state is RecordState.ACQUIRED]
        late = [r for r in acquired if r.until_ms <= now_ms]
        for run in late:
            self._end_lock(run, RecordState.AVAILABLE)
        self.next_expiry_ms = min((r.until_ms for r in acquired if r.state is RecordState.ACQUIRED), default=None)
        self._advance_start()
        return bool(late)

    def raise_start(self, log_start: int) -> bool:
        """Archive the records below the log start offset, which are deleted, including acquired records. Due dead letters are still written.
        Returns whether records were archived."""
        if log_start <= self.log_start:
            return False
        self.log_start = log_start
        if log_start <= self.start:
            return False
        if log_start > self.end:
            self._append(OffsetRun(self.end, log_start - 1, RecordState.AVAILABLE))
        ended = [
            r
            for r in self._runs.split_at(self.start, log_start - 1)
            if r.state in (RecordState.AVAILABLE, RecordState.ACQUIRED)
        ]
        for run in ended:
            self._change(run, RecordState.ARCHIVED)
        self._advance_start()
        return bool(ended)

    def _end_lock(self, run: OffsetRun, state: RecordState, *, rejected: bool = False) -> None:
        used_up = state is RecordState.AVAILABLE and run.count >= self.deliveries_max
        if used_up or rejected:
            state = RecordState.ARCHIVING if self.dead_letters else RecordState.ARCHIVED
        self._change(run, state)
        run.rejected = state is RecordState.ARCHIVING and rejected

    # -- dead letters ------------------------------------------------------------------------------------------------------
    def next_failed(self, records_max: int) -> FailedRun | None:
        """The first records whose dead letters are to be written. Their state is durable, so that no leader delivers them again."""
        if not self.archiving or self.writes_begun > self.writes_done:
            return None
        run = next((r for r in self._runs.runs if r.state is RecordState.ARCHIVING and not r.dirty), None)
        if run is None:
            return None
        return FailedRun(run.first, min(run.last, run.first + records_max - 1), run.count, run.rejected)

    def archive(self, first: int, last: int) -> None:
        """Called when the dead letters of these offsets are written or cannot be written."""
        for run in self._runs.split_at(first, last):
            if run.state is RecordState.ARCHIVING:
                self._change(run, RecordState.ARCHIVED)
        self._advance_start()

    # -- writes ------------------------------------------------------------------------------------------------------------
    @property
    def pending_write(self) -> int | None:
        """The number of the write that contains all changes up to now. None: they are durable."""
        if self._dirty:
            return self.writes_begun + 1
        return self.writes_begun if self.writes_begun > self.writes_done else None

    def begin_write(self) -> StateUpdate | None:
        """The next write to the share coordinator. None: one is in progress, or nothing has changed."""
        if self.writes_begun > self.writes_done or not self._dirty:
            return None
        batches: list[StateBatch] = []
        for run in self._runs.runs:
            if not run.dirty:
                continue
            run.dirty = False
            batch = StateBatch(run.first, run.last, run.state, run.count)
            if batches and batches[-1].last + 1 == batch.first and batches[-1][2:] == batch[2:]:
                batches[-1] = batches[-1]._replace(last=batch.last)
            else:
                batches.append(batch)
        self._dirty = False
        self.writes_begun += 1
        return StateUpdate(self.leader_epoch, self.start, tuple(batches), self.finished)

    def require_write(self) -> int:
        """The number of the next write to begin, also if nothing has changed. The share coordinator rejects it after a change of the start offset."""
        self._dirty = True
        return self.writes_begun + 1

    def end_write(self) -> None:
        """The write in progress is durable."""
        self.writes_done = self.writes_begun

    # -- runs --------------------------------------------------------------------------------------------------------------
    def _append(self, run: OffsetRun) -> None:
        self._runs.append(run)
        self.end = run.last + 1
        self._count(run, 1)

    def _count(self, run: OffsetRun, sign: int) -> None:
        if run.state is RecordState.AVAILABLE:
            self.available += sign * run.size
        elif run.state is RecordState.ARCHIVING:
            self.archiving += sign * run.size
        elif run.state is not RecordState.ACQUIRED:
            self.finished += sign * run.size

    def _change(self, run: OffsetRun, state: RecordState) -> None:
        self._count(run, -1)
        if self.slots is not None and run.state is RecordState.ACQUIRED:
            self.slots.end(run.first, run.last)
        run.state, run.member, run.until_ms, run.rejected = state, "", 0, False
        self._count(run, 1)
        run.dirty = self._dirty = True

    def _advance_start(self) -> None:
        """Move the start offset above final records, and join runs."""
        count, runs = 0, self._runs.runs
        while count < len(runs) and runs[count].state.final:
            self._count(runs[count], -1)
            count += 1
        if count:
            if self.slots is not None:
                self.slots.forget(runs[0].first, runs[count - 1].last)
            self.start = runs[count - 1].last + 1
            self._runs.remove_first(count)
            self._dirty = True
        self._runs.join()

    # -- checks --------------------------------------------------------------------------------------------------------------
    def validate(self) -> None:
        self._runs.validate(self.start, self.end)
        for run in self._runs.runs:
            assert (run.state is RecordState.ACQUIRED) == bool(run.member), (
                f"offset {run.first}: a lock without a holder"
            )
            assert run.count <= self.deliveries_max or run.state in (RecordState.ARCHIVING, RecordState.ARCHIVED), (
                f"offset {run.first}: too many deliveries"
            )
        assert self.available == sum(r.size for r in self._runs.runs if r.state is RecordState.AVAILABLE)
        assert self.archiving == sum(r.size for r in self._runs.runs if r.state is RecordState.ARCHIVING)
        assert self.finished == sum(r.size for r in self._runs.runs if r.state.final)
        assert sum(r.size for r in self._runs.runs if not r.state.final) <= self.locks_max, "too many records in flight"
        if self.slots is not None:
            self.slots.validate(self._runs.runs)
