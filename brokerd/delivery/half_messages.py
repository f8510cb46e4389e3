"""The half messages of one front partition and their decisions: a sans-IO core.

A half message is stored and invisible until a later record with the same id commits it or rolls it back (RocketMQ's transactional messages). The
producers are asked about an undecided one; after the last check it expires and is kept for operators.

Invariants:
  - The first decision of an id wins. Expiry is a decision.
  - A decision takes effect when it is replicated.
  - Times of checks depend on the append time only, so that a new leader continues the schedule of the old one.
Does not contain: records and headers, the transfer of committed messages (`transfer.py`), clocks.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from dataclasses import dataclass
from enum import Enum

FIRST_CHECK_MS = 6_000
CHECK_INTERVAL_MS = 30_000
CHECKS_MAX = 15
DECIDED_MAX = 100_000
"""Decided ids that are remembered, to answer a second decision with the first one. A decision for an older id is one for an unknown id."""


class HalfDecision(Enum):
    COMMIT = "commit"
    ROLLBACK = "rollback"
    EXPIRED = "expired"


class HalfRefusal(Enum):
    """Why a record is not appended to the front partition."""

    ID_IN_USE = "id in use"
    UNKNOWN_ID = "unknown id"
    ALREADY_COMMITTED = "already committed"
    ALREADY_ROLLED_BACK = "already rolled back"
    ALREADY_EXPIRED = "already expired"


ALREADY = {
    HalfDecision.COMMIT: HalfRefusal.ALREADY_COMMITTED,
    HalfDecision.ROLLBACK: HalfRefusal.ALREADY_ROLLED_BACK,
    HalfDecision.EXPIRED: HalfRefusal.ALREADY_EXPIRED,
}


# -- events ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class HalfAppended:
    """A half message was appended to the leader's log, or was found in it. `at_ms`: append time."""

    half_id: bytes
    offset: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class DecisionAppended:
    """A decision was appended to the leader's log, or was found in it."""

    half_id: bytes
    offset: int
    decision: HalfDecision


@dataclass(frozen=True, slots=True)
class HalfMessagesReplicated:
    """Records below `high_watermark` are replicated."""

    high_watermark: int


@dataclass(frozen=True, slots=True)
class HalfMessagesTick:
    """Time has passed."""


HalfEvent = HalfAppended | DecisionAppended | HalfMessagesReplicated | HalfMessagesTick


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
    """Ask the producers for the decision. `number`: 1 to CHECKS_MAX."""

    half_id: bytes
    offset: int
    number: int


@dataclass(frozen=True, slots=True)
class Expire:
    """No producer decided. Transfer the half message at this offset to the expired ones."""

    offset: int


HalfEffect = Deliver | Discard | CheckProducers | Expire


def check_at_ms(appended_at_ms: int, number: int) -> int:
    """The time of check `number`; of the expiry for CHECKS_MAX + 1."""
    return appended_at_ms + FIRST_CHECK_MS + (number - 1) * CHECK_INTERVAL_MS


@dataclass(slots=True)
class _Undecided:
    half_id: bytes
    offset: int
    at_ms: int
    next_check: int = 1


class HalfMessages:
    def __init__(self) -> None:
        self._undecided: dict[bytes, _Undecided] = {}
        self._decided: OrderedDict[bytes, HalfDecision] = OrderedDict()
        self._not_replicated: deque[tuple[int, Deliver | Discard]] = deque()
        """Effects of decisions by the offset of the decision, ascending."""
        self._timers: list[tuple[int, int, bytes]] = []
        """(time of the next check, offset, id). Entries of decided messages are skipped when they are due."""
        self._high_watermark = 0

    def __len__(self) -> int:
        """The number of undecided messages."""
        return len(self._undecided)

    def refusal(self, half_id: bytes, decision: HalfDecision | None) -> HalfRefusal | None:
        """Whether a record may be appended: a half message (None) or a decision."""
        known = half_id in self._undecided
        if decision is None:
            return HalfRefusal.ID_IN_USE if known or half_id in self._decided else None
        if known:
            return None
        first = self._decided.get(half_id)
        return HalfRefusal.UNKNOWN_ID if first is None else ALREADY[first]

    @property
    def oldest_offset(self) -> int | None:
        """The lowest offset of an undecided message. None: every message is decided."""
        return min((u.offset for u in self._undecided.values()), default=None)

    @property
    def wake_at_ms(self) -> int | None:
        """The time of the next `Tick` that has an effect."""
        self._skip_decided()
        return self._timers[0][0] if self._timers else None

    def handle(self, event: HalfEvent, now_ms: int) -> list[HalfEffect]:
        if isinstance(event, HalfAppended):
            self._add(event, now_ms)
            return []
        if isinstance(event, DecisionAppended):
            self._decide(event)
            return []
        if isinstance(event, HalfMessagesReplicated):
            self._high_watermark = max(self._high_watermark, event.high_watermark)
            effects: list[HalfEffect] = []
            while self._not_replicated and self._not_replicated[0][0] < self._high_watermark:
                effects.append(self._not_replicated.popleft()[1])
            return effects
        return self._tick(now_ms)

    def _add(self, event: HalfAppended, now_ms: int) -> None:
        if self.refusal(event.half_id, None) is not None:
            return
        message = _Undecided(event.half_id, event.offset, event.at_ms)
        # An earlier leader has sent the checks that were due. The last one is sent again, and all messages get at least one.
        while message.next_check < CHECKS_MAX and check_at_ms(event.at_ms, message.next_check + 1) <= now_ms:
            message.next_check += 1
        self._undecided[event.half_id] = message
        heapq.heappush(self._timers, (check_at_ms(event.at_ms, message.next_check), event.offset, event.half_id))

    def _decide(self, event: DecisionAppended) -> None:
        message = self._undecided.pop(event.half_id, None)
        if message is None:
            return
        self._remember(event.half_id, event.decision)
        effect = Deliver(message.offset) if event.decision is HalfDecision.COMMIT else Discard(message.offset)
        self._not_replicated.append((event.offset, effect))

    def _remember(self, half_id: bytes, decision: HalfDecision) -> None:
        self._decided[half_id] = decision
        if len(self._decided) > DECIDED_MAX:
            self._decided.popitem(last=False)

    def _tick(self, now_ms: int) -> list[HalfEffect]:
        effects: list[HalfEffect] = []
        while (at := self.wake_at_ms) is not None and at <= now_ms:
            _, offset, half_id = self._timers[0]
            if offset >= self._high_watermark:
                break  # Its producer does not have the answer yet.
            heapq.heappop(self._timers)
            message = self._undecided[half_id]
            if message.next_check > CHECKS_MAX:
                del self._undecided[half_id]
                self._remember(half_id, HalfDecision.EXPIRED)
                effects.append(Expire(offset))
                continue
            effects.append(CheckProducers(half_id, offset, message.next_check))
            message.next_check += 1
            heapq.heappush(self._timers, (check_at_ms(message.at_ms, message.next_check), offset, half_id))
        return effects

    def _skip_decided(self) -> None:
        while self._timers and not self._is_undecided(self._timers[0]):
            heapq.heappop(self._timers)

    def _is_undecided(self, timer: tuple[int, int, bytes]) -> bool:
        message = self._undecided.get(timer[2])
        return message is not None and message.offset == timer[1]
