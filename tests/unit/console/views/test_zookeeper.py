"""The page of the ZooKeeper ensemble."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from controlplane.clients.zookeeper_servers import ServerResponse
from controlplane.clients.zookeeper_status import parse_status
from controlplane.domain.zookeeper_server import ServerProblem
from tests.unit.controlplane.clients.test_zookeeper_status import LEADER
from tests.unit.controlplane.selectors.test_zookeeper import patch_responses

pytestmark = pytest.mark.django_db


def test_servers_and_sessions_are_shown(
    seeded_cluster: dict[str, Any], viewer: Client, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    gone = ServerResponse("b", 2181, None, ServerProblem.UNREACHABLE, "Connection refused")
    patch_responses(monkeypatch, settings, ServerResponse("a", 2181, parse_status(LEADER)), gone)
    page = viewer.get("/zookeeper/").content.decode()
    assert "No further server may fail" not in page, "there is no quorum already"
    assert "1 of 2 servers report their state" in page and "Connection refused" in page
    assert "0x100000042" in page and "Broker 1" in page and "No server of the ensemble" not in page


def test_an_ensemble_that_is_just_a_quorum_is_marked(
    seeded_cluster: dict[str, Any], viewer: Client, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    serving = [ServerResponse(host, 2181, parse_status(LEADER)) for host in "ab"]
    gone = ServerResponse("c", 2181, None, ServerProblem.UNREACHABLE, "Connection refused")
    patch_responses(monkeypatch, settings, *serving, gone)
    assert "No further server may fail" in viewer.get("/zookeeper/").content.decode()
    patch_responses(monkeypatch, settings, *serving, ServerResponse("c", 2181, parse_status(LEADER)))
    assert "No further server may fail" not in viewer.get("/zookeeper/").content.decode()


def test_the_page_of_an_ensemble_without_a_leader_shows_the_missing_quorum(
    seeded_cluster: dict[str, Any], viewer: Client, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    down = ServerResponse("a", 2181, None, ServerProblem.NOT_SERVING)
    patch_responses(monkeypatch, settings, down, lost=True)
    page = viewer.get("/zookeeper/").content.decode()
    assert "No server of the ensemble reports to be the leader" in page and "not serving: no quorum" in page
    assert "The sessions are unknown" in page
