"""One led partition of a front topic of delayed messages: reads its log, journals and sends what is due, and deletes what was delivered.

Connects the decisions (`delay_schedule`, `transfer`) with a log and a connection, both behind `FrontLog`. Invariants:
  - Nothing is sent before the whole journal was read, it is replicated, and every follower in the ISR has the same log.
  - The log start offset is at most the offset of the first record that the target partition has not acknowledged.
  - A record is due only after every tombstone was read that was stable at its delivery time.
  - Records of aborted transactions are not delivered; those of ongoing transactions wait.
Does not contain: files, sockets, clocks, the choice of partitions.
"""

from __future__ import annotations

import struct
from collections import Counter, deque
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from brokerd.cluster.model import Now
from brokerd.delivery import delay_schedule, transfer
from brokerd.delivery.delay_schedule import BucketLoaded, DelayedAppended, DelaySchedule, PendingRecord
from brokerd.delivery.delayed_records import DelayProblem, delivered, delivery_time, key_digest, size_of
from brokerd.delivery.journal import JournalEntry, ProducerIdentity, TransferEntry, decode, encode, replay
from brokerd.delivery.transfer import OPEN_MAX, Transfer
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import Record

READ_BYTES = 1024 * 1024
"""Bytes of the log that are read in one tick."""
DUE_RECORDS = 250
"""Records of one batch. Limits the work of one turn of the event loop."""
BATCH_BYTES = 512 * 1024
OFFSETS_PER_CHUNK = 256
"""Waiting records are counted per chunk of offsets. The log start offset is raised by whole chunks."""
LOG_START_MS = 5_000
"""Shortest time between two raises of the log start offset: each is flushed."""
JOURNAL_KEY = struct.Struct(">hh")
JOURNAL_TYPE = 100
"""The type of our control records. Kafka's types are small numbers, and clients skip control records of other types."""
_STORED = struct.Struct(">qq16s")
NO_KEY = b"\0" * 16


class FrontState(Enum):
    JOURNAL = "journal"
    """The journal is read."""
    RECORDS = "records"
    """The records are read for the first time."""
    ACTIVE = "active"


class FrontLog(Protocol):
    """The log of a front partition that this broker leads, and the connection to the target partition."""

    @property
    def start_offset(self) -> int: ...

    @property
    def end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def last_stable_offset(self) -> int: ...

    @property
    def settled(self) -> bool:
        """Whether every replica that can be elected has the log of this leader epoch's start."""
        ...

    @property
    def batch_bytes_max(self) -> int:
        """The largest batch that the target topic accepts."""
        ...

    def read(self, offset: int, bytes_max: int, upto: int) -> bytes | None:
        """Batches from the one that contains `offset`, below `upto`. None: they are not in the page cache yet."""
        ...

    def aborted(self, offset: int, upto: int) -> list[tuple[int, int, int]]:
        """(producer id, first offset, offset of the marker) of the aborted transactions in the range."""
        ...

    def append_journal(self, values: list[bytes]) -> int | None:
        """Append one control batch. Returns the log end offset after it. None: refused, nothing was appended."""
        ...

    def delete_below(self, offset: int) -> None: ...

    @property
    def writable(self) -> bool:
        """Whether the journal can be appended to now."""
        ...

    def send(self, batch: bytes, done: Callable[[ErrorCode, Now], None]) -> None:
        """Send to the leader of the target partition with acks=all. `done` is called once, never within this call."""
        ...


def journal_key() -> bytes:
    return JOURNAL_KEY.pack(0, JOURNAL_TYPE)


