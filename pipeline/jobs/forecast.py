"""The job `forecast`: forecasts when a disk is full and when a group has caught up, and measures the accuracy of the forecasts of the last 30 days.
Needs no Spark session.

Invariant: the forecasts of a run are in the table `metrics.forecasts` once, also after a restart of its driver. The control plane shows the status of the
newest finished run. Does not contain: statistics (`pipeline.forecasting`), SQL (`pipeline.history_rows`).
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from pipeline.forecasting import CONFIDENCE, ForecastOutcome, Stated, evenly, outcome, passage
from pipeline.history_rows import HistoryRows, Series
from pipeline.jobs.base import Job, ReportTable, RunContext
from pipeline.lake.forecasts import StoredForecast, forecasts_table, read_forecasts, store

DISK_METRIC, LAG_METRIC, CONSUMED_METRIC = "disk_used_bytes", "lag_records", "consumed_per_s"

DISK_SPAN = timedelta(days=7)
DISK_STEP_S = 3600
LAG_SPAN = timedelta(hours=2)
LAG_STEP_S = 60
LAG_HORIZON = timedelta(hours=24)

CAUGHT_UP_S = 10
"""A group has caught up when its lag is below its consumption in this time."""

GROUPS_MAX = 500
"""Groups of one run, those with the greatest lag: each takes some hundredths of a second."""

CHECKED_SPAN = timedelta(days=30)
"""Earlier forecasts that are compared with the observed values, which the database has."""

CHECKED_MAX = 20_000
"""Maximum number of earlier forecasts of one run, the newest."""


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Accuracy of the decided forecasts of one metric. `error_pct`: median of |time - median forecast| as a part of the time that was left."""

    metric: str
    decided: int
    inside: int
    earlier: int
    later: int
    open: int
    error_pct: float | None

    @property
    def inside_pct(self) -> float | None:
        return round(100 * self.inside / self.decided, 1) if self.decided else None


@dataclass(frozen=True)
class ForecastJob(Job):
    name: ClassVar[str] = "forecast"

    horizon_days: int

    def run(self, context: RunContext) -> None:
        rows, table, now = HistoryRows(context.run.database), forecasts_table(context.lake.open()), datetime.now(UTC)
        found = [*disks(rows, now, timedelta(days=self.horizon_days)), *groups(rows, now)]
        store(table, found, context.run.name)
        context.update_status(batches=1, rows=len(found))
        checked = accuracy(rows, read_forecasts(table.refresh(), now - CHECKED_SPAN)[-CHECKED_MAX:], now)
        context.update_status(
            batches=2,
            forecasts=[_json(f) for f in found],
            accuracy=[
                {
                    "metric": a.metric,
                    "decided": a.decided,
                    "inside_pct": a.inside_pct,
                    "stated_pct": round(100 * CONFIDENCE),
                    "error_pct": a.error_pct,
                }
                for a in checked
            ],
        )
        context.report(*report(found, checked))


def disks(rows: HistoryRows, now: datetime, horizon: timedelta) -> list[StoredForecast]:
    """Return the forecasts of full disks, one per broker."""
    capacities = rows.disk_bytes()
    needed = [s for s in rows.series() if s.metric == DISK_METRIC and s.subject in capacities]
    return list(
        _forecasts(rows, needed, now, DISK_SPAN, DISK_STEP_S, horizon, lambda s, _: float(capacities[s.subject]))
    )


def groups(rows: HistoryRows, now: datetime) -> list[StoredForecast]:
    """Return the forecasts of groups that are behind: the time at which each has caught up."""
    series = rows.series()
    consumed = {s.subject: s for s in series if s.metric == CONSUMED_METRIC}
    behind = [s for s in series if s.metric == LAG_METRIC and s.subject in consumed]
    since = int((now - timedelta(seconds=3 * LAG_STEP_S)).timestamp())
    newest = rows.values([*consumed.values(), *behind], since, int(now.timestamp()))
    levels: dict[str, float] = {}
    lags: dict[str, float] = {}
    for s in behind:
        lag, pace = newest.get(s.id), newest.get(consumed[s.subject].id)
        if lag and pace:
            level = CAUGHT_UP_S * statistics.fmean(v for _, v in pace)
            if lag[-1][1] > level > 0:
                levels[s.subject], lags[s.subject] = level, lag[-1][1]
    needed = sorted((s for s in behind if s.subject in levels), key=lambda s: -lags[s.subject])[:GROUPS_MAX]
    return list(_forecasts(rows, needed, now, LAG_SPAN, LAG_STEP_S, LAG_HORIZON, lambda s, _: levels[s.subject]))


