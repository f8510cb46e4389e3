"""Runs of Spark jobs with drivers that are small programs: start, progress, restart, failure, stop, limit of drivers."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.clients import spark
from controlplane.clients import spark_runs as client
from controlplane.domain import driver_restarts
from controlplane.models import Change, SparkJob, SparkRun
from controlplane.models.change import Outcome
from controlplane.models.spark import SparkRunState
from controlplane.services import spark_runs

pytestmark = pytest.mark.django_db

SAY = "import json, pathlib, sys, time; say = lambda **v: (pathlib.Path(sys.argv[1]) / 'status.json').write_text(json.dumps(v)); "


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.WEIR = replace(settings.WEIR, lake_dir=tmp_path / "lake", data_dir=tmp_path)
    monkeypatch.setattr(driver_restarts, "RESTART_SECONDS", 0)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def runs(code: str) -> None:
        monkeypatch.setattr(
            client, "command", lambda run_id: [sys.executable, "-c", SAY + code, str(client.folder_of(run_id))]
        )

    return runs


def run(name: str = "job") -> SparkRun:
    job = SparkJob.objects.create(name=name, kind="profile", parameters={"topics": ["t"]}, actor="alice")
    Change.objects.create(
        actor="alice",
        verb="spark_job.create",
        object_kind="spark_job",
        object_name=name,
        object_id=f"spark-job-{job.pk}",
    )
    return SparkRun.objects.create(job=job, parameters=job.parameters, actor="alice")


def advance_until(row: SparkRun, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"{row.state}: {row.note} {row.status}"
        spark_runs.advance_run(row.pk)
        row.refresh_from_db()
        time.sleep(0.05)


def test_a_run_that_ends_is_finished_with_its_report(driver: Callable[[str], None]) -> None:
    driver("say(phase='ended', rows=7, batches=1)")
    row = run()
    advance_until(row, lambda: row.state == SparkRunState.FINISHED)
    assert row.status["rows"] == 7 and row.restarts == 0
    assert Change.objects.get().outcome == Outcome.CONFIRMED
    described = (client.folder_of(row.pk) / "run.json").read_text()
    assert '"kind": "profile"' in described


def test_a_killed_driver_is_started_again(driver: Callable[[str], None]) -> None:
    driver("say(phase='running', batches=1); time.sleep(120)")
    row = run()
    advance_until(row, lambda: row.progress == 1 and row.pid is not None)
    first = row.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    advance_until(row, lambda: row.pid not in (None, first))
    assert row.restarts == 1
    SparkRun.objects.filter(pk=row.pk).update(state=SparkRunState.STOPPING)
    advance_until(row, lambda: row.state == SparkRunState.STOPPED)


LOCKED = "import os; from weir_common import driver_lock; lock = driver_lock.FolderLock(pathlib.Path(sys.argv[1])); "


@pytest.mark.parametrize("in_between", [None, "restart"])
def test_a_driver_whose_worker_was_killed_before_it_wrote_the_row_is_found_again(
    driver: Callable[[str], None], in_between: str | None
) -> None:
    """It was not: a second driver was rejected by the lock until the run failed, and the first one continued without a row."""
    driver(LOCKED + "say(phase='running', batches=1); time.sleep(120)")
    row = run()
    advance_until(row, lambda: row.progress == 1 and row.pid is not None)
    first = row.pid
    SparkRun.objects.filter(pk=row.pk).update(pid=None, pid_started_at=None)
    if in_between:  # the driver had not locked its folder when the next worker looked
        again = client.start(row.pk, row.job.kind, row.parameters)
        SparkRun.objects.filter(pk=row.pk).update(pid=again.pid, pid_started_at=again.started_at, restarts=1)
    advance_until(row, lambda: row.pid == first)
    assert row.state == SparkRunState.RUNNING
    SparkRun.objects.filter(pk=row.pk).update(state=SparkRunState.STOPPING, pid=None, pid_started_at=None)
    advance_until(row, lambda: row.state == SparkRunState.STOPPED)
    assert client.find_running_driver(row.pk) is None
    assert first is not None and not spark.is_alive(first, None)


def test_a_driver_that_has_not_locked_its_folder_yet_is_stopped(driver: Callable[[str], None]) -> None:
    """It was not: it locked the folder when the driver before it had ended, and worked for a run that was stopped."""
    driver("say(phase='running', batches=1); time.sleep(120)")
    row = run()
    advance_until(row, lambda: row.progress == 1 and row.pid is not None)
    late = client.start(row.pk, row.job.kind, row.parameters)
    SparkRun.objects.filter(pk=row.pk).update(state=SparkRunState.STOPPING)
    advance_until(row, lambda: row.state == SparkRunState.STOPPED)
    assert not spark.is_alive(late.pid, late.started_at)


def test_the_process_id_of_an_ended_driver_is_not_another_process(driver: Callable[[str], None]) -> None:
    driver("")
    row = run()
    folder = client.folder_of(row.pk)
    folder.mkdir(parents=True)
    (folder / "_lock").write_text(str(os.getpid()))
    assert client.find_running_driver(row.pk) is None


def test_an_error_that_remains_is_not_repeated(driver: Callable[[str], None]) -> None:
    driver("say(phase='failed', error='no such table', is_final=True)")
    row = run()
    advance_until(row, lambda: row.state == SparkRunState.FAILED)
    assert row.note == "no such table" and row.restarts == 0


def test_a_driver_that_never_makes_progress_fails_with_its_log(driver: Callable[[str], None]) -> None:
    driver("print('no memory')")
    row = run()
    advance_until(row, lambda: row.state == SparkRunState.FAILED)
    assert "no memory" in row.note and row.restarts == driver_restarts.RESTARTS_MAX
    assert "no memory" in client.log_tail(row.pk)


FAILS_ONCE = """
import time
folder = pathlib.Path(sys.argv[1])
first = folder / "first"
if first.exists():
    say(phase="running", batches=1)
    while not (folder / "end").exists():
        time.sleep(0.05)
    say(phase="ended", batches=1)
else:
    first.touch()
    say(phase="failed", error="no connection")
"""


def test_the_note_of_a_restart_ends_with_the_next_progress(driver: Callable[[str], None]) -> None:
    """The note of a repaired run was shown until the run ended."""
    driver(FAILS_ONCE)
    row = run()
    advance_until(row, lambda: row.note == "The Spark process ended and is restarted. no connection")
    advance_until(row, lambda: row.progress == 1)
    assert (row.state, row.note, row.note_phrase, row.restarts) == (SparkRunState.RUNNING, "", {}, 1)
    (client.folder_of(row.pk) / "end").touch()
    advance_until(row, lambda: row.state == SparkRunState.FINISHED)


def test_the_number_of_drivers_is_limited() -> None:
    rows = [run(f"job-{n}") for n in range(spark_runs.RUNS_ACTIVE_MAX + 2)]
    assert spark_runs.working_runs() == [r.pk for r in rows[: spark_runs.RUNS_ACTIVE_MAX]]
    SparkRun.objects.filter(pk=rows[0].pk).update(state=SparkRunState.RUNNING)
    assert len(spark_runs.working_runs()) == spark_runs.RUNS_ACTIVE_MAX
