"""/api/v1/healing-actions and /api/v1/healing-runs."""

from __future__ import annotations

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.models import HealingRun
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
URL = "/api/v1/healing-actions"


def test_actions_are_off_and_changed_by_operators(world: World, operator: APIClient, viewer_client: APIClient) -> None:
    assert {a["mode"] for a in viewer_client.get(URL).json()} == {"off"}
    path = f"{URL}/elect_preferred_leaders"
    assert viewer_client.patch(path, {"mode": "on"}, format="json").status_code == 403
    body = operator.patch(path, {"mode": "dry_run", "per_hour": 4}, format="json").json()
    assert (body["mode"], body["per_hour"], body["cool_down_s"]) == ("dry_run", 4, 900)
    assert operator.patch(path, {"mode": "maybe"}, format="json").status_code == 400
    assert operator.patch(path, {"mode": "on", "per_hour": 0}, format="json").status_code == 400
    assert operator.patch(f"{URL}/none", {"mode": "on"}, format="json").status_code == 404


def test_runs_are_listed(world: World, viewer_client: APIClient) -> None:
    HealingRun.objects.create(
        at=timezone.now(), action="recover_damaged_replica", outcome="dry_run", subject="t-0 on broker 1", detail="x"
    )
    body = viewer_client.get("/api/v1/healing-runs").json()
    assert [(r["outcome"], r["subject"]) for r in body["rows"]] == [("dry_run", "t-0 on broker 1")]
    assert viewer_client.get("/api/v1/healing-runs?pages=1").status_code == 400
