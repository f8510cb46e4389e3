"""Old records that lie with others: what a leader asks the holders of its partition's archive, and what it keeps of their answers.

Laws: only what lies below the leader's own log is asked for, so that no batch is read from two places; what a holder answers was committed before
the archive was named, so that it stands whoever leads; nobody answering is an error that passes, never an offset out of range. Questions under way
and answers kept are bounded in bytes. A holder that is silent is asked last for a while. Where the archive begins is raised by the leader's word to
the controller. Called by the doors of fetches and offsets. Must not come in: sockets (told as `ask`), what the wire says of it (`apis/held`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from brokerd.cluster.model import Now, TopicPartition
from brokerd.cluster.znodes import StartProposal
from brokerd.replica import Replica
from brokerd.wire.errors import ErrorCode

log = logging.getLogger(__name__)

READ_BYTES_MAX = 1024 * 1024
"""Of one answer, but for a single batch that is larger."""
UNDER_WAY_BYTES_MAX = 32 * 1024 * 1024
"""Of what was asked and not answered yet; who comes then is told nothing and comes again."""
KEPT_BYTES_MAX = 32 * 1024 * 1024
KEPT_MS = 5_000
"""An answer is for whoever waits for it; a client that does not come back for it in this time has gone."""
REFUSED_MS = 250
"""For so long nobody is asked again what nobody could answer."""
SHUNNED_MS = 5_000
"""For so long a holder that did not answer is asked after the others."""


@dataclass(frozen=True, slots=True)
class Question:
    """`what` is READ, TIME, EPOCH or KEPT; `at` the offset, the timestamp (or one of Kafka's negative words), the epoch, or the bytes that the
    leader's own log has. `floor`: nothing is kept below it, whether the holder has heard of it or not. `upto`, `last_epoch` and `bytes_max` are of READ."""

    tp: TopicPartition
    archive_start: int
    floor: int
    what: str
    at: int
    upto: int = -1
    last_epoch: int = -1
    bytes_max: int = 0


READ, TIME, EPOCH, KEPT = "read", "time", "epoch", "kept"


@dataclass(frozen=True, slots=True)
class Held:
    """What a holder says. `error` NONE, OFFSET_OUT_OF_RANGE (all that it has begins at `log_start`), or what passes. `found` is (offset, timestamp,
    leader epoch) of TIME, (end offset, -1, epoch) of EPOCH, (first offset to be kept, -1, -1) of KEPT; None: there is none."""

    error: ErrorCode
    log_start: int = -1
    records: bytes = b""
    diverging: tuple[int, int] | None = None
    aborted: tuple[tuple[int, int], ...] = ()
    found: tuple[int, int, int] | None = None


UNANSWERED = Held(ErrorCode.OFFSET_NOT_AVAILABLE)
Done = Callable[[Held], None]


class Ask(Protocol):
    def __call__(self, holder: int, question: Question, done: Callable[[Held | None], None]) -> None:
        """`done` is called later, once: with None when nothing is heard."""


class Kept(NamedTuple):
    held: Held
    until_ms: int


@dataclass
class Archives:
    ask_holder: Ask
    clock: Callable[[], Now]
    alive: Callable[[int], bool]
    changed: bool = False
    """What `wanted` says may be another."""
    _answers: dict[Question, Kept] = field(default_factory=dict)
    """The oldest first."""
    _bytes: int = 0
    _under_way: dict[Question, None] = field(default_factory=dict)
    _shunned: dict[int, int] = field(default_factory=dict)
    _starts: dict[TopicPartition, tuple[Replica, int, int]] = field(default_factory=dict)
    """(replica, leader epoch, offset): where partitions are to begin."""

    # -- asking ------------------------------------------------------------------------------------------------------------
    def ask(self, replica: Replica, what: str, at: int, done: Done) -> None:
        """`done` is told once, later."""
        self._ask(replica, self._question(replica, what, at), done)

    def read(
        self, replica: Replica, offset: int, upto: int, last_epoch: int, bytes_max: int, told: Callable[[], None]
    ) -> Held | None:
        """What stands from `offset` on, below `upto`, if it is here; else it is asked for and `told` called when it is."""
        bytes_max = min(bytes_max, READ_BYTES_MAX)
        state = replica.core.state
        assert state is not None
        if offset < state.log_start_floor:
            return Held(ErrorCode.OFFSET_OUT_OF_RANGE)
        question = replace(self._question(replica, READ, offset), upto=upto, last_epoch=last_epoch, bytes_max=bytes_max)
        kept = self._answers.get(question)
        if kept is not None and kept.until_ms > self.clock().mono_ms:
            return kept.held
        if question not in self._under_way and self._asked_bytes + bytes_max <= UNDER_WAY_BYTES_MAX:
            self._under_way[question] = None

            def answered(held: Held) -> None:
                del self._under_way[question]
                self._keep(question, held)
                told()

            self._ask(replica, question, answered)
        return None

    @property
    def _asked_bytes(self) -> int:
        return sum(q.bytes_max for q in self._under_way)

    def _question(self, replica: Replica, what: str, at: int) -> Question:
        state = replica.core.state
        assert state is not None
        return Question(replica.tp, state.archive_start, max(0, state.log_start_floor), what, at)

    def _ask(self, replica: Replica, question: Question, done: Done) -> None:
        state = replica.core.state
        holders = self._in_turn(state.holders if state is not None else ())

        def next_one() -> None:
            holder = next(holders, None)
            if holder is None:
                done(UNANSWERED)
                return

            def answered(held: Held | None) -> None:
                if held is None:
                    self._shunned[holder] = self.clock().mono_ms + SHUNNED_MS
                if held is None or held.error not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
                    next_one()
                    return
                self._shunned.pop(holder, None)
                replica.archive_from = max(replica.archive_from, held.log_start)
                done(held)

            self.ask_holder(holder, question, answered)

        next_one()

    def _in_turn(self, holders: tuple[int, ...]) -> Iterator[int]:
        now_ms = self.clock().mono_ms
        return iter(sorted((b for b in holders if self.alive(b)), key=lambda b: self._shunned.get(b, 0) > now_ms))

    # -- answers that wait for their clients -------------------------------------------------------------------------------
    def _keep(self, question: Question, held: Held) -> None:
        lasts_ms = KEPT_MS if held.error == ErrorCode.NONE else REFUSED_MS
        if question in self._answers:
            self._drop(question)
        self._answers[question] = Kept(held, self.clock().mono_ms + lasts_ms)
        self._bytes += len(held.records)
        while self._bytes > KEPT_BYTES_MAX and len(self._answers) > 1:
            self._drop(next(iter(self._answers)))

    def tick(self, now: Now) -> None:
        """What nobody has come back for goes, the oldest first."""
        while self._answers:
            question, kept = next(iter(self._answers.items()))
            if kept.until_ms > now.mono_ms:
                return
            self._drop(question)

    def _drop(self, question: Question) -> None:
        self._bytes -= len(self._answers.pop(question).held.records)

    # -- letting go --------------------------------------------------------------------------------------------------------
    def retain(self, replica: Replica) -> None:
        """Retention of what lies with others is its leader's to decide, by what a holder says of ages and sizes."""
        state = replica.core.state
        if state is None or state.archive_start < 0 or not replica.leads:
            return
        if not replica.asks_below:
            self.begins_at(replica, replica.log.start_offset)
            return

        def told(held: Held) -> None:
            if held.error == ErrorCode.NONE and held.found is not None and replica.asks_below:
                self.begins_at(replica, held.found[0])

        self.ask(replica, KEPT, replica.log.size_bytes, told)

    def begins_at(self, replica: Replica, offset: int) -> None:
        """Ask the controller for a beginning at `offset`."""
        if _may_begin_at(replica, replica.core.leader_epoch, offset):
            before = self._starts.get(replica.tp)
            if before is None or before[:2] != (replica, replica.core.leader_epoch) or before[2] < offset:
                self._starts[replica.tp] = (replica, replica.core.leader_epoch, offset)
                self.changed = True

    def wanted(self) -> list[StartProposal]:
        """What is to be asked of the controller; what was granted, or is void, is forgotten."""
        self._starts = {tp: w for tp, w in self._starts.items() if _may_begin_at(*w)}
        return [
            StartProposal(tp.topic_id, tp.partition, epoch, offset) for tp, (_, epoch, offset) in self._starts.items()
        ]

    def look(self, replica: Replica) -> None:
        """The metadata log has said something of this partition."""
        wanted = self._starts.get(replica.tp)
        if wanted is not None and not _may_begin_at(*wanted):
            del self._starts[replica.tp]
            self.changed = True


def _may_begin_at(replica: Replica, leader_epoch: int, offset: int) -> bool:
    state = replica.core.state
    return (
        state is not None
        and state.archive_start >= 0
        and replica.leads
        and replica.goes_on
        and state.leader_epoch == leader_epoch
        and offset > state.log_start_floor
        and offset > 0
    )
