"""The facts of alerts are read from the rows: each kind of problem, with its counts, names and times."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.clients import supervisor
from controlplane.domain.restart import ProcessEnd
from controlplane.models import (
    Alert,
    Broker,
    Change,
    Cluster,
    ConsumerGroup,
    Move,
    MovePartition,
    ReplicaDamageReport,
    Topic,
)
from controlplane.selectors import alerts as selectors
from controlplane.selectors.overview import overview
from controlplane.services import alerts, moves, routes
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.forecast_runs import DISK, finished_run
from tests.unit.controlplane.world import World


@pytest.mark.django_db
def test_each_kind_of_problem_is_an_alert(world: World) -> None:
    world.topic("orders", (1, 2), (2, 3))
    world.offline("orders", 1)
    world.put("orders", 0, isr=(1,))
    topic_id = world.image.topic_ids["orders"]
    ReplicaDamageReport.objects.create(topic_id=topic_id, topic_name="orders", partition=0, broker_id=2, kind="corrupt")
    ConsumerGroup.objects.create(group_id="nightly", state="Empty", status="stopped", observed_at=timezone.now())
    ConsumerGroup.objects.create(group_id="fine", state="Stable", status="blocked", observed_at=timezone.now())
    Change.objects.create(actor="a", verb="topic.alter", object_kind="topic", object_name="orders", outcome="unknown")
    to_3 = {"kind": "partitions", "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 3]}]}
    move = moves.plan_move(parse_scope(to_3), actor="alice", comment="x")
    Move.objects.filter(pk=move.pk).update(state="running", needs_bytes_per_s=9)
    MovePartition.objects.filter(move=move).update(cause="target_down", state="submitted")
    alerts.evaluate()
    said = {(a.kind, a.subject): a.text for a in Alert.objects.all()}
    assert set(said) == {
        ("partitions_offline", ""),
        ("copies_damaged", ""),
        ("group_stopped", "nightly"),
        ("changes_unknown", ""),
        ("move_stuck", str(move.pk)),
        ("move_will_not_finish", str(move.pk)),
        ("partitions_under_replicated", ""),
    }
    assert said["partitions_under_replicated", ""].startswith(
        "1 partition (orders-0) has a replica that is out of sync"
    )
    assert "(orders-1)" in said["partitions_offline", ""] and "orders-0 on broker 2" in said["copies_damaged", ""]
    assert said["group_stopped", "nightly"] == "Group nightly has stopped: no members and no commits."
    Move.objects.filter(pk=move.pk).update(state="failed", finished_at=timezone.now() - timedelta(days=2))
    alerts.evaluate()
    assert not Alert.objects.filter(kind__startswith="move", ended_at__isnull=True).exists(), (
        "of the day before yesterday"
    )


@pytest.mark.django_db
def test_the_lag_of_a_stopped_route_is_no_alert(world: World) -> None:
    """An operator who stopped a route had an alert for it half a minute later. Records that retention deletes still are one."""
    topic = Topic.objects.create(name="source", partitions=1, replication_factor=1)
    bindings = [{"target": "paid", "match": {"kind": "all"}}]
    routes.create_route("r", {"source": topic.name, "start": "latest", "bindings": bindings}, actor="a")
    now = timezone.now()
    group = ConsumerGroup.objects.create(group_id="weir.route.r", state="Empty", status="stopped", observed_at=now)

    def open_alerts() -> list[str]:
        alerts.evaluate()
        return list(
            Alert.objects.filter(kind__startswith="group", ended_at__isnull=True).values_list("kind", flat=True)
        )

    assert open_alerts() == ["group_stopped"], "it is enabled and does not run"
    routes.change_route("r", {"enabled": False}, actor="a")
    assert open_alerts() == []
    for status, found in (("falling_behind", []), ("stalled", []), ("data_lost", ["group_data_lost"])):
        ConsumerGroup.objects.filter(pk=group.pk).update(status=status)
        assert open_alerts() == found
    routes.change_route("r", {"enabled": True}, actor="a")
    ConsumerGroup.objects.filter(pk=group.pk).update(status="stopped")
    assert "group_stopped" in open_alerts()


def test_partitions_below_min_insync_are_counted_and_named(world: World) -> None:
    """The message listed topics before `and 2 more`, which counted partitions."""
    world.topic("flights", (1, 2), (2, 3), (1, 3), (3, 1), configs={"min.insync.replicas": "2"})
    for index in (1, 2, 3):
        world.put("flights", index, isr=(world.state("flights", index).leader,))
    alerts.evaluate()
    (said,) = Alert.objects.filter(kind="partitions_under_min_isr")
    assert said.text.startswith("3 partitions (flights-1, flights-2, flights-3) have fewer")


@pytest.mark.django_db
def test_a_stuck_move_has_its_causes_and_an_unfinishable_move_is_one_alert(world: World) -> None:
    world.topic("orders", (1, 2), (2, 1))
    over = {"kind": "topic", "topic": "orders", "brokers": [2, 3]}
    move = moves.plan_move(parse_scope(over), actor="alice", comment="x")
    Move.objects.update(state="running", needs_bytes_per_s=9)
    move.parts.update(cause="will_not_finish", state="copying")
    alerts.evaluate()
    assert [a.kind for a in selectors.alert_list().rows] == ["move_will_not_finish"]
    Move.objects.update(needs_bytes_per_s=None)
    move.parts.filter(partition=0).update(cause="target_down")
    alerts.evaluate()
    assert [a.text for a in selectors.alert_list().rows] == [f"Move {move.pk}: 1 partition is stuck (target down)."]
    target = next(iter(set(move.parts.get(partition=0).replicas_to) - {1, 2}))
    Broker.objects.filter(pk__in=(1, target)).update(alive=False)
    alerts.evaluate()
    said = Alert.objects.get(kind="move_stuck").text
    assert said == f"Move {move.pk}: 1 partition is stuck (target broker {target} is down)."


@pytest.mark.django_db
def test_a_recent_forecast_of_a_full_disk_is_an_alert_with_its_evidence(world: World) -> None:
    now = timezone.now()

    def forecast(made: timedelta, full: timedelta, subject: str = "broker:1") -> dict[str, Any]:
        at = {"made_at": now - made, "low": now + full / 2, "median": now + full, "high": None}
        return {**DISK, "subject": subject, **{name: time and time.isoformat() for name, time in at.items()}}

    hour, day = timedelta(hours=1), timedelta(days=1)
    run = finished_run(
        forecast(hour, 4 * day + hour),
        forecast(25 * hour, day, "broker:2"),
        forecast(hour, day, "broker:9"),
        {**forecast(hour, day, "broker:3"), "median": None},
    )
    alerts.evaluate()
    (row,) = Alert.objects.all()
    assert (row.kind, row.subject, row.severity) == ("disk_filling", "1", "degraded")
    assert "full in about 4 d (80 % interval: 2 d or later): 5.0 GB of 9.0 GB are used. " in row.text
    assert row.text.endswith("33 of 40 earlier disk forecasts were right.")
    run.delete()
    alerts.evaluate()
    assert not Alert.objects.filter(ended_at__isnull=True).exists()


@pytest.mark.django_db
def test_a_disk_that_fills_up_is_a_warning_and_then_critical(world: World) -> None:
    def open_alert_kinds() -> list[tuple[Any, ...]]:
        alerts.evaluate()
        return list(Alert.objects.filter(ended_at__isnull=True).values_list("kind", "severity"))

    Broker.objects.filter(broker_id=2).update(total_bytes=1000, free_bytes=101)
    assert open_alert_kinds() == []
    Broker.objects.filter(broker_id=2).update(free_bytes=99)
    assert open_alert_kinds() == [("disk_low", "degraded")]
    Broker.objects.filter(broker_id=2).update(free_bytes=29)
    assert open_alert_kinds() == [("disk_low", "at_risk")]


@pytest.mark.django_db
def test_a_worker_that_does_not_poll_is_an_alert_of_the_cluster(world: World) -> None:
    def alert_kinds(silent_s: float | None, monitored_s: float = 1_000) -> list[str]:
        now = timezone.now()
        Cluster.objects.update(worker_polled_at=None if silent_s is None else now - timedelta(seconds=silent_s))
        alerts.evaluate(monitored_since=now - timedelta(seconds=monitored_s))
        return [a.kind for a in selectors.open_alerts()]

    assert alert_kinds(None) == [], "no worker has ever polled: the cluster is being set up"
    assert alert_kinds(50) == []
    assert alert_kinds(3_600, monitored_s=5) == [], "the whole cluster was stopped for an hour"
    assert alert_kinds(70) == ["worker_silent"]
    assert (overview().health.word, overview().health.reason) == ("degraded", "No worker is running.")
    assert alert_kinds(2) == []


@pytest.mark.django_db
def test_a_failed_move_without_a_moved_partition_has_no_advice_to_roll_back(world: World) -> None:
    """The text said to roll the move back, and no button did it."""
    world.topic("orders", (1, 2), (2, 1))
    over = {"kind": "topic", "topic": "orders", "brokers": [2, 3]}
    move = moves.plan_move(parse_scope(over), actor="alice", comment="x")
    Move.objects.update(state="failed", finished_at=timezone.now())
    move.parts.update(state="rejected", active=False)
    alerts.evaluate()
    assert "Nothing was moved." in Alert.objects.get(kind="move_failed").do
    move.parts.filter(partition=0).update(state="done")
    alerts.evaluate()
    assert "Roll the move back" in Alert.objects.get(kind="move_failed").do


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("code", "text"),
    [
        (-9, "Broker 2 is down: 1 replica offline; its process was ended by signal 9 (SIGKILL) at 01-01 00:12:03 UTC."),
        (1, "Broker 2 is down: 1 replica offline; its process ended with exit status 1 at 01-01 00:12:03 UTC."),
        (None, "Broker 2 is down: 1 replica offline."),
    ],
)
def test_the_alert_about_a_broker_says_how_its_process_ended_if_the_local_supervisor_knows(
    world: World, monkeypatch: pytest.MonkeyPatch, code: int | None, text: str
) -> None:
    ends = {} if code is None else {name: ProcessEnd(code, 723.0) for name in ("broker-1", "broker-2")}
    monkeypatch.setattr(supervisor, "process_ends", lambda folder: ends)
    world.topic("orders", (1, 2))
    world.down(2)
    alerts.evaluate()
    alert = Alert.objects.get(kind="broker_down")
    assert (alert.subject, alert.text) == ("2", text)
