from __future__ import annotations

import pytest

from controlplane.domain.move_types import PlacementBefore
from controlplane.models import Change, Move
from controlplane.selectors import moves as selectors
from controlplane.services import Rejected, move_worker, moves
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.services.test_move_worker import TO_23, advance
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_a_move_runs_from_planned_to_done_by_observations(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(parse_scope(TO_23), actor="alice", comment="rack work")
    moves.start_move(move.pk, actor="alice")
    assert advance(move) == "running"
    (order,) = move_worker.ordered_parts()
    assert (order.desired_replicas, order.read_generation) == ([2, 3], 0)
    world.begin_move("flights", 0, (2, 3))
    advance(move)
    assert move_worker.ordered_parts() == []
    row = selectors.move_row(move.pk)
    assert row is not None
    assert (row.state, row.parts_ended, row.bytes_total) == ("running", 0, 1000)
    world.end_move("flights", 0)
    world.set_sizes("flights", 1000)
    assert advance(move) == "done"
    move.refresh_from_db()
    assert move.finished_at is not None
    assert Change.objects.filter(verb="move.start").get().outcome == "confirmed"


def test_the_previous_placement_is_recorded_before_any_effect(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(parse_scope(TO_23), actor="alice")
    assert move.parts.get().before == PlacementBefore((1, 2), 1, (1, 2))


def test_one_partition_belongs_to_one_move_at_a_time(world: World) -> None:
    world.topic("flights", (1, 2))
    first = moves.plan_move(parse_scope(TO_23), actor="alice")
    with pytest.raises(Rejected, match=f"flights-0 is part of move {first.pk}"):
        moves.plan_move(parse_scope(TO_23), actor="bob")
    moves.cancel_move(first.pk, actor="alice")
    assert moves.plan_move(parse_scope(TO_23), actor="bob").state == "planned"


def test_a_move_whose_partitions_changed_since_planning_does_not_start(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(parse_scope(TO_23), actor="alice")
    world.begin_move("flights", 0, (1, 3))
    world.end_move("flights", 0)
    with pytest.raises(Rejected, match=r"reassigned since the move was planned \(generation 0, now 2"):
        moves.start_move(move.pk, actor="alice")
    assert Change.objects.first().outcome == "refused"  # type: ignore[union-attr]


def test_cancelling_during_the_copy_restores_the_old_placement(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(parse_scope(TO_23), actor="alice")
    moves.start_move(move.pk, actor="alice")
    advance(move)
    world.begin_move("flights", 0, (2, 3))
    advance(move)
    moves.cancel_move(move.pk, actor="alice", comment="too slow")
    (order,) = move_worker.ordered_parts()
    assert (order.desired_replicas, order.read_generation) == ([1, 2], 1)
    assert advance(move) == "cancelling"
    world.begin_move("flights", 0, (1, 2))
    world.end_move("flights", 0)
    assert advance(move) == "cancelling"
    assert advance(move) == "cancelled"
    assert world.state("flights", 0).replicas == (1, 2)


def test_cancelling_without_an_old_replica_is_rejected(world: World) -> None:
    world.topic("flights", (1, 2))
    to_3 = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [3]}]}
    move = moves.plan_move(parse_scope(to_3), actor="alice")
    moves.start_move(move.pk, actor="alice")
    advance(move)
    world.begin_move("flights", 0, (3,))
    advance(move)
    world.put("flights", 0, isr=(3,), leader=3, leader_broker_epoch=103)
    with pytest.raises(Rejected, match="none of its old replicas"):
        moves.cancel_move(move.pk, actor="alice")
    assert Move.objects.get(pk=move.pk).state == "running"


def test_a_finished_move_is_rolled_back_to_the_recorded_order(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(parse_scope(TO_23), actor="alice")
    moves.start_move(move.pk, actor="alice")
    advance(move)
    world.begin_move("flights", 0, (2, 3))
    advance(move)
    world.end_move("flights", 0)
    assert advance(move) == "done"
    moves.roll_back_move(move.pk, actor="alice")
    advance(move)
    (order,) = move_worker.ordered_parts()
    assert order.desired_replicas == [1, 2]
    world.begin_move("flights", 0, (1, 2))
    advance(move)
    world.end_move("flights", 0)
    assert advance(move) == "rolled_back"


def test_the_note_about_a_cancel_is_no_detail_of_the_start_and_ends_with_the_roll_back(world: World) -> None:
    """The page of a move that rolled back advised to roll it back, and the audit log had this advice as the detail of its start."""
    world.topic("flights", (1, 2), (1, 2))
    to_3 = {
        "kind": "partitions",
        "partitions": [{"topic": "flights", "partition": i, "replicas": [2, 3]} for i in (0, 1)],
    }
    move = moves.plan_move(parse_scope(to_3), actor="alice")
    moves.start_move(move.pk, actor="alice")
    advance(move)
    world.begin_move("flights", 0, (2, 3))
    advance(move)
    world.end_move("flights", 0)
    advance(move)
    moves.cancel_move(move.pk, actor="alice")
    world.begin_move("flights", 1, (2, 3))
    world.begin_move("flights", 1, (1, 2))
    world.end_move("flights", 1)
    assert [advance(move), advance(move)] == ["cancelling", "cancelled"]
    kept = "1 partition had finished and keeps the new assignment; roll back to revert it too."
    assert Move.objects.get(pk=move.pk).note == kept
    details = dict(Change.objects.filter(object_kind="move").values_list("verb", "detail"))
    assert (details["move.start"], details["move.cancel"], details["move.cancelled"]) == ("", kept, kept)
    assert Change.objects.get(verb="move.start").outcome == "confirmed"
    moves.roll_back_move(move.pk, actor="alice")
    rolling_back = Move.objects.get(pk=move.pk)
    assert (rolling_back.state, rolling_back.note, rolling_back.note_phrase) == ("rolling_back", "", {})


@pytest.mark.parametrize("act", [moves.pause_move, moves.resume_move, moves.roll_back_move])
def test_acts_that_the_state_does_not_allow_are_rejected(world: World, act: object) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(parse_scope(TO_23), actor="alice")
    with pytest.raises(Rejected, match="planned"):
        act(move.pk, actor="alice")  # type: ignore[operator]
    with pytest.raises(Rejected, match="Move 999 does not exist"):
        act(999, actor="alice")  # type: ignore[operator]


def test_every_state_transition_has_a_row_with_actor_and_reason(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(parse_scope(TO_23), actor="alice")
    moves.start_move(move.pk, actor="alice", comment="rack work")
    advance(move)
    moves.pause_move(move.pk, actor="bob", comment="producers suffer")
    moves.resume_move(move.pk, actor="bob")
    advance(move)
    world.begin_move("flights", 0, (2, 3))
    advance(move)
    world.end_move("flights", 0)
    advance(move)
    rows = [(t.state_from, t.state_to, t.actor, t.comment) for t in move.transitions.all()]
    assert rows == [
        ("planned", "running", "alice", "rack work"),
        ("running", "paused", "bob", "producers suffer"),
        ("paused", "running", "bob", ""),
        ("running", "done", "worker", ""),
    ]
