"""Spark drivers as processes and files: start, stop, liveness, manifest and status. The pipeline writes the lake's files; here they are
only read. Does not contain: rows.

`<lake>/job-<id>/manifest.jsonl`: one line per committed micro-batch and partition. `<lake>/job-<id>/status.json`: replaced atomically.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
from django.conf import settings

from weir_common.archive_manifest import ManifestLine
from weir_common.driver_lock import last_pid

DRIVERS = ("pipeline.jobs.archive", "pipeline.jobs.run")
"""Modules of Spark drivers."""
MANIFEST_READ_BYTES_MAX = 4 * 1024 * 1024
"""Maximum number of bytes of the manifest read in one poll. The next poll reads the rest."""


@dataclass(frozen=True, slots=True)
class SparkProcess:
    """`started_at` (Unix seconds) distinguishes this process from a later one with the same pid."""

    pid: int
    started_at: float


@dataclass(frozen=True, slots=True)
class Status:
    at: datetime
    values: dict[str, Any]


def job_name(job_id: int) -> str:
    return f"job-{job_id}"


def folder_of(job_id: int) -> Path:
    return settings.WEIR.lake_dir / job_name(job_id)


def log_path(job_id: int) -> Path:
    return settings.WEIR.data_dir / "logs" / f"archive-{job_id}.log"


def command(job_id: int, topics: Sequence[str], bootstrap: str) -> list[str]:
    """The command line names the file with the passwords and does not contain them."""
    secured = settings.WEIR.kafka_config
    return [
        sys.executable,
        "-m",
        "pipeline.jobs.archive",
        "--bootstrap",
        bootstrap,
        "--topics",
        ",".join(topics),
        "--lake",
        str(settings.WEIR.lake_dir),
        "--job-id",
        job_name(job_id),
        *(("--kafka-config", str(secured)) if secured is not None else ()),
    ]


def start(job_id: int, topics: Sequence[str], bootstrap: str) -> SparkProcess:
    """Start the driver, niced, in its own session: it outlives the worker, and rows identify it by pid and start time."""
    folder_of(job_id).mkdir(parents=True, exist_ok=True)
    log_path(job_id).parent.mkdir(parents=True, exist_ok=True)
    with log_path(job_id).open("ab") as log:
        process = subprocess.Popen(
            ["nice", "-n", str(settings.WEIR.spark_nice), *command(job_id, topics, bootstrap)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=settings.BASE_DIR,
            start_new_session=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
        )
    return SparkProcess(process.pid, psutil.Process(process.pid).create_time())


def is_alive(pid: int | None, started_at: float | None) -> bool:
    """True if the process with this pid and start time still runs. Reaps it if it is our child and has ended."""
    if pid is None:
        return False
    try:
        process = psutil.Process(pid)
        if started_at is not None and abs(process.create_time() - started_at) > 1.0:
            return False
        if process.status() == psutil.STATUS_ZOMBIE:
            _reap(pid)
            return False
        return True
    except psutil.NoSuchProcess:
        return False


def find_running_driver(folder: Path, expected: Sequence[str]) -> SparkProcess | None:
    """The live driver that has locked the folder and has this command line; None without one. A worker that ended between the start of a driver and the
    write of its row has lost the process id."""
    pid = last_pid(folder)
    if pid is None:
        return None
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE or process.cmdline() != list(expected):
            return None
        return SparkProcess(pid, process.create_time())
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def has_ended(pid: int | None, expected: Sequence[str]) -> bool:
    """One step of a requested stop. `pid`: the driver, None if its process is not alive. Without a pid every process with the command line `expected` is
    stopped. True: no process is left."""
    if pid is None:
        return stop_all(expected) == 0
    stop(pid)
    return False


def stop_all(expected: Sequence[str]) -> int:
    """Send SIGTERM to every process with this command line, `nice` before it included. Returns how many there are. One of them may be a driver that
    was just started and has not locked its folder yet: it would lock the folder as soon as the driver before it ends."""
    words, found = list(expected), 0
    for process in psutil.process_iter(["cmdline", "status"]):
        if process.info["status"] != psutil.STATUS_ZOMBIE and (process.info["cmdline"] or [])[-len(words) :] == words:
            stop(process.pid)
            found += 1
    return found


def drivers(lake: Path, runs: Path) -> list[psutil.Process]:
    """The live drivers on this machine whose lake or whose folder of runs is this one."""
    within = f"{runs}{os.sep}"

    def is_own_driver(process: psutil.Process) -> bool:
        words = process.info["cmdline"] or []
        return any(d in words for d in DRIVERS) and any(w == str(lake) or w.startswith(within) for w in words)

    return [p for p in psutil.process_iter(["cmdline"]) if is_own_driver(p)]


def kill_drivers() -> None:
    """End the drivers of this machine immediately, with the processes that they started. No data is lost: a driver continues from its last commit."""
    for driver in drivers(settings.WEIR.lake_dir, settings.WEIR.data_dir / "spark"):
        try:
            started = driver.children(recursive=True)
        except psutil.NoSuchProcess:
            continue
        for process in (driver, *started):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass  # another worker's child; init or that worker reaps it


def stop(pid: int) -> None:
    """Send SIGTERM: the driver ends after its micro-batch. Idempotent."""
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass


def read_manifest(job_id: int, from_byte: int) -> tuple[list[ManifestLine], int]:
    """New complete lines since `from_byte`, and the next position. An incomplete last line is left for the next read."""
    path = folder_of(job_id) / "manifest.jsonl"
    try:
        with path.open("rb") as file:
            file.seek(from_byte)
            data = file.read(MANIFEST_READ_BYTES_MAX)
    except FileNotFoundError:
        return [], from_byte
    whole = data.rfind(b"\n") + 1
    lines = []
    for raw in data[:whole].splitlines():
        if not raw.strip():
            continue
        v = json.loads(raw)
        lines.append(
            ManifestLine(v["batch"], v["topic"], v["partition"], v["first_offset"], v["next_offset"], v["rows"])
        )
    return lines, from_byte + whole


def read_status(job_id: int) -> Status | None:
    """The driver's last status; None before the first."""
    path = folder_of(job_id) / "status.json"
    try:
        return Status(datetime.fromtimestamp(path.stat().st_mtime, UTC), json.loads(path.read_text()))
    except (FileNotFoundError, ValueError):
        return None


def log_tail(job_id: int, lines: int = 5, bytes_max: int = 8192) -> str:
    """The last lines of the driver's log, to explain its end."""
    try:
        with log_path(job_id).open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - bytes_max))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""
