"""The half messages of one front partition and their decisions: a sans-IO core.

A half message is stored and invisible until a later record with the same id commits it or rolls it back (RocketMQ's transactional messages). The broker sends
checks of an undecided message to the producers. Some time after the last check the message expires and is kept for operators.

Invariants:
  - The first decision of an id wins. Expiry is a decision; it takes effect with its journal entry.
  - A record takes effect when it is stable: replicated, and of a transaction that is committed. Until then, a record whose admission depends on it
    is rejected with NOT_STABLE, which is retriable.
  - Times of checks depend on the append time only, so that a new leader continues the schedule of the old one.
Does not contain: records and headers, the transfer of committed messages (`transfer.py`), clocks.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from brokerd.delivery.limits import DEFAULT_LIMITS, DeliveryLimits

NOT_TRANSACTIONAL = -1
TICK_MESSAGES_MAX = 1_000
"""Maximum number of due messages that one tick handles."""
POSTPONE_MS = 1_000
"""Time after which a check or an expiry that was not possible is tried again. So it does not delay the checks of other messages."""


class HalfDecision(Enum):
    COMMIT = "commit"
    ROLLBACK = "rollback"
    EXPIRED = "expired"


class HalfRejection(Enum):
    """The reason why a record is not appended to the front partition."""

    ID_IN_USE = "id in use"
    UNKNOWN_ID = "unknown id"
    ALREADY_COMMITTED = "already committed"
    ALREADY_ROLLED_BACK = "already rolled back"
    ALREADY_EXPIRED = "already expired"
    TOO_MANY = "too many undecided"
    NOT_STABLE = "not stable"


ALREADY = {
    HalfDecision.COMMIT: HalfRejection.ALREADY_COMMITTED,
    HalfDecision.ROLLBACK: HalfRejection.ALREADY_ROLLED_BACK,
    HalfDecision.EXPIRED: HalfRejection.ALREADY_EXPIRED,
}


# -- events ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class HalfPending:
    """A half message (decision None) or a decision was appended to the leader's log, or was found above its last stable offset. `producer_id`: of a
    transaction, NOT_TRANSACTIONAL otherwise."""

    half_id: bytes
    offset: int
    decision: HalfDecision | None = None
    producer_id: int = NOT_TRANSACTIONAL


@dataclass(frozen=True, slots=True)
class HalfAppended:
    """A stable half message. `at_ms`: append time. `expiring`: the log has a journal entry for its expiry, which may not be stable yet."""

    half_id: bytes
    offset: int
    at_ms: int
    expiring: bool = False


@dataclass(frozen=True, slots=True)
class DecisionAppended:
    """A stable decision of a producer."""

    half_id: bytes
    offset: int
    decision: HalfDecision


@dataclass(frozen=True, slots=True)
class ExpiryAppended:
    """The stable journal entry for the expiry of the message at this offset."""

    half_offset: int


@dataclass(frozen=True, slots=True)
class HalfAborted:
    """A record of an aborted transaction. It counts as never written."""

    half_id: bytes
    offset: int


@dataclass(frozen=True, slots=True)
class HalfDeleted:
    """A client has deleted the records below this offset before they were read."""

    offset: int


@dataclass(frozen=True, slots=True)
class HalfMessagesTick:
    """Time has passed. `checks`, `expiries`: the number of each that is possible now."""

    checks: int
    expiries: int


HalfEvent = (
    HalfPending | HalfAppended | DecisionAppended | ExpiryAppended | HalfAborted | HalfDeleted | HalfMessagesTick
)


# -- effects -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Deliver:
    """Transfer the half message at this offset to the topic."""

    offset: int


@dataclass(frozen=True, slots=True)
class Discard:
    """The half message at this offset was rolled back. It may be deleted."""

    offset: int


@dataclass(frozen=True, slots=True)
class CheckProducers:
    """Ask the producers for the decision. `number`: 1 to `checks_max`."""

    half_id: bytes
    offset: int
    number: int


@dataclass(frozen=True, slots=True)
class Expire:
    """No producer decided. Journal the transfer of the half message at this offset to the expired ones."""

    offset: int


HalfEffect = Deliver | Discard | CheckProducers | Expire


@dataclass(slots=True)
class Undecided:
    """`next_check`: `checks_max` + 1 after the last check. `expiring`: its expiry waits for its journal entry."""

    half_id: bytes
    offset: int
    at_ms: int
    next_check: int = 1
    expiring: bool = False

    @property
    def checks(self) -> int:
        """Number of checks that are due by now, of this leader and of earlier leaders."""
        return self.next_check - 1

    def skip_overdue(self, now_ms: int, limits: DeliveryLimits) -> None:
        """Skip all due checks except the last one, so that only the last due check is sent."""
        while self.next_check < limits.checks_max and limits.check_at_ms(self.at_ms, self.next_check + 1) <= now_ms:
            self.next_check += 1


class HalfMessages:
    def __init__(self, limits: DeliveryLimits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._undecided: dict[bytes, Undecided] = {}
        self._ids: dict[int, bytes] = {}
        """{offset: id} of the undecided messages."""
        self._decided: OrderedDict[bytes, HalfDecision] = OrderedDict()
        self._pending_halves: dict[bytes, HalfPending] = {}
        self._pending_decisions: dict[bytes, HalfPending] = {}
        self._timers: list[tuple[int, int, bytes]] = []
        """(time of the next check, offset, id). Entries of decided messages are skipped when they are due."""

    def __len__(self) -> int:
        """The number of undecided messages."""
        return len(self._undecided)

    def rejection(
        self, half_id: bytes, decision: HalfDecision | None, producer_id: int = NOT_TRANSACTIONAL
    ) -> HalfRejection | None:
        """Return whether a record may be appended: a half message (None) or a decision."""
        pending, message = self._pending_halves.get(half_id), self._undecided.get(half_id)
        if decision is None:
            if pending is not None:
                return HalfRejection.NOT_STABLE
            if message is not None or half_id in self._decided:
                return HalfRejection.ID_IN_USE
            return HalfRejection.TOO_MANY if self._count() >= self._limits.undecided_max else None
        if half_id in self._pending_decisions or (message is not None and message.expiring):
            return HalfRejection.NOT_STABLE
        if message is not None:
            return None
        if pending is not None:
            # A decision may follow a message of the same transaction, but not one of a transaction that may be aborted without it.
            own = pending.producer_id in (NOT_TRANSACTIONAL, producer_id)
            return None if own else HalfRejection.NOT_STABLE
        first = self._decided.get(half_id)
        return HalfRejection.UNKNOWN_ID if first is None else ALREADY[first]

    def _count(self) -> int:
        return len(self._undecided) + len(self._pending_halves)

    def undecided_in_order(self) -> Iterator[Undecided]:
        """The undecided messages in the order of their offsets."""
        return iter(self._undecided.values())

    @property
    def wake_at_ms(self) -> int | None:
        """The time of the next `HalfMessagesTick` that has an effect."""
        self._skip_decided()
        return self._timers[0][0] if self._timers else None

    def handle(self, event: HalfEvent, now_ms: int) -> list[HalfEffect]:
        match event:
            case HalfPending():
                place = self._pending_halves if event.decision is None else self._pending_decisions
                place[event.half_id] = event
            case HalfAppended():
                self._remove_pending(event.half_id, event.offset)
                self._add(event, now_ms)
            case DecisionAppended():
                self._remove_pending(event.half_id, event.offset)
                return self._decide(event)
            case ExpiryAppended():
                half_id = self._ids.get(event.half_offset)
                if half_id is not None:
                    self._close(half_id, HalfDecision.EXPIRED)
            case HalfAborted():
                self._remove_pending(event.half_id, event.offset)
            case HalfDeleted():
                for place in (self._pending_halves, self._pending_decisions):
                    for pending in [p for p in place.values() if p.offset < event.offset]:
                        del place[pending.half_id]
            case HalfMessagesTick():
                return self._tick(event, now_ms)
        return []

    def _remove_pending(self, half_id: bytes, offset: int) -> None:
        for place in (self._pending_halves, self._pending_decisions):
            pending = place.get(half_id)
            if pending is not None and pending.offset == offset:
                del place[half_id]

    def _add(self, event: HalfAppended, now_ms: int) -> None:
        if event.half_id in self._undecided or event.half_id in self._decided:
            return
        message = Undecided(event.half_id, event.offset, event.at_ms, expiring=event.expiring)
        # An earlier leader has sent the checks that were due. The last due check is sent again, so that each message gets at least one.
        message.skip_overdue(now_ms, self._limits)
        self._undecided[event.half_id] = message
        self._ids[event.offset] = event.half_id
        at_ms = self._limits.check_at_ms(event.at_ms, message.next_check)
        heapq.heappush(self._timers, (at_ms, event.offset, event.half_id))

    def _decide(self, event: DecisionAppended) -> list[HalfEffect]:
        message = self._undecided.get(event.half_id)
        if message is None:
            # The message was deleted after an earlier decision. Of both, only this record is still in the log.
            if event.half_id not in self._decided:
                self._remember(event.half_id, event.decision)
            return []
        self._close(event.half_id, event.decision)
        return [Deliver(message.offset) if event.decision is HalfDecision.COMMIT else Discard(message.offset)]

    def _close(self, half_id: bytes, decision: HalfDecision) -> None:
        message = self._undecided.pop(half_id)
        del self._ids[message.offset]
        self._remember(half_id, decision)

    def _remember(self, half_id: bytes, decision: HalfDecision) -> None:
        self._decided[half_id] = decision
        if len(self._decided) > self._limits.decided_max:
            self._decided.popitem(last=False)

    def _tick(self, event: HalfMessagesTick, now_ms: int) -> list[HalfEffect]:
        effects: list[HalfEffect] = []
        checks, expiries, limits = event.checks, event.expiries, self._limits
        for _ in range(TICK_MESSAGES_MAX):
            at = self.wake_at_ms
            if at is None or at > now_ms:
                break
            message = self._undecided[self._timers[0][2]]
            next_ms = now_ms + POSTPONE_MS
            if message.next_check > limits.checks_max:
                if expiries and message.half_id not in self._pending_decisions:
                    expiries -= 1
                    message.expiring = True
                    effects.append(Expire(message.offset))
            elif checks:
                checks -= 1
                message.skip_overdue(now_ms, limits)
                effects.append(CheckProducers(message.half_id, message.offset, message.next_check))
                message.next_check += 1
                next_ms = limits.check_at_ms(message.at_ms, message.next_check)
                if message.next_check > limits.checks_max:
                    # A producer needs time for its response after a late check, too.
                    next_ms = max(next_ms, now_ms + limits.check_interval_ms)
            heapq.heapreplace(self._timers, (next_ms, message.offset, message.half_id))
        return effects

    def _skip_decided(self) -> None:
        while self._timers and not self._is_undecided(self._timers[0]):
            heapq.heappop(self._timers)

    def _is_undecided(self, timer: tuple[int, int, bytes]) -> bool:
        message = self._undecided.get(timer[2])
        return message is not None and message.offset == timer[1] and not message.expiring
