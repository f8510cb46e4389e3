"""The state machine of a transactional id: epochs, decisions, fencing, time-outs, and its record in the log."""

from __future__ import annotations

import random
from typing import Any

import pytest

from brokerd.cluster.model import Now
from brokerd.coordinator.transactions import transaction_events as core
from brokerd.coordinator.transactions.transaction import (
    Transaction,
)
from brokerd.coordinator.transactions.transaction_events import (
    EPOCH_MAX,
    SendMarkers,
    TransactionMachineState,
    TransactionMetadata,
    TransactionResponse,
)
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.transactions.harness import P0, P1, PID, TransactionHarness


# -- epochs ------------------------------------------------------------------------------------------------------------
def test_each_new_producer_has_the_next_epoch() -> None:
    harness = TransactionHarness()
    assert [harness.init() for _ in range(3)] == [TransactionResponse(0, PID, e) for e in (0, 1, 2)]


def test_a_producer_with_its_id_continues_and_gets_a_lost_response_again() -> None:
    harness = TransactionHarness()
    harness.init()
    assert harness.init(PID, 0) == TransactionResponse(0, PID, 1)
    assert harness.init(PID, 0) == TransactionResponse(0, PID, 1), "the response was lost"
    harness.init()
    assert harness.init(PID, 1).error == ErrorCode.PRODUCER_FENCED, "another one came meanwhile"
    assert harness.init(PID, 7).error == ErrorCode.PRODUCER_FENCED
    assert harness.init(5, 0).error == ErrorCode.PRODUCER_FENCED


def test_exhausted_epochs_lead_to_a_new_producer_id() -> None:
    harness = TransactionHarness(TransactionMetadata(PID, EPOCH_MAX - 2))
    assert harness.init().epoch == EPOCH_MAX - 1
    assert harness.init(PID, EPOCH_MAX - 1, new_id=88) == TransactionResponse(0, 88, 0)
    assert harness.init(PID, EPOCH_MAX - 1) == TransactionResponse(0, 88, 0), "the response was lost"


def test_an_init_without_the_producer_id_fences_the_old_producer_from_the_new_id() -> None:
    harness = TransactionHarness(TransactionMetadata(PID, EPOCH_MAX - 1))
    assert harness.init(new_id=88) == TransactionResponse(0, 88, 0)
    assert harness.init(PID, EPOCH_MAX - 1).error == ErrorCode.PRODUCER_FENCED


# -- a transaction -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("commit", [True, False])
def test_a_complete_transaction(commit: bool) -> None:
    harness = TransactionHarness()
    harness.init()
    assert harness.add(0, P0) == 0 and harness.add(0, P0, P1) == 0
    assert harness.t.verify(PID, 0, [P0, ("other", 0)]) == {P0: 0, ("other", 0): ErrorCode.INVALID_TXN_STATE}
    assert harness.end(0, commit) == TransactionResponse(0)
    assert harness.markers == [SendMarkers(PID, 0, commit, frozenset({P0, P1}), 0)]
    assert harness.end(0, commit).error == harness.add(0) == harness.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert harness.t.verify(PID, 0, [P0]) == {P0: ErrorCode.CONCURRENT_TRANSACTIONS}
    assert harness.end(0, not commit).error == ErrorCode.INVALID_TXN_STATE
    harness.deliver_markers_written()
    assert harness.t.state is (
        TransactionMachineState.COMPLETE_COMMIT if commit else TransactionMachineState.COMPLETE_ABORT
    )
    assert harness.end(0, commit).error == 0, "a repetition"
    assert harness.end(0, not commit).error == ErrorCode.INVALID_TXN_STATE
    assert harness.t.verify(PID, 0, [P0]) == {P0: ErrorCode.INVALID_TXN_STATE}, (
        "a record that comes late has no transaction any more"
    )
    assert harness.add(0, P1) == 0 and harness.t.record.partitions == {P1}


def test_no_marker_is_sent_before_the_decision_is_persisted_and_no_other_is_made() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.add(0)
    harness.hold_writes = True
    assert harness.deliver(core.End("p", PID, 0, True)) is None
    assert harness.markers == []
    assert (
        harness.end(0, False).error == harness.add(0, P1) == harness.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    )
    assert harness.t.verify(PID, 0, [P0]) == {P0: ErrorCode.CONCURRENT_TRANSACTIONS}
    harness.release()
    assert harness.responses[-1] == TransactionResponse(0) and len(harness.markers) == 1


