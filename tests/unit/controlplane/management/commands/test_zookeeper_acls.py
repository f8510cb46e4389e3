"""The command `zookeeper_acls`: the owner comes from the settings, and a rejection of ZooKeeper is reported."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management.base import CommandError

from brokerd.cluster import znodes
from brokerd.cluster.protection import OPEN, Protection
from controlplane.management.commands import zookeeper_acls
from tests.unit.controlplane.management.commands.local_cluster import run

WEIR = Protection(user="weir", password="secret")


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The requests to a fake ZooKeeper, which reports 12 nodes."""
    made: list[tuple[Any, ...]] = []

    def hand_over(hosts: str, protection: Protection, roots: Any, *, owned: bool) -> int:
        made.append((hosts, protection.user, tuple(roots), owned))
        return 12

    monkeypatch.setattr(zookeeper_acls, "hand_over", hand_over)
    monkeypatch.setattr(zookeeper_acls, "zookeeper_protection", lambda: WEIR)
    return made


@pytest.mark.parametrize(("whose", "text"), [("own", "restricted to weir"), ("open", "open to all clients")])
def test_all_nodes_of_the_cluster_are_changed(calls: list[tuple[Any, ...]], whose: str, text: str) -> None:
    assert run("zookeeper_acls", whose, "--zookeeper=zk:2181") == f"12 nodes are {text}.\n"
    ((hosts, user, roots, owned),) = calls
    assert (hosts, user, owned) == ("zk:2181", "weir", whose == "own")
    every = (*znodes.PERSISTENT, znodes.CONTROLLER, znodes.CONTROLLER_EPOCH)
    assert all(any(path == r or path.startswith(r + "/") for r in roots) for path in every)


def test_without_a_user_no_node_is_changed(calls: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zookeeper_acls, "zookeeper_protection", lambda: OPEN)
    with pytest.raises(CommandError, match=r"no user \(zookeeper.sasl.jaas.config\)"):
        run("zookeeper_acls", "own", "--zookeeper=zk:2181")
    assert calls == []


def test_a_rejection_of_zookeeper_is_an_error_of_the_command(
    calls: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_permission_error(*_: Any, **__: Any) -> int:
        raise PermissionError("not the owner of /brokers")

    monkeypatch.setattr(zookeeper_acls, "hand_over", raise_permission_error)
    with pytest.raises(CommandError, match="not the owner of /brokers"):
        run("zookeeper_acls", "open", "--zookeeper=zk:2181")
