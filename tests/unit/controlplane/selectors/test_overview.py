"""The health state of the cluster: the most severe condition, with its reason."""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.domain.alert_types import AlertKind, Severity
from controlplane.models import Alert, Cluster
from controlplane.selectors.overview import (
    Health,
    HealthShape,
    Overview,
    OverviewShape,
    overview,
    overview_shape,
)
from controlplane.services import alerts
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def health() -> Health:
    return overview().health


def test_before_the_first_report_the_state_is_unknown(db: None) -> None:
    assert (health().word, overview().age_s) == ("unknown", None)


def test_conditions_are_reported_by_severity(world: World) -> None:
    world.topic("flights", (1, 2, 3), (2, 1, 3), configs={"min.insync.replicas": "2"})
    assert health().word == "healthy"
    world.put("flights", 0, isr=(1, 2))
    assert (health().word, health().reason) == ("degraded", "1 partition has a replica out of sync.")
    world.down(3)
    assert health().reason == "1 broker of 3 is down; 1 partition lacks a replica."
    world.put("flights", 0, isr=(1,))
    assert health().word == "at_risk" and "fewer in-sync replicas than min.insync.replicas" in health().reason
    world.offline("flights", 1)
    assert (health().word, health().reason) == ("at_risk", "1 partition has no leader.")
    assert (health().reason_code, health().reason_values) == ("partitions_offline", {"count": 1})


@pytest.mark.parametrize(("age_s", "word"), [(5, "healthy"), (20, "degraded"), (70, "unknown")])
def test_old_data_is_no_health(world: World, age_s: int, word: str) -> None:
    world.age_observation(age_s)
    Cluster.objects.update(heartbeat_at=timezone.now() - timedelta(seconds=age_s))
    assert health().word == word


def test_without_zookeeper_the_data_stays_valid_and_elections_are_missing(world: World) -> None:
    world.age_observation(300)
    Cluster.objects.update(zookeeper_connected=False, heartbeat_at=timezone.now())
    assert (health().word, health().reason) == (
        "degraded",
        "ZooKeeper does not respond: no leader elections until it does.",
    )


def test_the_state_is_never_better_than_the_gravest_open_alert(world: World) -> None:
    world.topic("flights", (1, 2))
    world.offline("flights", 0)
    alerts.evaluate()
    world.put("flights", 0, isr=(1, 2), leader=1, leader_broker_epoch=101, last_isr=())
    assert overview().offline == 0 and health().word == "at_risk", "the alert is still open"


@pytest.mark.parametrize(
    ("kind", "down", "reason"),
    [
        (AlertKind.GROUP_RETENTION, False, "Group billing will lose data to retention."),
        (AlertKind.GROUP_RETENTION, True, "1 broker of 3 is down; 1 partition lacks a replica."),
        (AlertKind.DISK_FAILED, True, "Broker billing has failed log directories."),
    ],
)
def test_a_dead_broker_is_named_before_a_group_that_loses_records(
    world: World, kind: AlertKind, down: bool, reason: str
) -> None:
    """All pages named only the group while a broker was down."""
    world.topic("flights", (1, 2, 3))
    if down:
        world.put("flights", 0, isr=(1, 2))
        world.down(3)
    Alert.objects.create(kind=kind, subject="billing", text="x", severity=Severity.AT_RISK, since=timezone.now())
    assert (health().word, health().reason) == ("at_risk", reason)


def test_counts_are_over_all_topics(world: World) -> None:
    world.topic("flights", (1, 2), (2, 3))
    world.topic("__consumer_offsets", (3, 1))
    found = overview()
    assert (found.topics, found.partitions, found.brokers_alive, found.brokers_total) == (2, 3, 3, 3)


def test_the_shape_has_the_fields_of_the_overview(world: World) -> None:
    for row, shape in ((Overview, OverviewShape), (Health, HealthShape)):
        assert [f.name for f in fields(row)] == list(shape.__annotations__)
    found = overview_shape(overview())
    assert list(found) == list(OverviewShape.__annotations__)
    assert isinstance(found["observed_at"], str), "a time is text"
