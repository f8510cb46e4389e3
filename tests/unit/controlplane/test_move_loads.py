"""What a move brings to each broker and takes from it."""

from __future__ import annotations

import pytest

from controlplane.models import MovePartition, Partition
from controlplane.selectors import move_loads
from controlplane.services import advancing, moves
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
ALICE = {"who": "alice"}


def test_each_broker_is_told_what_comes_and_what_goes_and_the_other_way_round_on_the_way_back(world: World) -> None:
    world.topic("flights", (1, 2), (1, 3), size=1000)
    plan = [
        {"topic": "flights", "partition": 0, "replicas": [2, 3]},
        {"topic": "flights", "partition": 1, "replicas": [2, 3]},
    ]
    move = moves.plan_move({"kind": "partitions", "partitions": plan}, why="x", **ALICE)
    assert [(b.broker_id, b.parts_in, b.bytes_in, b.parts_out, b.bytes_out) for b in move_loads.move_brokers(move.pk)] == [
        (1, 0, 0, 2, 2000), (2, 1, 1000, 0, 0), (3, 1, 1000, 0, 0),
    ]  # fmt: skip
    moves.start_move(move.pk, **ALICE)
    advancing.advance_move(move.pk)
    for index in (0, 1):
        world.begin_move("flights", index, (2, 3))
    advancing.advance_move(move.pk)
    world.end_move("flights", 1)
    advancing.advance_move(move.pk)
    MovePartition.objects.filter(partition=0).update(bytes_done=400, bytes_per_s=50.0)
    found = {b.broker_id: b for b in move_loads.move_brokers(move.pk)}
    assert (found[3].parts_in_ended, found[3].bytes_in_done, found[3].bytes_per_s) == (0, 400, 50.0)
    assert (found[2].parts_in_ended, found[2].bytes_in_done) == (1, 1000) and found[1].parts_out_ended == 1
    moves.roll_back_move(move.pk, why="no", **ALICE)
    back = {b.broker_id: b for b in move_loads.move_brokers(move.pk)}
    assert (back[1].parts_in, back[1].parts_out) == (2, 0) and (back[3].parts_in, back[3].parts_out) == (0, 1)


def test_a_size_that_nobody_told_is_not_nothing(world: World) -> None:
    world.topic("flights", (1, 2))
    Partition.objects.update(size_bytes=None)
    move = moves.plan_move(
        {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}, **ALICE
    )
    assert [(b.broker_id, b.bytes_in, b.bytes_out) for b in move_loads.move_brokers(move.pk)] == [
        (1, 0, None),
        (3, None, 0),
    ]


def test_what_does_not_go_on_by_itself_is_counted_by_its_cause_and_has_not_arrived(world: World) -> None:
    world.topic("flights", (1, 2), (1, 2), (1, 2))
    plan = [{"topic": "flights", "partition": i, "replicas": [2, 3]} for i in range(3)]
    move = moves.plan_move({"kind": "partitions", "partitions": plan}, **ALICE)
    assert move_loads.move_causes(move.pk) == []
    MovePartition.objects.filter(partition=0).update(state="stuck", active=False)
    MovePartition.objects.exclude(partition=0).update(state="copying", cause="throttle")
    assert move_loads.move_causes(move.pk) == [("throttle", 2), ("stuck", 1)]
    assert [b.parts_in_ended for b in move_loads.move_brokers(move.pk)] == [0, 0]


def test_what_was_never_touched_is_in_nobodys_figures(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(
        {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}, **ALICE
    )
    moves.cancel_move(move.pk, **ALICE)
    assert move_loads.move_brokers(move.pk) == []