def _forecasts(
    rows: HistoryRows,
    needed: Sequence[Series],
    now: datetime,
    span: timedelta,
    step_s: int,
    horizon: timedelta,
    level_of: Callable[[Series, float], float],
) -> Iterable[StoredForecast]:
    """One forecast of each series that has enough values up to now."""
    since, until = int((now - span).timestamp()), int(now.timestamp())
    for series in needed:
        values = rows.values([series], since, until).get(series.id, [])
        if not values or values[-1][0] < until - 2 * step_s:
            continue  # An object without recent values may not exist any more.
        even = evenly(values, since, until, step_s)
        if not even:
            continue
        level = level_of(series, values[-1][1])
        found = passage([*even[:-1], values[-1][1]], step_s, level, horizon.total_seconds(), series.id)
        if found is None:
            continue
        low, median, high = (
            None if s is None else now + timedelta(seconds=s) for s in (found.low_s, found.median_s, found.high_s)
        )
        yield StoredForecast(series.subject, series.metric, now, values[-1][1], level, low, median, high, now + horizon)


def accuracy(rows: HistoryRows, earlier: Sequence[StoredForecast], now: datetime) -> list[Accuracy]:
    """Return the accuracy of earlier forecasts, by metric."""
    series = {(s.subject, s.metric): s for s in rows.series()}
    of_series: dict[tuple[str, str], list[StoredForecast]] = {}
    for forecast in earlier:
        of_series.setdefault((forecast.subject, forecast.metric), []).append(forecast)
    counts: dict[str, Counter[ForecastOutcome]] = {DISK_METRIC: Counter(), LAG_METRIC: Counter()}
    errors: dict[str, list[float]] = {DISK_METRIC: [], LAG_METRIC: []}
    for key, forecasts in of_series.items():
        if key not in series:
            continue
        since, until = int(min(f.timestamp for f in forecasts).timestamp()), int(now.timestamp())
        values = rows.values([series[key]], since, until).get(series[key].id, [])
        for forecast in forecasts:
            state, reached = outcome(_state_of(forecast), values, now.timestamp())
            counts[forecast.metric][state] += 1
            if reached is not None and forecast.median is not None:
                left = max(1.0, reached - forecast.timestamp.timestamp())
                errors[forecast.metric].append(abs(forecast.median.timestamp() - reached) / left)
    return [
        Accuracy(
            metric,
            c.total() - c[ForecastOutcome.OPEN],
            c[ForecastOutcome.INSIDE],
            c[ForecastOutcome.EARLIER],
            c[ForecastOutcome.LATER],
            c[ForecastOutcome.OPEN],
            round(100 * statistics.median(errors[metric]), 1) if errors[metric] else None,
        )
        for metric, c in counts.items()
    ]


def _state_of(f: StoredForecast) -> Stated:
    low, median, high = (None if t is None else t.timestamp() for t in (f.low, f.median, f.high))
    return Stated(f.timestamp.timestamp(), f.value, f.level, low, median, high, f.until.timestamp())


def _json(forecast: StoredForecast) -> dict[str, object]:
    times = {n: t.isoformat() if (t := getattr(forecast, n)) is not None else None for n in ("low", "median", "high")}
    return {
        "subject": forecast.subject,
        "metric": forecast.metric,
        "made_at": forecast.timestamp.isoformat(),
        "value": forecast.value,
        "level": forecast.level,
        **times,
        "until": forecast.until.isoformat(),
    }


def report(forecasts: Sequence[StoredForecast], checked: Sequence[Accuracy]) -> list[ReportTable]:
    def forecast_text(at: datetime | None, f: StoredForecast) -> str:
        return at.isoformat(timespec="minutes") if at is not None else f"after {f.until.isoformat(timespec='minutes')}"

    return [
        ReportTable(
            "Forecasts",
            ("subject", "metric", "value", "level", "10 %", "median", "90 %"),
            [
                (
                    f.subject,
                    f.metric,
                    f.value,
                    f.level,
                    forecast_text(f.low, f),
                    forecast_text(f.median, f),
                    forecast_text(f.high, f),
                )
                for f in forecasts
            ],
        ),
        ReportTable(
            "Earlier forecasts of 30 days",
            ("metric", "decided", "inside the interval", "earlier", "later", "open", "median error, %"),
            [(a.metric, a.decided, a.inside, a.earlier, a.later, a.open, a.error_pct) for a in checked],
        ),
    ]
