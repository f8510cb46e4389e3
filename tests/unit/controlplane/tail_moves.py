"""Moves without old data in a world of rows: their creation, and what brokers report about them."""

from __future__ import annotations

from django.utils import timezone

from controlplane.controller.events import DesiredAssignment
from controlplane.controller.request_persistence import desired_assignment
from controlplane.models import Move, ObservedPartition, ObservedReplica, Proposal
from controlplane.services import move_worker, moves, proposals
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World

TO_23 = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}


WEEK_MS = str(7 * 24 * 3_600_000)


def orders() -> list[DesiredAssignment]:
    return [desired_assignment(row) for row in move_worker.ordered_parts()]


def advance(move: Move) -> str:
    """The part's state after one pass."""
    move_worker.advance_move(move.pk)
    return str(move.parts.get().state)


def offsets(start: int, end: int, lag: int | None = None) -> None:
    ObservedPartition.objects.update(start_offset=start, end_offset=end)
    ObservedReplica.objects.filter(broker_id=3).update(lag_records=lag, sampled_at=timezone.now())


def start_tail_move(world: World) -> Move:
    world.topic("flights", (1, 2), configs={"retention.ms": WEEK_MS})
    move = moves.plan_move(parse_scope(TO_23), actor="alice", mode="tail")
    moves.start_move(move.pk, actor="alice")
    assert advance(move) == "bootstrapping"
    (order,) = orders()
    assert (order.replicas, order.observers, order.delete_below, order.read_generation) == ((1, 2), (3,), None, 0)
    world.put("flights", 0, observers=(3,), assignment_generation=1)
    assert advance(move) == "catching_up" and orders() == []
    return move


def ready(world: World) -> Move:
    move = start_tail_move(world)
    world.put("flights", 0, tail_start=500)
    offsets(0, 600, None)
    assert advance(move) == "catching_up" and "has not started" in move.parts.get().note
    offsets(0, 600, 90_000)
    assert advance(move) == "catching_up" and "lacks 90,000 records" in move.parts.get().note
    offsets(0, 600, 3)
    assert advance(move) == "ready"
    part = move.parts.get()
    assert (part.tail_start, part.tail_at is not None) == (500, True) and "log start offset is still 0" in part.note
    return move


def delete_old_records(move: Move) -> Proposal:
    row = proposals.propose("move.delete_records", str(move.pk), {"confirm": "flights"}, actor="alice", comment="disk")
    return proposals.approve(row.pk, actor="bea")
