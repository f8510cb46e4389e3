"""A lake job as a process, and the rows of its tables read with pyiceberg. For the tests of the lake."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.lake.archiving import existing_table
from tests.cluster.local import ROOT
from weir_common.lake import dead_letters_of
from weir_common.lake_catalog import LakeSettings
from weir_common.spark_jobs import KINDS, parse
from weir_common.spark_runs import RUN_FILE, RunDescription

Row = tuple[str, int, int, bytes | None, bytes | None]


class LakeJob:
    """One run in `folder`; `lake` is a folder beside it. Each start is another driver of the same run."""

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        kind: str,
        parameters: Mapping[str, Any],
        *,
        environment: Mapping[str, str] | None = None,
        master: str = "local[2]",
        lake: Path | None = None,
    ) -> None:
        self.folder, self.lake = folder, lake or folder.parent / "lake"
        folder.mkdir(parents=True, exist_ok=True)
        run = RunDescription(
            folder.name,
            kind,
            parse(KINDS[kind], parameters),
            bootstrap,
            str(self.lake),
            master=master,
            driver_memory="512m",
        )
        (folder / RUN_FILE).write_text(run.text())
        self._log = folder / "log"
        self._environment = {**os.environ, **(environment or {})}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pipeline.jobs.run", str(self.folder)],
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=self._environment,
                start_new_session=True,
            )

    def kill(self) -> None:
        """kill -9 of the driver with Spark's JVM and Python workers."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self, timeout: float = 240) -> int:
        assert self.process is not None
        return self.process.wait(timeout=timeout)

    def run(self) -> None:
        """Start and wait for the end, which must be a success."""
        self.start()
        assert self.end() == 0, self.log()

    def log(self) -> str:
        return self._log.read_text(errors="replace")[-4_000:]

    def settings(self) -> LakeSettings:
        return LakeSettings.of_environment(self.lake, self._environment)


def rows_of(lake: LakeSettings, topic: str, *, dead_letters: bool = False) -> list[Row]:
    """All rows of a topic's table as (topic, partition, offset, key, value)."""
    table = existing_table(lake.open(), dead_letters_of(topic) if dead_letters else topic)
    if table is None:
        return []
    found = table.scan(selected_fields=("partition", "offset", "key", "value")).to_arrow().to_pylist()
    return [(topic, r["partition"], r["offset"], r["key"], r["value"]) for r in found]


def commits_of(lake: LakeSettings, topic: str) -> int:
    """Snapshots of a topic's table."""
    table = existing_table(lake.open(), topic)
    return 0 if table is None else len(table.snapshots())
