"""A partition of a front topic that this broker leads: reads the journals and the records, and deletes delivered records. Base class of `DelayedFront` and
`HalfFront`.

Invariants:
  - Nothing is sent before every journal was read, the journals are replicated, and every follower in the ISR has the same log.
  - A record is read when it is stable. Records of aborted transactions are not delivered; those of ongoing transactions wait.
  - The log start offset is at most the offset of the first record that its target partition has not acknowledged.
Does not contain: which records are due (the subclasses), the sending (`transfer_lane`), files, sockets, clocks, the choice of partitions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from enum import Enum
from typing import ClassVar

from brokerd.cluster.model import Now
from brokerd.delivery.front_log import FrontLog, FrontTarget, journal_entries
from brokerd.delivery.journal import JournalEntry, JournalReplay, ProducerIdentity
from brokerd.delivery.limits import DEFAULT_LIMITS, DeliveryLimits
from brokerd.delivery.offset_set import OffsetSet
from brokerd.delivery.transfer import OPEN_MAX
from brokerd.delivery.transfer_lane import TransferLane
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import BatchHeader, Record

READ_BYTES = 1024 * 1024
"""Maximum number of bytes of the log that are read per tick."""


class FrontState(Enum):
    JOURNAL = "journal"
    """The journals are being read."""
    RECORDS = "records"
    """The records are being read for the first time."""
    ACTIVE = "active"


class FrontPartition:
    TARGETS: ClassVar[tuple[FrontTarget, ...]] = (FrontTarget.TOPIC,)
    """The targets that have a journal."""

    def __init__(
        self, log: FrontLog, draw_producer_id: Callable[[], int], limits: DeliveryLimits = DEFAULT_LIMITS
    ) -> None:
        self._log, self._draw_producer_id, self._limits = log, draw_producer_id, limits
        self.closed = False
        self.discarded = 0
        """Number of records without valid headers that were read since this broker became the leader."""
        self._delivered: Counter[FrontTarget] = Counter()
        self._lanes: dict[FrontTarget, TransferLane] = {}
        self._log_start_at_ms = 0
        self._begin()

    def _begin(self) -> None:
        self._close_lanes()
        self.state = FrontState.JOURNAL
        self._lanes = {t: self._lane(t) for t in self.TARGETS}
        self._journals = {t: JournalReplay(OPEN_MAX) for t in self.TARGETS}
        self._next_offset = self._log.start_offset
        self._end_offset = self._log.end_offset
        """Offset at which the first read of the journals, or of the records, ends."""
        self._stable_offset = self._log.last_stable_offset
        """The last stable offset at the start of the read of the journals."""
        self._transferred: dict[FrontTarget, OffsetSet] = {}
        """Offsets in the journals that this leader found. Empty after all records were read, because later entries are written by this leader."""
        self._chunks: Counter[int] = Counter()
        self._target = (self._next_offset, -1)
        """(last stable offset, the time at which it was read). When all records below this offset have been read, `_horizon_ms` is set to this time."""
        self._horizon_ms = -1
        self._reset()

    def _lane(self, target: FrontTarget) -> TransferLane:
        return TransferLane(self._log, target, self._build_delivered, self._release, self.tick, limits=self._limits)

    def _close_lanes(self) -> None:
        for target, lane in self._lanes.items():
            lane.closed = True
            self._delivered[target] += lane.delivered

    def close(self) -> None:
        """This broker is no longer the leader of the partition."""
        self.closed = True
        self._close_lanes()
        self._lanes = {}

    def delivered_to(self, target: FrontTarget) -> int:
        """Number of records that the target partitions have acknowledged since this broker became the leader."""
        lane = self._lanes.get(target)
        return self._delivered[target] + (lane.delivered if lane is not None else 0)

    @property
    def delivered(self) -> int:
        return self.delivered_to(FrontTarget.TOPIC)

    @property
    def blocked(self) -> ErrorCode | None:
        """The reason why a target partition did not accept the last batch."""
        return next((lane.blocked for lane in self._lanes.values() if lane.blocked is not None), None)

    @property
    def waiting(self) -> int:
        """The number of records that are not delivered yet."""
        return self._chunks.total()

    @property
    def ready(self) -> bool:
        """True if every record of the partition is known. Otherwise nothing may be appended to half messages."""
        return self.state is FrontState.ACTIVE and not self.closed

    def _was_transferred(self, offset: int) -> bool:
        """Return whether the record at this offset is in a journal that this leader found."""
        return any(offset in offsets for offsets in self._transferred.values())

    # -- hooks of the subclasses ------------------------------------------------------------------------------------------
    def _reset(self) -> None:
        """Remove everything that was read from memory."""
        raise NotImplementedError

    def _add(self, record: Record, now: Now) -> None:
        """Handle a stable record that is not in an aborted transaction. Called in the order of the log."""
        raise NotImplementedError

    def _select(self, now: Now) -> None:
        """Add due records to the transfer lanes, which write the journal entries of their batches."""
        raise NotImplementedError

    def _build_delivered(self, record: Record, position: int, now: Now) -> Record:
        """The record as it is written to the target, at this position of its batch."""
        raise NotImplementedError

    def _pass_index(self, upto: int, now: Now) -> bool:
        """Read the next segment from its index, if it has one and ends at `upto` or below. Returns whether `_next_offset` has advanced."""
        return False

    @property
    def _waits_for_index(self) -> bool:
        """True if the index of the next segment is being loaded."""
        return False

    def _add_unstable(self, record: Record, header: BatchHeader) -> None:
        """Handle a record that is not stable yet and that a new leader has found."""

    def _add_entry(self, target: FrontTarget, entry: JournalEntry, now: Now) -> None:
        """Handle a journal entry. Called in the order of the log."""

    def _on_all_records_known(self, now: Now) -> None:
        """Every record of the partition was read for the first time."""

    def _drop(self, record: Record) -> None:
        """Handle a record of an aborted transaction."""

    def _skip_to(self, offset: int) -> None:
        """A client has deleted records below this offset before they were read."""

    def _read_until(self, offset: int, now: Now) -> None:
        """Every record below this offset was read."""

    def _deletable_below(self, now: Now) -> int:
        """Upper limit of the log start offset, in addition to the waiting records."""
        return self._next_offset

    # -- time --------------------------------------------------------------------------------------------------------------
    def tick(self, now: Now) -> None:
        """Continue reading, sending and deleting. Called periodically, and whenever a reason to wait may have ended."""
        if self.closed:
            return
        if any(lane.failed for lane in self._lanes.values()):
            self._begin()  # after the next start the log shows which entries are not acknowledged
        if self.state is FrontState.JOURNAL:
            self._read_journal(now)
        if self.state is FrontState.JOURNAL:
            return
        self._read_records(now)
        for lane in self._lanes.values():
            lane.tick(now)
        if self._log.writable and self.state is FrontState.ACTIVE:
            self._select(now)
            self._raise_log_start(now)

    # -- reading -----------------------------------------------------------------------------------------------------------
    def _read_unindexed(self, upto: int, now: Now) -> bytes | None:
        """Read the next batches that no index contains. None if they are not available yet."""
        if self._next_offset < self._log.start_offset:
            self._next_offset = self._log.start_offset
            self._skip_to(self._next_offset)
        while self._pass_index(upto, now):
            pass
        if self._waits_for_index:
            return None
        if self._next_offset >= upto:
            return b""
        return self._log.read(self._next_offset, READ_BYTES, upto)

    def _read_journal(self, now: Now) -> None:
        if not self._log.settled or self._log.high_watermark < self._end_offset:
            return
        data = self._read_unindexed(self._end_offset, now)
        if data is None:
            return
        for at, header in records.batches(data):
            if header.next_offset <= self._next_offset:
                continue
            self._next_offset = header.next_offset
            if header.is_control:
                for target, entry in journal_entries(data, at, header):
                    if target in self._journals:
                        self._journals[target].add(entry)
            elif header.next_offset > self._stable_offset:
                for record in records.records_of(data, at, header):
                    self._add_unstable(record, header)
        if data and self._next_offset < self._end_offset:
            return
        self._next_offset, self._end_offset = self._log.start_offset, self._log.last_stable_offset
        self.state = FrontState.RECORDS
        for target, lane in self._lanes.items():
            state = self._journals.pop(target).state(self._next_offset)
            self._transferred[target] = state.transferred
            for entry in state.unconfirmed:
                self._count(entry.offsets, 1)
            lane.begin(state, ProducerIdentity(self._draw_producer_id(), 0), now)

    def _read_records(self, now: Now) -> None:
        upto = self._log.last_stable_offset
        if self._next_offset >= self._target[0]:
            self._target = upto, now.wall_ms
        data = self._read_unindexed(upto, now)
        if data is None:
            return
        if data:
            aborted = self._log.aborted_transactions(self._next_offset, upto)
            for at, header in records.batches(data):
                if header.next_offset > self._next_offset:
                    self._read_batch(data, at, header, aborted, now)
                    self._next_offset = header.next_offset
        else:
            self._next_offset = max(self._next_offset, upto)
        self._read_until(self._next_offset, now)
        if self._next_offset >= self._target[0]:
            self._horizon_ms = self._target[1]
        if self.state is FrontState.RECORDS and self._next_offset >= self._end_offset:
            self.state, self._transferred = FrontState.ACTIVE, {}
            self._on_all_records_known(now)

    def _read_batch(
        self, data: bytes, at: int, header: BatchHeader, aborted: list[tuple[int, int, int]], now: Now
    ) -> None:
        if header.is_control:
            for target, entry in journal_entries(data, at, header):
                self._add_entry(target, entry, now)
            return
        ended = header.is_transactional and any(
            producer_id == header.producer_id and first <= header.base_offset <= last
            for producer_id, first, last in aborted
        )
        for record in records.records_of(data, at, header):
            if record.offset < self._next_offset:
                continue
            if ended:
                self._drop(record)
            else:
                self._add(record, now)

    # -- log start ---------------------------------------------------------------------------------------------------------
    def _count(self, offsets: Sequence[int], change: int) -> None:
        per_chunk = self._limits.offsets_per_chunk
        for offset in offsets:
            chunk = offset // per_chunk
            self._chunks[chunk] += change
            if self._chunks[chunk] <= 0:
                del self._chunks[chunk]

    def _count_bits(self, first: int, bits: int) -> None:
        """Add waiting records: bit 0 stands for the offset `first`."""
        per_chunk = self._limits.offsets_per_chunk
        number, shift = divmod(first, per_chunk)
        bits <<= shift
        data = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
        size = per_chunk // 8
        for i, at in enumerate(range(0, len(data), size)):
            if waiting := int.from_bytes(data[at : at + size], "little").bit_count():
                self._chunks[number + i] += waiting

    def _release(self, offsets: Sequence[int]) -> None:
        """These records were delivered, or will never be delivered."""
        self._count(offsets, -1)

    def _raise_log_start(self, now: Now) -> None:
        if now.mono_ms < self._log_start_at_ms:
            return
        self._log_start_at_ms = now.mono_ms + self._limits.log_start_ms
        first = min(self._chunks, default=None)
        upto = self._next_offset if first is None else min(self._next_offset, first * self._limits.offsets_per_chunk)
        upto = min(upto, self._log.high_watermark, self._deletable_below(now))
        if upto > self._log.start_offset:
            self._log.delete_below(upto)
            self._on_records_deleted()

    def _on_records_deleted(self) -> None:
        """The log start offset was raised."""
