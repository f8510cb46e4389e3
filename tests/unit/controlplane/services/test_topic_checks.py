"""Checks of a requested topic: each rejection names its field, and a rejected request is in the audit log."""

from __future__ import annotations

import pytest

from controlplane.models import Topic
from controlplane.services import Rejected, topics
from tests.unit.controlplane.services.test_topic_results import last_change
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("name", "more", "field"),
    [
        ("", {}, "name"),
        ("..", {}, "name"),
        ("with space", {}, "name"),
        ("x" * 250, {}, "name"),
        ("t", {"partitions": 0}, "partitions"),
        ("t", {"partitions": 10_001}, "partitions"),
        ("t", {"replication_factor": 4}, "replication_factor"),
        ("t", {"replication_factor": 0}, "replication_factor"),
        ("t", {"configs": {"retention.ms": "soon"}}, "configs.retention.ms"),
        ("t", {"configs": {"no.such.config": "1"}}, "configs.no.such.config"),
        ("t", {"assignment": {0: [1, 1]}}, "assignment"),
        ("t", {"assignment": {0: [1], 1: [1, 2]}}, "assignment"),
        ("t", {"assignment": {1: [1]}}, "assignment"),
        ("t", {"assignment": {0: [9]}}, "assignment"),
    ],
)
def test_invalid_input_is_rejected_by_field_and_the_rejection_is_audited(
    world: World, name: str, more: dict[str, object], field: str
) -> None:
    with pytest.raises(Rejected) as rejection:
        topics.create_topic(name, actor="alice", **more)  # type: ignore[arg-type]
    assert rejection.value.field == field
    assert rejection.value.reason.endswith(".") is not field.startswith("configs."), "problems of configs are phrases"
    assert not Topic.objects.exists()
    assert (last_change().outcome, last_change().verb) == ("refused", "topic.create")


def test_a_topic_name_is_unique(world: World) -> None:
    topics.create_topic("flights", actor="alice")
    with pytest.raises(Rejected, match="already exists"):
        topics.create_topic("flights", actor="bob")


def test_topic_names_that_collide_in_kafkas_metrics_are_rejected(world: World) -> None:
    topics.create_topic("a.b", actor="alice")
    with pytest.raises(Rejected, match=r"differs from 'a\.b' only in"):
        topics.create_topic("a_b", actor="alice")
