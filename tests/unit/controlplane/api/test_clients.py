"""GET /api/v1/clients."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from tests.unit.controlplane.selectors.test_clients import client, patch_responses
from tests.unit.controlplane.world import World


def test_viewers_read_the_clients(viewer_client: APIClient, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    patch_responses(
        monkeypatch, {1: [client("shop", 5), client("billing", 9)], 2: [client("broker-1", is_broker=True)]}
    )
    found = viewer_client.get("/api/v1/clients").json()
    assert [r["client_id"] for r in found["rows"]] == ["billing", "shop"]
    assert (found["total"], found["brokers_asked"], found["brokers_silent"], found["not_listed"]) == (2, 3, [], 0)
    assert [r["client_id"] for r in viewer_client.get("/api/v1/clients?query=bill").json()["rows"]] == ["billing"]
    assert viewer_client.get("/api/v1/clients?with_brokers=true&broker=2").json()["total"] == 1
    lines = viewer_client.get("/api/v1/clients", headers={"Accept": "text/csv"}).content.decode().splitlines()
    assert lines[0].startswith("client_id,principal,host") and len(lines) == 3
    for wrong in ("broker=x", "broker=-1", "broker=99999999999", "nonsense=1", "limit=9999", "with_brokers=maybe"):
        assert viewer_client.get(f"/api/v1/clients?{wrong}").status_code == 400, wrong


def test_the_clients_of_silent_brokers_are_missing(
    viewer_client: APIClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch_responses(monkeypatch, {1: [client("shop")]}, silent=[2, 3])
    found = viewer_client.get("/api/v1/clients").json()
    assert [s["broker_id"] for s in found["brokers_silent"]] == [2, 3] and found["total"] == 1
