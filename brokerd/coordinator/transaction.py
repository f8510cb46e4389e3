"""One transactional id: who may write under it, what its transaction has touched, how it ends. A sans-IO core.

Laws: nothing is answered before it is persisted, and nothing else is decided meanwhile (CONCURRENT_TRANSACTIONS); what is prepared is
decided, and is completed whatever happens to whom; no marker is sent before its decision is persisted; an older producer epoch is
fenced. Called by `transactions`. Must not come in: clocks, random numbers (producer ids are drawn outside), the wire.

| state          | add partitions | end                             | init                    | leaves when                        |
|----------------|----------------|---------------------------------|-------------------------|------------------------------------|
| Empty          | Ongoing        | INVALID_TXN_STATE               | next epoch              | a partition is added               |
| Ongoing        | Ongoing        | Prepare*                        | fence, abort, ask again | ended, or its time is up           |
| PrepareCommit  | CONCURRENT     | CONCURRENT (abort: INVALID)     | CONCURRENT              | every marker is written            |
| PrepareAbort   | CONCURRENT     | CONCURRENT (commit: INVALID)    | CONCURRENT              | every marker is written            |
| CompleteCommit | Ongoing        | NONE again (abort: INVALID)     | next epoch              | a partition is added               |
| CompleteAbort  | Ongoing        | NONE again (commit: INVALID)    | next epoch              | a partition is added               |

Of the second kind (KIP-890, `version` 2) every end moves the producer epoch, so that whatever comes late belongs to the past and is
fenced; an end is then told from its repetition by the epoch, and an empty transaction may be aborted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from brokerd.cluster.model import Now

NONE, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING = 0, 51, 48, 49
PRODUCER_FENCED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE = 90, 16, 15
NO_ID = NO_EPOCH = -1
EPOCH_MAX = 2**15 - 1
"""The fence needs one more epoch than any producer is given: the last one handed out is EPOCH_MAX - 1."""
TopicIndex = tuple[str, int]


class State(Enum):
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


PREPARED = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
COMPLETE = (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


@dataclass(frozen=True, slots=True)
class Record:
    """What is persisted of a transactional id. Times are Unix ms. `next_producer_id` follows once the present epochs are used up."""

    producer_id: int
    epoch: int = NO_EPOCH
    timeout_ms: int = 0
    state: State = State.EMPTY
    partitions: frozenset[TopicIndex] = frozenset()
    started_wall_ms: int = -1
    updated_wall_ms: int = -1
    last_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    version: int = 0


# -- events ----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Init:
    """A producer begins, or goes on under a higher epoch (KIP-360: it names what it has). `drawn_id` is fresh, in case."""

    token: Any
    timeout_ms: int
    drawn_id: int
    producer_id: int = NO_ID
    epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class Add:
    token: Any
    producer_id: int
    epoch: int
    partitions: frozenset[TopicIndex]
    version: int = 0


@dataclass(frozen=True, slots=True)
class End:
    token: Any
    producer_id: int
    epoch: int
    commit: bool
    drawn_id: int = NO_ID
    version: int = 0


@dataclass(frozen=True, slots=True)
class Persisted:
    number: int


@dataclass(frozen=True, slots=True)
class PersistFailed:
    number: int
    error: int


@dataclass(frozen=True, slots=True)
class MarkersWritten:
    """Of the decision with this producer epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Tick:
    pass


# -- effects -----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Answered:
    error: int
    producer_id: int = NO_ID
    epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class Reply:
    token: Any
    answer: Answered


@dataclass(frozen=True, slots=True)
class Persist:
    number: int
    record: Record


@dataclass(frozen=True, slots=True)
class SendMarkers:
    """Tell the leaders of these partitions."""

    producer_id: int
    epoch: int
    commit: bool
    partitions: frozenset[TopicIndex]
    version: int


Event = Init | Add | End | Persisted | PersistFailed | MarkersWritten | Tick
Effect = Reply | Persist | SendMarkers


@dataclass(slots=True)
class Pending:
    """A record on its way into the log, and who waits for it."""

    number: int
    record: Record
    token: Any
    answer: Answered


