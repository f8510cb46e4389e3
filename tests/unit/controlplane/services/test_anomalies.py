"""Anomalies in recorded history, their alerts and switches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from controlplane.domain.alert_thresholds import AlertThresholds, ThresholdName
from controlplane.domain.alert_types import AlertKind, AlertMetric
from controlplane.domain.anomaly import CONFIRMED_S, AnomalyState
from controlplane.domain.history import HistorySubject
from controlplane.models import Alert, Anomaly, ObservedTopic
from controlplane.monitoring.history import HistoryRecorder
from controlplane.selectors.alerts import open_alerts
from controlplane.selectors.anomalies import anomaly_list, watched_metrics
from controlplane.services import Rejected, alerts, anomalies
from tests.unit.controlplane.history_rows import record
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
NOW = int(timezone.now().timestamp()) // 600 * 600
AT = datetime.fromtimestamp(NOW, UTC)
HOUR, DAY = 3600, 86_400
TOPIC = ("topic:flights", "records_per_s")


def history(world: World, values: dict[int, float], rate: float = 1) -> None:
    """`values`: of the ten minutes before each time; every minute has one."""
    world.topic("flights", (1,))
    ObservedTopic.objects.update(records_per_s=rate)
    frames = {
        at - s: {TOPIC: value, ("cluster", "records_per_s"): value}
        for at, value in values.items()
        for s in range(10, 610, 10)
    }
    record(HistoryRecorder(), frames)


def age_anomalies() -> None:
    """As if the anomalies had begun ten minutes before."""
    Anomaly.objects.update(since=AT - timedelta(seconds=CONFIRMED_S))


def test_missing_traffic_is_found_by_days_and_its_first_time_stays(world: World) -> None:
    history(world, {NOW: 20.0} | {NOW - d * DAY: 1000.0 for d in range(1, 8)})
    anomalies.evaluate(now=AT)
    assert anomaly_list() == [], "it may be over in ten minutes"
    age_anomalies()
    rows = {a.subject: a for a in anomaly_list()}
    assert set(rows) == {"cluster", "topic:flights"}
    low = rows["topic:flights"]
    assert (low.state, low.baseline, low.values, round(low.usual)) == (AnomalyState.LOW, "days", 7, 1000)
    since = Anomaly.objects.get(subject="cluster").since
    anomalies.evaluate(now=AT)
    assert Anomaly.objects.get(subject="cluster").since == since


def test_hours_are_used_while_there_are_few_days_and_the_end_deletes(world: World) -> None:
    history(world, {NOW: 9000.0} | {NOW - h * HOUR: 1000.0 for h in range(1, 20)})
    found = anomalies.evaluate(now=AT)
    assert found[TOPIC].state is AnomalyState.HIGH and found[TOPIC].baseline == "hours"
    age_anomalies()
    assert len(anomaly_list()) == 2
    far = AlertThresholds({ThresholdName.ANOMALY_DISTANCE: 100})
    assert anomalies.evaluate(far, now=AT)[TOPIC].state is AnomalyState.NORMAL
    assert anomaly_list() == []


def test_a_history_with_too_few_values_has_no_anomaly(world: World) -> None:
    history(world, {NOW: 9000.0} | {NOW - h * HOUR: 1000.0 for h in range(1, 6)})
    assert anomalies.evaluate(now=AT)[TOPIC].state is AnomalyState.TOO_FEW_VALUES
    assert anomaly_list() == []


def test_alerts_are_switched_by_metric_and_limited(world: World) -> None:
    history(world, {NOW: 9000.0} | {NOW - h * HOUR: 1000.0 for h in range(1, 20)})
    anomalies.evaluate(now=AT)
    age_anomalies()

    def subjects(thresholds: AlertThresholds | None = None) -> set[str]:
        alerts.evaluate(thresholds)
        open_now = Alert.objects.filter(kind=AlertKind.ANOMALY, ended_at__isnull=True)
        return set(open_now.values_list("subject", flat=True))

    assert subjects() == {"records_per_s of cluster"}, "alerts about topics are off by default"
    text = Alert.objects.get(kind=AlertKind.ANOMALY).text
    assert "higher than usual, about 9,000 instead of 1,000 in the last hours" in text
    anomalies.switch_alerts("topic.records_per_s", True, actor="alice")
    assert subjects() == {"records_per_s of cluster", "records_per_s of topic:flights"}
    objects = set(Alert.objects.values_list("subject", "metric", "object_kind", "object_name"))
    assert objects == {
        ("records_per_s of cluster", "records_per_s", "cluster", ""),
        ("records_per_s of topic:flights", "records_per_s", "topic", "flights"),
    }
    assert len(subjects(AlertThresholds({ThresholdName.ANOMALY_ALERTS_MAX: 1}))) == 1
    assert subjects(AlertThresholds({ThresholdName.ANOMALY_ALERTS_MAX: 0})) == set()
    anomalies.switch_alerts("topic.records_per_s", False, actor="alice")
    row = next(f for f in watched_metrics() if f.name == "topic.records_per_s")
    assert (row.alerts, row.changed_at) == (False, None), "the default again"
    with pytest.raises(Rejected):
        anomalies.switch_alerts("topic.nothing", True, actor="alice")


def test_an_unusual_lag_of_a_share_group_has_an_alert(world: World) -> None:
    lag = ("share_group:workers", "lag_records")
    usual = {NOW - h * HOUR: 100.0 for h in range(1, 20)}
    frames = {at - s: {lag: v} for at, v in ({NOW: 90_000.0} | usual).items() for s in range(10, 610, 10)}
    record(HistoryRecorder(), frames | {int(timezone.now().timestamp()) // 10 * 10 - 10: {lag: 90_000.0}})
    assert anomalies.evaluate(now=AT)[lag].state is AnomalyState.HIGH
    age_anomalies()
    alerts.evaluate()
    (alert,) = Alert.objects.filter(kind=AlertKind.ANOMALY)
    assert alert.subject == "lag_records of share_group:workers"
    metric = AlertMetric("lag_records", HistorySubject.SHARE_GROUP, "workers")
    assert [a.metric for a in open_alerts()] == [metric]
