"""Results of the controller in the rows of topics: applied, rejected, outdated."""

from __future__ import annotations

import pytest

from controlplane.models import Change
from controlplane.services import topic_results, topics
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def last_change() -> Change:
    found = Change.objects.first()
    assert found is not None
    return found


def test_a_requested_topic_is_pending_until_the_log_has_it(world: World) -> None:
    row = topics.create_topic("flights", partitions=3, configs={"retention.ms": "1000"}, actor="alice", comment="demo")
    assert (row.generation, row.applied_generation, row.replication_factor) == (1, 0, 3)
    assert last_change().outcome == "pending"
    assert topic_results.mark_applied({row.id: 1}, controller_epoch=4) == 1
    row.refresh_from_db()
    assert (row.applied_generation, row.controller_epoch) == (1, 4)
    change = last_change()
    assert (change.outcome, change.actor, change.comment, change.before) == ("confirmed", "alice", "demo", None)


def test_the_result_of_an_older_controller_does_not_overwrite_a_newer_one(world: World) -> None:
    row = topics.create_topic("flights", actor="alice")
    topic_results.mark_applied({row.id: 1}, controller_epoch=9)
    row = topics.alter_topic("flights", partitions=2, actor="alice")
    assert topic_results.mark_applied({row.id: 2}, controller_epoch=8) == 0
    row.refresh_from_db()
    assert row.applied_generation == 1


def test_a_generation_that_the_database_never_had_is_not_marked(world: World) -> None:
    row = topics.create_topic("flights", actor="alice")
    assert topic_results.mark_applied({row.id: 7}, controller_epoch=1) == 0


def test_a_controllers_rejection_is_shown_until_the_row_is_applied(world: World) -> None:
    row = topics.create_topic("flights", actor="alice")
    assert topic_results.mark_rejected(row.name, "cannot be placed yet: 1 broker is alive", 3)
    assert not topic_results.mark_rejected(row.name, "cannot be placed yet: 1 broker is alive", 3)
    row.refresh_from_db()
    assert "cannot be placed" in row.note
    topic_results.mark_applied({row.id: 1}, 3)
    row.refresh_from_db()
    assert row.note == ""
