"""Replicas are compared before the old ones are deleted."""

from __future__ import annotations

from typing import Any

import pytest
from crc32c import crc32c
from django.utils import timezone

from brokerd.wire.records import Record, build
from controlplane.clients import kafka
from controlplane.clients.connection import Declined, NoResponse
from controlplane.domain.compare import ComparedReplica, compare_responses
from controlplane.models import Move
from controlplane.selectors.alerts import AlertRow
from controlplane.selectors.next_steps import next_steps
from controlplane.services import move_worker, moves, replica_comparison
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World

TO_23 = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}


def log(*values: str, first: int = 0) -> bytes:
    """One batch per value."""
    out = b""
    for i, value in enumerate(values):
        out += build([Record(0, 0, None, value.encode())], base_offset=first + i)
    return out


def copy(*values: str, start: int = 0, known: int | None = None) -> ComparedReplica:
    return ComparedReplica(start, len(values) if known is None else known, log(*values))


def test_equal_bytes_are_equal_with_their_range() -> None:
    found = compare_responses(0, 3, 1, {b: copy("a", "b", "c") for b in (1, 2, 3)})
    assert (found.equal, found.first, found.after, found.size) == (True, 0, 3, len(log("a", "b", "c")))
    assert found.text == "Offsets 0 to 3 are equal on 3 replicas."
    assert (
        found.crc
        == compare_responses(0, 3, 1, {1: copy("a", "b", "c")}).crc
        != compare_responses(0, 3, 1, {1: copy("a", "b", "d")}).crc
    )


def test_a_different_record_is_found_with_its_offset() -> None:
    found = compare_responses(0, 3, 1, {1: copy("a", "b", "c"), 2: copy("a", "b", "c"), 3: copy("a", "x", "c")})
    assert (found.equal, found.text) == (False, "Broker 3 and the leader 1 have different records in offsets 0 to 3.")


def test_a_replica_with_a_later_log_start_than_the_leader_lacks_records() -> None:
    found = compare_responses(0, 3, 1, {1: copy("a", "b", "c"), 2: copy("a", "b", "c", start=2)})
    assert found.equal is False and "The log of broker 2 starts at offset 2" in found.text


@pytest.mark.parametrize(
    "other",
    [copy("a", "b", known=3), copy(), ComparedReplica(0, 3, log("a", "b", "c")[:-1])],
    ids=["short", "empty", "cut"],
)
def test_a_missing_response_is_neither_equal_nor_different(other: ComparedReplica) -> None:
    assert compare_responses(0, 3, 1, {1: copy("a", "b", "c"), 2: other}).equal is None


def test_records_above_a_high_watermark_are_not_compared() -> None:
    found = compare_responses(0, 3, 1, {1: copy("a", "b", "c"), 2: copy("a", "b", "x", known=2)})
    assert (found.equal, found.after) == (True, 2)


def test_an_empty_log_is_equal() -> None:
    assert compare_responses(5, 5, 1, {1: ComparedReplica(5, 5, b""), 2: ComparedReplica(0, 5, b"")}).equal


# -- on rows -------------------------------------------------------------------------------------------------------------------