def test_an_older_epoch_and_another_producer_id_have_different_errors() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.init()
    assert harness.add(0) == ErrorCode.PRODUCER_FENCED and harness.end(0).error == ErrorCode.PRODUCER_FENCED
    assert harness.end(1, producer_id=5).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert harness.t.verify(5, 1, [P0]) == {P0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert harness.end(1).error == ErrorCode.INVALID_TXN_STATE, "nothing was begun"


def test_a_new_producer_aborts_the_open_transaction_with_a_fencing_epoch() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.add(0)
    assert harness.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert harness.markers == [SendMarkers(PID, 1, False, frozenset({P0}), 0)]
    assert harness.end(0).error == ErrorCode.PRODUCER_FENCED
    harness.deliver_markers_written()
    assert harness.init() == TransactionResponse(0, PID, 2)


def test_a_timed_out_transaction_is_aborted_and_its_producer_fenced() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.add(0)
    harness.now = Now(10_999, 50_000)
    harness.deliver(core.TransactionTick())
    assert harness.markers == []
    harness.now = Now(11_000, 50_000)
    harness.deliver(core.TransactionTick())
    assert harness.markers[0].epoch == 1 and not harness.markers[0].commit
    assert harness.end(0).error == ErrorCode.PRODUCER_FENCED


def test_after_a_coordinator_change_a_transaction_times_out_within_one_more_timeout() -> None:
    ongoing = TransactionMetadata(
        PID, 0, 10_000, TransactionMachineState.ONGOING, frozenset({P0}), started_wall_ms=48_000
    )
    for wall, deadline in ((50_000, 9_000), (0, 11_000), (10**9, 1_000)):
        t = Transaction("id", ongoing)
        t.on_loaded(Now(1_000, wall))
        assert t.deadline_ms == deadline


def test_a_prepared_transaction_is_completed_by_a_new_coordinator() -> None:
    harness = TransactionHarness(
        TransactionMetadata(PID, 3, 10_000, TransactionMachineState.PREPARE_COMMIT, frozenset({P0}), 1, 1)
    )
    harness.deliver(core.TransactionTick())
    harness.deliver(core.TransactionTick())
    assert harness.markers == [SendMarkers(PID, 3, True, frozenset({P0}), 0)], "once at a time"
    harness.deliver(core.MarkersWritten(2))
    assert harness.t.state is TransactionMachineState.PREPARE_COMMIT, "markers of another decision"
    harness.deliver_markers_written()
    assert harness.t.state is TransactionMachineState.COMPLETE_COMMIT


def test_an_unwritten_decision_has_no_effect() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.add(0)
    harness.hold_writes = True
    harness.deliver(core.End("p", PID, 0, True))
    assert harness.deliver(core.TransactionPersistFailed(harness.held[0].number, 15)) == TransactionResponse(15)
    harness.held.clear()
    harness.hold_writes = False
    assert harness.t.state is TransactionMachineState.ONGOING and harness.markers == []
    assert harness.end(0, False).error == 0


def test_an_unwritten_completion_is_repeated() -> None:
    harness = TransactionHarness()
    harness.init()
    harness.add(0)
    harness.end(0)
    harness.hold_writes = True
    harness.deliver_markers_written()
    harness.deliver(core.TransactionPersistFailed(harness.held[0].number, 15))
    harness.held.clear()
    harness.hold_writes = False
    harness.deliver(core.TransactionTick())
    assert len(harness.markers) == 2
    harness.deliver_markers_written()
    assert harness.t.state is TransactionMachineState.COMPLETE_COMMIT


# -- the second kind (KIP-890) -----------------------------------------------------------------------------------------
def test_every_transaction_end_bumps_the_epoch() -> None:
    harness = TransactionHarness()
    harness.init()
    for epoch in range(3):
        assert harness.add(epoch, version=2) == 0
        assert harness.end(epoch, version=2) == TransactionResponse(0, PID, epoch + 1)
        assert harness.markers[-1].epoch == epoch + 1 and harness.markers[-1].version == 2
        assert harness.end(epoch, version=2).error == ErrorCode.CONCURRENT_TRANSACTIONS
        harness.deliver_markers_written()
        assert harness.end(epoch, version=2) == TransactionResponse(0, PID, epoch + 1), "a repetition"


def test_r15_a_late_end_request_does_not_end_the_next_transaction() -> None:
    """KAFKA-17754."""
    harness = TransactionHarness()
    harness.init()
    harness.add(0, version=2)
    harness.end(0, version=2)
    harness.deliver_markers_written()
    harness.add(1, version=2)
    for commit in (True, False):
        assert harness.end(0, commit, version=2).error == ErrorCode.PRODUCER_FENCED
    assert harness.t.state is TransactionMachineState.ONGOING


def test_an_empty_transaction_may_be_aborted_and_not_committed() -> None:
    harness = TransactionHarness()
    harness.init()
    assert harness.end(0, True, version=2).error == ErrorCode.INVALID_TXN_STATE
    assert harness.end(0, False, version=2) == TransactionResponse(0, PID, 1)
    harness.deliver_markers_written()
    assert harness.end(1, False, version=2) == TransactionResponse(0, PID, 2)


def test_exhausted_epochs_lead_to_a_new_producer_id_at_the_end() -> None:
    harness = TransactionHarness(TransactionMetadata(PID, EPOCH_MAX - 1))
    harness.add(EPOCH_MAX - 1, version=2)
    assert harness.end(EPOCH_MAX - 1, version=2) == TransactionResponse(0, 99, 0)
    assert harness.markers[-1].epoch == EPOCH_MAX
    assert harness.end(EPOCH_MAX - 1, version=2).error == ErrorCode.CONCURRENT_TRANSACTIONS
    harness.deliver_markers_written()
    assert (harness.t.record.producer_id, harness.t.record.epoch) == (99, 0)
    assert harness.end(EPOCH_MAX - 1, version=2) == TransactionResponse(0, 99, 0), "a repetition"


# -- anything, in any order ----------------------------------------------------------------------------------------------
def test_decisions_are_final_and_epochs_never_decrease() -> None:
    for seed in range(300):
        rng = random.Random(seed)
        harness = TransactionHarness(TransactionMetadata(PID, rng.choice([-1, 5, EPOCH_MAX - 2])))
        version = rng.choice([0, 2])
        decided: dict[tuple[int, int], bool] = {}
        for _ in range(40):
            before = harness.t.record
            harness.now = Now(harness.now.mono_ms + rng.choice([0, 10, 6_000]), 50_000)
            harness.hold_writes = rng.random() < 0.3
            event: Any = rng.choice(
                [
                    core.Init(
                        "p",
                        10_000,
                        rng.randint(100, 10**6),
                        *rng.choice([(-1, -1), (before.producer_id, before.epoch)]),
                    ),
                    core.Add("p", before.producer_id, before.epoch - rng.randint(0, 1), frozenset({P0, P1}), version),
                    core.End(
                        "p", before.producer_id, before.epoch - rng.randint(0, 1), rng.random() < 0.5, 10**7, version
                    ),
                    core.MarkersWritten(before.epoch),
                    core.TransactionTick(),
                ]
            )
            harness.deliver(event)
            if harness.held and rng.random() < 0.3:
                failed = harness.held.pop()
                harness.deliver(core.TransactionPersistFailed(failed.number, 15))
            harness.hold_writes = False
            harness.release()
            after = harness.t.record
            assert after.producer_id != before.producer_id or after.epoch >= before.epoch
            for order in harness.markers:
                assert (
                    decided.setdefault((order.producer_id, order.epoch), order.commit) == order.commit or version == 0
                )
            if before.state in core.PREPARED:
                assert after.state in (
                    before.state,
                    TransactionMachineState.COMPLETE_COMMIT,
                    TransactionMachineState.COMPLETE_ABORT,
                )
                assert (after.state is TransactionMachineState.COMPLETE_COMMIT) <= (
                    before.state is TransactionMachineState.PREPARE_COMMIT
                )
