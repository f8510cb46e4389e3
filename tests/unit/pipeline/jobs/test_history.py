"""The job `history`: each row of the database once in the lake, with kill -9 at each step of its commits."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controlplane.models import Change, ClusterEvent, HistorySeries
from controlplane.models.change import Outcome
from controlplane.monitoring.history import HistoryRecorder, maintain_block
from pipeline.history_rows import HistoryRows
from pipeline.jobs import history as module
from pipeline.jobs.base import RunContext
from pipeline.jobs.history import History, HistoryCopy
from tests.unit.controlplane.history_rows import record
from tests.unit.pipeline.metrics_database import copy_tables
from weir_common.lake import CHANGES, METRICS_NAMESPACE, POINTS
from weir_common.lake_catalog import LakeSettings
from weir_common.spark_runs import RunDescription

pytestmark = pytest.mark.django_db
DAYS = 3
DAY = datetime(2026, 3, 1, tzinfo=UTC)
NOW = DAY + timedelta(days=DAYS + 2)
RATE, LAG, ISR = (
    ("topic:flights", "records_per_s"),
    ("group:g", "lag_records"),
    ("partition:flights:0", "replicas_in_sync"),
)


@pytest.fixture
def database(tmp_path: Path) -> str:
    first = int(DAY.timestamp())
    moments = [first + 86_400 * d + 60 * m for d in range(DAYS) for m in (0, 1, 700, 1439)]
    record(HistoryRecorder(), {at: {RATE: at % 97, LAG: 5, ISR: 3} for at in moments})
    for block in {i // 1000 for i in HistorySeries.objects.values_list("id", flat=True)}:
        maintain_block(block, int(NOW.timestamp()))
    for n in range(3):
        Change.objects.create(
            actor="ann", verb="topic.create", object_kind="topic", object_name=f"t{n}", outcome=Outcome.CONFIRMED
        )
        ClusterEvent.objects.create(at=DAY, kind="broker_down", subject="1", text=f"event {n}")
    path = copy_tables(tmp_path / "db.sqlite3")
    with sqlite3.connect(path) as file:
        file.execute("UPDATE controlplane_change SET at = ?", [DAY.replace(tzinfo=None).isoformat(" ")])
    file.close()
    return path


def rows_of(folder: Path, table: str, *columns: str) -> Counter[tuple[object, ...]]:
    found = LakeSettings.of_folder(folder).open().load_table((METRICS_NAMESPACE, table)).scan().to_arrow()
    return Counter(tuple(r[c] for c in columns) for r in found.to_pylist())


def is_complete(folder: Path) -> None:
    points = rows_of(folder, POINTS, "subject", "metric", "timestamp")
    assert len(points) == 3 * DAYS * 4 and set(points.values()) == {1}
    changes = rows_of(folder, CHANGES, "source", "id")
    assert len(changes) == 6 and set(changes.values()) == {1}


def kill_copy_at_step(folder: Path, database: str, victim: int) -> bool:
    """Run the copy in a forked process that kills itself at its step `victim`. True if it was killed."""
    child = os.fork()
    if child == 0:
        left = victim

        def count_down_and_kill(_: str) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        code = 1
        try:
            for _ in HistoryCopy(
                LakeSettings.of_folder(folder), HistoryRows(database), "run-1", lambda: NOW, count_down_and_kill
            ).steps():
                pass
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.waitstatus_to_exitcode(status) == 0
    return os.WIFSIGNALED(status)


def test_each_row_is_copied_once_after_kills_at_every_step(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SERIES_PER_FILE", 2)
    folder, kills = tmp_path / "lake", 0
    for victim in (1, 2, 3, 1, 2, 3, 2, 3, 1, 2, 3):
        kills += kill_copy_at_step(folder, database, victim)
    assert kills >= 7
    assert not kill_copy_at_step(folder, database, 1_000)
    is_complete(folder)


def test_a_run_ends_and_the_next_one_copies_nothing(database: str, tmp_path: Path) -> None:
    described = RunDescription("run-1", "history", {}, "x:1", str(tmp_path / "lake"), database=database)
    (tmp_path / "run").mkdir()
    for expected in (36 + 6, None):
        context = RunContext(tmp_path / "run", described)
        History(7, 3).run(context)
        assert context.status.get("rows") == expected
    assert context.status["report"][0]["rows"] == [[0, 0, 0, 0, "2026-03-04"]]
    is_complete(tmp_path / "lake")


def test_a_stop_ends_after_the_present_day(database: str, tmp_path: Path) -> None:
    context = RunContext(
        tmp_path,
        RunDescription("run-1", "history", {}, "x:1", str(tmp_path / "lake"), database=database),
        stop_requested=True,
    )
    History(7, 3).run(context)
    assert context.status["batches"] == 1


def test_days_that_the_database_has_deleted_are_reported(database: str, tmp_path: Path) -> None:
    lake, rows = LakeSettings.of_folder(tmp_path / "lake"), HistoryRows(database)
    copy = HistoryCopy(lake, rows, "run-1", lambda: DAY + timedelta(days=2))
    assert len(list(copy.steps())) == 2 and (copy.days, copy.missing) == (1, 0)
    with sqlite3.connect(database) as file:
        file.execute("DELETE FROM controlplane_historychunk WHERE begins < ?", [int(DAY.timestamp()) + 2 * 86_400])
    file.close()
    later = HistoryCopy(lake, rows, "run-2", lambda: DAY + timedelta(days=40))
    assert len(list(later.steps())) == 1
    assert (later.days, later.missing, later.points) == (1, 1, 12)


def test_a_day_that_is_not_final_waits(database: str, tmp_path: Path) -> None:
    copy = HistoryCopy(LakeSettings.of_folder(tmp_path / "lake"), HistoryRows(database), "run-1", lambda: DAY)
    assert list(copy.steps()) == [] and copy.points == 0


def test_of_two_runs_at_the_same_time_one_commits(database: str, tmp_path: Path) -> None:
    lake = LakeSettings.of_folder(tmp_path / "lake")

    def run_second_copy(step: str) -> None:
        if step == "written":
            list(HistoryCopy(lake, HistoryRows(database), "run-2", lambda: NOW).steps())

    list(HistoryCopy(lake, HistoryRows(database), "run-1", lambda: NOW, run_second_copy).steps())
    is_complete(tmp_path / "lake")
