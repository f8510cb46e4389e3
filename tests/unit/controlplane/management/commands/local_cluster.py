"""Helpers for tests of management commands: calls, and the state file of a local cluster whose processes are this test process."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

from django.core.management import call_command

from controlplane.clients.supervisor import started_at


def run(command: str, *arguments: str) -> str:
    """The output of a management command."""
    out = io.StringIO()
    call_command(command, *arguments, stdout=out, stderr=out)
    return out.getvalue()


def write_state(folder: Path, *, supervised: bool = True, **states: str) -> None:
    """The state file: a supervisor, running if `supervised`, and the named processes. A running one has the pid of this process."""
    mine = {"pid": os.getpid(), "started": started_at(os.getpid())}
    gone = {"pid": None, "started": None}
    rows = [
        {"name": name.replace("_", "-"), "state": state, **(mine if state == "running" else gone)}
        for name, state in states.items()
    ]
    body = {"supervisor": mine if supervised else gone, "processes": rows}
    (folder / "processes.json").write_text(json.dumps(body))
