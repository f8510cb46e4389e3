"""Requests that a transaction rejects, repeats and ignores: late, of another producer, in the wrong state, or while a record is being written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from brokerd.cluster.model import Now
from brokerd.coordinator.transactions import transaction_events as core
from brokerd.coordinator.transactions.transaction_events import (
    COMPLETE,
    EPOCH_MAX,
    PREPARED,
    Persist,
    TransactionMachineState,
    TransactionMetadata,
    TransactionResponse,
)
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.transactions.harness import P0, P1, PID, TransactionHarness

OTHER_PID, NEXT_PID = 5, 99
UNUSED = (TransactionMachineState.DEAD, TransactionMachineState.PREPARE_EPOCH_FENCE)


def ongoing_transaction(*places: core.TopicIndex, version: int = 0) -> TransactionHarness:
    harness = TransactionHarness()
    harness.init()
    assert harness.add(0, *(places or (P0,)), version=version) == 0
    return harness


def in_state(state: TransactionMachineState, *places: core.TopicIndex, version: int = 0) -> TransactionHarness:
    """As loaded from the log, with the partitions that the record names."""
    return TransactionHarness(TransactionMetadata(PID, 1, 10_000, state, frozenset(places), 1, 1, version=version))


# -- the identity of the producer comes first ------------------------------------------------------------------------------
@pytest.mark.parametrize("state", [*PREPARED, *UNUSED])
def test_an_older_epoch_and_another_producer_are_rejected_as_such_in_every_state(
    state: TransactionMachineState,
) -> None:
    harness = in_state(state, P0)
    assert harness.add(0) == harness.end(0).error == ErrorCode.PRODUCER_FENCED
    assert harness.t.verify(OTHER_PID, 1, [P0]) == {P0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert harness.t.verify(PID, 0, [P0]) == {P0: ErrorCode.PRODUCER_FENCED}


@pytest.mark.parametrize("version", [0, 2])
def test_an_older_epoch_and_another_producer_are_rejected_as_such_during_a_write(version: int) -> None:
    harness = in_state(TransactionMachineState.EMPTY)
    harness.hold_writes = True
    harness.deliver(core.Add("p", PID, 1, frozenset({P0}), version))
    assert harness.add(0) == harness.end(0, version=version).error == ErrorCode.PRODUCER_FENCED
    other = harness.end(1, version=version, producer_id=OTHER_PID)
    assert other.error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert harness.end(1, version=version).error == ErrorCode.CONCURRENT_TRANSACTIONS


def test_an_end_in_version_2_needs_the_producer_id_and_an_epoch_of_version_2() -> None:
    harness = ongoing_transaction(version=2)
    assert harness.end(0, version=2, producer_id=OTHER_PID).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    harness.end(0, version=2)
    harness.deliver_markers_written()
    assert harness.end(0, version=2, producer_id=OTHER_PID).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    before = in_state(TransactionMachineState.COMPLETE_COMMIT)
    assert before.end(0, version=2).error == ErrorCode.PRODUCER_FENCED, "version 0 does not raise the epoch at the end"


# -- InitProducerId ----------------------------------------------------------------------------------------------------
def test_a_producer_continues_with_an_id_that_the_coordinator_has_forgotten() -> None:
    assert TransactionHarness().init(OTHER_PID, 3) == TransactionResponse(0, PID, 0)


def test_a_producer_id_without_an_epoch_is_fenced() -> None:
    harness = TransactionHarness()
    harness.init()
    assert harness.init(PID, -1).error == ErrorCode.PRODUCER_FENCED


def test_only_the_last_epochs_of_the_previous_producer_id_continue_and_only_before_the_next_transaction_ends() -> None:
    turned = TransactionMetadata(NEXT_PID, 0, previous_producer_id=PID)
    assert TransactionHarness(turned).init(PID, EPOCH_MAX - 1) == TransactionResponse(0, NEXT_PID, 0)
    assert TransactionHarness(turned).init(PID, EPOCH_MAX - 2).error == ErrorCode.PRODUCER_FENCED
    later = replace(turned, epoch=1, last_epoch=0)
    assert TransactionHarness(later).init(PID, EPOCH_MAX - 1).error == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("state", UNUSED)
def test_states_that_only_other_coordinators_write_accept_no_new_transaction(state: TransactionMachineState) -> None:
    harness = in_state(state)
    assert harness.init().error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.add(1) == ErrorCode.INVALID_TXN_STATE


# -- partitions of a transaction -----------------------------------------------------------------------------------------
def test_partitions_are_collected_and_the_time_out_starts_with_the_first() -> None:
    harness = ongoing_transaction(P0)
    harness.now = Now(3_000, 60_000)
    assert harness.add(0, P1) == 0
    assert (harness.t.record.partitions, harness.t.record.started_wall_ms) == ({P0, P1}, 50_000)
    assert harness.t.deadline_ms == 11_000
    harness.end(0)
    assert harness.markers[-1].partitions == {P0, P1}


def test_a_partition_that_is_in_the_transaction_already_is_not_written_again() -> None:
    harness = ongoing_transaction(P0, P1)
    for places in ({P0}, {P0, P1}):
        effects = harness.t.handle(core.Add("p", PID, 0, frozenset(places)), harness.now)
        assert not [e for e in effects if isinstance(e, Persist)]


@pytest.mark.parametrize("state", COMPLETE)
def test_partitions_of_a_complete_transaction_are_not_those_of_the_next(state: TransactionMachineState) -> None:
    """A record in the log may still name them."""
    harness = in_state(state, P0, P1)
    assert harness.t.verify(PID, 1, [P0]) == {P0: ErrorCode.INVALID_TXN_STATE}
    assert harness.add(1, P0) == 0
    assert harness.t.state is TransactionMachineState.ONGOING
    assert (harness.t.record.partitions, harness.t.record.started_wall_ms) == ({P0}, 50_000)
    aborted = in_state(state, P0, P1, version=2)
    aborted.end(1, commit=False, version=2)
    assert (aborted.markers[-1].partitions, aborted.t.record.started_wall_ms) == (frozenset(), 50_000)


def test_a_partition_of_the_transaction_can_be_written_while_another_is_added() -> None:
    harness = ongoing_transaction(P0)
    harness.hold_writes = True
    harness.deliver(core.Add("p", PID, 0, frozenset({P1})))
    assert harness.t.verify(PID, 0, [P0, P1]) == {P0: ErrorCode.NONE, P1: ErrorCode.INVALID_TXN_STATE}


# -- EndTxn of version 2 ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("commit", [True, False])
def test_an_end_in_version_2_keeps_decision_partitions_and_start(commit: bool) -> None:
    harness = ongoing_transaction(P0, P1, version=2)
    harness.now = Now(3_000, 60_000)
    harness.end(0, commit, version=2)
    sent = harness.markers[-1]
    assert (sent.commit, sent.partitions, harness.t.record.started_wall_ms) == (commit, {P0, P1}, 50_000)


def test_only_the_lost_response_of_the_last_end_is_repeated_for_the_previous_producer_id() -> None:
    harness = TransactionHarness(TransactionMetadata(PID, EPOCH_MAX - 1))
    harness.add(EPOCH_MAX - 1, version=2)
    harness.end(EPOCH_MAX - 1, version=2)
    harness.deliver_markers_written()
    for producer_id, epoch in ((OTHER_PID, EPOCH_MAX - 1), (PID, EPOCH_MAX - 2), (PID, EPOCH_MAX)):
        other = harness.end(epoch, version=2, producer_id=producer_id)
        assert other.error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    harness.deliver(core.Add("p", NEXT_PID, 0, frozenset({P0}), 2))
    late = harness.end(EPOCH_MAX - 1, version=2)
    assert late.error == ErrorCode.INVALID_PRODUCER_ID_MAPPING, "it would end the next transaction"
    assert harness.t.state is TransactionMachineState.ONGOING
    harness.end(0, version=2, producer_id=NEXT_PID)
    harness.deliver_markers_written()
    assert harness.t.record.epoch == 1
    assert harness.end(EPOCH_MAX - 1, version=2).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_transaction_of_version_0_is_no_repetition_for_the_previous_producer_id() -> None:
    complete = TransactionMetadata(
        NEXT_PID, 0, state=TransactionMachineState.COMPLETE_COMMIT, previous_producer_id=PID, version=0
    )
    late = TransactionHarness(complete).end(EPOCH_MAX - 1, version=2)
    assert late.error == ErrorCode.INVALID_PRODUCER_ID_MAPPING


# -- results of writes that come late -----------------------------------------------------------------------------------------
def test_only_the_result_of_the_record_that_is_being_written_counts() -> None:
    harness = ongoing_transaction()
    harness.hold_writes = True
    harness.deliver(core.End("p", PID, 0, True))
    number = harness.held[0].number
    for late in (core.TransactionPersisted(number - 1), core.TransactionPersistFailed(number - 1, 15)):
        assert harness.t.handle(late, harness.now) == []
    assert harness.t.state is TransactionMachineState.ONGOING and harness.t.pending is not None
    harness.release()
    for again in (core.TransactionPersisted(number), core.TransactionPersistFailed(number, 15)):
        assert harness.t.handle(again, harness.now) == []


def test_markers_complete_only_a_prepared_transaction_and_only_once() -> None:
    harness = ongoing_transaction()
    harness.deliver(core.MarkersWritten(0))
    assert harness.t.state is TransactionMachineState.ONGOING, "nothing was decided"
    harness.end(0)
    harness.hold_writes = True
    harness.deliver_markers_written()
    harness.deliver_markers_written()
    assert len(harness.held) == 1


def test_the_completion_of_a_transaction_sends_no_response() -> None:
    harness = ongoing_transaction()
    harness.end(0)
    harness.hold_writes = True
    harness.deliver_markers_written()
    assert harness.t.handle(core.TransactionPersisted(harness.held.pop().number), harness.now) == []
    harness = ongoing_transaction()
    harness.end(0)
    harness.hold_writes = True
    harness.deliver_markers_written()
    assert harness.t.handle(core.TransactionPersistFailed(harness.held[0].number, 15), harness.now) == []


def test_a_time_out_waits_for_the_record_that_is_being_written() -> None:
    harness = ongoing_transaction()
    harness.hold_writes = True
    harness.deliver(core.End("p", PID, 0, True))
    harness.now = Now(20_000, 50_000)
    harness.deliver(core.TransactionTick())
    assert len(harness.held) == 1
    harness.release()
    assert harness.markers[-1].commit


def test_a_coordinator_that_moves_answers_the_request_that_waits_and_no_other() -> None:
    harness = ongoing_transaction()
    assert harness.t.unload() == []
    harness.hold_writes = True
    harness.deliver(core.End("p", PID, 0, True))
    assert harness.t.unload() == [core.TransactionReply("p", TransactionResponse(ErrorCode.NOT_COORDINATOR))]
    assert harness.t.unload() == []
    completing = in_state(TransactionMachineState.PREPARE_COMMIT, P0)
    completing.hold_writes = True
    completing.deliver(core.MarkersWritten(1))
    assert completing.held and completing.t.unload() == []


# -- expiration ------------------------------------------------------------------------------------------------------------
def test_only_an_idle_transactional_id_without_a_transaction_expires() -> None:
    idle_ms = 1_000
    for state in TransactionMachineState:
        expired = in_state(state, P0).t.expired(wall_ms=1 + idle_ms + 1, idle_ms_max=idle_ms)
        assert expired == (state in (TransactionMachineState.EMPTY, *COMPLETE)), state
    harness = in_state(TransactionMachineState.EMPTY)
    assert not harness.t.expired(wall_ms=1 + idle_ms, idle_ms_max=idle_ms), "not longer than the limit"
    harness.hold_writes = True
    harness.deliver(core.Add("p", PID, 1, frozenset({P0})))
    assert not harness.t.expired(wall_ms=1 + idle_ms + 1, idle_ms_max=idle_ms), "its next transaction is being written"
