"""Client of the supervisor of a local cluster: reads its state file, and writes requests to start or restart a process.

A pid counts only together with its start time, because pids are reused.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TypedDict

from controlplane.domain.restart import ProcessEnd, ProcessIdentity
from weir_common.files import write_private


class ProcessState(StrEnum):
    RUNNING = "running"
    WAITING = "waiting"
    """Not started yet."""
    STOPPED = "stopped"
    """Stopped with the local cluster, or by `manage.py process stop`. The supervisor does not restart it."""
    ENDED = "ended"
    """It ended; `exit_code` says how. The supervisor restarts it after a delay."""
    DEAD = "dead"
    """The supervisor recorded it as running, but there is no such process."""


class RecordedProcess(TypedDict):
    """`pid` null: not running."""

    pid: int | None
    started: int | None


class SupervisedProcess(RecordedProcess):
    name: str
    state: ProcessState
    exit_code: int | None
    ended_at: float | None
    """Unix seconds at which the supervisor observed the end, with `exit_code`."""


class SupervisorState(TypedDict):
    """The file `processes.json` of a data directory. `supervisor` null: no local cluster was started there."""

    supervisor: RecordedProcess | None
    processes: list[SupervisedProcess]


def started_at(pid: int) -> int | None:
    """A process's start time in clock ticks since boot (with the pid its identity); None if it has ended or is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def read_state(folder: Path) -> SupervisorState:
    """The supervisor's last state, corrected by the processes that run now."""
    try:
        body: SupervisorState = json.loads((folder / "processes.json").read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {"supervisor": None, "processes": []}
    if body["supervisor"] is not None and not is_alive(body["supervisor"]):
        body["supervisor"]["pid"] = None
    for row in body["processes"]:
        if not is_alive(row):
            row["pid"] = None
            if row["state"] == ProcessState.RUNNING:
                row["state"] = ProcessState.DEAD
    return body


def is_alive(recorded: RecordedProcess) -> bool:
    return recorded["pid"] is not None and started_at(recorded["pid"]) == recorded["started"]


def process_ends(folder: Path) -> dict[str, ProcessEnd]:
    """The ends of the processes that do not run now, by name. Empty without a local cluster: no supervisor has observed them."""
    found = {}
    for row in read_state(folder)["processes"]:
        code, at = row["exit_code"], row.get("ended_at")  # a supervisor of an older version writes no time
        if row["pid"] is None and code is not None and at is not None:
            found[row["name"]] = ProcessEnd(code, at)
    return found


def running_process(folder: Path, name: str) -> ProcessIdentity | None:
    """Pid and start time of a process under a live supervisor; None if there is none."""
    state = read_state(folder)
    if state["supervisor"] is None or state["supervisor"]["pid"] is None:
        return None
    for row in state["processes"]:
        if row["name"] == name and row["pid"] is not None and row["started"] is not None:
            return ProcessIdentity(row["pid"], row["started"])
    return None


def request_restart(folder: Path, name: str, process: ProcessIdentity) -> None:
    """Request a clean restart of this process (by pid and start time) from the supervisor. Idempotent."""
    path = folder / "restart" / name
    path.parent.mkdir(exist_ok=True)
    write_private(path, json.dumps(asdict(process)))


def is_kept_stopped(folder: Path, name: str) -> bool:
    """Return whether a live supervisor keeps this process stopped, until `request_start`."""
    return name in stopped_names(folder)


def stopped_names(folder: Path, prefix: str = "") -> list[str]:
    """The processes that a live supervisor keeps stopped and whose names start with `prefix`."""
    state = read_state(folder)
    if state["supervisor"] is None or state["supervisor"]["pid"] is None:
        return []
    rows = state["processes"]
    return [r["name"] for r in rows if r["state"] == ProcessState.STOPPED and r["name"].startswith(prefix)]


def request_start(folder: Path, name: str) -> None:
    """Request that the supervisor starts a stopped process. Idempotent."""
    (folder / "stopped" / name).unlink(missing_ok=True)
