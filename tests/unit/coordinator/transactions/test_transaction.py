"""The state machine of a transactional id: epochs, decisions, fencing, time-outs, and its record in the log."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from brokerd.cluster.model import Now
from brokerd.coordinator.transactions import records as formats
from brokerd.coordinator.transactions import transaction_events as core
from brokerd.coordinator.transactions.transaction import (
    Transaction,
)
from brokerd.coordinator.transactions.transaction_events import (
    EPOCH_MAX,
    Persist,
    SendMarkers,
    TransactionAnswered,
    TransactionMachineState,
    TransactionMetadata,
    TransactionReply,
)
from brokerd.wire.errors import ErrorCode

P0, P1 = ("flights", 0), ("flights", 1)
PID = 77


class Play:
    """A transaction and its responses. Writes complete at once unless `hold` is set."""

    def __init__(self, record: TransactionMetadata | None = None) -> None:
        self.t = Transaction("id", record or TransactionMetadata(PID))
        self.now = Now(1_000, 50_000)
        self.answers: list[TransactionAnswered] = []
        self.markers: list[SendMarkers] = []
        self.held: list[Persist] = []
        self.hold = False

    def hear(self, event: core.Event) -> TransactionAnswered | None:
        before = len(self.answers)
        self._run(self.t.handle(event, self.now))
        self.t.validate()
        return self.answers[-1] if len(self.answers) > before else None

    def _run(self, effects: list[core.Effect]) -> None:
        for effect in effects:
            match effect:
                case TransactionReply():
                    self.answers.append(effect.answer)
                case SendMarkers():
                    self.markers.append(effect)
                case Persist():
                    assert formats.read_value(formats.value(effect.record)) == replace(
                        effect.record,
                        last_epoch=-1,
                        **({} if kept(effect.record) else {"version": 0, "next_producer_id": -1}),
                    )
                    if self.hold:
                        self.held.append(effect)
                    else:
                        self._run(self.t.handle(core.TransactionPersisted(effect.number), self.now))

    def release(self) -> None:
        for effect in self.held:
            self._run(self.t.handle(core.TransactionPersisted(effect.number), self.now))
        self.held.clear()

    def init(self, producer_id: int = -1, epoch: int = -1, new_id: int = PID) -> TransactionAnswered:
        return self._sure(self.hear(core.Init("p", 10_000, new_id, producer_id, epoch)))

    def add(self, epoch: int, *places: core.TopicIndex, version: int = 0) -> int:
        return self._sure(self.hear(core.Add("p", PID, epoch, frozenset(places or (P0,)), version))).error

    def end(self, epoch: int, commit: bool = True, version: int = 0, producer_id: int = PID) -> TransactionAnswered:
        return self._sure(self.hear(core.End("p", producer_id, epoch, commit, 99, version)))

    def written(self) -> None:
        self.hear(core.MarkersWritten(self.markers[-1].epoch))

    @staticmethod
    def _sure(answer: TransactionAnswered | None) -> TransactionAnswered:
        assert answer is not None
        return answer


def kept(record: TransactionMetadata) -> bool:
    """Whether the record is stored completely: version 0 of the value has no fields for the second kind."""
    return record.version >= 2 or record.previous_producer_id >= 0


# -- epochs ------------------------------------------------------------------------------------------------------------
def test_each_new_producer_has_the_next_epoch() -> None:
    play = Play()
    assert [play.init() for _ in range(3)] == [TransactionAnswered(0, PID, e) for e in (0, 1, 2)]


def test_a_producer_with_its_id_continues_and_gets_a_lost_response_again() -> None:
    play = Play()
    play.init()
    assert play.init(PID, 0) == TransactionAnswered(0, PID, 1)
    assert play.init(PID, 0) == TransactionAnswered(0, PID, 1), "the answer was lost"
    play.init()
    assert play.init(PID, 1).error == ErrorCode.PRODUCER_FENCED, "another one came meanwhile"
    assert play.init(PID, 7).error == ErrorCode.PRODUCER_FENCED
    assert play.init(5, 0).error == ErrorCode.PRODUCER_FENCED


def test_exhausted_epochs_lead_to_a_new_producer_id() -> None:
    play = Play(TransactionMetadata(PID, EPOCH_MAX - 2))
    assert play.init().epoch == EPOCH_MAX - 1
    assert play.init(PID, EPOCH_MAX - 1, new_id=88) == TransactionAnswered(0, 88, 0)
    assert play.init(PID, EPOCH_MAX - 1) == TransactionAnswered(0, 88, 0), "the answer was lost"


def test_an_init_without_the_producer_id_fences_the_old_producer_from_the_new_id() -> None:
    play = Play(TransactionMetadata(PID, EPOCH_MAX - 1))
    assert play.init(new_id=88) == TransactionAnswered(0, 88, 0)
    assert play.init(PID, EPOCH_MAX - 1).error == ErrorCode.PRODUCER_FENCED


# -- a transaction -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("commit", [True, False])
def test_a_complete_transaction(commit: bool) -> None:
    play = Play()
    play.init()
    assert play.add(0, P0) == 0 and play.add(0, P0, P1) == 0
    assert play.t.verify(PID, 0, [P0, ("other", 0)]) == {P0: 0, ("other", 0): ErrorCode.INVALID_TXN_STATE}
    assert play.end(0, commit) == TransactionAnswered(0)
    assert play.markers == [SendMarkers(PID, 0, commit, frozenset({P0, P1}), 0)]
    assert play.end(0, commit).error == play.add(0) == play.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert play.t.verify(PID, 0, [P0]) == {P0: ErrorCode.CONCURRENT_TRANSACTIONS}
    assert play.end(0, not commit).error == ErrorCode.INVALID_TXN_STATE
    play.written()
    assert play.t.state is (
        TransactionMachineState.COMPLETE_COMMIT if commit else TransactionMachineState.COMPLETE_ABORT
    )
    assert play.end(0, commit).error == 0, "a repetition"
    assert play.end(0, not commit).error == ErrorCode.INVALID_TXN_STATE
    assert play.t.verify(PID, 0, [P0]) == {P0: ErrorCode.INVALID_TXN_STATE}, (
        "a record that comes late has no transaction any more"
    )
    assert play.add(0, P1) == 0 and play.t.record.partitions == {P1}


def test_no_marker_is_sent_before_the_decision_is_persisted_and_no_other_is_made() -> None:
    play = Play()
    play.init()
    play.add(0)
    play.hold = True
    assert play.hear(core.End("p", PID, 0, True)) is None
    assert play.markers == []
    assert play.end(0, False).error == play.add(0, P1) == play.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert play.t.verify(PID, 0, [P0]) == {P0: ErrorCode.CONCURRENT_TRANSACTIONS}
    play.release()
    assert play.answers[-1] == TransactionAnswered(0) and len(play.markers) == 1


def test_an_older_epoch_and_another_producer_id_have_different_errors() -> None:
    play = Play()
    play.init()
    play.init()
    assert play.add(0) == ErrorCode.PRODUCER_FENCED and play.end(0).error == ErrorCode.PRODUCER_FENCED
    assert play.end(1, producer_id=5).error == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert play.t.verify(5, 1, [P0]) == {P0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert play.end(1).error == ErrorCode.INVALID_TXN_STATE, "nothing was begun"


def test_a_new_producer_aborts_the_open_transaction_with_a_fencing_epoch() -> None:
    play = Play()
    play.init()
    play.add(0)
    assert play.init().error == ErrorCode.CONCURRENT_TRANSACTIONS
    assert play.markers == [SendMarkers(PID, 1, False, frozenset({P0}), 0)]
    assert play.end(0).error == ErrorCode.PRODUCER_FENCED
    play.written()
    assert play.init() == TransactionAnswered(0, PID, 2)


def test_a_timed_out_transaction_is_aborted_and_its_producer_fenced() -> None:
    play = Play()
    play.init()
    play.add(0)
    play.now = Now(10_999, 50_000)
    play.hear(core.TransactionTick())
    assert play.markers == []
    play.now = Now(11_000, 50_000)
    play.hear(core.TransactionTick())
    assert play.markers[0].epoch == 1 and not play.markers[0].commit
    assert play.end(0).error == ErrorCode.PRODUCER_FENCED


def test_after_a_coordinator_change_a_transaction_times_out_within_one_more_timeout() -> None:
    ongoing = TransactionMetadata(
        PID, 0, 10_000, TransactionMachineState.ONGOING, frozenset({P0}), started_wall_ms=48_000
    )
    for wall, deadline in ((50_000, 9_000), (0, 11_000), (10**9, 1_000)):
        t = Transaction("id", ongoing)
        t.loaded(Now(1_000, wall))
        assert t.deadline_ms == deadline


def test_a_prepared_transaction_is_completed_by_a_new_coordinator() -> None:
    play = Play(TransactionMetadata(PID, 3, 10_000, TransactionMachineState.PREPARE_COMMIT, frozenset({P0}), 1, 1))
    play.hear(core.TransactionTick())
    play.hear(core.TransactionTick())
    assert play.markers == [SendMarkers(PID, 3, True, frozenset({P0}), 0)], "once at a time"
    play.hear(core.MarkersWritten(2))
    assert play.t.state is TransactionMachineState.PREPARE_COMMIT, "markers of another decision"
    play.written()
    assert play.t.state is TransactionMachineState.COMPLETE_COMMIT


def test_an_unwritten_decision_has_no_effect() -> None:
    play = Play()
    play.init()
    play.add(0)
    play.hold = True
    play.hear(core.End("p", PID, 0, True))
    assert play.hear(core.TransactionPersistFailed(play.held[0].number, 15)) == TransactionAnswered(15)
    play.held.clear()
    play.hold = False
    assert play.t.state is TransactionMachineState.ONGOING and play.markers == []
    assert play.end(0, False).error == 0


def test_an_unwritten_completion_is_repeated() -> None:
    play = Play()
    play.init()
    play.add(0)
    play.end(0)
    play.hold = True
    play.written()
    play.hear(core.TransactionPersistFailed(play.held[0].number, 15))
    play.held.clear()
    play.hold = False
    play.hear(core.TransactionTick())
    assert len(play.markers) == 2
    play.written()
    assert play.t.state is TransactionMachineState.COMPLETE_COMMIT


# -- the second kind (KIP-890) -----------------------------------------------------------------------------------------
def test_every_transaction_end_bumps_the_epoch() -> None:
    play = Play()
    play.init()
    for epoch in range(3):
        assert play.add(epoch, version=2) == 0
        assert play.end(epoch, version=2) == TransactionAnswered(0, PID, epoch + 1)
        assert play.markers[-1].epoch == epoch + 1 and play.markers[-1].version == 2
        assert play.end(epoch, version=2).error == ErrorCode.CONCURRENT_TRANSACTIONS
        play.written()
        assert play.end(epoch, version=2) == TransactionAnswered(0, PID, epoch + 1), "a repetition"


def test_r15_a_late_end_request_does_not_end_the_next_transaction() -> None:
    """KAFKA-17754."""
    play = Play()
    play.init()
    play.add(0, version=2)
    play.end(0, version=2)
    play.written()
    play.add(1, version=2)
    for commit in (True, False):
        assert play.end(0, commit, version=2).error == ErrorCode.PRODUCER_FENCED
    assert play.t.state is TransactionMachineState.ONGOING


def test_an_empty_transaction_may_be_aborted_and_not_committed() -> None:
    play = Play()
    play.init()
    assert play.end(0, True, version=2).error == ErrorCode.INVALID_TXN_STATE
    assert play.end(0, False, version=2) == TransactionAnswered(0, PID, 1)
    play.written()
    assert play.end(1, False, version=2) == TransactionAnswered(0, PID, 2)


def test_exhausted_epochs_lead_to_a_new_producer_id_at_the_end() -> None:
    play = Play(TransactionMetadata(PID, EPOCH_MAX - 1))
    play.add(EPOCH_MAX - 1, version=2)
    assert play.end(EPOCH_MAX - 1, version=2) == TransactionAnswered(0, 99, 0)
    assert play.markers[-1].epoch == EPOCH_MAX
    assert play.end(EPOCH_MAX - 1, version=2).error == ErrorCode.CONCURRENT_TRANSACTIONS
    play.written()
    assert (play.t.record.producer_id, play.t.record.epoch) == (99, 0)
    assert play.end(EPOCH_MAX - 1, version=2) == TransactionAnswered(0, 99, 0), "a repetition"


# -- anything, in any order ----------------------------------------------------------------------------------------------
def test_decisions_are_final_and_epochs_never_decrease() -> None:
    for seed in range(300):
        rng = random.Random(seed)
        play = Play(TransactionMetadata(PID, rng.choice([-1, 5, EPOCH_MAX - 2])))
        version = rng.choice([0, 2])
        decided: dict[tuple[int, int], bool] = {}
        for _ in range(40):
            before = play.t.record
            play.now = Now(play.now.mono_ms + rng.choice([0, 10, 6_000]), 50_000)
            play.hold = rng.random() < 0.3
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
            play.hear(event)
            if play.held and rng.random() < 0.3:
                failed = play.held.pop()
                play.hear(core.TransactionPersistFailed(failed.number, 15))
            play.hold = False
            play.release()
            after = play.t.record
            assert after.producer_id != before.producer_id or after.epoch >= before.epoch
            for order in play.markers:
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


# -- the record in the log -------------------------------------------------------------------------------------------------
def test_transaction_records_have_kafkas_format() -> None:
    assert formats.key("id") == b"\0\0\0\2id"
    ongoing = TransactionMetadata(7, 1, 10_000, TransactionMachineState.ONGOING, frozenset({("t", 3)}), 5, 6)
    assert formats.value(ongoing).hex() == (
        "000000000000000000070001000027100100000001000174000000010000000300000000000000060000000000000005"
    )
    assert formats.read_value(formats.value(ongoing)) == ongoing
    second = replace(ongoing, version=2, previous_producer_id=3, next_producer_id=4)
    assert formats.value(second)[:2] == b"\0\1" and formats.read_value(formats.value(second)) == second
    for bad in (b"", b"\0\7", formats.value(ongoing)[:-1]):
        with pytest.raises(ValueError):
            formats.read_value(bad)
    with pytest.raises(ValueError):
        formats.read_key(b"\0\0\0\7id")
