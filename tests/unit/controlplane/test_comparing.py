"""Copies are compared before the old ones go."""

from __future__ import annotations

from typing import Any

import pytest
from crc32c import crc32c

from brokerd.wire.records import Record, build
from controlplane import kafka
from controlplane.copies import Copy, compared
from controlplane.models import Move
from controlplane.services import advancing, comparing, moves
from tests.unit.controlplane.world import World

TO_23 = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}


def log(*values: str, first: int = 0) -> bytes:
    """One batch per value."""
    out = b""
    for i, value in enumerate(values):
        out += build([Record(0, 0, None, value.encode())], base_offset=first + i)
    return out


def copy(*values: str, start: int = 0, known: int | None = None) -> Copy:
    return Copy(start, len(values) if known is None else known, log(*values))


def test_equal_bytes_are_equal_and_say_which() -> None:
    found = compared(0, 3, 1, {b: copy("a", "b", "c") for b in (1, 2, 3)})
    assert (found.equal, found.first, found.after, found.size) == (True, 0, 3, len(log("a", "b", "c")))
    assert found.text == "Offsets 0 to 3 are equal on 3 copies."
    assert (
        found.crc == compared(0, 3, 1, {1: copy("a", "b", "c")}).crc != compared(0, 3, 1, {1: copy("a", "b", "d")}).crc
    )


def test_a_record_that_differs_is_found_and_where() -> None:
    found = compared(0, 3, 1, {1: copy("a", "b", "c"), 2: copy("a", "b", "c"), 3: copy("a", "x", "c")})
    assert (found.equal, found.text) == (False, "Broker 3 and the leader 1 differ in offsets 0 to 3.")


def test_a_copy_that_begins_later_than_the_leaders_lacks_records() -> None:
    found = compared(0, 3, 1, {1: copy("a", "b", "c"), 2: copy("a", "b", "c", start=2)})
    assert found.equal is False and "Broker 2 begins at offset 2" in found.text


@pytest.mark.parametrize(
    "other", [copy("a", "b", known=3), copy(), Copy(0, 3, log("a", "b", "c")[:-1])], ids=["short", "empty", "cut"]
)
def test_what_was_not_told_is_neither_equal_nor_different(other: Copy) -> None:
    assert compared(0, 3, 1, {1: copy("a", "b", "c"), 2: other}).equal is None


def test_what_is_not_acknowledged_everywhere_is_left_out() -> None:
    found = compared(0, 3, 1, {1: copy("a", "b", "c"), 2: copy("a", "b", "x", known=2)})
    assert (found.equal, found.after) == (True, 2)


def test_an_empty_log_is_equal() -> None:
    assert compared(5, 5, 1, {1: Copy(5, 5, b""), 2: Copy(0, 5, b"")}).equal


# -- on rows -------------------------------------------------------------------------------------------------------------------


