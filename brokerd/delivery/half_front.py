"""A partition of a front topic of half messages that this broker leads: admits records, delivers committed messages, sends checks to producers, and expires
messages.

Invariants: a record is admitted only when every record of the partition is known. Each decided message is in at most one journal. Records stay for
`decided_keep_ms`, so that a new leader knows the latest decisions too. Does not contain: the decisions (`half_messages`), the reading of the log
(`front_partition`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from brokerd.cluster.model import Now
from brokerd.delivery import half_messages, half_records
from brokerd.delivery.front_log import FrontLog, FrontTarget
from brokerd.delivery.front_partition import FrontPartition
from brokerd.delivery.half_checks import HalfChecks
from brokerd.delivery.half_messages import ALREADY, HalfEffect, HalfMessages, HalfRejection, Undecided
from brokerd.delivery.half_records import ERRORS_MAX, REJECTIONS, HalfProblem, HalfRecord, half_record
from brokerd.delivery.journal import JournalEntry, TransferEntry
from brokerd.delivery.limits import DEFAULT_LIMITS, DeliveryLimits
from brokerd.delivery.recent_records import RecentRecords
from brokerd.delivery.transfer_lane import TransferLane
from brokerd.wire.records import BatchHeader, Record

MARK_MS = 1_000
"""Resolution of the append times that limit the log start offset."""


@dataclass(frozen=True, slots=True)
class NotAdmitted:
    """The reason why a batch is not appended: (position in the batch, message). `retriable`: the same batch may be admitted later."""

    records: tuple[tuple[int, str], ...]
    retriable: bool


class HalfFront(FrontPartition):
    TARGETS: ClassVar[tuple[FrontTarget, ...]] = (FrontTarget.TOPIC, FrontTarget.EXPIRED)
    _checks: HalfChecks | None = None

    def __init__(
        self,
        log: FrontLog,
        draw_producer_id: Callable[[], int],
        recent_records: RecentRecords | None = None,
        limits: DeliveryLimits = DEFAULT_LIMITS,
    ) -> None:
        self._recent = recent_records or RecentRecords()
        self._reader = 0
        super().__init__(log, draw_producer_id, limits)

    def _lane(self, target: FrontTarget) -> TransferLane:
        return TransferLane(
            self._log,
            target,
            self._build_delivered,
            self._release,
            self._on_response,
            self._take_recent,
            limits=self._limits,
        )

    def _take_recent(self, offset: int) -> Record | None:
        return self._recent.take(self._reader, offset)

    def _on_response(self, now: Now) -> None:
        # A run costs as much for one record as for several. New decisions wait for the next wakeup, as if no batch had been sent.
        if any(lane.due for lane in self._lanes.values()):
            self.tick(now)

    def _reset(self) -> None:
        self._reader = self._recent.new_reader()
        self._messages = HalfMessages(self._limits)
        self._offsets_undecided: set[int] = set()
        self._unread_decisions: deque[int] = deque()
        """Offsets of appended decisions, ascending, from the first one on that was not read from the log."""
        self._marks: deque[tuple[int, int]] = deque()
        """(append time, offset of a record that was appended then), ascending, at most one per MARK_MS."""
        self._kept_from = 0
        """Records from this offset on are younger than `decided_keep_ms`."""
        if self._checks is not None:
            self._checks.closed = True
        self._checks = HalfChecks(self._log, self._offsets_undecided.__contains__, self.tick, self._limits)

    def close(self) -> None:
        super().close()
        if self._checks is not None:
            self._checks.closed = True

    @property
    def undecided(self) -> int:
        """The number of undecided half messages."""
        return len(self._messages)

    def undecided_in_order(self) -> Iterator[Undecided]:
        """The undecided half messages in the order of their offsets. Valid until the next event."""
        return self._messages.undecided_in_order()

    @property
    def checks_sent(self) -> int:
        """Questions that the check topic has accepted since the partition was read."""
        return self._checks.sent if self._checks is not None else 0

    # -- admission ---------------------------------------------------------------------------------------------------------
    def admit(
        self, batch: Iterable[Record], header: BatchHeader, *, keyed: bool
    ) -> NotAdmitted | tuple[HalfRecord, ...]:
        """Return whether the records of a client's batch may be appended. `keyed`: half messages require a key."""
        producer_id = _transaction_of(header)
        admitted: list[HalfRecord] = []
        final: list[tuple[int, str]] = []
        retriable: list[tuple[int, str]] = []
        own: dict[bytes, half_messages.HalfDecision | None] = {}
        """Earlier half messages of this batch, by id."""
        for i, record in enumerate(batch):
            found = half_record(record, keyed=keyed)
            if isinstance(found, HalfProblem):
                final.append((i, found.value))
            elif (rejection := self._rejection(found, own, producer_id)) is not None:
                (retriable if rejection is HalfRejection.NOT_STABLE else final).append((i, REJECTIONS[rejection]))
            else:
                own[found.half_id] = found.decision
                admitted.append(found)
            if len(final) >= ERRORS_MAX:
                break
        wrong = final or retriable[:ERRORS_MAX]
        return NotAdmitted(tuple(wrong), not final) if wrong else tuple(admitted)

    def _rejection(
        self, record: HalfRecord, decisions: dict[bytes, half_messages.HalfDecision | None], producer_id: int
    ) -> HalfRejection | None:
        if record.half_id not in decisions:
            return self._messages.rejection(record.half_id, record.decision, producer_id)
        first = decisions[record.half_id]
        if record.decision is None:
            return HalfRejection.ID_IN_USE
        return None if first is None else ALREADY[first]

    def on_appended(self, admitted: Sequence[HalfRecord], header: BatchHeader, base_offset: int) -> None:
        """The records of an admitted batch were appended to the log."""
        for i, record in enumerate(admitted):
            self._add_pending(record, base_offset + i, header)

    def has_stable_decision(self) -> bool:
        """Return whether a stable decision was not read from the log yet."""
        decisions = self._unread_decisions
        while decisions and decisions[0] < self._next_offset:
            decisions.popleft()
        return bool(decisions) and decisions[0] < self._log.last_stable_offset

    def _add_pending(self, record: HalfRecord, offset: int, header: BatchHeader) -> None:
        if record.decision is not None:
            self._unread_decisions.append(offset)
        pending = half_messages.HalfPending(record.half_id, offset, record.decision, _transaction_of(header))
        self._messages.handle(pending, 0)

    # -- reading -----------------------------------------------------------------------------------------------------------
    def _add_unstable(self, record: Record, header: BatchHeader) -> None:
        found = half_record(record)
        if isinstance(found, HalfRecord):
            self._add_pending(found, record.offset, header)

    def _drop(self, record: Record) -> None:
        found = half_record(record)
        if isinstance(found, HalfRecord):
            self._messages.handle(half_messages.HalfAborted(found.half_id, record.offset), 0)

    def _skip_to(self, offset: int) -> None:
        self._messages.handle(half_messages.HalfDeleted(offset), 0)

    def _add(self, record: Record, now: Now) -> None:
        self._mark(record)
        found = half_record(record)
        if isinstance(found, HalfProblem):
            self.discarded += 1
        elif found.decision is not None:
            decided = half_messages.DecisionAppended(found.half_id, record.offset, found.decision)
            self._run_effects(self._messages.handle(decided, now.wall_ms))
        else:
            before = len(self._messages)
            expiring = record.offset in self._transferred.get(FrontTarget.EXPIRED, ())
            message = half_messages.HalfAppended(found.half_id, record.offset, record.timestamp, expiring)
            self._run_effects(self._messages.handle(message, now.wall_ms))
            if len(self._messages) == before:
                self.discarded += 1  # the id was already in use
                return
            self._offsets_undecided.add(record.offset)
            self._recent.add(self._reader, record)
            if not self._was_transferred(record.offset):
                self._count((record.offset,), 1)

    def _add_entry(self, target: FrontTarget, entry: JournalEntry, now: Now) -> None:
        if target is FrontTarget.EXPIRED and isinstance(entry, TransferEntry):
            for offset in entry.offsets:
                self._messages.handle(half_messages.ExpiryAppended(offset), now.wall_ms)
                self._offsets_undecided.discard(offset)

    # -- delivery ----------------------------------------------------------------------------------------------------------
    def _run_effects(self, effects: list[HalfEffect]) -> None:
        assert self._checks is not None
        for effect in effects:
            match effect:
                case half_messages.Deliver():
                    self._offsets_undecided.discard(effect.offset)
                    if not self._was_transferred(effect.offset):
                        self._lanes[FrontTarget.TOPIC].due.append(effect.offset)
                case half_messages.Discard():
                    self._offsets_undecided.discard(effect.offset)
                    self._recent.take(self._reader, effect.offset)
                    self._release((effect.offset,))
                case half_messages.Expire():
                    self._lanes[FrontTarget.EXPIRED].due.append(effect.offset)
                case half_messages.CheckProducers():
                    self._checks.add(effect)

    def _select(self, now: Now) -> None:
        assert self._checks is not None
        topic, expired = self._lanes[FrontTarget.TOPIC], self._lanes[FrontTarget.EXPIRED]
        # The journal entry of an expiry is written in this iteration or not at all, so that a decision of a producer can still win.
        room = self._limits.batch_records if expired.capacity and not expired.due else 0
        tick = half_messages.HalfMessagesTick(self._checks.room, room)
        self._run_effects(self._messages.handle(tick, min(now.wall_ms, self._horizon_ms)))
        while topic.select(now):
            pass
        while expired.select(now):
            pass
        self._checks.tick(now)

    def _build_delivered(self, record: Record, position: int, now: Now) -> Record:
        return half_records.build_delivered_record(record, position, now.wall_ms)

    # -- log start ---------------------------------------------------------------------------------------------------------
    def _mark(self, record: Record) -> None:
        if not self._marks or record.timestamp >= self._marks[-1][0] + MARK_MS:
            self._marks.append((record.timestamp, record.offset))

    def _deletable_below(self, now: Now) -> int:
        while self._marks and self._marks[0][0] <= now.wall_ms - self._limits.decided_keep_ms:
            self._kept_from = self._marks.popleft()[1]
        return self._kept_from if self._marks else self._next_offset


def _transaction_of(header: BatchHeader) -> int:
    return header.producer_id if header.is_transactional else half_messages.NOT_TRANSACTIONAL
