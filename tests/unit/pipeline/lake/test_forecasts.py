"""Forecasts of a run are in the table once, after kills at each step."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pipeline.lake.forecasts import StoredForecast, forecasts_table, read_forecasts, store
from weir_common.lake_catalog import LakeSettings

AT = datetime(2026, 3, 1, tzinfo=UTC)
DISK = StoredForecast(
    "broker:1", "disk_used_bytes", AT, 1, 2, AT + timedelta(hours=1), None, None, AT + timedelta(days=1)
)


class DriverEnded(Exception):
    """The driver ends at this step."""


@pytest.mark.parametrize("victim", ["written", "prepared", "committed"])
def test_a_run_that_ends_at_a_step_is_stored_once_by_its_restart(tmp_path: Path, victim: str) -> None:
    def on_step(name: str) -> None:
        if name == victim:
            raise DriverEnded

    table = forecasts_table(LakeSettings.of_folder(tmp_path).open())
    with pytest.raises(DriverEnded):
        store(table, [DISK], "run-1", on_step)
    again = forecasts_table(LakeSettings.of_folder(tmp_path).open())
    assert store(again, [DISK], "run-1") is (victim != "committed")
    assert read_forecasts(again.refresh(), AT) == [DISK] and read_forecasts(again, AT + timedelta(seconds=1)) == []


def test_a_run_without_forecasts(tmp_path: Path) -> None:
    table = forecasts_table(LakeSettings.of_folder(tmp_path).open())
    assert store(table, [], "run-1") and read_forecasts(table.refresh(), AT) == []
