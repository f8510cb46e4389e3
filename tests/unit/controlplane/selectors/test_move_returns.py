"""The bytes that a roll-back of a move copies."""

from __future__ import annotations

import pytest

from controlplane.models import Move, MovePartition, ObservedPartition
from controlplane.selectors.move_returns import CopiesBack, copies_back
from controlplane.services import move_worker, moves
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def move_with_finished_partition(world: World) -> Move:
    """A move of two partitions off broker 1 of which the first is finished, and a third one that only changes its order."""
    world.topic("flights", (1, 2), (1, 2), (2, 3), size=1000)
    plan = [
        {"topic": "flights", "partition": 0, "replicas": [2, 3]},
        {"topic": "flights", "partition": 1, "replicas": [2, 3]},
        {"topic": "flights", "partition": 2, "replicas": [3, 2]},
    ]
    move = moves.plan_move(parse_scope({"kind": "partitions", "partitions": plan}), actor="alice")
    MovePartition.objects.filter(move=move, partition__in=(0, 2)).update(state="done", active=False)
    return move


def test_only_finished_partitions_are_copied_to_their_missing_brokers(move_with_finished_partition: Move) -> None:
    assert copies_back(move_with_finished_partition.pk) == CopiesBack(1000, 1000, 0)
    MovePartition.objects.filter(move=move_with_finished_partition, partition=1).update(state="done", active=False)
    ObservedPartition.objects.filter(index=1).update(size_bytes=50)
    assert copies_back(move_with_finished_partition.pk) == CopiesBack(1050, 1050, 0)


def test_an_unknown_size_is_counted(move_with_finished_partition: Move) -> None:
    ObservedPartition.objects.update(size_bytes=None)
    assert copies_back(move_with_finished_partition.pk) == CopiesBack(0, 0, 1)


def test_a_finished_partition_that_returns_has_no_end(world: World) -> None:
    world.topic("flights", (1, 2), size=1000)
    plan = [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]
    move = moves.plan_move(parse_scope({"kind": "partitions", "partitions": plan}), actor="alice")
    moves.start_move(move.pk, actor="alice")
    move_worker.advance_move(move.pk)
    world.begin_move("flights", 0, (2, 3))
    move_worker.advance_move(move.pk)
    world.end_move("flights", 0)
    move_worker.advance_move(move.pk)
    part = MovePartition.objects.get(move=move)
    assert part.state == "done" and part.finished_at is not None
    moves.roll_back_move(move.pk, actor="alice")
    part.refresh_from_db()
    assert part.finished_at is None, "it was finished before it was submitted"
