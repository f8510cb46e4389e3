"""Bulk operations on topics: preview, execution topic by topic, limits."""

from __future__ import annotations

import pytest

from controlplane.models import Change, Topic
from controlplane.services import Rejected, bulk_topics, topics
from controlplane.services.bulk_topics import BulkChange, BulkOperation, BulkOutcome
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db

WEEK = BulkChange(BulkOperation.CONFIGS, {"retention.ms": "604800000"})
REMOVE = BulkChange(BulkOperation.CONFIGS, {}, ("retention.ms",))
DELETE = BulkChange(BulkOperation.DELETE)


@pytest.fixture(autouse=True)
def three_topics(world: World) -> None:
    topics.create_topic("a", partitions=2, configs={"retention.ms": "604800000"}, actor="alice")
    topics.create_topic("b", configs={"retention.ms": "1000"}, actor="alice")
    topics.create_topic("c", actor="alice")


def config(name: str) -> str | None:
    return Topic.objects.get(name=name, deleted_at__isnull=True).configs.get("retention.ms")


def test_the_preview_has_the_changes_of_each_topic() -> None:
    rows = bulk_topics.preview(["a", "b", "c", "no-topic"], WEEK)
    assert [(r.name, r.changes, r.problem) for r in rows] == [
        ("a", [], ""),
        ("b", [("retention.ms", "1000", "604800000")], ""),
        ("c", [("retention.ms", None, "604800000")], ""),
    ]
    assert [r.changes for r in bulk_topics.preview(["b", "c"], REMOVE)] == [[("retention.ms", "1000", None)], []]


def test_each_topic_is_changed_with_its_own_change_row() -> None:
    results = bulk_topics.execute({"a": 1, "b": 1, "c": 1}, WEEK, actor="alice", comment="one week")
    assert [r.outcome for r in results] == [BulkOutcome.UNCHANGED, BulkOutcome.REQUESTED, BulkOutcome.REQUESTED]
    assert [config(n) for n in "abc"] == ["604800000"] * 3
    assert Change.objects.filter(verb="topic.alter", comment="one week").count() == 3


@pytest.mark.parametrize("change", [WEEK, DELETE])
def test_a_topic_that_changed_since_the_preview_is_left_alone(change: BulkChange) -> None:
    topics.alter_topic("b", set_configs={"retention.ms": "5"}, actor="bob")
    results = bulk_topics.execute({"b": 1, "c": 1}, change, actor="alice", comment="x")
    assert [r.outcome for r in results] == [BulkOutcome.REJECTED, BulkOutcome.REQUESTED]
    assert config("b") == "5"


def test_a_deletion_leaves_internal_topics_out(world: World) -> None:
    world.topic("__consumer_offsets", (1, 2))
    rows = bulk_topics.preview(["__consumer_offsets", "b"], DELETE)
    assert {r.name: bool(r.problem) for r in rows}.get("b") is False
    assert all(r.problem for r in rows if r.name == "__consumer_offsets")
    results = bulk_topics.execute({"b": 1, "c": 1}, DELETE, actor="alice", comment="x")
    assert [r.outcome for r in results] == [BulkOutcome.REQUESTED] * 2
    assert not Topic.objects.filter(name__in=["b", "c"], deleted_at__isnull=True).exists()


def test_every_problem_of_the_change_is_found() -> None:
    wrong = BulkChange(BulkOperation.CONFIGS, {"retention.ms": "soon", "no.such": "1"}, ("retention.ms",))
    assert len(bulk_topics.problems_of(wrong)) == 3
    assert len(bulk_topics.problems_of(BulkChange(BulkOperation.CONFIGS))) == 1
    with pytest.raises(Rejected):
        bulk_topics.execute({"a": 1}, wrong, actor="alice", comment="x")
    assert config("a") == "604800000"


def test_the_number_of_topics_and_the_reason_are_checked() -> None:
    many = [f"t{n}" for n in range(bulk_topics.TOPICS_MAX + 1)]
    with pytest.raises(Rejected, match="more than 1,000"):
        bulk_topics.preview(many, WEEK)
    with pytest.raises(Rejected, match="more than 1,000"):
        bulk_topics.execute(dict.fromkeys(many, 1), WEEK, actor="alice", comment="x")
    with pytest.raises(Rejected, match="reason"):
        bulk_topics.execute({"a": 1}, WEEK, actor="alice", comment=" ")
