from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.models import Topic
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
API = "/api/v1"


def test_without_a_token_no_data_is_returned(client: object) -> None:
    for path in ("overview", "topics", "moves", "changes"):
        response = APIClient().get(f"{API}/{path}")
        assert response.status_code == 401
        assert response.headers["Content-Type"] == "application/problem+json"


def test_a_viewer_reads_and_cannot_act(world: World, viewer_client: APIClient) -> None:
    assert viewer_client.get(f"{API}/topics").status_code == 200
    response = viewer_client.post(f"{API}/topics", {"name": "t"}, format="json")
    assert response.status_code == 403
    assert "operators" in response.json()["detail"]
    assert not Topic.objects.exists()


def test_nothing_changes_while_the_api_is_read_only(world: World, operator: APIClient, settings: Any) -> None:
    settings.WEIR = replace(settings.WEIR, read_only=True)
    body = {"name": "t", "partitions": 1, "replication_factor": 1}
    response = operator.post("/api/v1/topics", body, format="json")
    assert (response.status_code, response.json()["code"]) == (403, "permission_denied")
    assert "WEIR_READ_ONLY" in response.json()["detail"]
    assert not Topic.objects.filter(name="t").exists()
    assert operator.get("/api/v1/topics").status_code == 200
