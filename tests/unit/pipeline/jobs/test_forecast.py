"""The job `forecast` on rows that the recorder wrote: disks, groups, stored once, earlier forecasts checked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from controlplane.models import HistorySeries
from controlplane.monitoring.history import HistoryRecorder, maintain_block
from pipeline.history_rows import HistoryRows
from pipeline.jobs.base import RunContext
from pipeline.jobs.forecast import ForecastJob, accuracy
from pipeline.lake.forecasts import StoredForecast, forecasts_table, read_forecasts
from tests.unit.controlplane.history_rows import record
from tests.unit.controlplane.world import World
from tests.unit.pipeline.metrics_database import copy_tables
from weir_common.lake_catalog import LakeSettings
from weir_common.spark_runs import RunDescription

pytestmark = pytest.mark.django_db
USED, LAG, CONSUMED = ("broker:1", "disk_used_bytes"), ("group:g", "lag_records"), ("group:g", "consumed_per_s")
GB = 10**9


@pytest.fixture
def now() -> datetime:
    return datetime.fromtimestamp(int(datetime.now(UTC).timestamp()) // 60 * 60, UTC)


@pytest.fixture
def database(tmp_path: Path, now: datetime) -> str:
    """Used space grows by 1 GB per hour for 3 days, and 20 GB are free; lag falls by 1,000 records per minute and is 60,000."""
    World()
    end = int(now.timestamp())
    metrics: dict[int, dict[tuple[str, str], float]] = {}
    for h in range(73):
        metrics[end - 3600 * h - 60] = {USED: (180 - h) * GB}
    for m in range(60):
        metrics.setdefault(end - 60 * m - 60, {}).update({LAG: 60_000 + 1_000 * m, CONSUMED: 100.0})
    record(HistoryRecorder(), {at: metrics[at] for at in sorted(metrics)})
    for block in {i // 1000 for i in HistorySeries.objects.values_list("id", flat=True)}:
        maintain_block(block, end)
    return copy_tables(tmp_path / "db.sqlite3", {1: 200 * GB})


def run_of(folder: Path, name: str, database: str) -> dict[str, Any]:
    (folder / name).mkdir(exist_ok=True)
    described = RunDescription(name, "forecast", {}, "x:1", str(folder / "lake"), database=database)
    context = RunContext(folder / name, described)
    ForecastJob(30).run(context)
    return context.status


def test_disks_and_groups_are_forecast_and_stored_once(database: str, tmp_path: Path, now: datetime) -> None:
    for name in ("run-1", "run-1", "run-2"):
        status = run_of(tmp_path, name, database)
    found = {f["subject"]: f for f in status["forecasts"]}
    assert set(found) == {"broker:1", "group:g"}
    full = datetime.fromisoformat(found["broker:1"]["median"]) - now
    caught = datetime.fromisoformat(found["group:g"]["median"]) - now
    assert timedelta(hours=18) < full < timedelta(hours=23)
    assert found["group:g"]["level"] == 1_000 and timedelta(minutes=55) < caught < timedelta(minutes=64)
    table = forecasts_table(LakeSettings.of_folder(tmp_path / "lake").open())
    assert len(read_forecasts(table, now - timedelta(days=1))) == 4, "the restart of run-1 added nothing"
    assert [row[0] for row in status["report"][0]["rows"]] == ["broker:1", "group:g"]
    assert [a["decided"] for a in status["accuracy"]] == [0, 0]


def test_earlier_forecasts_are_compared_with_what_happened(database: str, now: datetime) -> None:
    made, level = now - timedelta(hours=40), 150.0 * GB

    def forecast(low: int, high: int) -> StoredForecast:
        low_at, high_at = made + timedelta(hours=low), made + timedelta(hours=high)
        return StoredForecast(*USED, made, 140.0 * GB, level, low_at, low_at, high_at, made + timedelta(days=30))

    gone = StoredForecast("broker:9", USED[1], made, 1, 2, None, None, None, made + timedelta(days=30))
    disk, lag = accuracy(HistoryRows(database), [forecast(8, 12), forecast(1, 5), forecast(15, 20), gone], now)
    assert (disk.decided, disk.inside, disk.earlier, disk.later, disk.inside_pct) == (3, 1, 1, 1, 33.3)
    assert disk.error_pct is not None and (lag.decided, lag.inside_pct, lag.error_pct) == (0, None, None)
