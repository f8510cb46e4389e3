"""What a leader asks the holders of its archive, what a holder answers, and what becomes of the answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from brokerd.apis.held import Holder, Inquiries
from brokerd.archives import KEPT, KEPT_BYTES_MAX, READ, TIME, UNANSWERED, UNDER_WAY_BYTES_MAX, Archives, Held, Question
from brokerd.cluster.model import Now, PartitionState, Seat
from brokerd.cluster.znodes import StartProposal
from brokerd.partition import Role
from brokerd.wire import records
from brokerd.wire.errors import ErrorCode as E
from tests.unit.test_relocations import TP
from tests.unit.test_seeds import Leader

S = 5
MIB = 1024 * 1024


class Asked(Leader):
    """Leads t-0 from offset 5 on; what lies below is with 7, 8 and 9. Answers are given by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.questions: list[tuple[int, Question, Callable[[Held | None], None]]] = []
        self.dead: set[int] = set()
        self.archives = self.partitions.archives = Archives(self._ask, lambda: self.now, lambda b: b not in self.dead)
        self.append(S)
        self.replicated()
        self.replica.log.raise_start(S)
        self.epoch_of_archive(S, (7, 8, 9))

    def epoch_of_archive(self, start: int, holders: tuple[int, ...]) -> None:
        state = replace(self.state, observers=(), leader_epoch=3, archive_start=start, archive_epoch=3, holders=holders)
        self.says(state)

    def _ask(self, holder: int, question: Question, done: Callable[[Held | None], None]) -> None:
        self.questions.append((holder, question, done))

    def answer(self, held: Held | None) -> int:
        holder, _, done = self.questions.pop(0)
        done(held)
        return holder

    def read(self, offset: int = 0, bytes_max: int = MIB) -> Held | None:
        return self.archives.read(self.replica, offset, S, -1, bytes_max, lambda: None)


def held(data: bytes = b"x") -> Held:
    return Held(E.NONE, 0, data)


def test_what_lies_below_is_asked_once_and_kept_for_a_while() -> None:
    house = Asked()
    assert house.replica.asks_below == S
    assert house.read() is None and house.read() is None
    ((holder, question, _),) = house.questions
    assert (holder, question.what, question.archive_start, question.upto) == (7, READ, S, S)
    house.answer(held())
    assert house.read() == held() and not house.questions
    house.now = Now(house.now.mono_ms + 60_000, house.now.wall_ms)
    house.archives.tick(house.now)
    assert house.read() is None and len(house.questions) == 1


def test_one_that_does_not_answer_or_does_not_hold_it_is_passed_over_and_asked_last_next_time() -> None:
    house = Asked()
    house.dead.add(8)
    house.read()
    assert house.answer(None) == 7
    assert house.answer(Held(E.NONE, 0, b"y")) == 9
    house.read(1)
    assert house.questions[0][0] == 9, "7 was silent a moment ago"
    house.answer(Held(E.OFFSET_NOT_AVAILABLE))
    assert house.answer(held()) == 7


def test_nobody_answering_is_an_error_that_passes_and_soon_asked_again() -> None:
    house = Asked()
    house.read()
    for _ in range(3):
        house.answer(None)
    assert house.read() == UNANSWERED and UNANSWERED.error != E.OFFSET_OUT_OF_RANGE
    house.now = Now(house.now.mono_ms + 1_000, house.now.wall_ms)
    assert house.read() is None and len(house.questions) == 1


def test_only_a_holder_says_that_an_offset_is_gone_or_the_metadata_log() -> None:
    house = Asked()
    house.read()
    house.answer(Held(E.OFFSET_OUT_OF_RANGE, 3))
    told = house.read()
    assert told is not None and told.error == E.OFFSET_OUT_OF_RANGE and house.replica.start_offset == 3
    house.says(replace(house.state, log_start_floor=4))
    told = house.read(3)
    assert told is not None and told.error == E.OFFSET_OUT_OF_RANGE and not house.questions, "nobody need be asked"


