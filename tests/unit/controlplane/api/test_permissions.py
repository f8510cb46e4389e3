from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.models import Topic
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
API = "/api/v1"


def test_without_a_token_no_data_is_returned(client: object) -> None:
    for path in ("overview", "topics", "moves", "changes"):
        answer = APIClient().get(f"{API}/{path}")
        assert answer.status_code == 401
        assert answer.headers["Content-Type"] == "application/problem+json"


def test_a_viewer_reads_and_cannot_act(world: World, viewer_client: APIClient) -> None:
    assert viewer_client.get(f"{API}/topics").status_code == 200
    answer = viewer_client.post(f"{API}/topics", {"name": "t"}, format="json")
    assert answer.status_code == 403
    assert "operators" in answer.json()["detail"]
    assert not Topic.objects.exists()