class Brokers:
    """The content of each broker's replica. Brokers in `away` do not respond."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held = {b: ["a", "b", "c", "d"] for b in (1, 2, 3)}
        self.away: set[int] = set()
        self.segment = 100
        self.starts = dict.fromkeys((1, 2, 3), 0)
        monkeypatch.setattr(
            kafka, "bounds", lambda host, port, topic, index: (self.starts[port - 9000], len(self.held[port - 9000]))
        )
        monkeypatch.setattr(kafka, "read_replica", self.read)

    def read(self, host: str, port: int, topic: str, index: int, offset: int, bytes_max: int) -> ComparedReplica:
        broker = port - 9000
        if broker in self.away:
            raise NoResponse("gone")
        end = len(self.held[broker])
        values = self.held[broker][offset : min(end, (offset // self.segment + 1) * self.segment)]
        if offset < self.starts[broker]:
            raise Declined("OFFSET_OUT_OF_RANGE")
        return ComparedReplica(self.starts[broker], end, log(*values, first=offset))


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    return Brokers(monkeypatch)


@pytest.fixture
def move_with_all_replicas_in_isr(world: World) -> Move:
    """A move whose replicas, old and new, are all in the ISR."""
    world.topic("flights", (1, 2))
    move = moves.plan_move(parse_scope(TO_23), actor="alice", comment="x", compare=True)
    assert move.parts.get().desired_replicas == [1, 2, 3]
    moves.start_move(move.pk, actor="alice")
    move_worker.advance_move(move.pk)
    (order,) = move_worker.ordered_parts()
    world.begin_move("flights", 0, tuple(order.desired_replicas))
    assert replica_comparison.due_partitions() == []
    move_worker.advance_move(move.pk)
    world.end_move("flights", 0)
    move_worker.advance_move(move.pk)
    return move


def compare_and_advance(move: Move) -> Any:
    for part_id in replica_comparison.due_partitions():
        replica_comparison.compare_part(part_id)
    move_worker.advance_move(move.pk)
    return move.parts.get()


@pytest.mark.django_db
def test_the_old_replica_is_removed_only_after_all_replicas_are_equal(
    move_with_all_replicas_in_isr: Move, world: World, brokers: Brokers
) -> None:
    part = move_with_all_replicas_in_isr.parts.get()
    assert (part.state, move_worker.ordered_parts()) == ("comparing", [])
    assert world.state("flights", 0).isr_ids == (1, 2, 3), "nobody has gone yet"
    part = compare_and_advance(move_with_all_replicas_in_isr)
    assert (part.state, part.desired_replicas, part.compared.equal) == ("submitted", [2, 3], True)
    assert part.compared.text == "Offsets 0 to 4 are equal on 3 replicas." and len(part.compared.crc) == 8
    world.begin_move("flights", 0, (2, 3))
    move_worker.advance_move(move_with_all_replicas_in_isr.pk)
    world.end_move("flights", 0)
    move_worker.advance_move(move_with_all_replicas_in_isr.pk)
    move_with_all_replicas_in_isr.refresh_from_db()
    assert (move_with_all_replicas_in_isr.state, world.state("flights", 0).replicas) == ("done", (2, 3))


@pytest.mark.django_db
def test_different_replicas_keep_the_old_one_and_roll_back_exactly(
    move_with_all_replicas_in_isr: Move, world: World, brokers: Brokers
) -> None:
    brokers.held[3][3] = "x"
    part = compare_and_advance(move_with_all_replicas_in_isr)
    move_with_all_replicas_in_isr.refresh_from_db()
    assert (part.state, move_with_all_replicas_in_isr.state) == ("rejected", "failed")
    assert "Broker 3 and the leader 1 have different records in offsets 0 to 4" in part.note
    assert world.state("flights", 0).isr_ids == (1, 2, 3)
    now = timezone.now()
    alert = AlertRow(1, "move_failed", str(move_with_all_replicas_in_isr.pk), "degraded", "text", "do", now, None, 1.0)
    assert [s.kind for s in next_steps(alert)] == ["roll_back_move", "open_move"], "the move blocks a new one"
    moves.roll_back_move(move_with_all_replicas_in_isr.pk, actor="alice", comment="broker 3 has wrong data")
    move_worker.advance_move(move_with_all_replicas_in_isr.pk)
    (order,) = move_worker.ordered_parts()
    assert order.desired_replicas == [1, 2]


@pytest.mark.django_db
def test_a_broker_without_a_response_is_named_and_no_replica_is_removed(
    move_with_all_replicas_in_isr: Move, world: World, brokers: Brokers
) -> None:
    brokers.away.add(3)
    for _ in range(3):
        part = compare_and_advance(move_with_all_replicas_in_isr)
        assert (part.state, part.compared) == ("comparing", None)
        assert part.note.endswith("Broker 3 does not respond: gone")
    brokers.away.clear()
    assert compare_and_advance(move_with_all_replicas_in_isr).state == "submitted"


@pytest.mark.django_db
def test_replicas_with_other_segment_boundaries_are_compared_completely(
    move_with_all_replicas_in_isr: Move, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = brokers.read

    def read_with_other_segments(host: str, port: int, *rest: Any) -> ComparedReplica:
        brokers.segment = 1 if port == 9003 else 100
        return real(host, port, *rest)

    monkeypatch.setattr(kafka, "read_replica", read_with_other_segments)
    assert compare_and_advance(move_with_all_replicas_in_isr).compared.after == 4


@pytest.mark.django_db
def test_compacted_replicas_are_compared_by_log_end_offset(world: World, brokers: Brokers) -> None:
    world.topic("flights", (1, 2), configs={"cleanup.policy": "compact"})
    from controlplane.models import ObservedPartition

    brokers.held[2] = ["a", "b", "c", "z"]
    found = replica_comparison._compare_step(ObservedPartition.objects.select_related("topic").get(), None, whole=False)
    assert found.equal and found.text.startswith("Compacted topic: the log end offsets of 2 replicas")
    brokers.held[2] = ["a", "b", "c"]
    assert (
        replica_comparison._compare_step(
            ObservedPartition.objects.select_related("topic").get(), None, whole=False
        ).equal
        is None
    )


@pytest.mark.django_db
def test_a_move_is_cancelled_during_the_comparison(
    move_with_all_replicas_in_isr: Move, world: World, brokers: Brokers
) -> None:
    moves.cancel_move(move_with_all_replicas_in_isr.pk, actor="alice", comment="x")
    (order,) = move_worker.ordered_parts()
    assert order.desired_replicas == [1, 2]
    assert replica_comparison.due_partitions() == []
    world.begin_move("flights", 0, (1, 2))
    world.end_move("flights", 0)
    for _ in range(2):
        move_worker.advance_move(move_with_all_replicas_in_isr.pk)
    move_with_all_replicas_in_isr.refresh_from_db()
    assert move_with_all_replicas_in_isr.state == "cancelled"


@pytest.mark.django_db
def test_a_changed_replication_factor_needs_no_comparison(world: World) -> None:
    world.topic("flights", (1, 2))
    for replicas in ([1, 2, 3], [1], [2, 1]):
        scope = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": replicas}]}
        move = moves.plan_move(parse_scope(scope), actor="alice", comment="x", compare=True)
        assert move.parts.get().desired_replicas == replicas
        moves.cancel_move(move.pk, actor="alice", comment="x")


@pytest.mark.django_db
def test_the_comparison_does_not_wait_for_an_old_replica_out_of_sync(
    move_with_all_replicas_in_isr: Move, world: World, brokers: Brokers
) -> None:
    """Its broker is offline or its disk failed. The leader has all acknowledged records."""
    move_with_all_replicas_in_isr.parts.update(state="copying")
    state = world.state("flights", 0)
    world.put("flights", 0, adding=(3,), isr=(2, 3), leader=2, leader_broker_epoch=102)
    brokers.away.add(1)
    part = compare_and_advance(move_with_all_replicas_in_isr)
    assert part.state == "comparing"
    part = compare_and_advance(move_with_all_replicas_in_isr)
    assert (part.state, part.desired_replicas) == ("submitted", [2, 3])
    assert part.compared.text == "Offsets 0 to 4 are equal on 2 replicas."
    # The broker returns at this moment, which ends the earlier assignment. The request is bound to the current one.
    world.put("flights", 0, adding=(), isr=(1, 2, 3), assignment_generation=state.assignment_generation + 1)
    move_worker.advance_move(move_with_all_replicas_in_isr.pk)
    part.refresh_from_db()
    assert (part.state, part.read_generation) == ("submitted", state.assignment_generation + 1)


@pytest.mark.django_db
def test_the_comparison_waits_for_a_new_replica_out_of_sync(
    move_with_all_replicas_in_isr: Move, world: World, brokers: Brokers
) -> None:
    move_with_all_replicas_in_isr.parts.update(state="copying")
    world.put("flights", 0, adding=(3,), isr=(2, 1))
    assert (
        compare_and_advance(move_with_all_replicas_in_isr).state == "copying"
        and replica_comparison.due_partitions() == []
    )


@pytest.fixture
def tail(move_with_all_replicas_in_isr: Move, brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Move:
    """The same for a move without old data: its replicas start at offset 2."""
    Move.objects.update(mode="tail")
    brokers.starts = dict.fromkeys((1, 2, 3), 2)
    for b in brokers.held:
        brokers.held[b] = [f"{n:04}" for n in range(40)]
    brokers.segment = 4
    monkeypatch.setattr(replica_comparison, "POLL_BYTES_MAX", 600)
    return move_with_all_replicas_in_isr


@pytest.mark.django_db
def test_a_tail_is_compared_completely_in_limited_steps(tail: Move, brokers: Brokers) -> None:
    part = compare_and_advance(tail)
    assert (part.state, part.compared.equal) == ("comparing", None)
    assert 2 < part.compared.after < 40 and "of 40 are equal on 3 replicas so far" in part.note
    for b in brokers.held:
        brokers.held[b].append("later")  # written later: the comparison does not wait for it
    looks = 1
    while part.state == "comparing":
        looks += 1
        part = compare_and_advance(tail)
    reported = part.compared
    assert (reported.equal, reported.first, reported.after, reported.upto) == (
        True,
        2,
        40,
        40,
    ) and looks > 3
    data = log(*brokers.held[1][2:40], first=2)
    assert (reported.bytes, reported.crc) == (len(data), f"{crc32c(data):08x}")


@pytest.mark.django_db
@pytest.mark.parametrize("offset", [2, 17, 39])
def test_one_different_record_prevents_the_removal_of_old_replicas(
    tail: Move, world: World, brokers: Brokers, offset: int
) -> None:
    brokers.held[3][offset] = "xxxx"
    part = compare_and_advance(tail)
    while part.state == "comparing":
        part = compare_and_advance(tail)
    assert part.state == "rejected" and "Broker 3 and the leader 1 have different records in offsets" in part.note
    assert world.state("flights", 0).isr_ids == (1, 2, 3)


@pytest.mark.django_db
def test_retention_during_the_comparison_is_no_difference(
    tail: Move, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = compare_and_advance(tail).compared.after
    real = brokers.read

    def read_and_raise_log_starts(host: str, port: int, *rest: Any) -> ComparedReplica:
        found = real(host, port, *rest)
        brokers.starts = dict.fromkeys((1, 2, 3), before + 3)
        return found

    monkeypatch.setattr(kafka, "read_replica", read_and_raise_log_starts)
    part = compare_and_advance(tail)
    assert part.state == "comparing" and part.note.endswith("rejects the request: OFFSET_OUT_OF_RANGE")
    while part.state == "comparing":
        tail.parts.update(note="in other words")  # the state, not the note, shows the comparison
        part = compare_and_advance(tail)
    assert (part.state, part.compared.after) == ("submitted", 40)


@pytest.mark.django_db
def test_a_missing_response_keeps_the_compared_range(tail: Move, brokers: Brokers) -> None:
    reported = compare_and_advance(tail).compared
    brokers.away.add(3)
    part = compare_and_advance(tail)
    assert part.note.endswith("Broker 3 does not respond: gone") and part.compared.after == reported.after
    brokers.away.clear()
    assert compare_and_advance(tail).compared.after > reported.after
