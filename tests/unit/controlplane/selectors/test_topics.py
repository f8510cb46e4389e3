"""Rows of topics: those not applied yet, drift between database and cluster, and the values of configs."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from brokerd.cluster.configs import ALL_BROKERS, TOPIC_CONFIGS
from brokerd.cluster.metadata import BROKER
from controlplane.models import AccessEntry, ObservedTopic, Topic
from controlplane.selectors import topics
from controlplane.services import topics as services
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def states(**options: Any) -> dict[str, str]:
    return {t.name: t.state for t in topics.topic_list(**options).rows}


def test_a_requested_topic_is_listed_before_the_cluster_has_it(world: World) -> None:
    world.topic("flights", (1, 2))
    services.create_topic("orders", partitions=2, actor="alice")
    page = topics.topic_list()
    assert ([(t.name, t.state) for t in page.rows], page.total) == (
        [("orders", "creating"), ("flights", "active")],
        2,
    )
    assert states(query="fli") == {"flights": "active"}
    assert states(state="problems") == {}
    row = topics.topic_row("orders")
    assert row is not None and row.size_bytes is None and topics.topic_row("none") is None


def test_the_state_of_a_topic_compares_its_row_with_the_cluster(world: World) -> None:
    world.topic("changing", (1, 2))
    services.alter_topic("changing", partitions=2, actor="alice")
    world.topic("deleting", (1, 2))
    services.delete_topic("deleting", actor="alice")
    world.topic("unknown", (1, 2), row=False)
    world.topic("older", (1, 2))
    Topic.objects.filter(name="older").update(generation=0)
    assert states() == {"changing": "changing", "deleting": "deleting", "unknown": "drift", "older": "drift"}


def test_drift_has_the_differences_that_no_pending_change_explains(world: World) -> None:
    world.topic("fine", (1, 2))
    world.topic("unknown", (1, 2), row=False)
    world.topic("behind", (1, 2))
    Topic.objects.filter(name="behind").update(generation=0)
    Topic.objects.create(id=uuid4(), name="missing", partitions=1, replication_factor=1, applied_generation=1)
    services.create_topic("requested", actor="alice")
    found = {d.name: d.kind for d in topics.drift_list()}
    assert found == {"unknown": "no_row", "behind": "behind", "missing": "missing"}
    assert topics.drift_count() == 3 and set(states(state="drift")) == {"unknown", "behind"}


def test_problems_and_moves_are_filters(world: World) -> None:
    for name in ("fine", "offline", "moving"):
        world.topic(name, (1, 2))
    world.offline("offline", 0)
    world.begin_move("moving", 0, (2, 3))
    assert set(states(state="problems")) >= {"offline"} and "fine" not in states(state="problems")
    assert set(states(state="moving")) == {"moving"}
    ObservedTopic.objects.filter(name="fine").update(internal=True)
    assert "fine" not in states() and "fine" in states(internal=True)


@pytest.mark.parametrize(
    ("counts", "health"),
    [((1, 1, 1), "offline"), ((0, 2, 9), "under_min_isr"), ((0, 0, 1), "under_replicated"), ((0, 0, 0), "healthy")],
)
def test_the_health_of_a_topic_is_its_most_severe_condition(counts: tuple[int, int, int], health: str) -> None:
    assert topics.health_of(*counts) == health


def test_configs_have_their_source_and_overrides_are_first(world: World) -> None:
    world.topic("flights", (1, 2), configs={"retention.ms": "5"})
    Topic.objects.update(overlay={"leader.replication.throttled.replicas": "0:1"})
    rows = topics.topic_configs("flights")
    assert [(r.name, r.source) for r in rows[:3]][:2] == [
        ("leader.replication.throttled.replicas", "move"),
        ("retention.ms", "topic"),
    ]
    assert rows[1].value == rows[1].applied == "5" and rows[1].default == "604800000"
    assert len(rows) == len(TOPIC_CONFIGS) and topics.topic_configs("none") == []


def test_a_config_without_an_override_has_the_dynamic_value_of_all_brokers(world: World) -> None:
    """The page of a topic showed 1 for min.insync.replicas, and its partitions were under min ISR with one replica in sync."""
    world.topic("flights", (1, 2), configs={"retention.ms": "5"})
    dynamic = {"min.insync.replicas": "2", "log.retention.hours": "1", "compression.type": "zstd"}
    AccessEntry.objects.create(kind=BROKER, key=str(ALL_BROKERS), value=dynamic, generation=1)
    rows = {r.name: (r.value, r.default, r.source, r.applied) for r in topics.topic_configs("flights")}
    assert rows["min.insync.replicas"] == ("2", "2", "cluster", "2")
    assert rows["retention.ms"] == ("5", "3600000", "topic", "5")
    assert rows["compression.type"] == ("zstd", "zstd", "cluster", "zstd")
    assert rows["cleanup.policy"] == ("delete", "delete", "default", "delete")


def test_the_choices_of_a_list_of_two_words_include_both() -> None:
    assert topics.config_choices(TOPIC_CONFIGS["cleanup.policy"])[-1].count(",") == 1
    assert topics.config_choices(TOPIC_CONFIGS["unclean.leader.election.enable"]) == ["true", "false"]
    assert topics.config_choices(TOPIC_CONFIGS["retention.ms"]) == []
