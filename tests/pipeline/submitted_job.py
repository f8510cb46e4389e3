"""A Spark job of a local cluster as an operator sees it: submitted, watched, stopped and started again by REST; and the processes and rows behind it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from pipeline.lake.archiving import existing_table
from tests.cluster.devcluster import DevCluster
from tests.cluster.local import wait_for
from tests.pipeline.lake import rows_of
from weir_common.lake import dead_letters_of
from weir_common.lake_catalog import LakeSettings

WAIT_S = 300.0
"""For a driver to start and to commit, on a machine that does much other work."""


class SubmittedJob:
    def __init__(self, cluster: DevCluster, name: str, kind: str, parameters: Mapping[str, Any]) -> None:
        self._cluster = cluster
        body = {"name": name, "kind": kind, "parameters": parameters, "comment": "test"}
        self.id = cluster.post("spark-jobs", body)["id"]

    def job(self) -> dict[str, Any]:
        return dict(self._cluster.get(f"spark-jobs/{self.id}"))

    def run_row(self) -> dict[str, Any]:
        """The newest run."""
        return dict(self._cluster.get(f"spark-runs/{self.job()['run_id']}"))

    def post(self, action: str) -> None:
        self._cluster.post(f"spark-jobs/{self.id}/{action}", {"comment": "test"})

    def wait_until(self, condition: Any, what: str, seconds: float = WAIT_S) -> Any:
        """Wait for a condition; the error has the row of the run and the end of its log."""
        try:
            return wait_for(condition, what, seconds)
        except AssertionError as e:
            row = self.run_row()
            log = self._cluster.get(f"spark-runs/{row['id']}/log")["text"]
            raise AssertionError(f"{e}; {row}; its log ends with: {log[-2_000:]}") from None

    def drivers(self) -> list[int]:
        """Process ids of the live drivers of the newest run."""
        return drivers_below(self._cluster.folder / "spark" / f"run-{self.job()['run_id']}")

    def lake(self) -> LakeSettings:
        return LakeSettings.of_folder(self._cluster.folder / "lake")

    def committed_rows(self, topic: str) -> int:
        """Rows of the topic's table and of its dead letters."""
        return self._rows(topic) + self._rows(dead_letters_of(topic))

    def _rows(self, name: str) -> int:
        table = existing_table(self.lake().open(), name)
        snapshot = table.current_snapshot() if table is not None else None
        if snapshot is None or snapshot.summary is None:
            return 0
        return int(snapshot.summary.additional_properties.get("total-records") or 0)

    def values(self, topic: str, *, dead_letters: bool = False) -> list[bytes]:
        """The value in each row of the topic's table, or of its dead letters."""
        return [value or b"" for *_, value in rows_of(self.lake(), topic, dead_letters=dead_letters)]

    def typed_columns(self, topic: str) -> int:
        """Columns of the topic's table that were derived from values."""
        table = existing_table(self.lake().open(), topic)
        return 0 if table is None else sum(name.startswith("data.") for name in table.schema().column_names)


def drivers_below(folder: Path) -> list[int]:
    """Process ids of live drivers of the folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        command = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and "pipeline.jobs.run" in command:
            found += [process.pid] if command[-1] == str(folder) else []
    return found
