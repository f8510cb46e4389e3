"""The command `status`: the processes of the local cluster as text and as JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.unit.controlplane.management.commands.local_cluster import run, write_state


def test_a_directory_without_a_cluster_is_explained(tmp_path: Path) -> None:
    assert "`manage.py up` starts one" in run("status", f"--data-dir={tmp_path}")
    assert json.loads(run("status", f"--data-dir={tmp_path}", "--json")) == {"processes": []}


def test_each_process_has_a_line_with_its_state_and_pid(tmp_path: Path) -> None:
    write_state(tmp_path, broker_1="running", broker_2="stopped")
    lines = run("status", f"--data-dir={tmp_path}").splitlines()
    assert [line.split() for line in lines] == [["broker-1", "running", str(os.getpid())], ["broker-2", "stopped", "-"]]


def test_a_process_whose_pid_is_reused_is_dead(tmp_path: Path) -> None:
    write_state(tmp_path, broker_1="running")
    state = json.loads((tmp_path / "processes.json").read_text())
    state["processes"][0]["started"] -= 1
    (tmp_path / "processes.json").write_text(json.dumps(state))
    rows = json.loads(run("status", f"--data-dir={tmp_path}", "--json"))["processes"]
    assert rows == [{"name": "broker-1", "pid": None, "state": "dead", "exit_code": None}]
