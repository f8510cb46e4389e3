"""The state of a local cluster as other processes read it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from controlplane.clients import supervisor
from controlplane.clients.supervisor import ProcessState
from controlplane.domain.restart import ProcessEnd, ProcessIdentity

NEVER = -5
"""A start time that no process has. It stands for a pid that another process uses now."""


def write(folder: Path, *, supervisor_started: int | None, started: int | None, state: str = "running") -> None:
    row: dict[str, Any] = {
        "name": "broker-1",
        "pid": os.getpid(),
        "started": started,
        "state": state,
        "exit_code": None,
    }
    body = {"supervisor": {"pid": os.getpid(), "started": supervisor_started}, "processes": [row]}
    (folder / "processes.json").write_text(json.dumps(body))


def test_a_process_is_known_by_its_pid_and_its_start_time(tmp_path: Path) -> None:
    own = supervisor.started_at(os.getpid())
    assert own is not None
    write(tmp_path, supervisor_started=own, started=own)
    assert supervisor.running_process(tmp_path, "broker-1") == ProcessIdentity(os.getpid(), own)
    assert supervisor.running_process(tmp_path, "broker-2") is None
    assert supervisor.read_state(tmp_path)["processes"][0]["state"] == ProcessState.RUNNING


@pytest.mark.parametrize(("recorded", "shown"), [("running", ProcessState.DEAD), ("ended", ProcessState.ENDED)])
def test_a_pid_of_another_process_does_not_count(tmp_path: Path, recorded: str, shown: ProcessState) -> None:
    write(tmp_path, supervisor_started=supervisor.started_at(os.getpid()), started=NEVER, state=recorded)
    (row,) = supervisor.read_state(tmp_path)["processes"]
    assert (row["pid"], row["state"]) == (None, shown)
    assert supervisor.running_process(tmp_path, "broker-1") is None


def test_without_a_live_supervisor_no_process_counts_as_running(tmp_path: Path) -> None:
    assert supervisor.read_state(tmp_path) == {"supervisor": None, "processes": []}
    write(tmp_path, supervisor_started=NEVER, started=supervisor.started_at(os.getpid()))
    assert supervisor.running_process(tmp_path, "broker-1") is None


def test_a_request_names_the_process_and_not_only_the_broker(tmp_path: Path) -> None:
    supervisor.request_restart(tmp_path, "broker-1", ProcessIdentity(7, 9))
    assert json.loads((tmp_path / "restart" / "broker-1").read_text()) == {"pid": 7, "started": 9}


def test_the_stopped_processes_are_named_by_prefix_and_only_under_a_live_supervisor(tmp_path: Path) -> None:
    own = supervisor.started_at(os.getpid())
    write(tmp_path, supervisor_started=own, started=NEVER, state="stopped")
    assert supervisor.stopped_names(tmp_path) == supervisor.stopped_names(tmp_path, "broker-") == ["broker-1"]
    assert supervisor.stopped_names(tmp_path, "controller-") == [] and supervisor.is_kept_stopped(tmp_path, "broker-1")
    write(tmp_path, supervisor_started=own, started=own)
    assert supervisor.stopped_names(tmp_path) == []
    write(tmp_path, supervisor_started=NEVER, started=NEVER, state="stopped")
    assert supervisor.stopped_names(tmp_path) == [] and not supervisor.is_kept_stopped(tmp_path, "broker-1")


def test_the_end_of_a_process_is_known_while_it_does_not_run(tmp_path: Path) -> None:
    assert supervisor.process_ends(tmp_path) == {}, "no local cluster"
    rows = [
        {"name": "broker-1", "pid": None, "started": None, "state": "stopped", "exit_code": -9, "ended_at": 7.5},
        {"name": "broker-2", "pid": None, "started": None, "state": "waiting", "exit_code": None, "ended_at": None},
        {"name": "broker-3", "pid": None, "started": None, "state": "ended", "exit_code": 1},
    ]
    (tmp_path / "processes.json").write_text(json.dumps({"supervisor": None, "processes": rows}))
    assert supervisor.process_ends(tmp_path) == {"broker-1": ProcessEnd(-9, 7.5)}
