"""Preconditions of disaster recovery: nothing runs, and each broker's disks are inspected once."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from brokerd.cluster import znodes
from brokerd.cluster.blocking import BlockingStore
from controlplane.devcluster import layout
from controlplane.disaster import reach
from controlplane.disaster.rebuilt import INSPECTION_FORMAT, CannotRebuild
from tests.unit.cluster.memory_store import MemoryStore


def inspection(folder: Path, broker_id: int, name: str = "") -> Path:
    body = {
        "format": INSPECTION_FORMAT,
        "broker_id": broker_id,
        "cluster_id": "c",
        "metadata_seq": 1,
        "trusted": True,
        "copies": [],
        "lost": [],
        "strays": [],
    }
    file = folder / f"{name or broker_id}.json"
    file.write_text(json.dumps(body))
    return file


def test_a_live_broker_or_controller_is_rejected_by_name() -> None:
    reach.require_stopped(BlockingStore(MemoryStore()))
    with pytest.raises(CannotRebuild, match="still running: broker 2, a controller; stop"):
        reach.require_stopped(BlockingStore(MemoryStore({znodes.broker(2): b"", znodes.CONTROLLER: b""})))
    with pytest.raises(CannotRebuild, match="still running: a controller; stop"):
        reach.require_stopped(BlockingStore(MemoryStore({znodes.CONTROLLER: b""})))


def test_sessions_of_killed_processes_expire_before_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore({znodes.broker(2): b"", znodes.CONTROLLER: b""})
    expiring = [znodes.CONTROLLER, znodes.broker(2)]
    zk = BlockingStore(store)
    monkeypatch.setattr(reach.time, "sleep", lambda seconds: zk.delete(expiring.pop()))
    reach.wait_for_expired_sessions(zk)
    assert expiring == []
    reach.require_stopped(zk)


def test_the_wait_for_sessions_ends_while_a_broker_is_live() -> None:
    zk = BlockingStore(MemoryStore({znodes.broker(2): b""}))
    reach.wait_for_expired_sessions(zk, seconds=0.0)
    with pytest.raises(CannotRebuild, match="still running: broker 2; stop"):
        reach.require_stopped(zk)


def test_inspections_are_read_from_the_files(tmp_path: Path) -> None:
    files = [inspection(tmp_path, 1), inspection(tmp_path, 2)]
    assert [s.broker_id for s in reach.inspections(tmp_path, files)] == [1, 2]


def test_two_inspections_of_a_broker_are_rejected(tmp_path: Path) -> None:
    files = [inspection(tmp_path, 1), inspection(tmp_path, 3), inspection(tmp_path, 3, "again")]
    with pytest.raises(CannotRebuild, match="two inspections of broker 3"):
        reach.inspections(tmp_path, files)


def test_a_file_that_is_no_inspection_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(CannotRebuild, match=r"x\.json: "):
        reach.inspections(tmp_path, [tmp_path / "x.json"])


def test_no_broker_and_no_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(CannotRebuild, match="contains no brokers, and no --inspection was given"):
        reach.inspections(tmp_path, [])


def test_each_local_broker_is_inspected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in (2, 1):
        (tmp_path / f"broker-{n}").mkdir()
        (tmp_path / f"broker-{n}" / "broker.properties").write_text("")
    monkeypatch.setattr(reach, "_inspect", lambda config: inspection(tmp_path, int(config.parent.name[-1])).read_text())
    assert [s.broker_id for s in reach.inspections(tmp_path, [])] == [1, 2]


def test_a_running_local_cluster_is_rejected_and_a_stopped_one_cannot_start_meanwhile(tmp_path: Path) -> None:
    with reach.cluster_lock(tmp_path):
        pass  # no local cluster
    assert not (tmp_path / "lock").exists()
    (tmp_path / "local-cluster.json").write_text("{}")
    with reach.cluster_lock(tmp_path), pytest.raises(layout.CannotStart):
        layout.lock(tmp_path)
    with (
        layout.lock(tmp_path),
        pytest.raises(CannotRebuild, match="is running; stop it with"),
        reach.cluster_lock(tmp_path),
    ):
        pass


@pytest.mark.parametrize(
    ("address", "port"),
    [
        ("127.0.0.1:2181", 2181),
        ("localhost:12181", 12181),
        ("10.0.0.1:2181", None),
        ("10.0.0.1:2182,10.0.0.2:2182,10.0.0.3:2182", None),
        ("127.0.0.1:2181,127.0.0.1:2182", None),
    ],
)
def test_only_the_zookeeper_of_the_local_cluster_is_started(address: str, port: int | None) -> None:
    assert reach.local_port(address) == port


def test_a_backup_of_a_cluster_on_other_machines_starts_no_zookeeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """It started one at the port of the ensemble, in the current directory, and waited more than a minute for the end of live sessions."""
    settings.WEIR = dataclasses.replace(settings.WEIR, zookeeper="10.0.0.1:2182,10.0.0.2:2182")
    connections: list[str] = []

    @contextmanager
    def no_connection(store: str) -> Iterator[str]:
        yield store

    monkeypatch.setattr(reach, "zookeeper_store", lambda hosts, timeout_ms: connections.append(hosts))
    monkeypatch.setattr(reach, "connected", no_connection)
    monkeypatch.setattr(reach.zookeeper, "prepare", lambda *_: pytest.fail("a ZooKeeper was started"))
    with reach.zookeeper_connection(tmp_path, None):
        pass
    assert connections == ["10.0.0.1:2182,10.0.0.2:2182"] and list(tmp_path.iterdir()) == []