def test_what_is_under_way_and_what_is_kept_is_bounded() -> None:
    house = Asked()
    for i in range(2 * UNDER_WAY_BYTES_MAX // MIB):
        assert house.archives.read(house.replica, 0, S, i, MIB, lambda: None) is None
    assert len(house.questions) == UNDER_WAY_BYTES_MAX // MIB
    while house.questions:
        house.answer(held(bytes(2 * MIB)))
    kept = sum(len(k.held.records) for k in house.archives._answers.values())
    assert MIB < kept <= KEPT_BYTES_MAX


def test_the_beginning_is_asked_for_until_the_log_says_so() -> None:
    house = Asked()
    house.archives.retain(house.replica)
    ((_, question, _),) = house.questions
    assert question.what == KEPT and question.at == house.replica.log.size_bytes
    house.answer(Held(E.NONE, 0, found=(2, -1, -1)))
    assert house.archives.changed
    assert house.archives.wanted() == [StartProposal(TP.topic_id, 0, 3, 2)]
    house.says(replace(house.state, log_start_floor=2))
    assert house.archives.wanted() == []


def test_a_log_that_was_let_go_beyond_the_archive_ends_it() -> None:
    house = Asked()
    house.append(5)
    house.replicated()
    house.replica.log.raise_start(8)
    assert house.replica.asks_below == 0, "it begins at 8 for everybody"
    house.archives.retain(house.replica)
    assert not house.questions and house.archives.wanted() == [StartProposal(TP.topic_id, 0, 3, 8)]


def test_a_log_that_something_was_written_to_below_the_archives_end_has_no_part_in_it() -> None:
    """After an unclean election of a copy that was not complete: what is new is not let go with what is old."""
    house = Asked()
    house.says(replace(house.state, archive_start=20, leader_epoch=4, archive_epoch=4))
    assert not house.replica.goes_on and house.replica.asks_below == 0
    house.archives.begins_at(house.replica, 3)
    assert house.archives.wanted() == []


# -- the holder's side -----------------------------------------------------------------------------------------------------


class Held5(Leader):
    """Holds 5 records of t-0 below the archive's end, and 2 that lie beyond."""

    def __init__(self) -> None:
        super().__init__()
        self.append(7)
        state = PartitionState((2,), (Seat(2, 12),), 2, 12, 4, archive_start=S, archive_epoch=3, holders=(1,))
        self.says(state)
        self.door = Holder(self.partitions, lambda: self.now.wall_ms, lambda replica, wanted: None)

    def ask(self, what: str, at: int, start: int = S, floor: int = 0, upto: int = S) -> Held:
        """Over the wire and back."""
        question = Question(TP, start, floor, what, at, upto, -1, MIB)
        sent: list[Any] = []
        Inquiries(
            self.partitions, type("Wire", (), {"ask": lambda self, b, k, v, body, done: sent.append((body, done))})()
        ).ask(1, question, lambda h: sent.append(h))  # type: ignore[arg-type]
        body, done = sent.pop()
        answer = self.door.answer(body)
        for topic in answer.responses:
            for part in topic.partitions:
                if isinstance(part.records, list):
                    part.records = b"".join(r.file.pread(r.length, r.position) for r in part.records)
        done(answer)
        told = sent.pop()
        assert isinstance(told, Held)
        return told


def offsets(told: Held) -> list[int]:
    return [r.offset for r in records.iterate(memoryview(told.records))]


def test_a_holder_takes_nothing_and_tells_only_what_lies_below_the_end() -> None:
    house = Held5()
    assert house.replica.core.role is Role.HOLDER and house.partitions.hosted[TP] is house.replica
    assert house.partitions.unflushed[TP] is house.replica, "nothing will be written that would have it flushed"
    assert offsets(house.ask(READ, 0)) == [0, 1, 2, 3, 4]
    assert offsets(house.ask(READ, 3)) == [3, 4]
    assert offsets(house.ask(READ, 0, upto=2)) == [0, 1], "not beyond what is stable to who asks"
    assert house.ask(TIME, -2).found == (0, -1, 0)
    assert house.ask(TIME, 2_000_000).found == (0, 2_000_000, 0)
    assert house.ask(TIME, 2_000_000, floor=2).found == (2, 2_000_000, 0), "what is deleted is not found"
    assert house.ask(TIME, 2_000_001).found is None
    assert house.ask(TIME, -3).found == (0, 2_000_000, 0)


def test_who_does_not_hold_it_all_does_not_answer() -> None:
    house = Held5()
    assert house.ask(READ, 0, start=4).error == E.OFFSET_NOT_AVAILABLE, "another archive"
    house.replica.log.truncate_to(4)
    assert house.ask(READ, 0).error == E.OFFSET_NOT_AVAILABLE, "a power cut took the rest"


def test_what_was_let_go_is_gone_at_the_holder_too() -> None:
    house = Held5()
    house.says(replace(house.state, log_start_floor=3))
    assert house.replica.log.start_offset == 3
    told = house.ask(READ, 1)
    assert (told.error, told.log_start) == (E.OFFSET_OUT_OF_RANGE, 3)


@pytest.mark.parametrize(
    ("configs", "tail_bytes", "kept"),
    [
        ({"retention.bytes": "1"}, 10, S),
        ({"retention.bytes": "1"}, 0, 0),
        ({"retention.bytes": "1000000"}, 0, 0),
        ({"retention.ms": "-1"}, 0, 0),
    ],
    ids=str,
)
def test_a_holder_says_what_retention_keeps(configs: dict[str, str], tail_bytes: int, kept: int) -> None:
    house = Held5()
    house.replica.config = type(house.replica.config).from_overrides(configs)
    told = house.ask(KEPT, tail_bytes)
    assert told.found is not None and told.found[0] == kept
