"""A move without old data and with early hand-over, as rows: its requests, its reaction to copies that start again, and its rejections."""

from __future__ import annotations

import pytest

from controlplane.domain.compare import StoredComparison
from controlplane.models import Move, ObservedPartition
from controlplane.services import Rejected, move_worker, moves
from controlplane.services.move_planning import parse_scope, plan_move
from tests.unit.controlplane.services.test_tail_moves import TO_23, WEEK_MS, advance, offsets, orders
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def in_step(world: World) -> Move:
    world.topic("flights", (1, 2), configs={"retention.ms": WEEK_MS})
    move = plan_move(parse_scope(TO_23), actor="alice", mode="tail", handover="early")
    moves.start_move(move.pk, actor="alice")
    assert advance(move) == "bootstrapping"
    world.put("flights", 0, observers=(3,), assignment_generation=1)
    assert advance(move) == "catching_up"
    world.put("flights", 0, tail_start=500)
    offsets(0, 600, 3)
    return move


def test_a_hand_over_of_in_sync_observers_is_ordered_with_their_log_start(world: World) -> None:
    move = in_step(world)
    assert advance(move) == "submitted"
    (order,) = orders()
    assert (order.replicas, order.hand_over_at, order.observers, order.delete_below) == ((1, 2, 3), 500, (), None)
    assert order.read_generation == 1


def test_a_hand_over_with_another_log_start_is_ordered_again(world: World) -> None:
    move = in_step(world)
    assert advance(move) == "submitted"
    world.put("flights", 0, tail_start=700)
    assert advance(move) == "catching_up" and "start offset of the new replicas has changed" in move.parts.get().note
    assert advance(move) == "submitted"
    (order,) = orders()
    assert order.hand_over_at == 700


def test_a_compared_hand_over_removes_the_old_replicas_by_an_ordinary_order(world: World) -> None:
    move = in_step(world)
    advance(move)
    beside = {
        "replicas": (1, 2, 3),
        "isr": (1, 2, 3),
        "handover_offset": 500,
        "handover_epoch": 1,
        "history_replicas": (1, 2),
    }
    world.put("flights", 0, observers=(), tail_start=-1, assignment_generation=2, **beside)
    assert advance(move) == "copying"
    assert advance(move) == "comparing"
    row = ObservedPartition.objects.get()
    assert (row.archive_start, row.holders) == (500, [1, 2])
    move.parts.update(compared=StoredComparison(True, "equal"))
    assert advance(move) == "submitted"
    (order,) = orders()
    assert (order.replicas, order.hand_over_at) == ((2, 3), None), "there is nothing left to hand over"
    world.put("flights", 0, replicas=(2, 3), isr=(2, 3), leader=2, assignment_generation=3)
    assert advance(move) == "copying" and advance(move) == "done"
    move.refresh_from_db()
    assert move.state == "done"


def test_a_partition_with_history_replicas_waits_for_retention(world: World) -> None:
    world.topic("flights", (1, 2), configs={"retention.ms": WEEK_MS})
    world.put("flights", 0, handover_offset=500, handover_epoch=1, history_replicas=(1, 2))
    move = plan_move(parse_scope(TO_23), actor="alice", mode="tail", handover="early")
    moves.start_move(move.pk, actor="alice")
    assert advance(move) == "rejected" and "still on the replicas of an earlier hand-over" in move.parts.get().note


@pytest.mark.parametrize(
    "given", [{"mode": "copy"}, {"mode": "tail", "deadline_hours": 5}, {"mode": "tail", "handover": "late"}], ids=str
)
def test_an_invalid_request_is_rejected(world: World, given: dict[str, object]) -> None:
    world.topic("flights", (1, 2), configs={"retention.ms": WEEK_MS})
    with pytest.raises(Rejected):
        plan_move(parse_scope(TO_23), actor="alice", **{"handover": "early", **given})  # type: ignore[arg-type]
    assert not Move.objects.exists() and not move_worker.ordered_parts()
