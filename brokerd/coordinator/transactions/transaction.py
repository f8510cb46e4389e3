"""The state machine of one transactional id: its producer epoch, its partitions, commit and abort (KIP-98). Pure, without clock and random numbers.

Invariants: a request is answered after its new state is persisted. Until then other requests get CONCURRENT_TRANSACTIONS. A prepared commit or
abort is always completed. A marker is sent only after the prepared state is persisted. An older producer epoch is fenced.

| state          | add partitions | end                             | init                    | next state when                    |
|----------------|----------------|---------------------------------|-------------------------|------------------------------------|
| Empty          | Ongoing        | INVALID_TXN_STATE               | next epoch              | a partition is added               |
| Ongoing        | Ongoing        | Prepare*                        | fence, abort, retry     | ended, or timed out                |
| PrepareCommit  | CONCURRENT     | CONCURRENT (abort: INVALID)     | CONCURRENT              | every marker is written            |
| PrepareAbort   | CONCURRENT     | CONCURRENT (commit: INVALID)    | CONCURRENT              | every marker is written            |
| CompleteCommit | Ongoing        | NONE again (abort: INVALID)     | next epoch              | a partition is added               |
| CompleteAbort  | Ongoing        | NONE again (commit: INVALID)    | next epoch              | a partition is added               |

In transaction version 2 (KIP-890) every end increases the producer epoch, so late requests are fenced. The epoch distinguishes an EndTxn from its
retry, and an empty transaction may be aborted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from brokerd.cluster.model import Now
from brokerd.coordinator.reply_callback import ReplyCallback
from brokerd.coordinator.transactions.transaction_events import (
    COMPLETE,
    EPOCH_MAX,
    NO_EPOCH,
    NO_ID,
    PREPARED,
    Add,
    Effect,
    End,
    Event,
    Init,
    MarkersWritten,
    Persist,
    SendMarkers,
    TopicIndex,
    TransactionMachineState,
    TransactionMetadata,
    TransactionPersisted,
    TransactionPersistFailed,
    TransactionReply,
    TransactionResponse,
    TransactionTick,
)
from brokerd.wire.errors import ErrorCode


@dataclass(slots=True)
class Pending:
    """A record that is being written, with the reply that waits for it."""

    number: int
    record: TransactionMetadata
    token: ReplyCallback | None
    response: TransactionResponse


@dataclass(slots=True)
class Transaction:
    transactional_id: str
    record: TransactionMetadata
    deadline_ms: int | None = None
    """Time at which an ongoing transaction times out (monotonic ms). None in every other state."""
    pending: Pending | None = None
    sending: bool = False
    """Markers are being sent."""
    _number: int = field(default=0)

    @property
    def state(self) -> TransactionMachineState:
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
            case TransactionPersisted():
                return self._on_persisted(event.number, now)
            case TransactionPersistFailed():
                return self._persist_failed(event)
            case MarkersWritten():
                return self._markers_written(event.epoch, now)
            case TransactionTick():
                return self._tick(now)

    def verify(self, producer_id: int, epoch: int, partitions: Iterable[TopicIndex]) -> dict[TopicIndex, int]:
        """{partition: NONE if it is part of this producer's ongoing transaction, otherwise an error}."""
        error = self._producer_error(producer_id, epoch)
        if not error and (self.state in PREPARED or (self.pending and self.pending.record.state in PREPARED)):
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        inside = self.record.partitions if self.state is TransactionMachineState.ONGOING else frozenset()
        return {p: error or (ErrorCode.NONE if p in inside else ErrorCode.INVALID_TXN_STATE) for p in partitions}

    def _producer_error(self, producer_id: int, epoch: int) -> int:
        if producer_id != self.record.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.NONE if epoch == self.record.epoch else ErrorCode.PRODUCER_FENCED

    def _persist(
        self, record: TransactionMetadata, token: ReplyCallback | None, response: TransactionResponse
    ) -> list[Effect]:
        self._number += 1
        self.pending = Pending(self._number, record, token, response)
        return [Persist(self._number, record)]

    # -- InitProducerId ----------------------------------------------------------------------------------------------------
    def _init(self, event: Init, now: Now) -> list[Effect]:
        record = self.record

        def no(error: int) -> list[Effect]:
            return [TransactionReply(event.token, TransactionResponse(error))]

        if self.pending is not None:
            return no(ErrorCode.CONCURRENT_TRANSACTIONS)
        known = event.producer_id != NO_ID
        if known and record.epoch != NO_EPOCH and not self._may_continue(event):
            return no(ErrorCode.PRODUCER_FENCED)
        if self.state in PREPARED:
            return no(ErrorCode.CONCURRENT_TRANSACTIONS)
        if self.state is TransactionMachineState.ONGOING:
            # The abort's epoch fences the previous producer. The new producer retries until the abort is complete.
            return self._fence(now, event.token, TransactionResponse(ErrorCode.CONCURRENT_TRANSACTIONS))
        if self.state in (TransactionMachineState.DEAD, TransactionMachineState.PREPARE_EPOCH_FENCE):
            return no(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if (
            known
            and record.epoch != NO_EPOCH
            and (event.producer_id != record.producer_id or event.epoch == record.last_epoch != record.epoch)
        ):
            # The response with the new epoch or the new producer id was lost: send it again.
            return [
                TransactionReply(event.token, TransactionResponse(ErrorCode.NONE, record.producer_id, record.epoch))
            ]
        fresh = replace(
            record,
            timeout_ms=event.timeout_ms,
            state=TransactionMachineState.EMPTY,
            partitions=frozenset(),
            started_wall_ms=-1,
            updated_wall_ms=now.wall_ms,
            next_producer_id=NO_ID,
            previous_producer_id=NO_ID,
            version=0,
        )
        if record.epoch >= EPOCH_MAX - 1:
            fresh = replace(
                fresh,
                producer_id=event.new_producer_id,
                epoch=0,
                last_epoch=NO_EPOCH,
                previous_producer_id=record.producer_id
                if known
                else NO_ID,  # only for a producer that sent its current id
            )
        else:
            fresh = replace(fresh, epoch=record.epoch + 1, last_epoch=record.epoch if known else NO_EPOCH)
        return self._persist(fresh, event.token, TransactionResponse(ErrorCode.NONE, fresh.producer_id, fresh.epoch))

    def _may_continue(self, e: Init) -> bool:
        r = self.record
        if e.producer_id == r.producer_id:
            return e.epoch in (r.epoch, r.last_epoch) and e.epoch != NO_EPOCH
        return e.producer_id == r.previous_producer_id and e.epoch >= EPOCH_MAX - 1 and r.epoch == 0

    def _fence(self, now: Now, token: ReplyCallback | None, response: TransactionResponse) -> list[Effect]:
        """Abort with the next epoch, which fences the current producer."""
        r = self.record
        aborted = replace(
            r,
            state=TransactionMachineState.PREPARE_ABORT,
            epoch=min(r.epoch + 1, EPOCH_MAX),
            last_epoch=NO_EPOCH,
            updated_wall_ms=now.wall_ms,
        )
        return self._persist(aborted, token, response)

    # -- AddPartitionsToTxn ------------------------------------------------------------------------------------------------
    def _add(self, event: Add, now: Now) -> list[Effect]:
        record = self.record
        error = self._producer_error(event.producer_id, event.epoch)
        if not error and (self.pending is not None or self.state in PREPARED):
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        if not error and self.state in (TransactionMachineState.DEAD, TransactionMachineState.PREPARE_EPOCH_FENCE):
            error = ErrorCode.INVALID_TXN_STATE
        if error or (self.state is TransactionMachineState.ONGOING and event.partitions <= record.partitions):
            return [TransactionReply(event.token, TransactionResponse(error))]
        was_ongoing = self.state is TransactionMachineState.ONGOING
        ongoing = replace(
            record,
            state=TransactionMachineState.ONGOING,
            partitions=event.partitions | (record.partitions if was_ongoing else frozenset()),
            started_wall_ms=record.started_wall_ms if was_ongoing else now.wall_ms,
            updated_wall_ms=now.wall_ms,
            version=event.version,
        )
        return self._persist(ongoing, event.token, TransactionResponse(ErrorCode.NONE))

    # -- EndTxn ------------------------------------------------------------------------------------------------------------
    def _end(self, event: End, now: Now) -> list[Effect]:
        record = self.record
        if event.version >= 2:
            return self._end_version_2(event, now)
        error = self._producer_error(event.producer_id, event.epoch)
        if not error and self.pending is not None:
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        if not error and self.state is TransactionMachineState.ONGOING:
            target = TransactionMachineState.PREPARE_COMMIT if event.commit else TransactionMachineState.PREPARE_ABORT
            prepared = replace(record, state=target, updated_wall_ms=now.wall_ms, version=0)
            return self._persist(prepared, event.token, TransactionResponse(ErrorCode.NONE))
        if not error:
            error = self._repeated_end_error(event.commit)
        return [TransactionReply(event.token, TransactionResponse(error))]

    def _repeated_end_error(self, commit: bool) -> int:
        if self.state is (
            TransactionMachineState.COMPLETE_COMMIT if commit else TransactionMachineState.COMPLETE_ABORT
        ):
            return ErrorCode.NONE
        if self.state is (TransactionMachineState.PREPARE_COMMIT if commit else TransactionMachineState.PREPARE_ABORT):
            return ErrorCode.CONCURRENT_TRANSACTIONS
        return ErrorCode.INVALID_TXN_STATE

    def _end_version_2(self, event: End, now: Now) -> list[Effect]:
        record = self.record
        repeated = event.producer_id == record.producer_id and event.epoch == record.epoch - 1 and record.version >= 2
        turned = (
            event.producer_id == record.previous_producer_id
            and event.epoch == EPOCH_MAX - 1
            and record.epoch == 0
            and record.version >= 2
        )
        if record.epoch >= EPOCH_MAX and record.next_producer_id == NO_ID:
            # Fencing used the last epoch: the client needs a new producer.
            return [TransactionReply(event.token, TransactionResponse(ErrorCode.PRODUCER_FENCED))]
        error: int = ErrorCode.NONE
        if not (repeated or turned) or (turned and self.state not in COMPLETE):
            error = self._producer_error(event.producer_id, event.epoch)
        if not error and self.pending is not None:
            error = ErrorCode.CONCURRENT_TRANSACTIONS
        if error:
            return [TransactionReply(event.token, TransactionResponse(error))]
        if (repeated or turned) and self.state in (*PREPARED, *COMPLETE):
            return [
                TransactionReply(
                    event.token,
                    TransactionResponse(self._repeated_end_error(event.commit), record.producer_id, record.epoch),
                )
            ]
        if repeated:
            # A retry of an earlier EndTxn after the next transaction started.
            return [TransactionReply(event.token, TransactionResponse(ErrorCode.PRODUCER_FENCED))]
        if self.state is not TransactionMachineState.ONGOING and (
            event.commit or self.state not in (TransactionMachineState.EMPTY, *COMPLETE)
        ):
            return [TransactionReply(event.token, TransactionResponse(ErrorCode.INVALID_TXN_STATE))]
        target = TransactionMachineState.PREPARE_COMMIT if event.commit else TransactionMachineState.PREPARE_ABORT
        used_up = record.epoch + 1 >= EPOCH_MAX
        prepared = replace(
            record,
            state=target,
            epoch=record.epoch + 1,
            last_epoch=record.epoch,
            version=2,
            updated_wall_ms=now.wall_ms,
            partitions=record.partitions if self.state is TransactionMachineState.ONGOING else frozenset(),
            started_wall_ms=record.started_wall_ms if self.state is TransactionMachineState.ONGOING else now.wall_ms,
            next_producer_id=event.new_producer_id if used_up else NO_ID,
        )
        response = (
            TransactionResponse(ErrorCode.NONE, event.new_producer_id, 0)
            if used_up
            else TransactionResponse(ErrorCode.NONE, record.producer_id, record.epoch + 1)
        )
        return self._persist(prepared, event.token, response)

    def _send(self) -> list[Effect]:
        r = self.record
        self.sending = True
        commit = r.state is TransactionMachineState.PREPARE_COMMIT
        return [SendMarkers(r.producer_id, r.epoch, commit, r.partitions, r.version)]

    def _markers_written(self, epoch: int, now: Now) -> list[Effect]:
        record = self.record
        if self.state not in PREPARED or epoch != record.epoch or self.pending is not None:
            return []
        self.sending = False
        complete = replace(
            record,
            state=TransactionMachineState.COMPLETE_COMMIT
            if record.state is TransactionMachineState.PREPARE_COMMIT
            else TransactionMachineState.COMPLETE_ABORT,
            partitions=frozenset(),
            updated_wall_ms=now.wall_ms,
        )
        if record.next_producer_id != NO_ID:
            complete = replace(
                complete,
                producer_id=record.next_producer_id,
                epoch=0,
                next_producer_id=NO_ID,
                previous_producer_id=record.producer_id,
            )
        return self._persist(complete, None, TransactionResponse(ErrorCode.NONE))

    # -- results of writes ---------------------------------------------------------------------------------------------------
    def _on_persisted(self, number: int, now: Now) -> list[Effect]:
        pending = self.pending
        if pending is None or pending.number != number:
            return []
        before, self.record, self.pending = self.record, pending.record, None
        effects: list[Effect] = [] if pending.token is None else [TransactionReply(pending.token, pending.response)]
        if self.state is TransactionMachineState.ONGOING and before.state is not TransactionMachineState.ONGOING:
            self.deadline_ms = now.mono_ms + self.record.timeout_ms
        elif self.state is not TransactionMachineState.ONGOING:
            self.deadline_ms = None
        if self.state in PREPARED:
            effects += self._send()
        return effects

    def _persist_failed(self, e: TransactionPersistFailed) -> list[Effect]:
        """The record was certainly not written. If the outcome is unknown, the shard is loaded again instead."""
        pending = self.pending
        if pending is None or pending.number != e.number:
            return []
        self.pending = None
        return [] if pending.token is None else [TransactionReply(pending.token, TransactionResponse(e.error))]

    # -- time ----------------------------------------------------------------------------------------------------------------
    def on_loaded(self, now: Now) -> None:
        """Called after a load: the time-out continues from the start time in the record, at most one whole time-out from now."""
        if self.state is TransactionMachineState.ONGOING:
            gone = max(0, now.wall_ms - self.record.started_wall_ms)
            self.deadline_ms = now.mono_ms + max(0, self.record.timeout_ms - gone)

    def _tick(self, now: Now) -> list[Effect]:
        if self.pending is not None:
            return []
        if self.deadline_ms is not None and now.mono_ms >= self.deadline_ms:
            return self._fence(now, None, TransactionResponse(ErrorCode.NONE))
        if self.state in PREPARED and not self.sending:
            return self._send()
        return []

    def expired(self, wall_ms: int, idle_ms_max: int) -> bool:
        return (
            self.state in (TransactionMachineState.EMPTY, *COMPLETE)
            and self.pending is None
            and wall_ms - self.record.updated_wall_ms > idle_ms_max
        )

    def unload(self) -> list[Effect]:
        """Answer a waiting request: another broker leads the partition."""
        pending, self.pending = self.pending, None
        return (
            []
            if pending is None or pending.token is None
            else [TransactionReply(pending.token, TransactionResponse(ErrorCode.NOT_COORDINATOR))]
        )

    def validate(self) -> None:
        assert (self.state is TransactionMachineState.ONGOING) == (self.deadline_ms is not None), (
            f"{self.transactional_id}: {self.record}"
        )
        assert self.record.partitions or self.state is not TransactionMachineState.ONGOING, (
            f"{self.transactional_id}: ongoing without partitions"
        )
