from __future__ import annotations

from dataclasses import replace

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from brokerd.cluster.configs import ALL_BROKERS
from controlplane.models import Broker, Cluster, ClusterEvent, ObservedPartition, ObservedReplica, ObservedTopic, Topic
from controlplane.monitoring.projection import EVENTS_KEPT, MetadataProjection
from controlplane.selectors import brokers, overview, partitions, topics
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_the_rows_have_the_content_of_the_log(world: World) -> None:
    world.topic("flights", (1, 2), (2, 3))
    world.put("flights", 0, isr=(1,))
    seen = ObservedTopic.objects.get(name="flights")
    assert (seen.partition_count, seen.under_replicated, seen.offline) == (2, 1, 0)
    row = ObservedPartition.objects.get(topic=seen, index=0)
    assert (row.replicas, row.isr, row.leader) == ([1, 2], [1], 1)
    assert list(ObservedReplica.objects.filter(partition=row).values_list("broker_id", "in_isr")) == [
        (1, True),
        (2, False),
    ]
    assert Broker.objects.get(broker_id=2).replicas_out_of_sync == 1


def test_an_unchanged_image_writes_nothing(world: World) -> None:
    world.topic("flights", (1, 2))
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert not world.projection.write(world.image)
    assert not [q for q in queries if not q["sql"].startswith(("SAVEPOINT", "RELEASE"))]


def test_the_difference_has_only_the_changes(world: World) -> None:
    topic_id = world.topic("flights", (1, 2), (2, 3))
    world.topic("other", (1,))
    before = world.state("flights", 1)
    world.image.topics[topic_id].partitions[1] = type(before)(before.replicas, before.isr[:1], 2, 102, 1, 1)
    difference = world.projection.write(world.image)
    assert difference.partitions == {topic_id: [1]}
    assert difference.topics == {topic_id}


def test_the_end_of_a_broker_elections_and_zookeeper_are_kept_as_events(world: World) -> None:
    world.topic("flights", (1, 2), (2, 3))
    ClusterEvent.objects.all().delete()
    world.image.brokers[1] = replace(world.image.brokers[1], alive=False)
    world.put("flights", 0, isr=(2,), leader=2)
    kept = [(e.kind, e.subject) for e in ClusterEvent.objects.order_by("pk")]
    assert kept == [("leaders_changed", ""), ("broker_down", "1")]
    assert "flights-0). broker 1 → broker 2: 1." in ClusterEvent.objects.get(kind="leaders_changed").text
    again = MetadataProjection()
    world.image.brokers[1] = replace(world.image.brokers[1], alive=True, life="another")
    again.write(world.image)
    newest = ClusterEvent.objects.first()
    assert newest is not None and newest.text == "Broker 1 registered again.", (
        "the rows know the state before a restart"
    )
    for controller_id, connected in ((None, False), (1, True), (2, True), (2, False), (2, True)):
        again.touch(world.image, controller_id=controller_id, connected=connected, fresh=False)
    found = [e.kind for e in ClusterEvent.objects.filter(pk__gt=newest.pk).order_by("pk")]
    assert found == ["controller_elected", "zookeeper_lost", "zookeeper_back"], "the first state is no event"


def test_old_events_are_deleted(world: World) -> None:
    ClusterEvent.objects.create(at=timezone.now() - EVENTS_KEPT * 2, kind="broker_down", subject="9", text="old")
    world.down(1)
    assert [e.subject for e in ClusterEvent.objects.all()] == ["1"]


def test_a_moved_partition_loses_the_rows_of_replicas_that_left(world: World) -> None:
    world.topic("flights", (1, 2))
    world.begin_move("flights", 0, (2, 3))
    assert ObservedReplica.objects.count() == 3
    world.end_move("flights", 0)
    assert sorted(ObservedReplica.objects.values_list("broker_id", flat=True)) == [2, 3]


def test_a_topic_deleted_in_the_log_is_deleted_with_its_partitions(world: World) -> None:
    topic_id = world.topic("flights", (1, 2))
    del world.image.topics[topic_id], world.image.topic_ids["flights"]
    assert world.projection.write(world.image).topics_gone == ["flights"]
    assert not ObservedPartition.objects.exists()


def test_a_restarted_monitor_reads_the_existing_rows(world: World) -> None:
    world.topic("flights", (1, 2))
    ObservedPartition.objects.update(isr=[9])
    MetadataProjection().write(world.image)
    assert ObservedPartition.objects.get().isr == [1, 2]
    assert ObservedPartition.objects.count() == 1


def test_after_a_failed_write_the_next_one_starts_from_the_rows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.topic("flights", (1, 2))
    broken = world.projection._write_partitions

    def raise_database_locked(*args: object) -> None:
        raise DatabaseError("database is locked")

    monkeypatch.setattr(world.projection, "_write_partitions", raise_database_locked)
    with pytest.raises(DatabaseError):
        world.put("flights", 0, isr=(1,))
    monkeypatch.setattr(world.projection, "_write_partitions", broken)
    world.project()
    assert ObservedPartition.objects.get().isr == [1]


