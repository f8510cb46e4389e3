"""A move without old data that hands over early, in rows: what it orders when, what it does when the copies begin anew, what it refuses."""

from __future__ import annotations

import pytest

from controlplane.models import Move, Partition
from controlplane.services import Refused, advancing, moves
from controlplane.services.planning import plan_move
from tests.unit.controlplane.test_tail_moves import TO_23, WEEK_MS, advance, offsets, orders
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def in_step(world: World) -> Move:
    world.topic("flights", (1, 2), configs={"retention.ms": WEEK_MS})
    move = plan_move(TO_23, who="alice", mode="tail", handover="early")
    moves.start_move(move.pk, who="alice")
    assert advance(move) == "seeding"
    world.put("flights", 0, observers=(3,), assignment_generation=1)
    assert advance(move) == "following"
    world.put("flights", 0, tail_start=500)
    offsets(0, 600, 3)
    return move


def test_in_step_it_is_ordered_at_once_and_bound_to_where_the_copies_begin(world: World) -> None:
    move = in_step(world)
    assert advance(move) == "ordered"
    (order,) = orders()
    assert (order.replicas, order.hand_over_at, order.observers, order.cut_at) == ((1, 2, 3), 500, (), None)
    assert order.read_generation == 1


def test_while_copies_begin_elsewhere_nothing_is_handed_over_and_it_is_ordered_anew(world: World) -> None:
    move = in_step(world)
    assert advance(move) == "ordered"
    world.put("flights", 0, tail_start=700)
    assert advance(move) == "following" and "begin elsewhere" in move.parts.get().note
    assert advance(move) == "ordered"
    (order,) = orders()
    assert order.hand_over_at == 700


def test_it_is_compared_and_the_old_copies_leave_the_replicas_by_an_ordinary_order(world: World) -> None:
    move = in_step(world)
    advance(move)
    beside = {"replicas": (1, 2, 3), "isr": (1, 2, 3), "archive_start": 500, "archive_epoch": 1, "holders": (1, 2)}
    world.put("flights", 0, observers=(), tail_start=-1, assignment_generation=2, **beside)
    assert advance(move) == "copying"
    assert advance(move) == "verifying"
    row = Partition.objects.get()
    assert (row.archive_start, row.holders) == (500, [1, 2])
    move.parts.update(compared={"equal": True, "text": "equal"})
    assert advance(move) == "ordered"
    (order,) = orders()
    assert (order.replicas, order.hand_over_at) == ((2, 3), None), "there is nothing left to hand over"
    world.put("flights", 0, replicas=(2, 3), isr=(2, 3), leader=2, assignment_generation=3)
    assert advance(move) == "copying" and advance(move) == "done"
    move.refresh_from_db()
    assert move.state == "done"


def test_what_lies_apart_already_waits_for_its_retention(world: World) -> None:
    world.topic("flights", (1, 2), configs={"retention.ms": WEEK_MS})
    world.put("flights", 0, archive_start=500, archive_epoch=1, holders=(1, 2))
    move = plan_move(TO_23, who="alice", mode="tail", handover="early")
    moves.start_move(move.pk, who="alice")
    assert advance(move) == "stuck" and "still lie apart" in move.parts.get().note


@pytest.mark.parametrize(
    "given", [{"mode": "copy"}, {"mode": "tail", "deadline_hours": 5}, {"mode": "tail", "handover": "late"}], ids=str
)
def test_what_means_nothing_is_refused(world: World, given: dict[str, object]) -> None:
    world.topic("flights", (1, 2), configs={"retention.ms": WEEK_MS})
    with pytest.raises(Refused):
        plan_move(TO_23, who="alice", **{"handover": "early", **given})  # type: ignore[arg-type]
    assert not Move.objects.exists() and not advancing.ordered_parts()
