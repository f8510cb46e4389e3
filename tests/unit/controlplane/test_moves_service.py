from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from controlplane.models import Change, Move, Replica
from controlplane.selectors import moves as selectors
from controlplane.services import Refused, advancing, moves
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
TO_23 = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}


def advance(move: Move) -> str | None:
    return advancing.advance_move(move.pk)


def test_a_move_runs_from_plan_to_done_through_what_is_observed(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(TO_23, who="alice", why="rack work")
    moves.start_move(move.pk, who="alice")
    assert advance(move) == "running"
    (order,) = advancing.ordered_parts()
    assert (order.wanted, order.read_generation) == ([2, 3], 0)
    world.begin_move("flights", 0, (2, 3))
    advance(move)
    assert advancing.ordered_parts() == []
    row = selectors.move_row(move.pk)
    assert row is not None
    assert (row.state, row.parts_ended, row.bytes_total) == ("running", 0, 1000)
    world.end_move("flights", 0)
    world.sized("flights", 1000)
    assert advance(move) == "done"
    move.refresh_from_db()
    assert move.finished_at is not None
    assert Change.objects.filter(verb="move.start").get().outcome == "confirmed"


def test_what_was_before_is_recorded_before_anything_happens(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(TO_23, who="alice")
    assert move.parts.get().before == {"replicas": [1, 2], "leader": 1, "isr": [1, 2]}


def test_one_partition_belongs_to_one_move_at_a_time(world: World) -> None:
    world.topic("flights", (1, 2))
    first = moves.plan_move(TO_23, who="alice")
    with pytest.raises(Refused, match=f"flights-0 is part of move {first.pk}"):
        moves.plan_move(TO_23, who="bob")
    moves.cancel_move(first.pk, who="alice")
    assert moves.plan_move(TO_23, who="bob").state == "planned"


def test_a_move_whose_partitions_changed_since_planning_does_not_start(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(TO_23, who="alice")
    world.begin_move("flights", 0, (1, 3))
    world.end_move("flights", 0)
    with pytest.raises(Refused, match=r"placed anew since the move was planned \(generation 0, now 2"):
        moves.start_move(move.pk, who="alice")
    assert Change.objects.first().outcome == "refused"  # type: ignore[union-attr]


def test_two_workers_looking_at_once_do_one_step(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(TO_23, who="alice")
    moves.start_move(move.pk, who="alice")
    real = advancing.core.next_steps

    def meanwhile(view: object, now: float) -> object:
        steps = real(view, now)  # type: ignore[arg-type]
        Move.objects.filter(pk=move.pk).update(version=99)  # the other worker was faster
        return steps

    monkeypatch.setattr(advancing.core, "next_steps", meanwhile)
    assert advance(move) is None
    assert advancing.ordered_parts() == []


def test_pausing_withdraws_orders_and_resuming_goes_on(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(TO_23, who="alice")
    moves.start_move(move.pk, who="alice")
    advance(move)
    assert len(advancing.ordered_parts()) == 1
    moves.pause_move(move.pk, who="alice")
    assert advancing.ordered_parts() == []
    advance(move)
    assert advancing.ordered_parts() == []
    moves.resume_move(move.pk, who="alice")
    advance(move)
    assert len(advancing.ordered_parts()) == 1


def test_cancelling_in_mid_copy_puts_the_old_placement_back(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(TO_23, who="alice")
    moves.start_move(move.pk, who="alice")
    advance(move)
    world.begin_move("flights", 0, (2, 3))
    advance(move)
    moves.cancel_move(move.pk, who="alice", why="too slow")
    (order,) = advancing.ordered_parts()
    assert (order.wanted, order.read_generation) == ([1, 2], 1)
    assert advance(move) == "cancelling"
    world.begin_move("flights", 0, (1, 2))
    world.end_move("flights", 0)
    assert advance(move) == "cancelling"
    assert advance(move) == "cancelled"
    assert world.state("flights", 0).replicas == (1, 2)


def test_cancelling_is_refused_when_no_old_replica_would_be_there(world: World) -> None:
    world.topic("flights", (1, 2))
    to_3 = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [3]}]}
    move = moves.plan_move(to_3, who="alice")
    moves.start_move(move.pk, who="alice")
    advance(move)
    world.begin_move("flights", 0, (3,))
    advance(move)
    world.put("flights", 0, isr=(3,), leader=3, leader_incarnation=103)
    with pytest.raises(Refused, match="none of its old replicas"):
        moves.cancel_move(move.pk, who="alice")
    assert Move.objects.get(pk=move.pk).state == "running"


def test_a_finished_move_is_rolled_back_to_the_recorded_order(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(TO_23, who="alice")
    moves.start_move(move.pk, who="alice")
    advance(move)
    world.begin_move("flights", 0, (2, 3))
    advance(move)
    world.end_move("flights", 0)
    assert advance(move) == "done"
    moves.roll_back_move(move.pk, who="alice")
    advance(move)
    (order,) = advancing.ordered_parts()
    assert order.wanted == [1, 2]
    world.begin_move("flights", 0, (1, 2))
    advance(move)
    world.end_move("flights", 0)
    assert advance(move) == "rolled_back"


@pytest.mark.parametrize("act", [moves.pause_move, moves.resume_move, moves.roll_back_move])
def test_acts_that_do_not_fit_the_state_are_refused(world: World, act: object) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(TO_23, who="alice")
    with pytest.raises(Refused, match="planned"):
        act(move.pk, who="alice")  # type: ignore[operator]
    with pytest.raises(Refused, match="no move 999"):
        act(999, who="alice")  # type: ignore[operator]


def test_a_plan_names_every_problem_at_once(world: World) -> None:
    world.topic("flights", (1, 2), configs={"min.insync.replicas": "2"})
    world.down(3)
    with pytest.raises(Refused) as refused:
        moves.plan_move(
            {"kind": "partitions", "partitions": [
                {"topic": "flights", "partition": 0, "replicas": [3]}, {"topic": "nope", "partition": 0, "replicas": [1]}]},
            who="alice",
        )  # fmt: skip
    assert "broker 3, which is not alive" in refused.value.reason
    assert "fewer than its min.insync.replicas 2" in refused.value.reason
    assert "no partition nope-0" in refused.value.reason


@pytest.mark.parametrize("scope", [{}, {"kind": "sideways"}, {"kind": "drain"}, {"kind": "drain", "broker": "x"}])
def test_a_scope_that_cannot_be_read_is_refused(world: World, scope: dict[str, object]) -> None:
    with pytest.raises(Refused):
        moves.plan_move(scope, who="alice")


def test_the_preview_writes_nothing_and_shows_what_would_run(world: World) -> None:
    world.topic("flights", (1, 2))
    preview = moves.preview_move(TO_23)
    assert not Move.objects.exists()
    assert (preview.parts[0].replicas_to, preview.bytes_to_copy, preview.problems) == ([2, 3], 1000, [])


def test_every_change_of_state_leaves_a_row_that_says_who_and_why(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(TO_23, who="alice")
    moves.start_move(move.pk, who="alice", why="rack work")
    advance(move)
    moves.pause_move(move.pk, who="bob", why="producers suffer")
    moves.resume_move(move.pk, who="bob")
    advance(move)
    world.begin_move("flights", 0, (2, 3))
    advance(move)
    world.end_move("flights", 0)
    advance(move)
    rows = [(t.state_from, t.state_to, t.who, t.why) for t in move.transitions.all()]
    assert rows == [
        ("planned", "running", "alice", "rack work"),
        ("running", "paused", "bob", "producers suffer"),
        ("paused", "running", "bob", ""),
        ("running", "done", "worker", ""),
    ]


def test_a_look_costs_what_is_under_way_and_not_the_whole_move(
    world: World, django_assert_max_num_queries: object
) -> None:
    world.topic("flights", *[(1, 2)] * 200)
    scope = {"kind": "topic", "topic": "flights", "brokers": [2, 3]}
    move = moves.plan_move(scope, who="alice", parts_in_flight_max=2, parts_per_broker_max=2)
    moves.start_move(move.pk, who="alice")
    view = advancing.view_of(Move.objects.get(pk=move.pk))
    assert (len(view.parts), view.rest) == (8, {"waiting": 192})
    with django_assert_max_num_queries(25):  # type: ignore[operator]
        assert advance(move) == "running"
    assert len(advancing.ordered_parts()) == 2


def test_speed_and_end_come_from_samples_of_sizes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.topic("flights", (1, 2), size=1_000_000)
    move = moves.plan_move(TO_23, who="alice")
    moves.start_move(move.pk, who="alice")
    advance(move)
    world.begin_move("flights", 0, (2, 3))
    advance(move)
    now = time.time()
    for seconds in (5, 10, 15):
        world.sized("flights", 1_000_000, b3=20_000 * seconds)
        Replica.objects.update(sampled_at=datetime.fromtimestamp(now + seconds, UTC))
        monkeypatch.setattr(advancing.time, "time", lambda at=now + seconds: at)
        advance(move)
    row = selectors.move_row(move.pk)
    assert row is not None and row.eta_s is not None
    assert row.bytes_per_s == pytest.approx(20_000, rel=0.1)
    assert row.eta_s[0] < 35 < row.eta_s[1]
    (part,) = selectors.move_parts(move.pk).rows
    assert (part.bytes_done, part.bytes_total, part.cause) == (300_000, 1_000_000, "")
