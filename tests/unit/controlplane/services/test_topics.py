from __future__ import annotations

import pytest

from controlplane.services import Rejected, changes, topic_results, topics
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.services.test_topic_results import last_change
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_a_deleted_name_is_free_again_and_gets_another_id(world: World) -> None:
    first = topics.create_topic("flights", actor="alice")
    deleted = topics.delete_topic("flights", actor="alice", comment="test over")
    assert deleted.deleted_at is not None
    assert deleted.generation == 2
    second = topics.create_topic("flights", actor="alice")
    assert second.id != first.id


def test_a_name_whose_deletion_has_not_reached_the_cluster_is_not_free_yet(world: World) -> None:
    world.topic("flights", (1, 2))
    topics.delete_topic("flights", actor="alice")
    with pytest.raises(Rejected, match="is being deleted"):
        topics.create_topic("flights", actor="alice")


def test_partitions_only_grow(world: World) -> None:
    topics.create_topic("flights", partitions=3, actor="alice")
    assert topics.alter_topic("flights", partitions=5, actor="alice").generation == 2
    with pytest.raises(Rejected, match="cannot be reduced to 4"):
        topics.alter_topic("flights", partitions=4, actor="alice")


def test_only_named_configs_change_and_the_change_row_shows_both_sides(world: World) -> None:
    topics.create_topic("flights", configs={"retention.ms": "1000", "segment.bytes": "1000000"}, actor="alice")
    row = topics.alter_topic(
        "flights", set_configs={"retention.ms": "2000"}, delete_configs=["segment.bytes"], actor="alice"
    )
    assert row.configs == {"retention.ms": "2000"}
    assert last_change().before == {"partitions": 1, "configs": {"retention.ms": "1000", "segment.bytes": "1000000"}}
    assert last_change().after == {"partitions": 1, "configs": {"retention.ms": "2000"}}


def test_a_change_that_changes_nothing_is_unchanged_and_costs_no_generation(world: World) -> None:
    topics.create_topic("flights", configs={"retention.ms": "1000"}, actor="alice")
    row = topics.alter_topic("flights", set_configs={"retention.ms": "1000"}, actor="alice")
    assert row.generation == 1
    assert last_change().outcome == "unchanged"


def test_a_request_of_a_kafka_client_that_changes_nothing_is_not_in_the_audit_log(world: World) -> None:
    """MirrorMaker 2 sends the configs of each topic again at each interval."""
    topics.create_topic("flights", actor="alice")
    mirror, configs = "User:mirror at broker 1", {"retention.ms": "1000"}
    row = topics.alter_topic("flights", set_configs=configs, actor=mirror, request_id="1")
    changed = last_change()
    assert (changed.actor, changed.after["configs"]) == (mirror, configs)
    again = topics.alter_topic("flights", set_configs=configs, actor=mirror, request_id="2")
    assert (again.generation, last_change()) == (row.generation, changed)


def test_an_operation_with_an_older_generation_is_rejected(world: World) -> None:
    topics.create_topic("flights", actor="alice")
    topics.alter_topic("flights", partitions=2, actor="bob")
    with pytest.raises(Rejected, match="changed since you read it"):
        topics.alter_topic("flights", partitions=3, actor="alice", if_generation=1)


def test_internal_topics_are_neither_deleted_nor_grown(world: World) -> None:
    topics.create_topic("__consumer_offsets", partitions=50, actor="controller")
    with pytest.raises(Rejected, match="internal"):
        topics.delete_topic("__consumer_offsets", actor="alice")
    with pytest.raises(Rejected, match="is fixed"):
        topics.alter_topic("__consumer_offsets", partitions=60, actor="alice")


def test_a_topic_under_a_move_is_not_deleted(world: World) -> None:
    from controlplane.services import moves

    world.topic("flights", (1, 2))
    move = moves.plan_move(parse_scope({"kind": "topic", "topic": "flights", "brokers": [2, 3]}), actor="alice")
    with pytest.raises(Rejected, match=f"part of move {move.pk}"):
        topics.delete_topic("flights", actor="alice")


def test_a_deletion_with_confirmation_needs_the_typed_name(world: World) -> None:
    topics.create_topic("flights", actor="alice")
    with pytest.raises(Rejected, match="to confirm") as rejection:
        topics.delete_topic("flights", actor="alice", confirm_name="flight")
    assert rejection.value.field == "confirm_name"


def test_a_topic_without_a_row_can_only_be_adopted(world: World) -> None:
    topic_id = world.topic("flights", (1, 2), row=False, configs={"retention.ms": "5"})
    with pytest.raises(Rejected, match="drift"):
        topics.create_topic("flights", actor="alice")
    with pytest.raises(Rejected, match="drift"):
        topics.delete_topic("flights", actor="alice")
    row = topics.adopt_topic(topic_id, actor="alice")
    assert (row.name, row.partitions, row.replication_factor, row.configs) == ("flights", 1, 2, {"retention.ms": "5"})
    assert topics.delete_topic("flights", actor="alice").generation == 2


def test_an_outdated_row_does_not_change_the_cluster_and_is_shown_as_drift(world: World) -> None:
    topic_id = world.topic("flights", (1, 2))
    world.image.topics[topic_id].generation = 5
    world.project()
    with pytest.raises(Rejected, match=r"\(drift, for example after a restore\)"):
        topics.alter_topic("flights", partitions=2, actor="alice")
    with pytest.raises(Rejected, match="drift"):
        topics.delete_topic("flights", actor="alice")
    assert topics.adopt_topic(topic_id, actor="alice").generation == 5
    assert topics.alter_topic("flights", partitions=2, actor="alice").generation == 6


def test_an_unconfirmed_change_becomes_unknown_and_stays_unknown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    row = topics.create_topic("flights", actor="alice")
    assert changes.settle_overdue_changes() == 0
    monkeypatch.setattr(changes, "PENDING_SECONDS_MAX", -1)
    assert changes.settle_overdue_changes() == 1
    topic_results.mark_applied({row.id: 1}, controller_epoch=1)
    assert last_change().outcome == "unknown"
