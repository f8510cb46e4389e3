"""One step of a move by the worker: orders, concurrent workers, the cost of a poll, speed and time left."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from controlplane.models import Move, ObservedReplica
from controlplane.selectors import move_parts
from controlplane.selectors import moves as selectors
from controlplane.services import move_worker, moves
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
TO_23 = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}


def advance(move: Move) -> str | None:
    return move_worker.advance_move(move.pk)


def test_two_concurrent_workers_do_one_step(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(parse_scope(TO_23), actor="alice")
    moves.start_move(move.pk, actor="alice")
    real = move_worker.next_steps

    def change_version_and_advance(view: object, now: float) -> object:
        steps = real(view, now)  # type: ignore[arg-type]
        Move.objects.filter(pk=move.pk).update(version=99)  # the other worker was faster
        return steps

    monkeypatch.setattr(move_worker, "next_steps", change_version_and_advance)
    assert advance(move) is None
    assert move_worker.ordered_parts() == []


def test_a_pause_withdraws_orders_and_a_resume_continues(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(parse_scope(TO_23), actor="alice")
    moves.start_move(move.pk, actor="alice")
    advance(move)
    assert len(move_worker.ordered_parts()) == 1
    moves.pause_move(move.pk, actor="alice")
    assert move_worker.ordered_parts() == []
    advance(move)
    assert move_worker.ordered_parts() == []
    moves.resume_move(move.pk, actor="alice")
    advance(move)
    assert len(move_worker.ordered_parts()) == 1


def test_the_cost_of_a_poll_depends_on_the_partitions_in_flight(
    world: World, django_assert_max_num_queries: object
) -> None:
    world.topic("flights", *[(1, 2)] * 200)
    scope = {"kind": "topic", "topic": "flights", "brokers": [2, 3]}
    move = moves.plan_move(parse_scope(scope), actor="alice", parts_in_flight_max=2, parts_per_broker_max=2)
    moves.start_move(move.pk, actor="alice")
    view = move_worker.view_of(Move.objects.get(pk=move.pk))
    assert (len(view.parts), view.omitted) == (8, {"waiting": 192})
    with django_assert_max_num_queries(25):  # type: ignore[operator]
        assert advance(move) == "running"
    assert len(move_worker.ordered_parts()) == 2


def test_speed_and_eta_are_computed_from_size_samples(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.topic("flights", (1, 2), size=1_000_000)
    move = moves.plan_move(parse_scope(TO_23), actor="alice")
    moves.start_move(move.pk, actor="alice")
    advance(move)
    world.begin_move("flights", 0, (2, 3))
    advance(move)
    now = time.time()
    for seconds in (5, 10, 15):
        world.set_sizes("flights", 1_000_000, b3=20_000 * seconds)
        ObservedReplica.objects.update(sampled_at=datetime.fromtimestamp(now + seconds, UTC))
        monkeypatch.setattr(move_worker.time, "time", lambda at=now + seconds: at)
        advance(move)
    row = selectors.move_row(move.pk)
    assert row is not None and row.eta_s is not None
    assert row.bytes_per_s == pytest.approx(20_000, rel=0.1)
    assert row.eta_s[0] < 35 < row.eta_s[1]
    (part,) = move_parts.move_parts(move.pk).rows
    assert (part.bytes_done, part.bytes_total, part.cause) == (300_000, 1_000_000, "")
    world.down(3)
    for seconds in (20, 25):
        monkeypatch.setattr(move_worker.time, "time", lambda at=now + seconds: at)
        advance(move)
    row = selectors.move_row(move.pk)
    assert row is not None and row.eta_s is None, "nobody knows when the target starts again"
    assert [p.cause for p in move_parts.move_parts(move.pk).rows] == ["target_down"]
