"""The rows of servers and sessions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from brokerd.cluster.blocking import Unreachable
from brokerd.cluster.zookeeper import servers_of
from controlplane.clients.zookeeper_servers import ServerResponse
from controlplane.clients.zookeeper_sessions import OwnedZnode, SessionOwner
from controlplane.clients.zookeeper_status import parse_status
from controlplane.domain.zookeeper_server import ServerProblem
from controlplane.selectors import zookeeper as selectors
from tests.unit.controlplane.clients.test_zookeeper_status import LEADER

FOLLOWER = LEADER.replace("Mode: leader", "Mode: follower")


def patch_responses(
    monkeypatch: pytest.MonkeyPatch, settings: Any, *responses: ServerResponse, lost: bool = False
) -> None:
    hosts = ",".join(f"{a.host}:{a.port}" for a in responses) + "/weir" if responses else ""
    settings.WEIR = replace(settings.WEIR, zookeeper=hosts)

    def owned_znodes(store: object) -> list[OwnedZnode]:
        if lost:
            raise Unreachable("ZooKeeper did not respond within 2 s (connecting)")
        return [OwnedZnode(SessionOwner.BROKER, "1", "/brokers/ids/1", "0x1", 5)]

    monkeypatch.setattr(selectors, "server_states", lambda servers, protection: list(responses))
    monkeypatch.setattr(selectors, "zookeeper_store", lambda hosts, timeout_ms: None)
    monkeypatch.setattr(selectors, "owned_znodes", owned_znodes)


def test_an_ensemble_with_a_dead_server(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    patch_responses(
        monkeypatch,
        settings,
        ServerResponse("a", 2181, parse_status(LEADER)),
        ServerResponse("b", 2181, parse_status(FOLLOWER)),
        ServerResponse("c", 2181, None, ServerProblem.UNREACHABLE, "Connection refused"),
    )
    found = selectors.ensemble()
    assert (found.serving, found.quorum, found.has_leader, found.chroot) == (2, 2, True, "/weir")
    assert [(s.address, s.mode, s.problem) for s in found.servers] == [
        ("a:2181", "leader", ""),
        ("b:2181", "follower", ""),
        ("c:2181", None, "unreachable"),
    ]
    assert found.servers[2].detail == "Connection refused" and found.servers[2].latency_mean_ms is None
    assert found.sessions is not None and [(s.owner, s.owner_id) for s in found.sessions] == [("broker", "1")]


def test_without_a_response_the_sessions_are_unknown(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    down = ServerResponse("a", 2181, None, ServerProblem.NOT_SERVING)
    patch_responses(monkeypatch, settings, down, lost=True)
    found = selectors.ensemble()
    assert (found.serving, found.has_leader, found.sessions) == (0, False, None)
    assert "did not respond within 2 s" in found.sessions_problem


def test_without_the_setting_nothing_is_asked(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    patch_responses(monkeypatch, settings)
    found = selectors.ensemble()
    assert (found.servers, found.sessions) == ([], None)
    assert "WEIR_ZOOKEEPER" in found.sessions_problem


@pytest.mark.parametrize(
    ("hosts", "servers", "chroot"),
    [
        ("", [], "/"),
        ("zk1:2181,zk2:2182/weir/a", [("zk1", 2181), ("zk2", 2182)], "/weir/a"),
        ("zk1", [("zk1", 2181)], "/"),
    ],
)
def test_the_servers_of_a_connection_string(hosts: str, servers: list[tuple[str, int]], chroot: str) -> None:
    assert servers_of(hosts) == (servers, chroot)
