"""The load that a move adds to each broker and removes from it."""

from __future__ import annotations

import pytest

from controlplane.models import MovePartition, ObservedPartition
from controlplane.selectors import move_loads
from controlplane.services import move_worker, moves
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
ALICE = {"actor": "alice"}


def brokers(move_id: int) -> list[move_loads.MoveBrokerRow]:
    return move_loads.move_brokers(move_loads.move_kinds(move_id))


def test_each_broker_shows_incoming_and_outgoing_bytes_reversed_for_a_rollback(world: World) -> None:
    world.topic("flights", (1, 2), (1, 3), size=1000)
    plan = [
        {"topic": "flights", "partition": 0, "replicas": [2, 3]},
        {"topic": "flights", "partition": 1, "replicas": [2, 3]},
    ]
    move = moves.plan_move(parse_scope({"kind": "partitions", "partitions": plan}), comment="x", **ALICE)
    assert [(b.broker_id, b.parts_in, b.bytes_in, b.parts_out, b.bytes_out) for b in brokers(move.pk)] == [
        (1, 0, 0, 2, 2000),
        (2, 1, 1000, 0, 0),
        (3, 1, 1000, 0, 0),
    ]
    moves.start_move(move.pk, **ALICE)
    move_worker.advance_move(move.pk)
    for index in (0, 1):
        world.begin_move("flights", index, (2, 3))
    move_worker.advance_move(move.pk)
    world.end_move("flights", 1)
    move_worker.advance_move(move.pk)
    MovePartition.objects.filter(partition=0).update(bytes_done=400, bytes_per_s=50.0)
    found = {b.broker_id: b for b in brokers(move.pk)}
    assert (found[3].parts_in_ended, found[3].bytes_in_done, found[3].bytes_per_s) == (0, 400, 50.0)
    assert (found[2].parts_in_ended, found[2].bytes_in_done) == (1, 1000) and found[1].parts_out_ended == 1
    moves.roll_back_move(move.pk, comment="no", **ALICE)
    back = {b.broker_id: b for b in brokers(move.pk)}
    assert (back[1].parts_in, back[1].parts_out) == (2, 0) and (back[3].parts_in, back[3].parts_out) == (0, 1)


def test_an_unknown_size_is_not_zero(world: World) -> None:
    world.topic("flights", (1, 2))
    ObservedPartition.objects.update(size_bytes=None)
    move = moves.plan_move(
        parse_scope({"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}),
        **ALICE,
    )
    assert [(b.broker_id, b.bytes_in, b.bytes_out) for b in brokers(move.pk)] == [
        (1, 0, None),
        (3, None, 0),
    ]


def test_blocked_partitions_are_counted_by_cause_and_not_as_copied(world: World) -> None:
    world.topic("flights", (1, 2), (1, 2), (1, 2))
    plan = [{"topic": "flights", "partition": i, "replicas": [2, 3]} for i in range(3)]
    move = moves.plan_move(parse_scope({"kind": "partitions", "partitions": plan}), **ALICE)
    assert move_loads.move_causes(move_loads.move_kinds(move.pk)) == []
    MovePartition.objects.filter(partition=0).update(state="rejected", active=False)
    MovePartition.objects.exclude(partition=0).update(state="copying", cause="throttle")
    kinds = move_loads.move_kinds(move.pk)
    assert move_loads.move_causes(kinds) == [("throttle", 2), ("rejected", 1)]
    MovePartition.objects.filter(partition=1).update(note="Raise the throttle.")
    found = [(b.cause, b.parts, b.topic, b.partition, b.note) for b in move_loads.blocked_parts(move.pk, kinds)]
    assert found == [("throttle", 2, "flights", 1, "Raise the throttle."), ("rejected", 1, "flights", 0, "")]
    assert [b.parts_in_ended for b in brokers(move.pk)] == [0, 0]


def test_partitions_that_never_started_are_in_no_metric(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(
        parse_scope({"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}),
        **ALICE,
    )
    moves.cancel_move(move.pk, **ALICE)
    assert brokers(move.pk) == []