def test_the_health_of_a_topic_has_a_reason(world: World) -> None:
    world.topic("flights", (1, 2), configs={"min.insync.replicas": "2"})
    assert overview.overview().health.word == "healthy"
    world.down(3)
    assert overview.overview().health.word == "degraded"
    world.put("flights", 0, isr=(1,))
    assert overview.overview().health.word == "at_risk"
    assert "min.insync" in overview.overview().health.reason
    world.offline("flights", 0)
    assert "no leader" in overview.overview().health.reason
    world.age_observation(120)
    assert overview.overview().health.word == "unknown"


def test_a_restart_is_unsafe_if_a_partition_would_lose_its_leader_or_its_minimum(world: World) -> None:
    world.topic("alone", (1,))
    world.topic("strict", (1, 2), configs={"min.insync.replicas": "2"})
    world.topic("fine", (1, 2))
    verdict = brokers.safe_to_restart(1)
    assert not verdict.safe
    assert [b.split(":")[0] for b in verdict.blockers] == ["alone-0", "strict-0"]
    assert verdict.leaders == 3
    assert brokers.safe_to_restart(3).safe


def test_the_effective_min_isr_uses_the_cluster_default_and_is_limited_by_the_replicas(world: World) -> None:
    world.topic("single", (1,), configs={"min.insync.replicas": "2"})
    world.topic("pair", (1, 2))
    assert overview.overview().health.word == "healthy"
    assert [b.split(":")[0] for b in brokers.safe_to_restart(1).blockers] == ["single-0"]
    world.image.broker_configs[ALL_BROKERS] = (1, {"min.insync.replicas": "2"})
    world.project()
    assert overview.overview().under_min_isr == 0
    assert [b.split(":")[0] for b in brokers.safe_to_restart(1).blockers] == ["pair-0", "single-0"]
    world.put("pair", 0, isr=(2,))
    assert overview.overview().under_min_isr == 1
    assert "min.insync" in overview.overview().health.reason


def test_drift_is_listed_in_both_directions_and_not_repaired(world: World) -> None:
    world.topic("no-row", (1,), row=False)
    behind = world.topic("behind", (1,))
    world.image.topics[behind].generation = 4
    lost = world.topic("lost", (1,))
    del world.image.topics[lost], world.image.topic_ids["lost"]
    world.project()
    assert [(d.name, d.kind) for d in topics.drift_list()] == [
        ("behind", "behind"),
        ("lost", "missing"),
        ("no-row", "no_row"),
    ]
    assert [t.name for t in topics.topic_list(state="drift").rows] == ["behind", "no-row"]
    assert overview.overview().drift == 3


def test_drift_is_counted_by_the_monitor_and_not_by_each_page(world: World) -> None:
    Cluster.objects.update(drift=None)
    assert overview.overview().drift is None, "not counted yet is not none"
    world.topic("no-row", (1,), row=False)
    Topic.objects.create(name="lost", partitions=1, replication_factor=1, applied_generation=1)
    assert overview.overview().drift == 1
    assert overview.overview().health.reason == "1 topic differs between database and cluster (drift)."
    world.project()
    assert overview.overview().drift == 2


def test_a_requested_topic_is_listed_before_it_is_applied(world: World) -> None:
    from controlplane.services import topics as services

    world.topic("flights", (1, 2))
    services.create_topic("airports", actor="alice")
    assert [(t.name, t.state) for t in topics.topic_list().rows] == [("airports", "creating"), ("flights", "active")]
    services.delete_topic("flights", actor="alice")
    assert topics.topic_row("flights").state == "deleting"  # type: ignore[union-attr]


def test_the_cost_of_a_page_does_not_depend_on_the_number_of_topics(
    world: World, django_assert_max_num_queries: object
) -> None:
    for i in range(12):
        world.topic(f"t{i:02}", (1, 2))
    with django_assert_max_num_queries(5):  # type: ignore[operator]  # count, keys, rows, related rows
        page = topics.topic_list(per_page=5, page=2, sort="-name")
    assert [t.name for t in page.rows] == ["t06", "t05", "t04", "t03", "t02"]
    assert (page.total, page.pages, page.first, page.last) == (12, 3, 6, 10)
    # count, keys, rows, replicas, brokers that are down, settings for all brokers
    with django_assert_max_num_queries(6):  # type: ignore[operator]
        assert len(partitions.partition_list(per_page=5).rows) == 5


def test_unknown_metrics_sort_last_and_stay_unknown(world: World) -> None:
    world.topic("a", (1,))
    world.topic("b", (1,))
    ObservedTopic.objects.filter(name="b").update(size_bytes=5)
    assert [(t.name, t.size_bytes) for t in topics.topic_list(sort="-size_bytes").rows] == [("b", 5), ("a", None)]
    assert [t.name for t in topics.topic_list(sort="size_bytes").rows] == ["b", "a"]
