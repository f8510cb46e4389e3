"""The transfer from one front partition to one target partition: appends its journal, builds its batches and sends them.

Connects `transfer` with the log and the connection behind `FrontLog`. Invariants: a batch has the records of its journal entry, in that order. After a journal
entry could not be appended, the lane is `failed` and does nothing more. The log then shows which entries are not acknowledged. Does not contain: which records
are due.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from brokerd.cluster.model import Now
from brokerd.delivery import transfer
from brokerd.delivery.front_log import FrontLog, FrontTarget
from brokerd.delivery.journal import JournalState, ProducerIdentity, TransferEntry, encode
from brokerd.delivery.limits import DEFAULT_LIMITS, DeliveryLimits
from brokerd.delivery.record_cache import RecordCache
from brokerd.delivery.transfer import Transfer
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import Record

BATCH_BYTES = 512 * 1024

Written = Callable[[Record, int, Now], Record]
"""The record as it is written to the target: (record of the front partition, position in its batch, time)."""


def size_of(record: Record) -> int:
    """An upper bound of the bytes of this record in an uncompressed batch."""
    headers = sum(len(name) * 3 + len(value or b"") + 10 for name, value in record.headers)
    return 60 + len(record.key or b"") + len(record.value or b"") + headers


def next_batch(loaded: Iterable[int], cache: RecordCache, bytes_max: int) -> tuple[list[int], list[int]]:
    """Select records from the first one on for a batch of at most `bytes_max` bytes: (offsets of the batch, offsets that a client has deleted)."""
    most = min(BATCH_BYTES, bytes_max) - records.HEADER_BYTES
    chosen: list[int] = []
    deleted: list[int] = []
    size = 0
    for offset in loaded:
        record = cache.get(offset)
        if record is None:
            deleted.append(offset)
            continue
        size += size_of(record)
        if chosen and size > most:
            break
        chosen.append(offset)
    return chosen, deleted


class TransferLane:
    def __init__(
        self,
        log: FrontLog,
        target: FrontTarget,
        written: Written,
        released: Callable[[Sequence[int]], None],
        on_response: Callable[[Now], None],
        take_recent: Callable[[int], Record | None] | None = None,
        *,
        limits: DeliveryLimits = DEFAULT_LIMITS,
    ) -> None:
        """`released`: called with the offsets of records that were transferred, or that a client has deleted. `on_response`: called after each response of the
        target. `take_recent`: as in `RecordCache`."""
        self._log, self._target, self._written = log, target, written
        self._released, self._on_response, self._limits = released, on_response, limits
        self._transfer = Transfer()
        self._cache = RecordCache(log, take_recent)
        self.due: deque[int] = deque()
        self.closed = self.failed = False
        self.delivered = 0
        self.blocked: ErrorCode | None = None
        """The reason why the target partition did not accept the last batch."""
        self._not_replicated: deque[tuple[int, int]] = deque()
        """(log end offset after an append to the journal, number of entries until then)"""
        self._journaled = 0
        self._sending: transfer.Send | None = None
        """A batch waits because its records are not in the page cache yet."""

    def begin(self, journal: JournalState, producer: ProducerIdentity, now: Now) -> None:
        self._run_effects(self._transfer.handle(transfer.BeginTransfer(journal, producer), now.mono_ms), now)

    @property
    def capacity(self) -> int:
        """Number of batches whose journal entries can be written now."""
        return 0 if self.failed else self._transfer.capacity

    def tick(self, now: Now) -> None:
        self._journal_replicated(now)
        if self._sending is not None:
            self._send(self._sending, now)
        if self._log.writable and not self.failed:
            self._run_effects(self._transfer.handle(transfer.TransferTick(), now.mono_ms), now)
            self._journal_replicated(now)

    def select(self, now: Now) -> bool:
        """Write the journal entry of the next batch of due records. Returns False if nothing is due, or the records are not in the page cache yet."""
        if not self.due or not self.capacity:
            return False
        first = list(islice(self.due, self._limits.batch_records))
        if not self._cache.load(first):
            return False
        chosen, deleted = next_batch(first, self._cache, self._log.batch_bytes_max)
        for _ in range(len(chosen) + len(deleted)):
            self.due.popleft()
        self._released(deleted)
        if chosen:
            self._run_effects(self._transfer.handle(transfer.Select(tuple(chosen)), now.mono_ms), now)
            self._journal_replicated(now)  # a partition with one replica has replicated the entry when it is appended
        return True

    def _run_effects(self, effects: list[transfer.TransferEffect], now: Now) -> None:
        for effect in effects:
            match effect:
                case transfer.AppendJournal():
                    end = self._log.append_journal(self._target, [encode(e) for e in effect.entries])
                    if end is None:
                        self.failed = True
                        return
                    self._journaled += len(effect.entries)
                    self._not_replicated.append((end, self._journaled))
                case transfer.Send():
                    self._send(effect, now)
                case transfer.Transferred():
                    self.blocked = None
                    self.delivered += len(effect.offsets)
                    self._released(effect.offsets)
                    self._cache.forget(effect.offsets)
                case transfer.Blocked():
                    self.blocked = effect.error

    def _journal_replicated(self, now: Now) -> None:
        count = 0
        while self._not_replicated and self._not_replicated[0][0] <= self._log.high_watermark:
            count = self._not_replicated.popleft()[1]
        if count:
            self._run_effects(self._transfer.handle(transfer.JournalReplicated(count), now.mono_ms), now)

    def _send(self, send: transfer.Send, now: Now) -> None:
        self._sending = send
        if not self._cache.load(send.entry.offsets):
            return
        self._sending = None
        batch = self._batch(send.entry, now)
        if batch is None:
            self._finish(send.number, ErrorCode.NONE, now)
            return

        def on_result(error: ErrorCode, at: Now) -> None:
            if not self.closed and not self.failed:
                self._finish(send.number, error, at)
                self._journal_replicated(at)
                self._on_response(at)

        self._log.send(self._target, batch, on_result)

    def _finish(self, number: int, error: ErrorCode, now: Now) -> None:
        self._run_effects(self._transfer.handle(transfer.BatchResponseReceived(number, error), now.mono_ms), now)

    def _batch(self, entry: TransferEntry, now: Now) -> bytes | None:
        """Return None if a client has deleted the records since then."""
        found = [r for o in entry.offsets if (r := self._cache.get(o)) is not None]
        if not found:
            return None
        return records.build(
            [self._written(r, i, now) for i, r in enumerate(found)],
            producer_id=entry.producer.producer_id,
            producer_epoch=entry.producer.epoch,
            base_sequence=entry.base_sequence,
        )
