"""GET /api/v1/zookeeper."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.clients.zookeeper_servers import ServerResponse
from controlplane.clients.zookeeper_status import parse_status
from controlplane.domain.zookeeper_server import ServerProblem
from tests.unit.controlplane.clients.test_zookeeper_status import LEADER
from tests.unit.controlplane.selectors.test_zookeeper import patch_responses

pytestmark = pytest.mark.django_db


def test_viewers_read_the_ensemble(viewer_client: APIClient, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    gone = ServerResponse("b", 2181, None, ServerProblem.UNREACHABLE, "Connection refused")
    patch_responses(monkeypatch, settings, ServerResponse("a", 2181, parse_status(LEADER)), gone)
    body = viewer_client.get("/api/v1/zookeeper").json()
    assert (body["serving"], body["quorum"], body["has_leader"]) == (1, 2, True)
    assert [(s["address"], s["mode"], s["znodes"], s["problem"]) for s in body["servers"]] == [
        ("a:2181", "leader", 151, ""),
        ("b:2181", None, None, "unreachable"),
    ]
    assert body["sessions"][0] == {
        "owner": "broker",
        "owner_id": "1",
        "path": "/brokers/ids/1",
        "session_id": "0x1",
        "epoch": 5,
    }
