"""Transfers selected records of a front partition to its target partition exactly once: a sans-IO core.

The leader of the front partition writes a journal entry before it sends a batch. The entry fixes the records and their sequence numbers, and
the target partition discards duplicates by sequence number, as for every idempotent producer (KIP-98). A new leader sends the unconfirmed
entries again, unchanged.

Invariants:
  - Only a replicated journal entry is sent. So a deposed leader can send only entries that its successor also knows.
  - No offset is in two entries, except in entries that repeat lost entries with a new producer epoch.
  - At most OPEN_MAX entries are not acknowledged: a target partition remembers the sequence numbers of as many batches.
  - One entry is sent at a time. A target partition without a state of the producer accepts any sequence number (as in Kafka), so a second batch
    could overtake a lost first one. Therefore only journal entries, not batches, are written ahead.
Does not contain: the selection of due records, the log, connections, clocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from brokerd.delivery.journal import Confirmation, JournalEntry, JournalState, ProducerIdentity, TransferEntry
from brokerd.wire.errors import ErrorCode

OPEN_MAX = 5
"""Maximum number of batches of one producer whose sequence numbers a partition remembers (as in Kafka)."""
RETRY_MS = 100
"""Pause after a batch that the target partition did not accept."""
CONFIRM_MS = 1_000
"""Time without a transfer after which the acknowledged entries are confirmed in the journal. A later leader does not send them again."""

ACCEPTED = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
LOST_IN_TARGET = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID})
"""The target partition has no state of the batch before this one, although it acknowledged it. An unclean election lost the batch, or retention deleted it
and a power failure lost the snapshot of its producer."""


# -- events ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class BeginTransfer:
    """This broker leads the front partition, and the whole journal that it found in its log is replicated. (An inherited entry that is not could
    still be lost with this leader, after it was sent.) `producer`: used if the journal has none yet."""

    journal: JournalState
    producer: ProducerIdentity


@dataclass(frozen=True, slots=True)
class Resign:
    """This broker is no longer the leader of the front partition."""


@dataclass(frozen=True, slots=True)
class Select:
    """Transfer these records next, in this order. Only as many calls as `Transfer.capacity`."""

    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class JournalReplicated:
    """The first `count` journal entries that this leader appended are replicated."""

    count: int


@dataclass(frozen=True, slots=True)
class BatchResponseReceived:
    """The response of the target partition to `Send` number `number`, or the error of the connection. Responses to earlier numbers are ignored."""

    number: int
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class TransferTick:
    """Time has passed."""


TransferEvent = BeginTransfer | Resign | Select | JournalReplicated | BatchResponseReceived | TransferTick


# -- effects -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class AppendJournal:
    """Append these entries to the front partition as one batch."""

    entries: tuple[JournalEntry, ...]


@dataclass(frozen=True, slots=True)
class Send:
    """Send the records of this entry to the target partition, with acks=all. Answer with the same number."""

    number: int
    entry: TransferEntry


@dataclass(frozen=True, slots=True)
class Transferred:
    """The target partition has these records. They may be deleted from the front partition."""

    offsets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Blocked:
    """The first entry was not accepted, for this reason. It is sent again until it is accepted."""

    error: ErrorCode


TransferEffect = AppendJournal | Send | Transferred | Blocked


@dataclass(slots=True)
class _Open:
    """An entry that the target partition has not acknowledged to this leader."""

    entry: TransferEntry
    journal_number: int
    """The entry is replicated when this many entries are. 0: by an earlier leader."""


class Transfer:
    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self.leading = False
        self._producer = ProducerIdentity(-1, -1)
        self._next_sequence = 0
        self._open: deque[_Open] = deque()
        self._appended = self._replicated = 0
        self._number = self._sent = 0
        """The number of the last `Send`, and the number of the `Send` without a response (0: none)."""
        self._retry_at_ms: int | None = None
        self._confirm_at_ms: int | None = None

    @property
    def capacity(self) -> int:
        """The number of `Select` events that are possible now."""
        return OPEN_MAX - len(self._open) if self.leading else 0

    @property
    def wake_at_ms(self) -> int | None:
        """The time of the next `TransferTick` that has an effect."""
        times = [t for t in (self._retry_at_ms, self._confirm_at_ms) if t is not None]
        return min(times, default=None)

    def handle(self, event: TransferEvent, now_ms: int) -> list[TransferEffect]:
        if isinstance(event, BeginTransfer):
            return self._lead(event)
        if not self.leading:
            return []
        if isinstance(event, Resign):
            self._reset()
            return []
        if isinstance(event, Select):
            return self._select(event)
        if isinstance(event, JournalReplicated):
            self._replicated = max(self._replicated, event.count)
            return self._send_first()
        if isinstance(event, BatchResponseReceived):
            return self._on_append_result(event, now_ms)
        return self._tick(now_ms)

    def validate(self) -> None:
        """Raises AssertionError for a broken invariant."""
        assert len(self._open) <= OPEN_MAX
        expected = self._open[0].entry.base_sequence if self._open else self._next_sequence
        for o in self._open:
            assert o.entry.base_sequence == expected and o.entry.producer == self._producer
            expected = o.entry.next_sequence
        assert expected == self._next_sequence
        assert not self._sent or self._open[0].journal_number <= self._replicated
        offsets = [offset for o in self._open for offset in o.entry.offsets]
        assert len(offsets) == len(set(offsets))

    # -- events ----------------------------------------------------------------------------------------------------------
    def _lead(self, event: BeginTransfer) -> list[TransferEffect]:
        self._reset()
        self.leading = True
        self._producer = event.journal.producer or event.producer
        self._next_sequence = event.journal.next_sequence
        self._open.extend(_Open(entry, 0) for entry in event.journal.unconfirmed)
        return self._send_first()

    def _select(self, event: Select) -> list[TransferEffect]:
        assert event.offsets and self.capacity
        return [self._append([event.offsets])]

    def _append(self, batches: Sequence[tuple[int, ...]]) -> AppendJournal:
        self._confirm_at_ms = None
        entries = []
        for offsets in batches:
            entry = TransferEntry(self._producer, self._next_sequence, offsets)
            self._appended += 1
            self._open.append(_Open(entry, self._appended))
            self._next_sequence = entry.next_sequence
            entries.append(entry)
        return AppendJournal(tuple(entries))

    def _on_append_result(self, event: BatchResponseReceived, now_ms: int) -> list[TransferEffect]:
        if event.number != self._sent:
            return []
        self._sent = 0
        if event.error in ACCEPTED:
            acknowledged = self._open.popleft()
            if not self._open:
                self._confirm_at_ms = now_ms + CONFIRM_MS
            return [Transferred(acknowledged.entry.offsets), *self._send_first()]
        if event.error in LOST_IN_TARGET:
            return [self._repeat_with_new_epoch()]
        self._retry_at_ms = now_ms + RETRY_MS
        return [Blocked(event.error)]

    def _repeat_with_new_epoch(self) -> AppendJournal:
        batches = [o.entry.offsets for o in self._open]
        self._open.clear()
        self._producer = ProducerIdentity(self._producer.producer_id, self._producer.epoch + 1)
        self._next_sequence = 0
        return self._append(batches)

    def _tick(self, now_ms: int) -> list[TransferEffect]:
        effects: list[TransferEffect] = []
        if self._retry_at_ms is not None and now_ms >= self._retry_at_ms:
            self._retry_at_ms = None
            effects += self._send_first()
        if self._confirm_at_ms is not None and now_ms >= self._confirm_at_ms:
            self._confirm_at_ms = None
            self._appended += 1
            effects.append(AppendJournal((Confirmation(self._producer, self._next_sequence),)))
        return effects

    def _send_first(self) -> list[TransferEffect]:
        if self._sent or self._retry_at_ms is not None or not self._open:
            return []
        first = self._open[0]
        if first.journal_number > self._replicated:
            return []
        self._number += 1
        self._sent = self._number
        return [Send(self._sent, first.entry)]
