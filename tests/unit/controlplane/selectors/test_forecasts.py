"""Forecasts of the newest finished run."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controlplane.selectors import forecasts
from tests.unit.controlplane.forecast_runs import finished_run

pytestmark = pytest.mark.django_db


def test_without_a_run_there_is_no_forecast() -> None:
    assert forecasts.forecasts() == forecasts.Forecasts(None, [], [])
    assert forecasts.forecast_of("broker:1", "disk_used_bytes") == (None, None)


def test_the_newest_finished_run_is_shown() -> None:
    run = finished_run()
    found = forecasts.forecasts()
    assert found.run == run.pk and found.accuracy[0].inside_pct == 82.5
    row, accuracy = forecasts.forecast_of("broker:1", "disk_used_bytes")
    assert row is not None and accuracy is not None
    assert (row.median, row.high) == (datetime(2026, 12, 3, 8, tzinfo=UTC), None)
    assert forecasts.forecast_of("broker:2", "disk_used_bytes")[0] is None
