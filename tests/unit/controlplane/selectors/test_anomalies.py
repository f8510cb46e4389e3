"""Anomalies and watched metrics as rows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.domain.anomaly import CONFIRMED_S, WATCHED
from controlplane.models import Anomaly, AnomalySwitch
from controlplane.selectors.anomalies import alerting_metrics, anomaly_list, watched_metrics

pytestmark = pytest.mark.django_db


def unusual(subject: str, metric: str, distance: float) -> None:
    now = timezone.now()
    Anomaly.objects.create(
        subject=subject,
        metric=metric,
        state="high",
        value=9,
        usual=1,
        distance=distance,
        baseline="days",
        values=7,
        since=now - timedelta(seconds=CONFIRMED_S),
        checked_at=now,
    )


def test_the_largest_deviations_are_first_and_have_their_alert_switch() -> None:
    unusual("topic:a:b", "records_per_s", 9)
    unusual("cluster", "records_per_s", -20)
    unusual("topic:a", "metric_of_another_version", 99)
    rows = [(a.subject, a.alerts, a.unit) for a in anomaly_list()]
    assert rows == [("cluster", True, "records/s"), ("topic:a:b", False, "records/s")]


def test_switches_change_the_default() -> None:
    assert alerting_metrics() == {w.name for w in WATCHED if w.alerts}
    AnomalySwitch.objects.create(name="topic.records_per_s", alerts=True, changed_by="alice")
    AnomalySwitch.objects.create(name="cluster.records_per_s", alerts=False, changed_by="alice")
    assert alerting_metrics() == {"topic.records_per_s", "group.lag_s", "share_group.lag_records"}
    row = next(f for f in watched_metrics() if f.name == "cluster.records_per_s")
    assert (row.alerts, row.default, row.changed_by) == (False, True, "alice")
