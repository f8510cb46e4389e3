"""Rows of rolling restarts: the current step, the finished steps, and the operations that the state allows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.models import RestartStep, RollingRestart
from controlplane.selectors import restarts

pytestmark = pytest.mark.django_db


def restart(*states: str, state: str = "running", turn: int | None = 1) -> int:
    row = RollingRestart.objects.create(state=state, actor="alice", turn=turn, by_supervisor=True)
    for i, word in enumerate(states):
        RestartStep.objects.create(restart=row, broker_id=i + 1, state=word, place=i)
    return int(row.pk)


@pytest.mark.parametrize(
    ("states", "now", "done"),
    [
        (("done", "restarting", "waiting"), 2, 1),
        (("waiting", "waiting"), 1, 0),
        (("done", "skipped"), None, 1),
        (("done", "waiting", "catching_up"), 3, 1),
    ],
)
def test_the_current_step_is_the_one_under_way_or_the_next(states: tuple[str, ...], now: int | None, done: int) -> None:
    row = restarts.restart_row(restart(*states))
    assert row is not None
    assert (None if row.now is None else row.now.broker_id, row.done) == (now, done)


@pytest.mark.parametrize(
    ("state", "can"), [("running", ["pause", "cancel"]), ("paused", ["resume", "cancel"]), ("done", [])]
)
def test_the_state_allows_acts(state: str, can: list[str]) -> None:
    row = restarts.restart_row(restart("waiting", state=state))
    assert row is not None and row.can == can


def test_a_queued_broker_with_a_note_waits_for_the_conditions_of_its_restart() -> None:
    pk = restart("done", "waiting", "waiting")
    row = restarts.restart_row(pk)
    assert row is not None and not row.is_blocked, "the next step has not been decided"
    RestartStep.objects.filter(restart=pk, broker_id=2).update(note="Broker 2 is down; start it, or cancel.")
    row = restarts.restart_row(pk)
    assert row is not None and row.is_blocked and [t.is_blocked for t in row.turns] == [False, True, False]
    RollingRestart.objects.filter(pk=pk).update(state="paused")
    row = restarts.restart_row(pk)
    assert row is not None and not row.is_blocked, "a paused restart waits for nobody but the operator"


def test_the_unfinished_restart_is_the_one_with_the_turn() -> None:
    assert restarts.working_restart() is None and restarts.restart_row(9) is None
    restart("done", state="done", turn=None)
    pk = restart("waiting")
    working = restarts.working_restart()
    assert working is not None and working.id == pk
    assert restarts.restart_list().rows[0].id == pk, "the newest is first"


def test_the_down_time_of_a_broker_lasts_from_its_request_until_it_is_in_sync() -> None:
    pk, now = restart("done", "restarting"), timezone.now()
    RestartStep.objects.filter(broker_id=1).update(asked_at=now, back_at=now + timedelta(seconds=9))
    RestartStep.objects.filter(broker_id=2).update(asked_at=now)
    row = restarts.restart_row(pk)
    assert row is not None and [t.away_s for t in row.turns] == [9.0, None]
