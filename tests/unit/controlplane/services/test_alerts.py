"""Stored alerts: their start and end, the list, the health line, and the metrics for a monitoring system."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families
from rest_framework.test import APIClient

from controlplane import tasks
from controlplane.models import Alert, Broker, Cluster, ConsumerGroup, ObservedTopic
from controlplane.monitoring.age import data_age
from controlplane.selectors import alerts as selectors
from controlplane.selectors.overview import overview
from controlplane.services import alerts
from tests.unit.controlplane.world import World


@pytest.mark.django_db
def test_an_alert_keeps_its_start_time_and_ends_automatically(world: World) -> None:
    world.topic("flights", (1, 2), (2, 3))
    assert not alerts.evaluate() and overview().alerts == 0
    world.down(1)
    assert alerts.evaluate() and not alerts.evaluate(), "nothing is written where nothing changed"
    row = Alert.objects.get()
    assert (row.kind, row.subject, row.severity) == ("broker_down", "1", "degraded")
    assert (overview().alerts, overview().alerts_at_risk) == (1, 0)
    Alert.objects.update(since=timezone.now() - timedelta(minutes=5))
    world.image.brokers[1] = replace(world.image.brokers[1], alive=True)
    world.project()
    alerts.evaluate()
    assert [a.kind for a in selectors.alert_list().rows] == []
    (ended,) = selectors.alert_list(state="resolved").rows
    assert 299 < ended.lasts_s < 310
    world.down(1)
    alerts.evaluate()
    (again,) = selectors.alert_list().rows
    assert (again.id, again.ended_at) == (row.pk, None) and again.lasts_s > 299, "back within a minute: it never ended"


@pytest.mark.django_db
def test_alerts_are_listed_by_severity_and_then_time(world: World) -> None:
    world.topic("orders", (1, 2), (2, 3))
    Broker.objects.filter(broker_id=3).update(total_bytes=1000, free_bytes=20)
    alerts.evaluate()
    Broker.objects.filter(broker_id=2).update(total_bytes=1000, free_bytes=90)
    alerts.evaluate()
    world.offline("orders", 1)
    Cluster.objects.update(drift=1)
    alerts.evaluate()
    listed = selectors.alert_list(sort="severity").rows
    assert [(a.kind, a.subject) for a in listed] == [
        ("partitions_offline", ""),
        ("disk_low", "3"),
        ("disk_low", "2"),
        ("drift", ""),
    ]


@pytest.mark.django_db
def test_a_silent_monitor_is_the_first_alert_without_a_row(world: World) -> None:
    assert selectors.silence() is None
    Cluster.objects.update(observed_at=timezone.now() - timedelta(seconds=40))
    assert [a.kind for a in selectors.open_alerts()] == ["monitor_silent"]


@pytest.mark.django_db
def test_alerts_and_metrics_are_readable_with_a_token(world: World, viewer_client: APIClient) -> None:
    world.topic('odd"topic', (1, 2))
    ObservedTopic.objects.update(size_bytes=7)
    world.down(1)
    Broker.objects.filter(pk=1).update(dirs_slow=["/a"], dirs_hung=["/b"], dir_probe_ms={"/a": 1_500})
    alerts.evaluate()
    assert APIClient().get("/api/v1/metrics").status_code == 401
    listed = viewer_client.get("/api/v1/alerts").json()
    assert [(a["kind"], a["subject"]) for a in listed["rows"]] == [("broker_down", "1")]
    response = viewer_client.get("/api/v1/metrics", HTTP_ACCEPT="text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
    assert response.headers["Content-Type"].startswith("text/plain; version=")
    text = response.content.decode()
    assert 'weir_alert{kind="broker_down",severity="degraded",subject="1"} 1.0\n' in text
    assert 'weir_broker_disk_probe_seconds{broker="1",directory="/a"} 1.5\n' in text
    assert 'weir_broker_disk_slow{broker="1",directory="/a"} 1.0\n' in text
    assert 'weir_broker_disk_hung{broker="1",directory="/b"} 1.0\n' in text
    assert 'weir_broker_alive{broker="1"} 0.0\n' in text and "weir_partitions 1.0\n" in text
    assert "weir_records_per_second" not in text, "not known is left out"
    assert "weir_topic_size_bytes" not in text
    with_topics = viewer_client.get("/api/v1/metrics?topics=true").content.decode()
    assert 'weir_topic_size_bytes{topic="odd\\"topic"}' in with_topics
    families = list(text_string_to_metric_families(with_topics))
    assert len({family.name for family in families}) == len(families) > 10
    assert all(family.documentation and sample.value >= 0 for family in families for sample in family.samples)


@pytest.mark.django_db
def test_the_health_is_never_better_than_the_most_severe_alert(world: World, viewer_client: APIClient) -> None:
    """The status was `healthy` although an alert about data at risk was open."""
    world.topic("flights", (1, 2))
    group = ConsumerGroup.objects.create(group_id="billing", status="stopped", observed_at=timezone.now())
    alerts.evaluate()
    assert overview().health.word == "degraded" and overview().health.reason == "Group billing has stopped."
    ConsumerGroup.objects.filter(pk=group.pk).update(status="data_lost", lost_records=9)
    alerts.evaluate()
    said = viewer_client.get("/api/v1/overview").json()
    assert (said["alerts_at_risk"], said["health"]["word"]) == (1, "at_risk")
    assert said["health"]["reason"] == "Group billing lost data to retention."
    world.down(1)
    assert overview().health.word == "at_risk", "a broker that is down is less than that"
    ConsumerGroup.objects.all().delete()
    world.image.brokers[1] = replace(world.image.brokers[1], alive=True)
    world.project()
    alerts.evaluate()
    assert (overview().alerts, overview().health.word) == (0, "healthy")


@pytest.mark.django_db
def test_a_poll_of_the_worker_is_recorded_every_ten_seconds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_polled", -tasks.POLLED_SECONDS)
    tasks.advance_all()
    polled_at = Cluster.objects.get().worker_polled_at
    assert polled_at is not None and (timezone.now() - polled_at).total_seconds() < 60
    tasks.advance_all()
    assert Cluster.objects.get().worker_polled_at == polled_at, "no write in each second"
    monkeypatch.setattr(tasks, "_polled", time.monotonic() - tasks.POLLED_SECONDS)
    tasks.advance_all()
    assert Cluster.objects.get().worker_polled_at > polled_at


@pytest.mark.django_db
def test_an_unreachable_zookeeper_is_its_own_alert(world: World) -> None:
    def set_ages(observed_s: float, heartbeat_s: float) -> None:
        now = timezone.now()
        Cluster.objects.update(
            zookeeper_connected=False,
            observed_at=now - timedelta(seconds=observed_s),
            heartbeat_at=now - timedelta(seconds=heartbeat_s),
        )

    set_ages(90, 1)
    alerts.evaluate()
    assert selectors.silence() is None
    assert [a.kind for a in selectors.open_alerts()] == ["zookeeper_away"]
    assert overview().health.word == "degraded" and overview().health.reason.startswith("ZooKeeper does not respond")
    assert data_age().zookeeper_away
    set_ages(90, 40)
    silent = selectors.silence()
    assert silent is not None and silent.kind == "monitor_silent"
    assert overview().health.word == "unknown" and not data_age().zookeeper_away
