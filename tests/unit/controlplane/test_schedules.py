"""Moves in a window: begun, held at its stop-by, gone on with."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.utils import timezone

from controlplane.models import Change, Move
from controlplane.services import Refused, advancing, moves, schedules
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
    return moves.plan_move(scope, who="alice", why="x", parts_in_flight_max=1)


def look(move: Move) -> Move:
    for move_id in schedules.due():
        schedules.mind(move_id)
    advancing.advance_move(move.pk)
    move.refresh_from_db()
    return move


def test_an_approved_move_begins_when_its_window_opens(move: Move, clock: Any) -> None:
    schedules.schedule_move(move.pk, NIGHT, who="alice", why="nights only")
    assert look(move).state == "planned", "nobody has approved it"
    with pytest.raises(Refused, match=r"closed until 2026-11-21 22:00 UTC. Approve it"):
        moves.start_move(move.pk, who="alice")
    moves.approve_move(move.pk, who="bea")
    assert (look(move).state, move.resumes_at) == ("approved", datetime(2026, 11, 21, 22, tzinfo=UTC))
    assert move.note == "It begins at 2026-11-21 22:00 UTC."
    clock("2026-11-21T22:00:01")
    assert (look(move).state, move.resumes_at) == ("running", None)
    assert [(t.state_to, t.who) for t in move.transitions.all()] == [("approved", "bea"), ("running", "schedule")]
    assert len(advancing.ordered_parts()) == 1


def test_at_stop_by_no_further_copy_begins_and_it_says_when_it_goes_on(move: Move, world: World, clock: Any) -> None:
    clock("2026-11-22T05:29")
    moves.start_move(move.pk, who="alice")
    schedules.schedule_move(move.pk, NIGHT, who="alice")
    look(move)
    (order,) = advancing.ordered_parts()
    world.begin_move("flights", order.partition, tuple(order.wanted))
    look(move)
    clock("2026-11-22T05:30")
    assert (look(move).state, move.resumes_at) == ("paused", datetime(2026, 11, 22, 22, tzinfo=UTC))
    assert "Stop-by of its window (22:00 to 05:30 UTC every day)" in move.note
    assert move.note.endswith("It goes on at 2026-11-22 22:00 UTC.")
    world.end_move("flights", order.partition)
    look(move)
    assert move.parts.get(partition=order.partition).state == "done", "what was under way finishes"
    assert advancing.ordered_parts() == [], "and no other begins"
    with pytest.raises(Refused, match="Change its window, or take it away"):
        moves.resume_move(move.pk, who="alice")
    clock("2026-11-22T22:00")
    assert look(move).state == "running"
    assert len(advancing.ordered_parts()) == 1


def test_what_a_person_has_paused_the_window_leaves_alone(move: Move, clock: Any) -> None:
    clock("2026-11-22T01:00")
    moves.start_move(move.pk, who="alice")
    schedules.schedule_move(move.pk, NIGHT, who="alice")
    moves.pause_move(move.pk, who="bea")
    for now in ("2026-11-22T06:00", "2026-11-22T23:00"):
        clock(now)
        assert look(move).state == "paused"
    moves.resume_move(move.pk, who="bea")
    assert look(move).state == "running"


def test_a_window_taken_away_lets_it_go_on_at_once(move: Move, clock: Any) -> None:
    clock("2026-11-22T01:00")
    moves.start_move(move.pk, who="alice")
    schedules.schedule_move(move.pk, NIGHT, who="alice")
    clock("2026-11-22T12:00")
    assert look(move).state == "paused"
    schedules.schedule_move(move.pk, None, who="alice", why="hurry")
    assert look(move).state == "running"
    change = Change.objects.filter(verb="move.schedule").first()
    assert change is not None and (change.before, change.after) == ({"window": NIGHT}, {"window": None})


def test_a_window_that_opens_once_says_that_it_does_not_open_again(move: Move, clock: Any) -> None:
    moves.start_move(move.pk, who="alice")
    schedules.schedule_move(move.pk, {"stop_by": "2026-11-21T13:00"}, who="alice")
    clock("2026-11-21T13:00")
    assert (look(move).state, move.resumes_at) == ("paused", None)
    assert "does not open again: give it another window" in move.note
    schedules.schedule_move(move.pk, {"stop_by": "2026-11-21T20:00"}, who="alice")
    assert move.state == "paused", "nobody resumed it"
    moves.resume_move(move.pk, who="alice")
    assert look(move).state == "running"


def test_a_move_that_cannot_begin_in_its_window_tries_again_in_the_next_one(
    move: Move, world: World, clock: Any
) -> None:
    schedules.schedule_move(move.pk, NIGHT, who="alice")
    moves.approve_move(move.pk, who="alice")
    world.begin_move("flights", 0, (1, 3))
    world.end_move("flights", 0)
    clock("2026-11-21T22:00")
    for _ in range(3):
        assert look(move).state == "approved"
    assert move.note.startswith("It could not begin: flights-0 was placed anew")
    assert move.resumes_at == datetime(2026, 11, 22, 22, tzinfo=UTC)
    assert Change.objects.filter(who="schedule", outcome="refused").count() == 1


def test_the_end_of_a_pause_by_the_window_does_not_meet_a_persons_cancel(move: Move, clock: Any) -> None:
    clock("2026-11-22T01:00")
    moves.start_move(move.pk, who="alice")
    schedules.schedule_move(move.pk, NIGHT, who="alice")
    clock("2026-11-22T12:00")
    look(move)
    moves.cancel_move(move.pk, who="bea", why="x")
    clock("2026-11-22T23:00")
    assert look(move).state in ("cancelling", "cancelled")


@pytest.mark.parametrize("window", [{"opens": "x", "stop_by": "y"}, {"stop_by": "2020-01-01T00:00"}, {}])
def test_what_is_no_window_is_refused(move: Move, clock: Any, window: dict[str, Any]) -> None:
    with pytest.raises(Refused) as refused:
        schedules.schedule_move(move.pk, window, who="alice")
    assert refused.value.field == "window"
    assert Change.objects.first().outcome == "refused"  # type: ignore[union-attr]
