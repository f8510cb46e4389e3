from __future__ import annotations

import pytest

from controlplane.models import Change, Topic
from controlplane.services import Refused, changes, topics
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def last() -> Change:
    found = Change.objects.first()
    assert found is not None
    return found


def test_a_topic_asked_for_waits_until_the_log_has_it(world: World) -> None:
    row = topics.create_topic("flights", partitions=3, configs={"retention.ms": "1000"}, who="alice", why="demo")
    assert (row.generation, row.applied_generation, row.replication_factor) == (1, 0, 3)
    assert last().outcome == "pending"
    assert topics.mark_applied({row.id: 1}, controller_epoch=4) == 1
    row.refresh_from_db()
    assert (row.applied_generation, row.controller_epoch) == (1, 4)
    change = last()
    assert (change.outcome, change.who, change.why, change.before) == ("confirmed", "alice", "demo", None)


def test_what_an_older_controller_applied_is_not_written_over_a_newer_one(world: World) -> None:
    row = topics.create_topic("flights", who="alice")
    topics.mark_applied({row.id: 1}, controller_epoch=9)
    row = topics.alter_topic("flights", partitions=2, who="alice")
    assert topics.mark_applied({row.id: 2}, controller_epoch=8) == 0
    row.refresh_from_db()
    assert row.applied_generation == 1


def test_a_generation_that_the_database_never_had_is_not_marked(world: World) -> None:
    row = topics.create_topic("flights", who="alice")
    assert topics.mark_applied({row.id: 7}, controller_epoch=1) == 0


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
def test_bad_input_is_refused_by_field_and_leaves_a_row_of_the_refusal(
    world: World, name: str, more: dict[str, object], field: str
) -> None:
    with pytest.raises(Refused) as refused:
        topics.create_topic(name, who="alice", **more)  # type: ignore[arg-type]
    assert refused.value.field == field
    assert refused.value.reason.endswith(".") or field.startswith("configs")
    assert not Topic.objects.exists()
    assert (last().outcome, last().verb) == ("refused", "topic.create")


def test_a_name_is_taken_once(world: World) -> None:
    topics.create_topic("flights", who="alice")
    with pytest.raises(Refused, match="exists already"):
        topics.create_topic("flights", who="bob")


def test_names_that_kafkas_metrics_cannot_tell_apart_are_refused(world: World) -> None:
    topics.create_topic("a.b", who="alice")
    with pytest.raises(Refused, match=r"differs from 'a\.b' only in"):
        topics.create_topic("a_b", who="alice")


def test_a_deleted_name_is_free_again_and_gets_another_id(world: World) -> None:
    first = topics.create_topic("flights", who="alice")
    deleted = topics.delete_topic("flights", who="alice", why="test over")
    assert deleted.deleted_at is not None
    assert deleted.generation == 2
    second = topics.create_topic("flights", who="alice")
    assert second.id != first.id


def test_a_name_whose_deletion_has_not_reached_the_cluster_is_not_free_yet(world: World) -> None:
    world.topic("flights", (1, 2))
    topics.delete_topic("flights", who="alice")
    with pytest.raises(Refused, match="just being deleted"):
        topics.create_topic("flights", who="alice")


def test_partitions_only_grow(world: World) -> None:
    topics.create_topic("flights", partitions=3, who="alice")
    assert topics.alter_topic("flights", partitions=5, who="alice").generation == 2
    with pytest.raises(Refused, match="cannot shrink to 4"):
        topics.alter_topic("flights", partitions=4, who="alice")


def test_only_named_configs_change_and_the_change_row_shows_both_sides(world: World) -> None:
    topics.create_topic("flights", configs={"retention.ms": "1000", "segment.bytes": "1000000"}, who="alice")
    row = topics.alter_topic(
        "flights", set_configs={"retention.ms": "2000"}, delete_configs=["segment.bytes"], who="alice"
    )
    assert row.configs == {"retention.ms": "2000"}
    assert last().before == {"partitions": 1, "configs": {"retention.ms": "1000", "segment.bytes": "1000000"}}
    assert last().after == {"partitions": 1, "configs": {"retention.ms": "2000"}}


