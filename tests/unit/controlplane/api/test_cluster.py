"""GET /api/v1/clusters: this cluster and the other ones, as their consoles last answered."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.domain.other_cluster import OtherConsole
from controlplane.models import OtherCluster

pytestmark = pytest.mark.django_db
METRICS = {
    "cluster_name": "b",
    "health": "degraded",
    "reason": "a disk is slow",
    "brokers_alive": 3,
    "brokers_total": 3,
    "under_replicated": 0,
    "offline": 0,
    "alerts_at_risk": 0,
    "alerts_degraded": 1,
    "age_s": 2.0,
    "reason_code": "brokers_down",
    "reason_values": {"count": 1, "total": 3, "lacking": 0},
}


def test_the_clusters_of_the_settings_have_their_last_metrics(viewer_client: APIClient, settings: Any) -> None:
    settings.OTHER_CONSOLES = tuple(OtherConsole(n, f"https://{n}.example", "red", "weir_x", "") for n in "bc")
    now = timezone.now()
    OtherCluster.objects.create(
        name="b", url="https://b.example", metrics=METRICS, answered_at=now, tried_at=now, problem="none"
    )
    own, other, unasked = viewer_client.get("/api/v1/clusters").json()
    assert (own["url"], own["problem"]) == ("", "none") and own["metrics"]["health"] == "unknown"
    assert other["metrics"] == METRICS and other["problem"] == "none" and other["response_age_s"] < 60
    assert (unasked["name"], unasked["metrics"], unasked["problem"]) == ("c", None, "not_read")
    assert "weir_x" not in str((own, other, unasked)), "the token of another console"
