"""Moves with a maintenance window: started in it, paused at its stop-by time, resumed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.utils import timezone

from controlplane.models import Change, Move
from controlplane.services import Rejected, move_worker, moves, schedules
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
NIGHT = {"opens": "22:00", "stop_by": "05:30"}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    def set_to(text: str) -> None:
        monkeypatch.setattr(timezone, "now", lambda: datetime.fromisoformat(text).replace(tzinfo=UTC))

    set_to("2026-11-21T12:00")
    return set_to


@pytest.fixture
def move(world: World) -> Move:
    world.topic("flights", *[(1, 2)] * 4)
    scope = {"kind": "topic", "topic": "flights", "brokers": [2, 3]}
    return moves.plan_move(parse_scope(scope), actor="alice", comment="x", parts_in_flight_max=1)


def apply_schedules(move: Move) -> Move:
    for move_id in schedules.due_moves():
        schedules.apply_schedule(move_id)
    move_worker.advance_move(move.pk)
    move.refresh_from_db()
    return move


def test_an_approved_move_starts_when_its_window_opens(move: Move, clock: Any) -> None:
    schedules.schedule_move(move.pk, NIGHT, actor="alice", comment="nights only")
    assert apply_schedules(move).state == "planned", "nobody has approved it"
    with pytest.raises(Rejected, match=r"closed until 2026-11-21 22:00 UTC. Approve the move"):
        moves.start_move(move.pk, actor="alice")
    moves.approve_move(move.pk, actor="bea")
    assert (apply_schedules(move).state, move.resumes_at) == ("approved", datetime(2026, 11, 21, 22, tzinfo=UTC))
    assert move.note == "The move starts at 2026-11-21 22:00 UTC."
    clock("2026-11-21T22:00:01")
    assert (apply_schedules(move).state, move.resumes_at) == ("running", None)
    assert [(t.state_to, t.actor) for t in move.transitions.all()] == [("approved", "bea"), ("running", "schedule")]
    assert len(move_worker.ordered_parts()) == 1


def test_at_the_stop_by_time_no_copy_starts_and_the_next_opening_is_shown(move: Move, world: World, clock: Any) -> None:
    clock("2026-11-22T05:29")
    moves.start_move(move.pk, actor="alice")
    schedules.schedule_move(move.pk, NIGHT, actor="alice")
    apply_schedules(move)
    (order,) = move_worker.ordered_parts()
    world.begin_move("flights", order.partition, tuple(order.desired_replicas))
    apply_schedules(move)
    clock("2026-11-22T05:30")
    assert (apply_schedules(move).state, move.resumes_at) == ("paused", datetime(2026, 11, 22, 22, tzinfo=UTC))
    assert "The window (22:00 to 05:30 UTC every day) has closed" in move.note
    assert move.note.endswith("The move continues at 2026-11-22 22:00 UTC.")
    world.end_move("flights", order.partition)
    apply_schedules(move)
    assert move.parts.get(partition=order.partition).state == "done", "what was under way finishes"
    assert move_worker.ordered_parts() == [], "and no other begins"
    with pytest.raises(Rejected, match="Change or remove the window"):
        moves.resume_move(move.pk, actor="alice")
    clock("2026-11-22T22:00")
    assert apply_schedules(move).state == "running"
    assert len(move_worker.ordered_parts()) == 1


def test_the_window_does_not_resume_a_move_that_a_person_paused(move: Move, clock: Any) -> None:
    clock("2026-11-22T01:00")
    moves.start_move(move.pk, actor="alice")
    schedules.schedule_move(move.pk, NIGHT, actor="alice")
    moves.pause_move(move.pk, actor="bea")
    for now in ("2026-11-22T06:00", "2026-11-22T23:00"):
        clock(now)
        assert apply_schedules(move).state == "paused"
    moves.resume_move(move.pk, actor="bea")
    assert apply_schedules(move).state == "running"


def test_a_paused_move_without_its_window_continues_immediately(move: Move, clock: Any) -> None:
    clock("2026-11-22T01:00")
    moves.start_move(move.pk, actor="alice")
    schedules.schedule_move(move.pk, NIGHT, actor="alice")
    clock("2026-11-22T12:00")
    assert apply_schedules(move).state == "paused"
    schedules.schedule_move(move.pk, None, actor="alice", comment="hurry")
    assert apply_schedules(move).state == "running"
    change = Change.objects.filter(verb="move.schedule").first()
    assert change is not None and (change.before, change.after) == ({"window": NIGHT}, {"window": None})


def test_a_one_time_window_shows_that_it_does_not_open_again(move: Move, clock: Any) -> None:
    moves.start_move(move.pk, actor="alice")
    schedules.schedule_move(move.pk, {"stop_by": "2026-11-21T13:00"}, actor="alice")
    clock("2026-11-21T13:00")
    assert (apply_schedules(move).state, move.resumes_at) == ("paused", None)
    assert "does not open again: set another window" in move.note
    schedules.schedule_move(move.pk, {"stop_by": "2026-11-21T20:00"}, actor="alice")
    assert move.state == "paused", "nobody resumed it"
    moves.resume_move(move.pk, actor="alice")
    assert apply_schedules(move).state == "running"


def test_a_move_that_cannot_start_in_its_window_retries_in_the_next(move: Move, world: World, clock: Any) -> None:
    schedules.schedule_move(move.pk, NIGHT, actor="alice")
    moves.approve_move(move.pk, actor="alice")
    world.begin_move("flights", 0, (1, 3))
    world.end_move("flights", 0)
    clock("2026-11-21T22:00")
    for _ in range(3):
        assert apply_schedules(move).state == "approved"
    assert move.note.startswith("The move could not start: flights-0 was reassigned")
    assert move.resumes_at == datetime(2026, 11, 22, 22, tzinfo=UTC)
    assert Change.objects.filter(actor="schedule", outcome="refused").count() == 1


def test_the_window_does_not_resume_a_cancelled_move(move: Move, clock: Any) -> None:
    clock("2026-11-22T01:00")
    moves.start_move(move.pk, actor="alice")
    schedules.schedule_move(move.pk, NIGHT, actor="alice")
    clock("2026-11-22T12:00")
    apply_schedules(move)
    moves.cancel_move(move.pk, actor="bea", comment="x")
    clock("2026-11-22T23:00")
    assert apply_schedules(move).state in ("cancelling", "cancelled")


@pytest.mark.parametrize("window", [{"opens": "x", "stop_by": "y"}, {"stop_by": "2020-01-01T00:00"}, {}])
def test_an_invalid_window_is_rejected(move: Move, clock: Any, window: dict[str, Any]) -> None:
    with pytest.raises(Rejected) as rejection:
        schedules.schedule_move(move.pk, window, actor="alice")
    assert rejection.value.field == "window"
    assert Change.objects.first().outcome == "refused"  # type: ignore[union-attr]
