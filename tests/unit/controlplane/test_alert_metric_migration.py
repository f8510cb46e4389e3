"""The migration that moves the metric of an alert from its subject to columns."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection
from django.utils import timezone

from controlplane.models import Alert

pytestmark = pytest.mark.django_db


def test_open_and_ended_alerts_of_anomalies_get_their_columns() -> None:
    now = timezone.now()
    found = {
        "records_per_s of cluster": ("records_per_s", "cluster", ""),
        "records_per_s of topic:flights": ("records_per_s", "topic", "flights"),
        "lag_s of group:a of b": ("lag_s", "group", "a of b"),
        "lag_records of share_group:a:b": ("lag_records", "share_group", "a:b"),
        "a text of another version": ("", "", ""),
    }
    for subject in found:
        Alert.objects.create(kind="anomaly", subject=subject, severity="degraded", text="x", do="y", since=now)
    Alert.objects.create(kind="group_stopped", subject="x of topic:y", severity="degraded", text="x", do="y", since=now)
    Alert.objects.filter(subject="lag_s of group:a of b").update(ended_at=now)
    migration = import_module("controlplane.migrations.0050_alert_metric")
    migration.forwards(apps, connection.schema_editor())
    rows = Alert.objects.values_list("subject", "metric", "object_kind", "object_name")
    assert {subject: tuple(columns) for subject, *columns in rows} == found | {"x of topic:y": ("", "", "")}
