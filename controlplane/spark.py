"""Spark runs as processes and files: start, stop, is it alive, what has it published. Law: knows no rows; the lake's files are the
pipeline's, read only. Called by `services.archives` in the worker.

`<lake>/job-<id>/manifest.jsonl`: one line per committed micro-batch and partition. `<lake>/job-<id>/status.json`: replaced whole.
"""

from __future__ import annotations

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

MANIFEST_READ_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of manifest taken over in one look; the rest comes with the next."""


@dataclass(frozen=True, slots=True)
class Process:
    """`started_at` (Unix seconds) tells this process from a later one with the same pid."""

    pid: int
    started_at: float


@dataclass(frozen=True, slots=True)
class Line:
    batch: int
    topic: str
    partition: int
    first_offset: int
    next_offset: int
    rows: int


@dataclass(frozen=True, slots=True)
class Status:
    at: datetime
    values: dict[str, Any]


def job_name(job_id: int) -> str:
    return f"job-{job_id}"


def folder_of(job_id: int) -> Path:
    return Path(settings.LAKE_DIR) / job_name(job_id)


def log_path(job_id: int) -> Path:
    return Path(settings.DATA_DIR) / "logs" / f"archive-{job_id}.log"


def java_home() -> str | None:
    return os.environ.get("JAVA_HOME")


def command(job_id: int, topics: Sequence[str], bootstrap: str) -> list[str]:
    """Passwords stand in a file that is named here, not in the command line."""
    secured = settings.HOUSE.kafka_config
    return [
        sys.executable, "-m", "pipeline.jobs.archive", "--bootstrap", bootstrap, "--topics", ",".join(topics),
        "--lake", str(settings.LAKE_DIR), "--job-id", job_name(job_id),
        *(("--kafka-config", str(secured)) if secured is not None else ()),
    ]  # fmt: skip


def start(job_id: int, topics: Sequence[str], bootstrap: str) -> Process:
    """Start the driver, niced, in a session of its own (it outlives the worker; rows find it again by pid and start time)."""
    folder_of(job_id).mkdir(parents=True, exist_ok=True)
    log_path(job_id).parent.mkdir(parents=True, exist_ok=True)
    with log_path(job_id).open("ab") as log:
        process = subprocess.Popen(
            ["nice", "-n", str(settings.SPARK_NICE), *command(job_id, topics, bootstrap)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=settings.BASE_DIR,
            start_new_session=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
        )
    return Process(process.pid, psutil.Process(process.pid).create_time())


def alive(pid: int | None, started_at: float | None) -> bool:
    """True if that very process still runs. Reaps it when it is our own child and has ended."""
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


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass  # another worker's child; init or that worker reaps it


def stop(pid: int) -> None:
    """SIGTERM: the driver ends after its micro-batch. Idempotent."""
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        pass


def read_manifest(job_id: int, from_byte: int) -> tuple[list[Line], int]:
    """New whole lines since `from_byte`, and where to go on. A torn last line waits for its end."""
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
        lines.append(Line(v["batch"], v["topic"], v["partition"], v["first_offset"], v["next_offset"], v["rows"]))
    return lines, from_byte + whole


def read_status(job_id: int) -> Status | None:
    """What the driver last said of itself; None when it has said nothing yet."""
    path = folder_of(job_id) / "status.json"
    try:
        return Status(datetime.fromtimestamp(path.stat().st_mtime, UTC), json.loads(path.read_text()))
    except (FileNotFoundError, ValueError):
        return None


def log_tail(job_id: int, lines: int = 5, bytes_max: int = 8192) -> str:
    """The last lines of the driver's log, for the reason of an end."""
    try:
        with log_path(job_id).open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - bytes_max))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""
