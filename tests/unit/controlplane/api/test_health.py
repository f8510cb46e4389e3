"""GET /api/v1/health-checks and /api/v1/anomalies."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.models import Change
from controlplane.services import health
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_checks_failures_and_scores(world: World, viewer_client: APIClient) -> None:
    world.topic("single", (1,))
    health.evaluate()
    body = viewer_client.get("/api/v1/health-checks").json()
    check = next(c for c in body["checks"] if c["name"] == "replication")
    assert (check["state"], check["failed"], check["objects"], check["limit"]) == ("failed", 1, 1, 2.0)
    assert check["threshold"] == "health_replication" and 0 < body["score"] < 100
    rows = viewer_client.get("/api/v1/health-checks/failures?check=replication").json()["rows"]
    assert [(r["subject"], r["value"]) for r in rows] == [("single", 1.0)]
    scores = viewer_client.get("/api/v1/health-checks/scores?scope=topic").json()
    assert [(r["subject"], r["failed"]) for r in scores["rows"]] == [("single", ["replication"])]
    for path in ("failures?check=x", "scores?scope=x", "scores"):
        assert viewer_client.get(f"/api/v1/health-checks/{path}").status_code == 400


def test_alerts_of_a_metric_are_switched_by_operators(
    world: World, operator: APIClient, viewer_client: APIClient
) -> None:
    assert viewer_client.get("/api/v1/anomalies").json() == []
    path = "/api/v1/anomalies/metrics/topic.records_per_s"
    assert viewer_client.post(f"{path}/on").status_code == 403
    assert operator.post(f"{path}/on", {"comment": "season"}, format="json").json()["alerts"] is True
    metrics = {f["name"]: f["alerts"] for f in viewer_client.get("/api/v1/anomalies/metrics").json()}
    assert metrics["topic.records_per_s"] is True
    assert Change.objects.get(verb="anomaly.switch", outcome="confirmed").comment == "season"
    assert operator.post(f"{path}/none").status_code == 404
    assert operator.post(f"{path}/on", {"coment": "x"}, format="json").status_code == 400
