"""The folder of a run: description, lock, status, report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.jobs import base
from pipeline.jobs.base import AlreadyRunning, ReportTable, RunContext
from weir_common.spark_runs import RUN_FILE, STATUS_FILE, Phase, RunDescription


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = RunDescription("run-1", "profile", {}, "127.0.0.1:1", str(tmp_path / "lake"))
    (tmp_path / RUN_FILE).write_text(run.text())
    return tmp_path


def test_one_driver_per_folder(folder: Path) -> None:
    with RunContext.of(folder), pytest.raises(AlreadyRunning):
        RunContext.of(folder).__enter__()
    with RunContext.of(folder):
        pass


def test_the_status_keeps_earlier_values(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "REPORT_ROWS_MAX", 1)
    context = RunContext.of(folder)
    context.update_status(phase=Phase.RUNNING, rows=1)
    context.update_status(rows=2)
    context.report(ReportTable("T", ("a",), [(1,), (2,)]))
    status = json.loads((folder / STATUS_FILE).read_text())
    assert (status["phase"], status["rows"]) == ("running", 2)
    assert status["report"] == [{"title": "T", "columns": ["a"], "rows": [[1]], "rows_total": 2}]


def test_a_run_reads_committed_records_with_a_client_id_of_its_own(folder: Path) -> None:
    options = RunContext.of(folder).kafka_options()
    assert options["kafka.isolation.level"] == "read_committed"
    assert options["kafka.client.id"] == "profile-run-1"