class Brokers:
    """What each broker's copy holds; `away` answer nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held = {b: ["a", "b", "c", "d"] for b in (1, 2, 3)}
        self.away: set[int] = set()
        self.segment = 100
        self.starts = dict.fromkeys((1, 2, 3), 0)
        monkeypatch.setattr(
            kafka, "bounds", lambda host, port, topic, index: (self.starts[port - 9000], len(self.held[port - 9000]))
        )
        monkeypatch.setattr(kafka, "read_copy", self.read)

    def read(self, host: str, port: int, topic: str, index: int, offset: int, bytes_max: int) -> Copy:
        broker = port - 9000
        if broker in self.away:
            raise kafka.NoAnswer("gone")
        end = len(self.held[broker])
        values = self.held[broker][offset : min(end, (offset // self.segment + 1) * self.segment)]
        if offset < self.starts[broker]:
            raise kafka.Declined("OFFSET_OUT_OF_RANGE")
        return Copy(self.starts[broker], end, log(*values, first=offset))


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    return Brokers(monkeypatch)


@pytest.fixture
def beside(world: World) -> Move:
    """A move whose copies are all in the ISR, old and new."""
    world.topic("flights", (1, 2))
    move = moves.plan_move(TO_23, who="alice", why="x", compare=True)
    assert move.parts.get().wanted == [1, 2, 3]
    moves.start_move(move.pk, who="alice")
    advancing.advance_move(move.pk)
    (order,) = advancing.ordered_parts()
    world.begin_move("flights", 0, tuple(order.wanted))
    assert comparing.due() == []
    advancing.advance_move(move.pk)
    world.end_move("flights", 0)
    advancing.advance_move(move.pk)
    return move


def look(move: Move) -> Any:
    for part_id in comparing.due():
        comparing.compare_part(part_id)
    advancing.advance_move(move.pk)
    return move.parts.get()


@pytest.mark.django_db
def test_the_old_copy_goes_only_after_all_copies_were_found_equal(beside: Move, world: World, brokers: Brokers) -> None:
    part = beside.parts.get()
    assert (part.state, advancing.ordered_parts()) == ("verifying", [])
    assert world.state("flights", 0).isr_ids == (1, 2, 3), "nobody has gone yet"
    part = look(beside)
    assert (part.state, part.wanted, part.compared["equal"]) == ("ordered", [2, 3], True)
    assert part.compared["text"] == "Offsets 0 to 4 are equal on 3 copies." and len(part.compared["crc"]) == 8
    world.begin_move("flights", 0, (2, 3))
    advancing.advance_move(beside.pk)
    world.end_move("flights", 0)
    advancing.advance_move(beside.pk)
    beside.refresh_from_db()
    assert (beside.state, world.state("flights", 0).replicas) == ("done", (2, 3))


@pytest.mark.django_db
def test_copies_that_differ_keep_the_old_one_and_roll_back_exactly(
    beside: Move, world: World, brokers: Brokers
) -> None:
    brokers.held[3][3] = "x"
    part = look(beside)
    beside.refresh_from_db()
    assert (part.state, beside.state) == ("stuck", "failed")
    assert "Broker 3 and the leader 1 differ in offsets 0 to 4" in part.note
    assert world.state("flights", 0).isr_ids == (1, 2, 3)
    moves.roll_back_move(beside.pk, who="alice", why="broker 3 lies")
    advancing.advance_move(beside.pk)
    (order,) = advancing.ordered_parts()
    assert order.wanted == [1, 2]


@pytest.mark.django_db
def test_a_broker_that_does_not_answer_is_named_and_nothing_goes_meanwhile(
    beside: Move, world: World, brokers: Brokers
) -> None:
    brokers.away.add(3)
    for _ in range(3):
        part = look(beside)
        assert (part.state, part.compared) == ("verifying", None)
        assert part.note.endswith("Broker 3 does not answer: gone")
    brokers.away.clear()
    assert look(beside).state == "ordered"


@pytest.mark.django_db
def test_copies_whose_segments_begin_elsewhere_are_compared_whole(
    beside: Move, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = brokers.read

    def cut(host: str, port: int, *rest: Any) -> Copy:
        brokers.segment = 1 if port == 9003 else 100
        return real(host, port, *rest)

    monkeypatch.setattr(kafka, "read_copy", cut)
    assert look(beside).compared["after"] == 4


@pytest.mark.django_db
def test_compacted_copies_are_compared_by_their_ends(world: World, brokers: Brokers) -> None:
    world.topic("flights", (1, 2), configs={"cleanup.policy": "compact"})
    from controlplane.models import Partition

    brokers.held[2] = ["a", "b", "c", "z"]
    found = comparing._found(Partition.objects.select_related("topic").get(), None, whole=False)
    assert found.equal and found.text.startswith("Compacted: the ends of 2 copies")
    brokers.held[2] = ["a", "b", "c"]
    assert comparing._found(Partition.objects.select_related("topic").get(), None, whole=False).equal is None


@pytest.mark.django_db
def test_a_move_is_cancelled_while_its_copies_stand_side_by_side(beside: Move, world: World, brokers: Brokers) -> None:
    moves.cancel_move(beside.pk, who="alice", why="x")
    (order,) = advancing.ordered_parts()
    assert order.wanted == [1, 2]
    assert comparing.due() == []
    world.begin_move("flights", 0, (1, 2))
    world.end_move("flights", 0)
    for _ in range(2):
        advancing.advance_move(beside.pk)
    beside.refresh_from_db()
    assert beside.state == "cancelled"


@pytest.mark.django_db
def test_more_copies_or_fewer_need_no_comparison_in_between(world: World) -> None:
    world.topic("flights", (1, 2))
    for replicas in ([1, 2, 3], [1], [2, 1]):
        scope = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": replicas}]}
        move = moves.plan_move(scope, who="alice", why="x", compare=True)
        assert move.parts.get().wanted == replicas
        moves.cancel_move(move.pk, who="alice", why="x")


@pytest.mark.django_db
def test_an_old_copy_that_is_out_of_sync_is_not_waited_for(beside: Move, world: World, brokers: Brokers) -> None:
    """Whose broker is away, or whose disk died: the leader holds what is acknowledged."""
    beside.parts.update(state="copying")
    state = world.state("flights", 0)
    world.put("flights", 0, adding=(3,), isr=(2, 3), leader=2, leader_incarnation=102)
    brokers.away.add(1)
    part = look(beside)
    assert part.state == "verifying"
    part = look(beside)
    assert (part.state, part.wanted) == ("ordered", [2, 3])
    assert part.compared["text"] == "Offsets 0 to 4 are equal on 2 copies."
    # It comes back in this moment, which ends the placement of before: the order is bound to what is there now.
    world.put("flights", 0, adding=(), isr=(1, 2, 3), assignment_generation=state.assignment_generation + 1)
    advancing.advance_move(beside.pk)
    part.refresh_from_db()
    assert (part.state, part.read_generation) == ("ordered", state.assignment_generation + 1)


@pytest.mark.django_db
def test_a_new_copy_that_is_out_of_sync_is_waited_for(beside: Move, world: World, brokers: Brokers) -> None:
    beside.parts.update(state="copying")
    world.put("flights", 0, adding=(3,), isr=(2, 1))
    assert look(beside).state == "copying" and comparing.due() == []


@pytest.fixture
def tail(beside: Move, brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Move:
    """The same of a move without old data: its copies begin at offset 2."""
    Move.objects.update(mode="tail")
    brokers.starts = dict.fromkeys((1, 2, 3), 2)
    for b in brokers.held:
        brokers.held[b] = [f"{n:04}" for n in range(40)]
    brokers.segment = 4
    monkeypatch.setattr(comparing, "LOOK_BYTES", 600)
    return beside


@pytest.mark.django_db
def test_all_that_a_tail_holds_is_compared_so_much_per_look(tail: Move, brokers: Brokers) -> None:
    part = look(tail)
    assert (part.state, part.compared["equal"]) == ("verifying", None)
    assert 2 < part.compared["after"] < 40 and "of 40 are equal on 3 copies so far" in part.note
    for b in brokers.held:
        brokers.held[b].append("later")  # written since: it is not waited for
    looks = 1
    while part.state == "verifying":
        looks += 1
        part = look(tail)
    told = part.compared
    assert (told["equal"], told["first"], told["after"], told["upto"]) == (True, 2, 40, 40) and looks > 3
    data = log(*brokers.held[1][2:40], first=2)
    assert (told["bytes"], told["crc"]) == (len(data), f"{crc32c(data):08x}")


@pytest.mark.django_db
@pytest.mark.parametrize("offset", [2, 17, 39])
def test_one_record_that_differs_anywhere_stops_the_switch(
    tail: Move, world: World, brokers: Brokers, offset: int
) -> None:
    brokers.held[3][offset] = "xxxx"
    part = look(tail)
    while part.state == "verifying":
        part = look(tail)
    assert part.state == "stuck" and "Broker 3 and the leader 1 differ in offsets" in part.note
    assert world.state("flights", 0).isr_ids == (1, 2, 3)


@pytest.mark.django_db
def test_retention_that_goes_on_meanwhile_is_no_difference(
    tail: Move, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = look(tail).compared["after"]
    real = brokers.read

    def passing(host: str, port: int, *rest: Any) -> Copy:
        found = real(host, port, *rest)
        brokers.starts = dict.fromkeys((1, 2, 3), before + 3)
        return found

    monkeypatch.setattr(kafka, "read_copy", passing)
    part = look(tail)
    assert part.state == "verifying" and part.note.endswith("refuses: OFFSET_OUT_OF_RANGE")
    while part.state == "verifying":
        part = look(tail)
    assert (part.state, part.compared["after"]) == ("ordered", 40)


@pytest.mark.django_db
def test_a_broker_that_does_not_answer_takes_nothing_back_of_what_was_compared(tail: Move, brokers: Brokers) -> None:
    told = look(tail).compared
    brokers.away.add(3)
    part = look(tail)
    assert part.note.endswith("Broker 3 does not answer: gone") and part.compared["after"] == told["after"]
    brokers.away.clear()
    assert look(tail).compared["after"] > told["after"]