class FrontPartition:
    def __init__(self, log: FrontLog, draw_producer_id: Callable[[], int]) -> None:
        self._log, self._draw_producer_id = log, draw_producer_id
        self.closed = False
        self.delivered = self.discarded = self.cancelled = 0
        """Records since this broker leads. Discarded: without a valid delivery time."""
        self.blocked: ErrorCode | None = None
        """Why the target partition did not accept the last batch."""
        self._log_start_at_ms = 0
        self._begin()

    def _begin(self) -> None:
        self.state = FrontState.JOURNAL
        self._transfer, self._schedule = Transfer(), DelaySchedule()
        self._entries: list[JournalEntry] = []
        self._next_offset = self._log.start_offset
        self._end_offset = self._log.end_offset
        """Where the first reading of the journal, or of the records, ends."""
        self._transferred: frozenset[int] = frozenset()
        self._chunks: Counter[int] = Counter()
        self._buckets: dict[int, bytearray] = {}
        self._due: deque[int] = deque()
        self._records: dict[int, Record] = {}
        """Records of due offsets and of entries that are not acknowledged."""
        self._not_replicated: deque[tuple[int, int]] = deque()
        """(log end offset after an append to the journal, number of entries until then)"""
        self._journaled = 0
        self._target = (self._next_offset, -1)
        """(last stable offset at a time, that time). When this offset is read, `_horizon_ms` is that time."""
        self._horizon_ms = -1
        self._sending: transfer.Send | None = None
        """A batch whose records are not in the page cache yet."""

    @property
    def waiting(self) -> int:
        """The number of records that are not delivered yet."""
        return self._chunks.total()

    def next_due_ms(self, now: Now) -> int | None:
        return self._schedule.wake_at_ms(now.wall_ms) if self.waiting else None

    def tick(self, now: Now) -> None:
        """Do what can be done now. Called regularly, and whenever a reason to wait may have ended."""
        if self.closed:
            return
        if self.state is FrontState.JOURNAL:
            self._read_journal(now)
        if self.state is FrontState.JOURNAL:
            return
        self._read_records(now)
        self._journal_replicated(now)
        if self._sending is not None:
            self._send(self._sending, now)
        if self._log.writable:
            self._run(self._transfer.handle(transfer.TransferTick(), now.mono_ms), now)
            if self.state is FrontState.ACTIVE:
                self._select(now)
                self._raise_log_start(now)

    # -- reading ---------------------------------------------------------------------------------------------------------
    def _read(self, upto: int) -> bytes | None:
        """The next batches. None: not yet."""
        self._next_offset = max(self._next_offset, self._log.start_offset)
        if self._next_offset >= upto:
            return b""
        return self._log.read(self._next_offset, READ_BYTES, upto)

    def _read_journal(self, now: Now) -> None:
        if not self._log.settled or self._log.high_watermark < self._end_offset:
            return
        data = self._read(self._end_offset)
        if data is None:
            return
        for at, header in records.batches(data):
            if header.next_offset > self._next_offset:
                self._next_offset = header.next_offset
                if header.is_control:
                    self._entries += _journal_entries(data, at, header)
        if data:
            return
        start = self._log.start_offset
        state = replay(self._entries, start, OPEN_MAX)
        self._entries.clear()
        self._transferred = state.transferred
        for entry in state.unconfirmed:
            self._count(entry.offsets, 1)
        self._next_offset, self._end_offset, self.state = start, self._log.last_stable_offset, FrontState.RECORDS
        producer = ProducerIdentity(self._draw_producer_id(), 0)
        self._run(self._transfer.handle(transfer.BeginTransfer(state, producer), now.mono_ms), now)

    def _read_records(self, now: Now) -> None:
        upto = self._log.last_stable_offset
        if self._next_offset >= self._target[0]:
            self._target = upto, now.wall_ms
        data = self._read(upto)
        if data is None:
            return
        if data:
            aborted = self._log.aborted(self._next_offset, upto)
            for at, header in records.batches(data):
                if header.next_offset <= self._next_offset:
                    continue
                ended = header.is_transactional and any(
                    producer_id == header.producer_id and first <= header.base_offset <= last
                    for producer_id, first, last in aborted
                )
                if not header.is_control and not ended:
                    for record in records.records_of(data, at, header):
                        if record.offset >= self._next_offset:
                            self._add(record, now)
                self._next_offset = header.next_offset
        else:
            self._next_offset = max(self._next_offset, upto)
        self._schedule.handle(delay_schedule.DelayedReplicated(self._next_offset), now.wall_ms)
        if self._next_offset >= self._target[0]:
            self._horizon_ms = self._target[1]
        if self.state is FrontState.RECORDS and self._next_offset >= self._end_offset:
            self.state, self._transferred = FrontState.ACTIVE, frozenset()

    def _add(self, record: Record, now: Now) -> None:
        if record.offset in self._transferred:
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

    # -- delivery --------------------------------------------------------------------------------------------------------
    def _run_schedule(self, effects: list[delay_schedule.DelayEffect], now: Now) -> None:
        for effect in effects:
            match effect:
                case delay_schedule.Due():
                    self._due.extend(effect.offsets)
                case delay_schedule.Cancelled():
                    self.cancelled += len(effect.offsets)
                    self._count(effect.offsets, -1)
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
        while self._transfer.capacity:
            if not self._due:
                # Twice: the first tick may load a bucket.
                for _ in range(2):
                    tick = delay_schedule.DelayTick(DUE_RECORDS)
                    due = self._schedule.handle(tick, min(now.wall_ms, self._horizon_ms))
                    self._run_schedule(due, now)
            if not self._due or not self._load_due():
                return
            if offsets := self._next_batch():
                self._run(self._transfer.handle(transfer.Select(offsets), now.mono_ms), now)

    def _load_due(self) -> bool:
        """Read the records of the due offsets. False: not in the page cache yet."""
        start = self._log.start_offset
        deleted = [o for o in self._due if o < start]
        if deleted:
            self._count(deleted, -1)
            self._due = deque(o for o in self._due if o >= start)
        return self._load(self._due)

    def _load(self, offsets: deque[int] | tuple[int, ...]) -> bool:
        missing = {o for o in offsets if o not in self._records and o >= self._log.start_offset}
        for offset in sorted(missing):
            if offset in self._records:
                continue
            data = self._log.read(offset, 1, self._log.high_watermark)
            if data is None:
                return False
            for record in records.iterate(data):
                if record.offset in missing:
                    self._records[record.offset] = record
        return True

    def _next_batch(self) -> tuple[int, ...]:
        most = min(BATCH_BYTES, self._log.batch_bytes_max) - records.HEADER_BYTES
        chosen: list[int] = []
        size = 0
        while self._due and len(chosen) < DUE_RECORDS:
            record = self._records.get(self._due[0])
            if record is None:  # deleted meanwhile
                self._count((self._due.popleft(),), -1)
                continue
            size += size_of(record)
            if chosen and size > most:
                break
            chosen.append(self._due.popleft())
        return tuple(chosen)

    def _run(self, effects: list[transfer.TransferEffect], now: Now) -> None:
        for effect in effects:
            match effect:
                case transfer.AppendJournal():
                    end = self._log.append_journal([encode(e) for e in effect.entries])
                    if end is None:
                        self._begin()  # the log shows what is open
                        return
                    self._journaled += len(effect.entries)
                    self._not_replicated.append((end, self._journaled))
                case transfer.Send():
                    self._send(effect, now)
                case transfer.Transferred():
                    self.blocked = None
                    self.delivered += len(effect.offsets)
                    self._count(effect.offsets, -1)
                    for offset in effect.offsets:
                        self._records.pop(offset, None)
                case transfer.Blocked():
                    self.blocked = effect.error

    def _journal_replicated(self, now: Now) -> None:
        count = 0
        while self._not_replicated and self._not_replicated[0][0] <= self._log.high_watermark:
            count = self._not_replicated.popleft()[1]
        if count:
            self._run(self._transfer.handle(transfer.JournalReplicated(count), now.mono_ms), now)

    def _send(self, send: transfer.Send, now: Now) -> None:
        self._sending = send
        if not self._load(send.entry.offsets):
            return
        self._sending = None
        number, machine = send.number, self._transfer
        batch = self._batch(send.entry)
        if batch is None:
            self._run(machine.handle(transfer.BatchAnswered(number, ErrorCode.NONE), now.mono_ms), now)
            return

        def answered(error: ErrorCode, at: Now) -> None:
            if not self.closed and self._transfer is machine:
                self._run(machine.handle(transfer.BatchAnswered(number, error), at.mono_ms), at)
                self.tick(at)

        self._log.send(batch, answered)

    def _batch(self, entry: TransferEntry) -> bytes | None:
        """None: a client has deleted the records meanwhile."""
        found = [r for o in entry.offsets if (r := self._records.get(o)) is not None]
        if not found:
            return None
        return records.build(
            [delivered(r, i) for i, r in enumerate(found)],
            producer_id=entry.producer.producer_id,
            producer_epoch=entry.producer.epoch,
            base_sequence=entry.base_sequence,
        )

    # -- log start -------------------------------------------------------------------------------------------------------
    def _count(self, offsets: tuple[int, ...] | list[int], change: int) -> None:
        for offset in offsets:
            chunk = offset // OFFSETS_PER_CHUNK
            self._chunks[chunk] += change
            if self._chunks[chunk] <= 0:
                del self._chunks[chunk]

    def _raise_log_start(self, now: Now) -> None:
        if now.mono_ms < self._log_start_at_ms:
            return
        self._log_start_at_ms = now.mono_ms + LOG_START_MS
        first = min(self._chunks, default=None)
        upto = self._next_offset if first is None else min(self._next_offset, first * OFFSETS_PER_CHUNK)
        upto = min(upto, self._log.high_watermark)
        if upto > self._log.start_offset:
            self._log.delete_below(upto)
            self._schedule.forget_tombstones(self._log.start_offset)


def _journal_entries(data: bytes, at: int, header: records.BatchHeader) -> list[JournalEntry]:
    return [decode(r.value or b"") for r in records.records_of(data, at, header) if r.key == journal_key()]