def test_a_change_that_changes_nothing_is_unchanged_and_costs_no_generation(world: World) -> None:
    topics.create_topic("flights", configs={"retention.ms": "1000"}, who="alice")
    row = topics.alter_topic("flights", set_configs={"retention.ms": "1000"}, who="alice")
    assert row.generation == 1
    assert last().outcome == "unchanged"


def test_an_act_bound_to_what_was_read_is_refused_when_that_changed(world: World) -> None:
    topics.create_topic("flights", who="alice")
    topics.alter_topic("flights", partitions=2, who="bob")
    with pytest.raises(Refused, match="changed since you read it"):
        topics.alter_topic("flights", partitions=3, who="alice", if_generation=1)


def test_internal_topics_are_neither_deleted_nor_grown(world: World) -> None:
    topics.create_topic("__consumer_offsets", partitions=50, who="controller")
    with pytest.raises(Refused, match="internal"):
        topics.delete_topic("__consumer_offsets", who="alice")
    with pytest.raises(Refused, match="keeps its number"):
        topics.alter_topic("__consumer_offsets", partitions=60, who="alice")


def test_a_topic_under_a_move_is_not_deleted(world: World) -> None:
    from controlplane.services import moves

    world.topic("flights", (1, 2))
    move = moves.plan_move({"kind": "topic", "topic": "flights", "brokers": [2, 3]}, who="alice")
    with pytest.raises(Refused, match=f"part of move {move.pk}"):
        topics.delete_topic("flights", who="alice")


def test_deleting_needs_the_name_typed_where_it_is_asked_for(world: World) -> None:
    topics.create_topic("flights", who="alice")
    with pytest.raises(Refused, match="to confirm") as refused:
        topics.delete_topic("flights", who="alice", confirm_name="flight")
    assert refused.value.field == "confirm_name"


def test_a_topic_without_a_row_can_only_be_adopted(world: World) -> None:
    topic_id = world.topic("flights", (1, 2), row=False, configs={"retention.ms": "5"})
    with pytest.raises(Refused, match="drift"):
        topics.create_topic("flights", who="alice")
    with pytest.raises(Refused, match="drift"):
        topics.delete_topic("flights", who="alice")
    row = topics.adopt_topic(topic_id, who="alice")
    assert (row.name, row.partitions, row.replication_factor, row.configs) == ("flights", 1, 2, {"retention.ms": "5"})
    assert topics.delete_topic("flights", who="alice").generation == 2


def test_yesterdays_row_neither_changes_the_cluster_nor_is_silently_followed(world: World) -> None:
    topic_id = world.topic("flights", (1, 2))
    world.image.topics[topic_id].generation = 5
    world.look()
    with pytest.raises(Refused, match=r"\(drift, as after a restore\)"):
        topics.alter_topic("flights", partitions=2, who="alice")
    with pytest.raises(Refused, match="drift"):
        topics.delete_topic("flights", who="alice")
    assert topics.adopt_topic(topic_id, who="alice").generation == 5
    assert topics.alter_topic("flights", partitions=2, who="alice").generation == 6


def test_a_change_nobody_read_back_becomes_unknown_and_stays_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    row = topics.create_topic("flights", who="alice")
    assert changes.settle_overdue_changes() == 0
    monkeypatch.setattr(changes, "PENDING_SECONDS_MAX", -1)
    assert changes.settle_overdue_changes() == 1
    topics.mark_applied({row.id: 1}, controller_epoch=1)
    assert last().outcome == "unknown"


def test_a_controllers_refusal_is_shown_until_the_row_is_applied(world: World) -> None:
    row = topics.create_topic("flights", who="alice")
    assert topics.mark_refused(row.id, 1, "cannot be placed yet: 1 broker is alive", 3)
    assert not topics.mark_refused(row.id, 1, "cannot be placed yet: 1 broker is alive", 3)
    row.refresh_from_db()
    assert "cannot be placed" in row.note
    topics.mark_applied({row.id: 1}, 3)
    row.refresh_from_db()
    assert row.note == ""
