"""Forecasts of the newest finished run of a job `forecast`, and the accuracy of the earlier forecasts. One query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.models import SparkRun
from controlplane.models.spark import SparkRunState

KIND = "forecast"

DISK_METRIC = "disk_used_bytes"
"""Metric of a broker. The level of its forecast is the size of the disk."""


@dataclass(frozen=True, slots=True)
class ForecastRow:
    """Forecast of the time at which a metric of a subject (`broker:ID`, `group:ID`) reaches `level`: used bytes the size of the disk, lag 10 s of the
    consumption. `median`, and the limits of the interval `low` and `high`; null = after `until`."""

    subject: str
    metric: str
    made_at: datetime
    value: float
    level: float
    low: datetime | None
    median: datetime | None
    high: datetime | None
    until: datetime


@dataclass(frozen=True, slots=True)
class ForecastAccuracy:
    """Forecasts of the last 30 days whose outcome is known: `inside_pct` had the true time in their interval, of which `stated_pct` was stated. `error_pct`:
    median difference between time and median forecast, as a part of the time that was left. null: none is decided."""

    metric: str
    decided: int
    inside_pct: float | None
    stated_pct: int
    error_pct: float | None


@dataclass(frozen=True, slots=True)
class Forecasts:
    """`run`: id of the run; null = no run has finished."""

    run: int | None
    rows: list[ForecastRow]
    accuracy: list[ForecastAccuracy]


def forecasts() -> Forecasts:
    run = (
        SparkRun.objects.filter(job__kind=KIND, job__deleted_at__isnull=True, state=SparkRunState.FINISHED)
        .order_by("-id")
        .values_list("id", "status")
        .first()
    )
    if run is None:
        return Forecasts(None, [], [])
    pk, status = run
    rows = [_row(values) for values in status.get("forecasts", [])]
    return Forecasts(pk, rows, [ForecastAccuracy(**values) for values in status.get("accuracy", [])])


def forecast_of(subject: str, metric: str) -> tuple[ForecastRow | None, ForecastAccuracy | None]:
    """The forecast of one subject, and the accuracy of its metric."""
    found = forecasts()
    row = next((r for r in found.rows if (r.subject, r.metric) == (subject, metric)), None)
    return row, next((a for a in found.accuracy if a.metric == metric), None)


def _row(values: Mapping[str, Any]) -> ForecastRow:
    times = {
        name: datetime.fromisoformat(text) if (text := values[name]) else None
        for name in ("made_at", "low", "median", "high", "until")
    }
    return ForecastRow(**{**values, **times})
