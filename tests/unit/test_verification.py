"""No first batch of a transaction without its coordinator's word, and nobody overtakes whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from brokerd.cluster.model import TopicPartition
from brokerd.storage.producers import Producers
from brokerd.verification import Verification
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import TRANSACTIONAL, BatchHeader, Marker

PID = 7


class Scene:
    def __init__(self, *, enabled: bool = True) -> None:
        self.producers = Producers()
        self.replica: Any = SimpleNamespace(
            tp=TopicPartition(UUID(int=1), 0), topic="t", log=SimpleNamespace(producers=self.producers)
        )
        self.asked: list[tuple[int, bool, Callable[[ErrorCode], None]]] = []
        self.told: list[tuple[str, ErrorCode]] = []
        self.verification = Verification(
            lambda name, pid, epoch, place, add, done: self.asked.append((epoch, add, done)), enabled=enabled
        )

    def needed(self, epoch: int = 0, add: bool = False) -> bool:
        return self.verification.needed(self.replica, PID, epoch, add=add)

    def ask(self, who: str, epoch: int = 0, add: bool = False) -> None:
        self.verification.ask(
            self.replica, "id", PID, epoch, lambda error, why: self.told.append((who, error)), add=add
        )

    def wrote(self, epoch: int = 0, sequence: int = 0) -> None:
        header = BatchHeader(0, 61, 0, 2, 0, TRANSACTIONAL, 0, 0, 0, PID, epoch, sequence, 1)
        self.producers.appended(header, 0, 0)

    def ended(self, epoch: int = 0) -> None:
        header = BatchHeader(0, 61, 0, 2, 0, TRANSACTIONAL | 0x20, 0, 0, 0, PID, epoch, -1, 1)
        self.producers.appended(header, 1, 0, Marker(True, 0))
        self.verification.marker_written(self.replica.tp, PID)


def test_the_first_batch_of_a_transaction_wants_the_word_and_the_next_do_not() -> None:
    scene = Scene()
    assert scene.needed()
    scene.wrote()
    assert not scene.needed()
    assert scene.needed(epoch=1), "another epoch is another transaction"
    scene.ended()
    assert scene.needed()
    assert not Scene(enabled=False).needed()
    assert Scene(enabled=False).needed(add=True), "nobody else tells the coordinator"


def test_who_comes_while_one_is_asked_about_waits_behind_it_and_is_told_in_order() -> None:
    scene = Scene()
    scene.ask("first", add=True)
    assert scene.needed()
    scene.ask("second", add=True)
    assert [(e, add) for e, add, _ in scene.asked] == [(0, True)], "one question for both"
    scene.asked[0][2](ErrorCode.NONE)
    assert scene.told == [("first", ErrorCode.NONE), ("second", ErrorCode.NONE)]
    assert scene.needed(), "nothing was written yet"


def test_what_the_coordinator_said_before_a_marker_counts_for_nothing_after_it() -> None:
    scene = Scene()
    scene.ask("late")
    scene.ended()
    scene.asked[0][2](ErrorCode.NONE)
    assert scene.told == [("late", ErrorCode.CONCURRENT_TRANSACTIONS)]


def test_a_refusal_is_handed_on_and_the_next_one_is_asked_about_anew() -> None:
    scene = Scene()
    scene.ask("late")
    scene.asked[0][2](ErrorCode.INVALID_TXN_STATE)
    scene.ask("again")
    scene.asked[1][2](ErrorCode.NONE)
    assert scene.told == [("late", ErrorCode.INVALID_TXN_STATE), ("again", ErrorCode.NONE)]


def test_epochs_do_not_answer_for_each_other() -> None:
    scene = Scene()
    scene.ask("old", 0)
    scene.ask("new", 1)
    scene.asked[1][2](ErrorCode.NONE)
    scene.asked[0][2](ErrorCode.PRODUCER_FENCED)
    assert scene.told == [("new", ErrorCode.NONE), ("old", ErrorCode.PRODUCER_FENCED)]
