"""What is wrong, since when, what to do: the closed list, its beginnings and ends, and the figures for a monitoring system."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families
from rest_framework.test import APIClient

from controlplane import alerts as core
from controlplane.models import (
    Alert,
    Broker,
    Change,
    Cluster,
    ConsumerGroup,
    Move,
    MovePartition,
    ObservedTopic,
    ReplicaFinding,
)
from controlplane.selectors import alerts as selectors
from controlplane.selectors.overview import overview
from controlplane.services import alerts, moves
from tests.unit.controlplane.world import World

ILL = core.Facts(
    zookeeper=True,
    controller=None,
    brokers=(
        core.BrokerFacts(1, False, None, 40),
        core.BrokerFacts(2, True, False, 40, 1000, 90, ("/data/b",)),
        core.BrokerFacts(3, True, True, 40, 1000, 20),
        core.BrokerFacts(4, False, None, 0),
    ),
    offline=(1, ("orders-1",)),
    under_min_isr=(5, ("topic a", "topic b")),
    damaged=(1, ("orders-2 on broker 3",)),
    drift=2,
    verdicts={"STOP": (9, ("a", "b", "c")), "OVERTAKEN": (1, ("d",))},
    moves=(core.MoveFacts(7, "running", 2, 5_000_000), core.MoveFacts(8, "failed", 1)),
    changes_unknown=1,
    archives=((3, "records were gone"),),
)


def test_each_trouble_is_said_with_what_to_do_and_the_gravest_first() -> None:
    found = core.alerts(ILL)
    assert [(a.kind, a.subject) for a in found] == [
        ("partitions_offline", ""), ("partitions_under_min_isr", ""), ("no_controller", ""), ("disk_failed", "2"), ("disk_low", "3"),
        ("groups", "OVERTAKEN"),
        ("broker_down", "1"), ("broker_silent", "2"), ("disk_low", "2"), ("copies_damaged", ""), ("move_failed", "8"), ("move_stuck", "7"),
        ("move_will_not_finish", "7"), ("groups", "STOP"), ("archive_failed", "3"), ("drift", ""), ("changes_unknown", ""),
    ]  # fmt: skip
    assert all(a.text.endswith(".") or a.kind == "archive_failed" for a in found) and all(a.do for a in found)
    said = {(a.kind, a.subject): a.text for a in found}
    assert said["partitions_offline", ""].startswith("1 partition (orders-1) has no leader")
    assert said["groups", "STOP"].startswith("9 groups (a, b, c and 6 more) have stopped")


def test_a_dead_broker_is_one_alert_and_not_one_more_for_all_it_held() -> None:
    lacks = core.Facts(brokers=(core.BrokerFacts(1, False, None, 9),), under_replicated=(9, ("a-0",)))
    assert [a.kind for a in core.alerts(lacks)] == ["broker_down"]
    alive = core.Facts(brokers=(core.BrokerFacts(1, True, True, 9),), under_replicated=(9, ("a-0",)))
    assert [a.kind for a in core.alerts(alive)] == ["partitions_under_replicated"]


def test_what_is_not_known_is_no_alert() -> None:
    assert core.alerts(core.Facts()) == []
    assert core.alerts(core.Facts(brokers=(core.BrokerFacts(1, True, None, 9, None, None),))) == []


def known(a: core.Alert, pk: int, ended_s: float | None = None) -> core.Known:
    return core.Known(pk, a.kind, a.subject, a.severity, a.text, a.do, ended_s)


def test_an_alert_begins_changes_and_ends_once_and_one_that_flaps_never_ended() -> None:
    one, two = core.Alert("drift", "", "degraded", "1", "x"), core.Alert("drift", "", "degraded", "2", "x")
    assert core.turn([], [one], 0) == core.Turn((one,), (), ())
    assert core.turn([known(one, 5)], [one], 0) == core.Turn((), (), ())
    assert core.turn([known(one, 5)], [two], 0) == core.Turn((), ((5, two),), ())
    assert core.turn([known(one, 5)], [], 0) == core.Turn((), (), (5,))
    assert core.turn([known(one, 5, ended_s=0)], [], 10) == core.Turn((), (), ()), "it ended already"
    assert core.turn([known(one, 5, ended_s=0)], [one], 59) == core.Turn((), ((5, one),), ())
    assert core.turn([known(one, 5, ended_s=0)], [one], 61) == core.Turn((one,), (), ())


@pytest.mark.django_db
def test_what_is_wrong_is_kept_with_its_beginning_and_ends_by_itself(world: World) -> None:
    world.topic("flights", (1, 2), (2, 3))
    assert not alerts.look() and overview().alerts == 0
    world.down(1)
    assert alerts.look() and not alerts.look(), "nothing is written where nothing changed"
    row = Alert.objects.get()
    assert (row.kind, row.subject, row.severity) == ("broker_down", "1", "degraded")
    assert (overview().alerts, overview().alerts_at_risk) == (1, 0)
    Alert.objects.update(since=timezone.now() - timedelta(minutes=5))
    world.image.brokers[1] = replace(world.image.brokers[1], alive=True)
    world.look()
    alerts.look()
    assert [a.kind for a in selectors.alert_list().rows] == []
    (ended,) = selectors.alert_list(ended=True).rows
    assert 299 < ended.lasts_s < 310
    world.down(1)
    alerts.look()
    (again,) = selectors.alert_list().rows
    assert (again.id, again.ended_at) == (row.pk, None) and again.lasts_s > 299, "back within a minute: it never ended"


@pytest.mark.django_db
def test_a_partition_without_a_leader_a_damaged_copy_a_stopped_group_and_a_stuck_move_are_told(world: World) -> None:
    world.topic("orders", (1, 2), (2, 3))
    world.offline("orders", 1)
    world.put("orders", 0, isr=(1,))
    topic_id = world.image.topic_ids["orders"]
    ReplicaFinding.objects.create(topic_id=topic_id, topic_name="orders", partition=0, broker_id=2, kind="corrupt")
    ConsumerGroup.objects.create(group_id="nightly", state="Empty", verdict="STOP", observed_at=timezone.now())
    Change.objects.create(who="a", verb="topic.alter", object_kind="topic", object_name="orders", outcome="unknown")
    to_3 = {"kind": "partitions", "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 3]}]}
    move = moves.plan_move(to_3, who="alice", why="x")
    Move.objects.filter(pk=move.pk).update(state="running", needs_bytes_per_s=9)
    MovePartition.objects.filter(move=move).update(cause="target_down", state="ordered")
    alerts.look()
    said = {(a.kind, a.subject): a.text for a in Alert.objects.all()}
    assert set(said) == {
        ("partitions_offline", ""), ("copies_damaged", ""), ("groups", "STOP"), ("changes_unknown", ""),
        ("move_stuck", str(move.pk)), ("move_will_not_finish", str(move.pk)), ("partitions_under_replicated", ""),
    }  # fmt: skip
    assert said["partitions_under_replicated", ""].startswith("1 partition (orders-0) has a replica out of sync")
    assert "(orders-1)" in said["partitions_offline", ""] and "orders-0 on broker 2" in said["copies_damaged", ""]
    assert "(nightly)" in said["groups", "STOP"]
    Move.objects.filter(pk=move.pk).update(state="failed", finished_at=timezone.now() - timedelta(days=2))
    alerts.look()
    assert not Alert.objects.filter(kind__startswith="move", ended_at__isnull=True).exists(), (
        "of the day before yesterday"
    )


@pytest.mark.django_db
def test_partitions_below_their_minimum_are_named_as_what_is_counted(world: World) -> None:
    """Named were their topics, before `and 2 more`, which counted partitions."""
    world.topic("flights", (1, 2), (2, 3), (1, 3), (3, 1), configs={"min.insync.replicas": "2"})
    for index in (1, 2, 3):
        world.put("flights", index, isr=(world.state("flights", index).leader,))
    alerts.look()
    (said,) = Alert.objects.filter(kind="partitions_under_min_isr")
    assert said.text.startswith("3 partitions (flights-1, flights-2, flights-3) have fewer")


@pytest.mark.django_db
def test_a_stuck_move_says_its_causes_and_one_that_will_not_finish_is_told_once(world: World) -> None:
    world.topic("orders", (1, 2), (2, 1))
    over = {"kind": "topic", "topic": "orders", "brokers": [2, 3]}
    move = moves.plan_move(over, who="alice", why="x")
    Move.objects.update(state="running", needs_bytes_per_s=9)
    move.parts.update(cause="will_not_finish", state="copying")
    alerts.look()
    assert [a.kind for a in selectors.alert_list().rows] == ["move_will_not_finish"]
    Move.objects.update(needs_bytes_per_s=None)
    move.parts.filter(partition=0).update(cause="target_down")
    alerts.look()
    assert [a.text for a in selectors.alert_list().rows] == [f"Move {move.pk}: 1 partition is stuck (target down)."]


@pytest.mark.django_db
def test_the_list_begins_with_what_is_gravest_whichever_came_first(world: World) -> None:
    world.topic("orders", (1, 2), (2, 3))
    Broker.objects.filter(broker_id=3).update(total_bytes=1000, free_bytes=20)
    alerts.look()
    Broker.objects.filter(broker_id=2).update(total_bytes=1000, free_bytes=90)
    alerts.look()
    world.offline("orders", 1)
    Cluster.objects.update(drift=1)
    alerts.look()
    listed = selectors.alert_list(sort="severity").rows
    assert [(a.kind, a.subject) for a in listed] == [
        ("partitions_offline", ""),
        ("disk_low", "3"),
        ("disk_low", "2"),
        ("drift", ""),
    ]


@pytest.mark.django_db
def test_a_silent_observer_is_the_first_alert_though_it_can_write_none(world: World) -> None:
    assert selectors.silence() is None
    Cluster.objects.update(observed_at=timezone.now() - timedelta(seconds=40))
    assert [a.kind for a in selectors.open_alerts()] == ["observer_silent"]


@pytest.mark.django_db
def test_alerts_and_figures_are_given_to_whoever_has_a_token(world: World, onlooker: APIClient) -> None:
    world.topic('odd"topic', (1, 2))
    ObservedTopic.objects.update(size_bytes=7)
    world.down(1)
    alerts.look()
    assert APIClient().get("/api/v1/metrics").status_code == 401
    listed = onlooker.get("/api/v1/alerts").json()
    assert [(a["kind"], a["subject"]) for a in listed["rows"]] == [("broker_down", "1")]
    answer = onlooker.get("/api/v1/metrics", HTTP_ACCEPT="text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    text = answer.content.decode()
    assert 'weir_alert{kind="broker_down",severity="degraded",subject="1"} 1.0\n' in text
    assert 'weir_broker_alive{broker="1"} 0.0\n' in text and "weir_partitions 1.0\n" in text
    assert "weir_records_per_second" not in text, "not known is left out"
    assert "weir_topic_size_bytes" not in text
    with_topics = onlooker.get("/api/v1/metrics?topics=true").content.decode()
    assert 'weir_topic_size_bytes{topic="odd\\"topic"}' in with_topics
    families = list(text_string_to_metric_families(with_topics))
    assert len({family.name for family in families}) == len(families) > 10
    assert all(family.documentation and sample.value >= 0 for family in families for sample in family.samples)


@pytest.mark.django_db
def test_a_disk_that_fills_up_is_told_and_then_grave(world: World) -> None:
    def said() -> list[tuple[Any, ...]]:
        alerts.look()
        return list(Alert.objects.filter(ended_at__isnull=True).values_list("kind", "severity"))

    Broker.objects.filter(broker_id=2).update(total_bytes=1000, free_bytes=101)
    assert said() == []
    Broker.objects.filter(broker_id=2).update(free_bytes=99)
    assert said() == [("disk_low", "degraded")]
    Broker.objects.filter(broker_id=2).update(free_bytes=29)
    assert said() == [("disk_low", "at_risk")]