@dataclass(slots=True)
class Transaction:
    transactional_id: str
    record: Record
    deadline_ms: int | None = None
    """When an ongoing transaction is aborted (mono)."""
    pending: Pending | None = None
    sending: bool = False
    """Markers are under way."""
    _number: int = field(default=0)

    @property
    def state(self) -> State:
        return self.record.state

    # -- handling ----------------------------------------------------------------------------------------------------------
    def handle(self, event: Event, now: Now) -> list[Effect]:
        match event:
            case Init():
                return self._init(event, now)
            case Add():
                return self._add(event, now)
            case End():
                return self._end(event, now)
            case Persisted():
                return self._persisted(event.number, now)
            case PersistFailed():
                return self._persist_failed(event)
            case MarkersWritten():
                return self._markers_written(event.epoch, now)
            case Tick():
                return self._tick(now)

    def verify(self, producer_id: int, epoch: int, partitions: Iterable[TopicIndex]) -> dict[TopicIndex, int]:
        """An error for each: is it in this producer's present transaction?"""
        error = self._fenced(producer_id, epoch)
        if not error and (self.state in PREPARED or (self.pending and self.pending.record.state in PREPARED)):
            error = CONCURRENT_TRANSACTIONS
        inside = self.record.partitions if self.state is State.ONGOING else frozenset()
        return {p: error or (NONE if p in inside else INVALID_TXN_STATE) for p in partitions}

    def _fenced(self, producer_id: int, epoch: int) -> int:
        if producer_id != self.record.producer_id:
            return INVALID_PRODUCER_ID_MAPPING
        return NONE if epoch == self.record.epoch else PRODUCER_FENCED

    def _persist(self, record: Record, token: Any, answer: Answered) -> list[Effect]:
        self._number += 1
        self.pending = Pending(self._number, record, token, answer)
        return [Persist(self._number, record)]

    # -- beginning ---------------------------------------------------------------------------------------------------------
    def _init(self, e: Init, now: Now) -> list[Effect]:
        r = self.record

        def no(error: int) -> list[Effect]:
            return [Reply(e.token, Answered(error))]

        if self.pending is not None:
            return no(CONCURRENT_TRANSACTIONS)
        known = e.producer_id != NO_ID
        if known and r.epoch != NO_EPOCH and not self._may_go_on(e):
            return no(PRODUCER_FENCED)
        if self.state in PREPARED:
            return no(CONCURRENT_TRANSACTIONS)
        if self.state is State.ONGOING:
            # Whoever wrote is fenced by the epoch that its abort carries; the newcomer asks again until that is done.
            return self._fence(now, e.token, Answered(CONCURRENT_TRANSACTIONS))
        if self.state in (State.DEAD, State.PREPARE_EPOCH_FENCE):
            return no(COORDINATOR_NOT_AVAILABLE)
        if known and r.epoch != NO_EPOCH and e.producer_id == r.producer_id and e.epoch == r.last_epoch != r.epoch:
            return [Reply(e.token, Answered(NONE, r.producer_id, r.epoch))]  # the answer was lost: it is given again
        if known and e.producer_id != r.producer_id and r.epoch != NO_EPOCH:
            return [Reply(e.token, Answered(NONE, r.producer_id, r.epoch))]  # so was the answer with the new id
        fresh = replace(
            r, timeout_ms=e.timeout_ms, state=State.EMPTY, partitions=frozenset(), started_wall_ms=-1,
            updated_wall_ms=now.wall_ms, next_producer_id=NO_ID, previous_producer_id=NO_ID, version=0,
        )  # fmt: skip
        if r.epoch >= EPOCH_MAX - 1:
            fresh = replace(
                fresh, producer_id=e.drawn_id, epoch=0, last_epoch=NO_EPOCH,
                previous_producer_id=r.producer_id if known else NO_ID,  # whoever did not say who it is has a right to nothing
            )  # fmt: skip
        else:
            fresh = replace(fresh, epoch=r.epoch + 1, last_epoch=r.epoch if known else NO_EPOCH)
        return self._persist(fresh, e.token, Answered(NONE, fresh.producer_id, fresh.epoch))

    def _may_go_on(self, e: Init) -> bool:
        r = self.record
        if e.producer_id == r.producer_id:
            return e.epoch in (r.epoch, r.last_epoch) and e.epoch != NO_EPOCH
        return e.producer_id == r.previous_producer_id and e.epoch >= EPOCH_MAX - 1 and r.epoch == 0

    def _fence(self, now: Now, token: Any, answer: Answered) -> list[Effect]:
        """Abort under the next epoch, so that the producer which is writing hears no more good of it."""
        r = self.record
        aborted = replace(
            r, state=State.PREPARE_ABORT, epoch=min(r.epoch + 1, EPOCH_MAX), last_epoch=NO_EPOCH,
            updated_wall_ms=now.wall_ms,
        )  # fmt: skip
        return self._persist(aborted, token, answer)

    # -- in the middle -----------------------------------------------------------------------------------------------------
    def _add(self, e: Add, now: Now) -> list[Effect]:
        r = self.record
        error = self._fenced(e.producer_id, e.epoch)
        if not error and (self.pending is not None or self.state in PREPARED):
            error = CONCURRENT_TRANSACTIONS
        if not error and self.state in (State.DEAD, State.PREPARE_EPOCH_FENCE):
            error = INVALID_TXN_STATE
        if error or (self.state is State.ONGOING and e.partitions <= r.partitions):
            return [Reply(e.token, Answered(error))]
        begun = self.state is State.ONGOING
        ongoing = replace(
            r, state=State.ONGOING, partitions=e.partitions | (r.partitions if begun else frozenset()),
            started_wall_ms=r.started_wall_ms if begun else now.wall_ms, updated_wall_ms=now.wall_ms,
            version=e.version,
        )  # fmt: skip
        return self._persist(ongoing, e.token, Answered(NONE))

    # -- ending ------------------------------------------------------------------------------------------------------------
    def _end(self, e: End, now: Now) -> list[Effect]:
        r = self.record
        if e.version >= 2:
            return self._end_second(e, now)
        error = self._fenced(e.producer_id, e.epoch)
        if not error and self.pending is not None:
            error = CONCURRENT_TRANSACTIONS
        if not error and self.state is State.ONGOING:
            target = State.PREPARE_COMMIT if e.commit else State.PREPARE_ABORT
            prepared = replace(r, state=target, updated_wall_ms=now.wall_ms, version=0)
            return self._persist(prepared, e.token, Answered(NONE))
        if not error:
            error = self._ended_already(e.commit)
        return [Reply(e.token, Answered(error))]

    def _ended_already(self, commit: bool) -> int:
        if self.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT):
            return NONE
        if self.state is (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT):
            return CONCURRENT_TRANSACTIONS
        return INVALID_TXN_STATE

    def _end_second(self, e: End, now: Now) -> list[Effect]:
        r = self.record
        repeated = e.producer_id == r.producer_id and e.epoch == r.epoch - 1 and r.version >= 2
        turned = (
            e.producer_id == r.previous_producer_id and e.epoch == EPOCH_MAX - 1 and r.epoch == 0 and r.version >= 2
        )
        if r.epoch >= EPOCH_MAX and r.next_producer_id == NO_ID:
            return [
                Reply(e.token, Answered(PRODUCER_FENCED))
            ]  # a fence used up the last epoch: the way on is a new producer
        error = NONE
        if not (repeated or turned) or (turned and self.state not in COMPLETE):
            error = self._fenced(e.producer_id, e.epoch)
        if not error and self.pending is not None:
            error = CONCURRENT_TRANSACTIONS
        if error:
            return [Reply(e.token, Answered(error))]
        if (repeated or turned) and self.state in (*PREPARED, *COMPLETE):
            return [Reply(e.token, Answered(self._ended_already(e.commit), r.producer_id, r.epoch))]
        if repeated:
            return [Reply(e.token, Answered(PRODUCER_FENCED))]  # an end of the past, and the next transaction has begun
        if self.state is not State.ONGOING and (e.commit or self.state not in (State.EMPTY, *COMPLETE)):
            return [Reply(e.token, Answered(INVALID_TXN_STATE))]
        target = State.PREPARE_COMMIT if e.commit else State.PREPARE_ABORT
        used_up = r.epoch + 1 >= EPOCH_MAX
        prepared = replace(
            r, state=target, epoch=r.epoch + 1, last_epoch=r.epoch, version=2, updated_wall_ms=now.wall_ms,
            partitions=r.partitions if self.state is State.ONGOING else frozenset(),
            started_wall_ms=r.started_wall_ms if self.state is State.ONGOING else now.wall_ms,
            next_producer_id=e.drawn_id if used_up else NO_ID,
        )  # fmt: skip
        answer = Answered(NONE, e.drawn_id, 0) if used_up else Answered(NONE, r.producer_id, r.epoch + 1)
        return self._persist(prepared, e.token, answer)

    def _send(self) -> list[Effect]:
        r = self.record
        self.sending = True
        commit = r.state is State.PREPARE_COMMIT
        return [SendMarkers(r.producer_id, r.epoch, commit, r.partitions, r.version)]

    def _markers_written(self, epoch: int, now: Now) -> list[Effect]:
        r = self.record
        if self.state not in PREPARED or epoch != r.epoch or self.pending is not None:
            return []
        self.sending = False
        complete = replace(
            r, state=State.COMPLETE_COMMIT if r.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT,
            partitions=frozenset(), updated_wall_ms=now.wall_ms,
        )  # fmt: skip
        if r.next_producer_id != NO_ID:
            complete = replace(
                complete, producer_id=r.next_producer_id, epoch=0, next_producer_id=NO_ID,
                previous_producer_id=r.producer_id,
            )  # fmt: skip
        return self._persist(complete, None, Answered(NONE))

    # -- what became of a write ----------------------------------------------------------------------------------------------
    def _persisted(self, number: int, now: Now) -> list[Effect]:
        pending = self.pending
        if pending is None or pending.number != number:
            return []
        before, self.record, self.pending = self.record, pending.record, None
        effects: list[Effect] = [] if pending.token is None else [Reply(pending.token, pending.answer)]
        if self.state is State.ONGOING and before.state is not State.ONGOING:
            self.deadline_ms = now.mono_ms + self.record.timeout_ms
        elif self.state is not State.ONGOING:
            self.deadline_ms = None
        if self.state in PREPARED:
            effects += self._send()
        return effects

    def _persist_failed(self, e: PersistFailed) -> list[Effect]:
        """Surely not written. (Of an unknown outcome the shell loads anew.)"""
        pending = self.pending
        if pending is None or pending.number != e.number:
            return []
        self.pending = None
        return [] if pending.token is None else [Reply(pending.token, Answered(e.error))]

    # -- time ----------------------------------------------------------------------------------------------------------------
    def loaded(self, now: Now) -> None:
        """Out of the log: a transaction's time goes on from where the clocks say, at most a whole time-out from now."""
        if self.state is State.ONGOING:
            gone = max(0, now.wall_ms - self.record.started_wall_ms)
            self.deadline_ms = now.mono_ms + max(0, self.record.timeout_ms - gone)

    def _tick(self, now: Now) -> list[Effect]:
        if self.pending is not None:
            return []
        if self.state is State.ONGOING and self.deadline_ms is not None and now.mono_ms >= self.deadline_ms:
            return self._fence(now, None, Answered(NONE))
        if self.state in PREPARED and not self.sending:
            return self._send()
        return []

    def expired(self, wall_ms: int, idle_ms_max: int) -> bool:
        return (
            self.state in (State.EMPTY, *COMPLETE)
            and self.pending is None
            and wall_ms - self.record.updated_wall_ms > idle_ms_max
        )

    def unload(self) -> list[Effect]:
        """Led elsewhere from now on: whoever waits is told."""
        pending, self.pending = self.pending, None
        return [] if pending is None or pending.token is None else [Reply(pending.token, Answered(NOT_COORDINATOR))]

    def validate(self) -> None:
        assert (self.state is State.ONGOING) == (self.deadline_ms is not None), (
            f"{self.transactional_id}: {self.record}"
        )
        assert self.record.partitions or self.state is not State.ONGOING, (
            f"{self.transactional_id}: ongoing, of nothing"
        )
