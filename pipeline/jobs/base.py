"""The common part of all Spark jobs: the description of a run, its status file, the request to stop, the session.

    <folder>/run.json      the description of the run; written by the control plane before the start
    <folder>/status.json   replaced by the driver: phase, metrics, report
    <folder>/_lock         locked by the driver, with its process id (weir_common.driver_lock)
    <folder>/_work         private to the driver

Invariant: one driver per folder. Does not contain: any job.
"""

from __future__ import annotations

import json
import shutil
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql import SparkSession

from pipeline import session
from pipeline.jobs.archive import security_options
from weir_common.driver_lock import FolderLock, FolderLocked
from weir_common.files import replace_text
from weir_common.lake_catalog import LakeSettings
from weir_common.spark_runs import RUN_FILE, STATUS_FILE, Phase, RunDescription

REPORT_ROWS_MAX = 1_000
"""Maximum number of rows of one table of a report: a page and a response show all of them."""


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of the report of a run, as the console shows it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "columns": list(self.columns),
            "rows": [list(r) for r in self.rows[:REPORT_ROWS_MAX]],
            "rows_total": len(self.rows),
        }


class AlreadyRunning(Exception):
    """Another driver has the lock of the folder."""


@dataclass
class RunContext:
    """The run of one driver, used as a context manager. `stop_requested` is True after SIGTERM."""

    folder: Path
    run: RunDescription
    status: dict[str, Any] = field(default_factory=dict)
    stop_requested: bool = False
    _lock: FolderLock | None = None
    _spark: SparkSession | None = None
    _began: float = field(default_factory=time.monotonic)

    @staticmethod
    def of(folder: Path) -> RunContext:
        return RunContext(folder, RunDescription.parse((folder / RUN_FILE).read_text()))

    def __enter__(self) -> RunContext:
        try:
            self._lock = FolderLock(self.folder)
        except FolderLocked:
            raise AlreadyRunning(f"another process runs in {self.folder}; stop it first") from None
        shutil.rmtree(self.work, ignore_errors=True)  # files of a driver that was killed
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        return self

    def __exit__(self, *_: object) -> None:
        if self._spark is not None:
            self._spark.stop()
        shutil.rmtree(self.work, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()

    def _stop(self, *_: object) -> None:
        self.stop_requested = True

    @property
    def work(self) -> Path:
        return self.folder / "_work"

    @property
    def lake(self) -> LakeSettings:
        return LakeSettings.of_environment(Path(self.run.lake_folder))

    def kafka_options(self) -> dict[str, str]:
        """Options of the Kafka source: servers, security, read_committed."""
        config = Path(self.run.kafka_config) if self.run.kafka_config else None
        return {
            **security_options(config),
            "kafka.bootstrap.servers": self.run.bootstrap,
            "kafka.isolation.level": "read_committed",
            "kafka.client.id": f"{self.run.kind}-{self.run.name}",
        }

    def spark(self) -> SparkSession:
        """The session, started on first use."""
        if self._spark is None:
            self.update_status(phase=Phase.STARTING)
            self._spark = session.start(
                f"{self.run.kind} {self.run.name}",
                master=self.run.master,
                driver_memory=self.run.driver_memory,
                work=self.work,
            )
            self.update_status(phase=Phase.RUNNING)
        return self._spark

    def update_status(self, **changes: object) -> None:
        """Merge values into the status and replace its file."""
        self.status |= changes
        at = datetime.now(UTC).isoformat(timespec="seconds")
        seconds = round(time.monotonic() - self._began, 1)
        replace_text(self.folder / STATUS_FILE, json.dumps({**self.status, "at": at, "seconds": seconds}, default=str))

    def report(self, *tables: ReportTable) -> None:
        self.update_status(report=[t.json() for t in tables])


class Job(ABC):
    """A job is a frozen dataclass whose fields are its parameters (`weir_common.spark_jobs`)."""

    name: ClassVar[str]

    @abstractmethod
    def run(self, context: RunContext) -> None:
        """Run to the end, or until `context.stop_requested`. A run that is killed at any step and started again gives the same result."""
