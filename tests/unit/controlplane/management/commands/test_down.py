"""The command `down`: a directory without a cluster, and processes that outlived their supervisor."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management.base import CommandError

from controlplane.clients.supervisor import started_at
from tests.unit.controlplane.management.commands.local_cluster import run, write_state


def test_a_directory_without_a_cluster_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"No local cluster has been started .*--data-dir"):
        run("down", f"--data-dir={tmp_path}")


def test_a_stopped_cluster_is_stopped_again_without_an_error(tmp_path: Path) -> None:
    write_state(tmp_path, supervised=False, broker_1="stopped")
    assert run("down", f"--data-dir={tmp_path}") == "stopped\n"


def test_a_process_that_outlived_its_supervisor_is_stopped_and_named(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        row = {"name": "broker-1", "state": "running", "pid": child.pid, "started": started_at(child.pid)}
        body = {"supervisor": {"pid": None, "started": None}, "processes": [row]}
        (tmp_path / "processes.json").write_text(json.dumps(body))
        assert run("down", f"--data-dir={tmp_path}") == "stopped (without a supervisor: broker-1)\n"
        assert child.wait(10) == -15
