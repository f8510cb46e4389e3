"""GET /api/v1/top."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.models import ObservedTopic
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_viewers_read_the_greatest(world: World, viewer_client: APIClient) -> None:
    world.topic("orders", (1,))
    ObservedTopic.objects.update(records_per_s=12.5)
    body = viewer_client.get("/api/v1/top?of=topics").json()
    assert body["rows"] == [{"name": "orders", "value": 12.5, "share_pct": 100.0, "subject": "topic:orders"}]
    assert (body["label"], body["unit"], body["brokers_silent"]) == ("Records in per second", "records/s", [])
    for query in ("", "of=x", "of=topics&by=x", "of=topics&limit=0", "of=topics&limits=5"):
        assert viewer_client.get(f"/api/v1/top?{query}").status_code == 400, query
