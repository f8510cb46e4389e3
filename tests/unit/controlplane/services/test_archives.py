"""Archive jobs: their processes, the batches that they publish, gaps, failures and conflicts."""

from __future__ import annotations

import json
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
from controlplane.domain import driver_restarts
from controlplane.models import ArchiveBatch, ArchiveJob
from controlplane.selectors import archives as selectors
from controlplane.services import Rejected, archives
from tests.unit.controlplane.world import World
from weir_common.driver_lock import last_pid

pytestmark = pytest.mark.django_db


# -- archive jobs ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings.WEIR = replace(settings.WEIR, lake_dir=tmp_path / "lake", data_dir=tmp_path)
    monkeypatch.setattr(archives, "find_java", lambda: Path("java"))
    return tmp_path / "lake"


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def runs(code: str) -> None:
        monkeypatch.setattr(
            spark,
            "command",
            lambda job_id, topics, bootstrap: [sys.executable, "-c", code, str(spark.folder_of(job_id))],
        )

    return runs


def wait_until(job: ArchiveJob, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"job is {job.state}: {job.note}"
        archives.advance_archive(job.pk)
        job.refresh_from_db()
        time.sleep(0.05)


def advance_until(job: ArchiveJob, state: str) -> ArchiveJob:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        archives.advance_archive(job.pk)
        job.refresh_from_db()
        if job.state == state:
            return job
        time.sleep(0.05)
    raise AssertionError(f"job is {job.state}: {job.note}")


def publish(lake: Path, job: ArchiveJob, batch: int, first: int, upto: int, torn: bool = False) -> None:
    folder = lake / f"job-{job.pk}"
    folder.mkdir(parents=True, exist_ok=True)
    line = {
        "batch": batch,
        "topic": "flights",
        "partition": 0,
        "first_offset": first,
        "next_offset": upto,
        "rows": upto - first,
    }
    with (folder / "manifest.jsonl").open("a") as file:
        file.write(json.dumps(line)[: -5 if torn else None] + ("" if torn else "\n"))


def test_an_archive_job_follows_the_state_of_its_row(world: World, lake: Path, driver: Callable[[str], None]) -> None:
    world.topic("flights", (1, 2))
    driver("import time; time.sleep(60)")
    job = archives.start_archive(["flights"], actor="alice")
    job = advance_until(job, "running")
    job.refresh_from_db()
    assert spark.is_alive(job.pid, job.pid_started_at)
    assert archives.advance_archive(job.pk) == "running"
    archives.stop_archive(job.pk, actor="alice")
    job = advance_until(job, "stopped")
    assert job.pid is None
    assert archives.resume_archive(job.pk, actor="alice").state == "requested"


def test_a_driver_whose_worker_was_killed_before_it_wrote_the_row_is_found_again(
    world: World, lake: Path, driver: Callable[[str], None]
) -> None:
    world.topic("flights", (1, 2))
    job = archives.start_archive(["flights"], actor="alice")
    folder = lake / f"job-{job.pk}"
    driver(
        "import pathlib, time; from weir_common import driver_lock; "
        f"lock = driver_lock.FolderLock(pathlib.Path({str(folder)!r})); time.sleep(60)"
    )
    job = advance_until(job, "running")
    wait_until(job, lambda: last_pid(folder) is not None)
    first = job.pid
    ArchiveJob.objects.update(pid=None, pid_started_at=None)
    wait_until(job, lambda: job.pid == first)
    assert job.restarts == 0
    archives.stop_archive(job.pk, actor="alice")
    advance_until(job, "stopped")


def test_each_line_of_the_manifest_is_read_back_once(world: World, lake: Path) -> None:
    world.topic("flights", (1, 2))
    job = archives.start_archive(["flights"], actor="alice")
    publish(lake, job, 0, 0, 100)
    publish(lake, job, 1, 100, 150, torn=True)
    assert archives.read_manifest(job) == 1
    job.refresh_from_db()
    assert (job.rows, job.batches) == (100, 1)
    assert archives.read_manifest(job) == 0
    (lake / f"job-{job.pk}" / "manifest.jsonl").write_text("")
    publish(lake, job, 0, 0, 100)
    publish(lake, job, 1, 100, 150)
    assert archives.read_manifest(job) == 1
    (written,) = selectors.archive_written(job.pk)
    assert (written.first_offset, written.next_offset, written.rows, written.gap) == (0, 150, 150, False)
    assert ArchiveBatch.objects.count() == 2


def test_a_gap_between_batches_is_shown(world: World, lake: Path) -> None:
    world.topic("flights", (1, 2))
    job = archives.start_archive(["flights"], actor="alice")
    publish(lake, job, 0, 0, 100)
    publish(lake, job, 1, 120, 150)
    archives.read_manifest(job)
    assert selectors.archive_written(job.pk)[0].gap


def test_a_driver_that_keeps_failing_fails_the_job_with_the_end_of_its_log(
    world: World, lake: Path, driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    world.topic("flights", (1, 2))
    monkeypatch.setattr(driver_restarts, "RESTART_SECONDS", 0)
    monkeypatch.setattr(driver_restarts, "RESTARTS_MAX", 2)
    driver("raise SystemExit('no room in the lake')")
    job = advance_until(archives.start_archive(["flights"], actor="alice"), "failed")
    assert (job.restarts, "no room in the lake" in job.note) == (2, True)


def test_the_reason_of_a_process_end_is_removed_when_its_successor_reports(
    world: World, lake: Path, driver: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the fix, a restarted job permanently showed “Its process ended; it starts again.” with four lines of a stack trace."""
    world.topic("flights", (1, 2))
    monkeypatch.setattr(driver_restarts, "RESTART_SECONDS", 0)
    driver("raise SystemExit('no room in the lake')")
    job = advance_until(archives.start_archive(["flights"], actor="alice"), "running")
    wait_until(job, lambda: "no room in the lake" in job.note)
    driver("import time; time.sleep(60)")
    wait_until(job, lambda: spark.is_alive(job.pid, job.pid_started_at))
    assert job.note, "it is there until the new process has said anything"
    status = spark.folder_of(job.pk) / "status.json"
    status.parent.mkdir(parents=True, exist_ok=True)
    status.write_text('{"batch": 1}')
    wait_until(job, lambda: not job.note)
    assert job.pid is not None
    os.kill(job.pid, signal.SIGKILL)


def test_two_jobs_never_archive_the_same_topic(world: World, lake: Path) -> None:
    world.topic("flights", (1, 2))
    archives.start_archive(["flights"], actor="alice")
    with pytest.raises(Rejected, match="archived by job"):
        archives.start_archive(["flights"], actor="alice")
