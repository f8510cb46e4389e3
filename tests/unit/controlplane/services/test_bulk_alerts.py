"""Acknowledgement of many alerts: each with its result."""

from __future__ import annotations

import pytest
from django.utils import timezone

from controlplane.domain.alert_types import AlertKind
from controlplane.models import Alert
from controlplane.services import Rejected, bulk_alerts

pytestmark = pytest.mark.django_db


def test_ended_and_unknown_alerts_are_rejected(db: None) -> None:
    since = timezone.now()
    rows = [Alert.objects.create(kind=AlertKind.BROKER_DOWN, subject=n, text="x", since=since) for n in "12"]
    Alert.objects.filter(pk=rows[1].pk).update(ended_at=since)
    keys = [str(r.pk) for r in rows]
    assert [bool(r.problem) for r in bulk_alerts.preview([*keys, "99999"])] == [False, True]
    results = bulk_alerts.acknowledge([*keys, "99999", "x"], actor="ada")
    assert [(r.key, r.outcome.value) for r in results] == [
        (keys[0], "done"),
        (keys[1], "rejected"),
        ("99999", "rejected"),
    ]
    assert [r.problem for r in bulk_alerts.preview(keys[:1])] == ["ada acknowledged it before."]
    with pytest.raises(Rejected):
        bulk_alerts.acknowledge(["1"] * (bulk_alerts.ALERTS_MAX + 1), actor="ada")
