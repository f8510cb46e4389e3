"""A transactional id: epochs, decisions, fences, time; and how it stands in the log."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from brokerd.cluster.model import Now
from brokerd.coordinator import transaction as core
from brokerd.coordinator import transaction_records as formats
from brokerd.coordinator.transaction import (
    CONCURRENT_TRANSACTIONS,
    EPOCH_MAX,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    PRODUCER_FENCED,
    Answered,
    Persist,
    Record,
    Reply,
    SendMarkers,
    State,
    Transaction,
)

P0, P1 = ("flights", 0), ("flights", 1)
PID = 77


class Play:
    """A transaction and what it says, with every write done at once unless `hold` is set."""

    def __init__(self, record: Record | None = None) -> None:
        self.t = Transaction("id", record or Record(PID))
        self.now = Now(1_000, 50_000)
        self.answers: list[Answered] = []
        self.markers: list[SendMarkers] = []
        self.held: list[Persist] = []
        self.hold = False

    def hear(self, event: core.Event) -> Answered | None:
        before = len(self.answers)
        self._run(self.t.handle(event, self.now))
        self.t.validate()
        return self.answers[-1] if len(self.answers) > before else None

    def _run(self, effects: list[core.Effect]) -> None:
        for effect in effects:
            match effect:
                case Reply():
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
                        self._run(self.t.handle(core.Persisted(effect.number), self.now))

    def release(self) -> None:
        for effect in self.held:
            self._run(self.t.handle(core.Persisted(effect.number), self.now))
        self.held.clear()

    def init(self, producer_id: int = -1, epoch: int = -1, drawn: int = PID) -> Answered:
        return self._sure(self.hear(core.Init("p", 10_000, drawn, producer_id, epoch)))

    def add(self, epoch: int, *places: core.TopicIndex, version: int = 0) -> int:
        return self._sure(self.hear(core.Add("p", PID, epoch, frozenset(places or (P0,)), version))).error

    def end(self, epoch: int, commit: bool = True, version: int = 0, producer_id: int = PID) -> Answered:
        return self._sure(self.hear(core.End("p", producer_id, epoch, commit, 99, version)))

    def written(self) -> None:
        self.hear(core.MarkersWritten(self.markers[-1].epoch))

    @staticmethod
    def _sure(answer: Answered | None) -> Answered:
        assert answer is not None
        return answer


def kept(record: Record) -> bool:
    """Version 0 of the value has no room for what belongs to the second kind."""
    return record.version >= 2 or record.previous_producer_id >= 0


# -- epochs ------------------------------------------------------------------------------------------------------------
def test_each_new_producer_has_the_next_epoch() -> None:
    play = Play()
    assert [play.init() for _ in range(3)] == [Answered(0, PID, e) for e in (0, 1, 2)]


def test_a_producer_that_says_who_it_is_goes_on_and_its_lost_answer_is_given_again() -> None:
    play = Play()
    play.init()
    assert play.init(PID, 0) == Answered(0, PID, 1)
    assert play.init(PID, 0) == Answered(0, PID, 1), "the answer was lost"
    play.init()
    assert play.init(PID, 1).error == PRODUCER_FENCED, "another one came meanwhile"
    assert play.init(PID, 7).error == PRODUCER_FENCED
    assert play.init(5, 0).error == PRODUCER_FENCED


def test_used_up_epochs_bring_a_new_producer_id() -> None:
    play = Play(Record(PID, EPOCH_MAX - 2))
    assert play.init().epoch == EPOCH_MAX - 1
    assert play.init(PID, EPOCH_MAX - 1, drawn=88) == Answered(0, 88, 0)
    assert play.init(PID, EPOCH_MAX - 1) == Answered(0, 88, 0), "the answer was lost"


def test_whoever_does_not_say_who_it_is_leaves_the_old_one_no_way_to_the_new_id() -> None:
    play = Play(Record(PID, EPOCH_MAX - 1))
    assert play.init(drawn=88) == Answered(0, 88, 0)
    assert play.init(PID, EPOCH_MAX - 1).error == PRODUCER_FENCED


# -- a transaction -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_from_beginning_to_end(commit: bool) -> None:
    play = Play()
    play.init()
    assert play.add(0, P0) == 0 and play.add(0, P0, P1) == 0
    assert play.t.verify(PID, 0, [P0, ("other", 0)]) == {P0: 0, ("other", 0): INVALID_TXN_STATE}
    assert play.end(0, commit) == Answered(0)
    assert play.markers == [SendMarkers(PID, 0, commit, frozenset({P0, P1}), 0)]
    assert play.end(0, commit).error == play.add(0) == play.init().error == CONCURRENT_TRANSACTIONS
    assert play.t.verify(PID, 0, [P0]) == {P0: CONCURRENT_TRANSACTIONS}
    assert play.end(0, not commit).error == INVALID_TXN_STATE
    play.written()
    assert play.t.state is (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT)
    assert play.end(0, commit).error == 0, "a repetition"
    assert play.end(0, not commit).error == INVALID_TXN_STATE
    assert play.t.verify(PID, 0, [P0]) == {P0: INVALID_TXN_STATE}, (
        "a record that comes late has no transaction any more"
    )
    assert play.add(0, P1) == 0 and play.t.record.partitions == {P1}


def test_no_marker_before_the_decision_is_persisted_and_nothing_else_is_decided_meanwhile() -> None:
    play = Play()
    play.init()
    play.add(0)
    play.hold = True
    assert play.hear(core.End("p", PID, 0, True)) is None
    assert play.markers == []
    assert play.end(0, False).error == play.add(0, P1) == play.init().error == CONCURRENT_TRANSACTIONS
    assert play.t.verify(PID, 0, [P0]) == {P0: CONCURRENT_TRANSACTIONS}
    play.release()
    assert play.answers[-1] == Answered(0) and len(play.markers) == 1


def test_an_older_epoch_and_another_id_are_told_apart() -> None:
    play = Play()
    play.init()
    play.init()
    assert play.add(0) == PRODUCER_FENCED and play.end(0).error == PRODUCER_FENCED
    assert play.end(1, producer_id=5).error == INVALID_PRODUCER_ID_MAPPING
    assert play.t.verify(5, 1, [P0]) == {P0: INVALID_PRODUCER_ID_MAPPING}
    assert play.end(1).error == INVALID_TXN_STATE, "nothing was begun"


def test_a_newcomer_aborts_what_is_under_way_with_an_epoch_that_fences_its_author() -> None:
    play = Play()
    play.init()
    play.add(0)
    assert play.init().error == CONCURRENT_TRANSACTIONS
    assert play.markers == [SendMarkers(PID, 1, False, frozenset({P0}), 0)]
    assert play.end(0).error == PRODUCER_FENCED
    play.written()
    assert play.init() == Answered(0, PID, 2)


def test_a_transaction_whose_time_is_up_is_aborted_and_its_producer_fenced() -> None:
    play = Play()
    play.init()
    play.add(0)
    play.now = Now(10_999, 50_000)
    play.hear(core.Tick())
    assert play.markers == []
    play.now = Now(11_000, 50_000)
    play.hear(core.Tick())
    assert play.markers[0].epoch == 1 and not play.markers[0].commit
    assert play.end(0).error == PRODUCER_FENCED


def test_times_up_after_a_change_of_coordinator_at_most_a_whole_timeout_later_whatever_the_wall_says() -> None:
    ongoing = Record(PID, 0, 10_000, State.ONGOING, frozenset({P0}), started_wall_ms=48_000)
    for wall, deadline in ((50_000, 9_000), (0, 11_000), (10**9, 1_000)):
        t = Transaction("id", ongoing)
        t.loaded(Now(1_000, wall))
        assert t.deadline_ms == deadline


def test_what_is_prepared_is_completed_by_a_successor() -> None:
    play = Play(Record(PID, 3, 10_000, State.PREPARE_COMMIT, frozenset({P0}), 1, 1))
    play.hear(core.Tick())
    play.hear(core.Tick())
    assert play.markers == [SendMarkers(PID, 3, True, frozenset({P0}), 0)], "once at a time"
    play.hear(core.MarkersWritten(2))
    assert play.t.state is State.PREPARE_COMMIT, "markers of another decision"
    play.written()
    assert play.t.state is State.COMPLETE_COMMIT


def test_a_decision_that_surely_was_not_written_was_not_made() -> None:
    play = Play()
    play.init()
    play.add(0)
    play.hold = True
    play.hear(core.End("p", PID, 0, True))
    assert play.hear(core.PersistFailed(play.held[0].number, 15)) == Answered(15)
    play.held.clear()
    play.hold = False
    assert play.t.state is State.ONGOING and play.markers == []
    assert play.end(0, False).error == 0


def test_a_completion_that_was_not_written_is_done_again() -> None:
    play = Play()
    play.init()
    play.add(0)
    play.end(0)
    play.hold = True
    play.written()
    play.hear(core.PersistFailed(play.held[0].number, 15))
    play.held.clear()
    play.hold = False
    play.hear(core.Tick())
    assert len(play.markers) == 2
    play.written()
    assert play.t.state is State.COMPLETE_COMMIT


# -- the second kind (KIP-890) -----------------------------------------------------------------------------------------
def test_every_end_moves_the_epoch() -> None:
    play = Play()
    play.init()
    for epoch in range(3):
        assert play.add(epoch, version=2) == 0
        assert play.end(epoch, version=2) == Answered(0, PID, epoch + 1)
        assert play.markers[-1].epoch == epoch + 1 and play.markers[-1].version == 2
        assert play.end(epoch, version=2).error == CONCURRENT_TRANSACTIONS
        play.written()
        assert play.end(epoch, version=2) == Answered(0, PID, epoch + 1), "a repetition"


def test_r15_an_end_that_comes_late_does_not_end_the_next_transaction() -> None:
    """KAFKA-17754."""
    play = Play()
    play.init()
    play.add(0, version=2)
    play.end(0, version=2)
    play.written()
    play.add(1, version=2)
    for commit in (True, False):
        assert play.end(0, commit, version=2).error == PRODUCER_FENCED
    assert play.t.state is State.ONGOING


def test_nothing_may_be_aborted_but_not_committed() -> None:
    play = Play()
    play.init()
    assert play.end(0, True, version=2).error == INVALID_TXN_STATE
    assert play.end(0, False, version=2) == Answered(0, PID, 1)
    play.written()
    assert play.end(1, False, version=2) == Answered(0, PID, 2)


def test_used_up_epochs_bring_a_new_producer_id_with_the_end() -> None:
    play = Play(Record(PID, EPOCH_MAX - 1))
    play.add(EPOCH_MAX - 1, version=2)
    assert play.end(EPOCH_MAX - 1, version=2) == Answered(0, 99, 0)
    assert play.markers[-1].epoch == EPOCH_MAX
    assert play.end(EPOCH_MAX - 1, version=2).error == CONCURRENT_TRANSACTIONS
    play.written()
    assert (play.t.record.producer_id, play.t.record.epoch) == (99, 0)
    assert play.end(EPOCH_MAX - 1, version=2) == Answered(0, 99, 0), "a repetition"


# -- anything, in any order ----------------------------------------------------------------------------------------------
def test_whatever_comes_a_decision_stands_and_epochs_never_go_back() -> None:
    for seed in range(300):
        rng = random.Random(seed)
        play = Play(Record(PID, rng.choice([-1, 5, EPOCH_MAX - 2])))
        version = rng.choice([0, 2])
        decided: dict[tuple[int, int], bool] = {}
        for _ in range(40):
            before = play.t.record
            play.now = Now(play.now.mono_ms + rng.choice([0, 10, 6_000]), 50_000)
            play.hold = rng.random() < 0.3
            event: Any = rng.choice(
                [
                    core.Init("p", 10_000, rng.randint(100, 10**6), *rng.choice([(-1, -1), (before.producer_id, before.epoch)])),
                    core.Add("p", before.producer_id, before.epoch - rng.randint(0, 1), frozenset({P0, P1}), version),
                    core.End("p", before.producer_id, before.epoch - rng.randint(0, 1), rng.random() < 0.5, 10**7, version),
                    core.MarkersWritten(before.epoch),
                    core.Tick(),
                ]
            )  # fmt: skip
            play.hear(event)
            if play.held and rng.random() < 0.3:
                failed = play.held.pop()
                play.hear(core.PersistFailed(failed.number, 15))
            play.hold = False
            play.release()
            after = play.t.record
            assert after.producer_id != before.producer_id or after.epoch >= before.epoch
            for order in play.markers:
                assert (
                    decided.setdefault((order.producer_id, order.epoch), order.commit) == order.commit or version == 0
                )
            if before.state in core.PREPARED:
                assert after.state in (before.state, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
                assert (after.state is State.COMPLETE_COMMIT) <= (before.state is State.PREPARE_COMMIT)


# -- as it stands in the log -----------------------------------------------------------------------------------------------
def test_records_are_kafkas_own() -> None:
    assert formats.key("id") == b"\0\0\0\2id"
    ongoing = Record(7, 1, 10_000, State.ONGOING, frozenset({("t", 3)}), 5, 6)
    assert formats.value(ongoing).hex() == (
        "0000" "0000000000000007" "0001" "00002710" "01" "00000001" "000174" "00000001" "00000003"
        "0000000000000006" "0000000000000005"
    )  # fmt: skip
    assert formats.read_value(formats.value(ongoing)) == ongoing
    second = replace(ongoing, version=2, previous_producer_id=3, next_producer_id=4)
    assert formats.value(second)[:2] == b"\0\1" and formats.read_value(formats.value(second)) == second
    for bad in (b"", b"\0\7", formats.value(ongoing)[:-1]):
        with pytest.raises(ValueError):
            formats.read_value(bad)
    with pytest.raises(ValueError):
        formats.read_key(b"\0\0\0\7id")
