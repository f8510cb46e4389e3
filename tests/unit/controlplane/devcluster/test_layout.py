"""The data directory of a local cluster: ports, kept options, the lock, and checks before the start."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from brokerd.config.broker import BY_NAME
from controlplane.devcluster import layout as layouts
from controlplane.devcluster.layout import SESSION_MS, CannotStart, Layout
from tests.cluster.devcluster import free_base


@pytest.fixture
def port() -> int:
    """The base port of free ports for the console, ZooKeeper and three brokers. Ports of the kernel's range for clients may be used by other tests."""
    return free_base(5)


def layout(folder: Path, port: int, **more: Any) -> Layout:
    return Layout(folder, port, **{"brokers": 3, "controllers": 2, **more})


def test_ports_follow_the_base(tmp_path: Path) -> None:
    it = layout(tmp_path, 20_000)
    assert (it.console_port, it.zookeeper_port, it.broker_port(1)) == (20_000, 20_001, 20_002)
    assert it.bootstrap == "127.0.0.1:20002,127.0.0.1:20003,127.0.0.1:20004" and it.console == "http://127.0.0.1:20000/"


def test_missing_options_have_the_values_of_the_last_start(tmp_path: Path) -> None:
    assert layouts.planned_layout(tmp_path, None, None, None) == Layout(tmp_path, 19_090, 4, 2, False)
    facts = {"port_base": 21_000, "brokers": 5, "controllers": 3, "secure": True}
    (tmp_path / "local-cluster.json").write_text(json.dumps(facts))
    assert layouts.planned_layout(tmp_path, None, 6, None) == Layout(tmp_path, 21_000, 6, 3, True)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"brokers": 0}, "--brokers must be 1 to 9, not 0"),
        ({"brokers": 10}, "--brokers must be 1 to 9"),
        ({"controllers": 6}, "--controllers must be 1 to 5"),
        ({"port_base": 80}, "--port-base must be 1024 to 65000"),
    ],
)
def test_an_option_outside_its_limits_is_named(tmp_path: Path, port: int, more: dict[str, int], message: str) -> None:
    given = {"port_base": port, "brokers": 3, "controllers": 2, **more}
    with pytest.raises(CannotStart, match=message):
        layouts.check(Layout(tmp_path, **given))


def test_no_broker_of_the_directory_is_omitted(tmp_path: Path, port: int) -> None:
    (tmp_path / "local-cluster.json").write_text('{"brokers": 4}')
    with pytest.raises(CannotStart, match="contains 4 brokers"):
        layouts.check(layout(tmp_path, port))


def test_a_used_port_is_named_with_its_process(tmp_path: Path, port: int) -> None:
    layouts.check(layout(tmp_path / "new", port))
    assert list((tmp_path / "new").iterdir()) == [], "a check leaves no file"
    with socket.socket() as used:
        used.bind(("127.0.0.1", port + 1))
        used.listen()
        with pytest.raises(CannotStart, match=f"Port {port + 1} for ZooKeeper is already in use"):
            layouts.check(layout(tmp_path, port))


def test_a_directory_that_cannot_be_written_is_rejected(tmp_path: Path, port: int) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotStart, match="is not writable"):
        layouts.check(layout(tmp_path / "file", port))


def test_a_directory_has_one_supervisor(tmp_path: Path) -> None:
    with layouts.lock(tmp_path), pytest.raises(CannotStart, match="is running in"):
        layouts.lock(tmp_path)
    layouts.lock(tmp_path).close()


def test_three_replicas_need_two_in_sync() -> None:
    assert [layouts.min_insync(n) for n in (1, 2, 3)] == [1, 1, 2]


def test_sessions_of_a_local_cluster_outlast_the_pauses_of_a_busy_machine() -> None:
    """With a time-out of 3 s, sessions of live processes expired, because event loops paused for up to 5.8 s. Production uses Kafka's default."""
    longest_pause_ms = 5_800
    assert longest_pause_ms < SESSION_MS <= BY_NAME["zookeeper.session.timeout.ms"].default == 18_000
