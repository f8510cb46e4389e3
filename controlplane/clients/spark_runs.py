"""Drivers of Spark runs as processes and files: start, status, log. Does not contain: rows (`controlplane.services.spark_runs`), the handling of
processes by pid (`controlplane.clients.spark`).

`<data directory>/spark/run-<id>/run.json` describes the run, `status.json` is the driver's report.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import psutil
from django.conf import settings

from controlplane.clients import spark
from controlplane.clients.spark import SparkProcess, Status
from weir_common.files import replace_text
from weir_common.spark_runs import RUN_FILE, STATUS_FILE, RunDescription

LOG_BYTES_MAX = 64 * 1024
"""Maximum number of bytes of a log in one response."""


def folder_of(run_id: int) -> Path:
    return settings.WEIR.data_dir / "spark" / f"run-{run_id}"


def log_path(run_id: int) -> Path:
    return settings.WEIR.data_dir / "logs" / f"spark-run-{run_id}.log"


def describe(run_id: int, kind: str, parameters: Mapping[str, object]) -> RunDescription:
    """The description that the driver reads. It contains no password."""
    weir = settings.WEIR
    return RunDescription(
        name=f"run-{run_id}",
        kind=kind,
        parameters=dict(parameters),
        bootstrap=weir.bootstrap,
        lake_folder=str(weir.lake_dir),
        kafka_config=str(weir.kafka_config) if weir.kafka_config is not None else "",
        master=weir.spark_master,
        driver_memory=weir.spark_driver_memory,
        database="" if weir.database_url else str(settings.DATABASES["default"]["NAME"]),
    )


def command(run_id: int) -> list[str]:
    return [sys.executable, "-m", "pipeline.jobs.run", str(folder_of(run_id))]


def start(run_id: int, kind: str, parameters: Mapping[str, object]) -> SparkProcess:
    """Write the description and start the driver, niced, in its own session: it outlives the worker."""
    folder = folder_of(run_id)
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(folder / RUN_FILE, describe(run_id, kind, parameters).text())
    log_path(run_id).parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    with log_path(run_id).open("ab") as log:
        process = subprocess.Popen(
            ["nice", "-n", str(settings.WEIR.spark_nice), *command(run_id)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=settings.BASE_DIR,
            start_new_session=True,
            env=environment,
        )
    return SparkProcess(process.pid, psutil.Process(process.pid).create_time())


def find_running_driver(run_id: int) -> SparkProcess | None:
    """The live driver of the run by the lock of its folder; None without one."""
    return spark.find_running_driver(folder_of(run_id), command(run_id))


def read_status(run_id: int) -> Status | None:
    """The driver's last status; None before the first."""
    path = folder_of(run_id) / STATUS_FILE
    try:
        return Status(datetime.fromtimestamp(path.stat().st_mtime, UTC), json.loads(path.read_text()))
    except (FileNotFoundError, ValueError):
        return None


def log_tail(run_id: int, bytes_max: int = LOG_BYTES_MAX) -> str:
    """The end of the driver's log; empty without one."""
    try:
        with log_path(run_id).open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - bytes_max))
            return file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
