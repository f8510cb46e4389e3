"""The command `process`: requests to stop, start and kill one process of a local cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.core.management.base import CommandError

from controlplane.management.commands import process
from tests.unit.controlplane.management.commands.local_cluster import run, write_state


@pytest.fixture
def stopped_cluster_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "stopped"
    folder.mkdir()
    return folder


def test_without_a_running_supervisor_nothing_is_requested(tmp_path: Path, stopped_cluster_folder: Path) -> None:
    with pytest.raises(CommandError, match="No local cluster is running"):
        run("process", "stop", "broker-1", f"--data-dir={tmp_path}")
    write_state(tmp_path, supervised=False, broker_1="stopped")
    with pytest.raises(CommandError, match="No local cluster is running"):
        run("process", "stop", "broker-1", f"--data-dir={tmp_path}")
    assert list(stopped_cluster_folder.iterdir()) == []


def test_an_unknown_process_is_rejected_with_the_known_ones(tmp_path: Path, stopped_cluster_folder: Path) -> None:
    write_state(tmp_path, broker_1="running", zookeeper="running")
    with pytest.raises(CommandError, match=r"no process 'broker-9'; the processes are broker-1, zookeeper"):
        run("process", "stop", "broker-9", f"--data-dir={tmp_path}")


@pytest.mark.parametrize("verb", ["stop", "kill"])
def test_a_stopped_process_is_marked_so_that_the_supervisor_does_not_restart_it(
    tmp_path: Path, stopped_cluster_folder: Path, verb: str
) -> None:
    write_state(tmp_path, broker_1="stopped")
    assert run("process", verb, "broker-1", f"--data-dir={tmp_path}") == "broker-1 stopped\n"
    assert (stopped_cluster_folder / "broker-1").exists()


def test_a_started_process_loses_its_mark(tmp_path: Path, stopped_cluster_folder: Path) -> None:
    (stopped_cluster_folder / "broker-1").touch()
    write_state(tmp_path, broker_1="running")
    assert run("process", "start", "broker-1", f"--data-dir={tmp_path}").startswith("broker-1 running (pid ")
    assert not (stopped_cluster_folder / "broker-1").exists()


def test_a_process_that_does_not_reach_its_state_is_an_error(
    tmp_path: Path, stopped_cluster_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "WAIT_SECONDS_MAX", 0)
    write_state(tmp_path, broker_1="stopped")
    with pytest.raises(CommandError, match="broker-1 did not start within 0 s"):
        run("process", "start", "broker-1", f"--data-dir={tmp_path}")
