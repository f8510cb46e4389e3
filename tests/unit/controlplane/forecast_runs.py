"""A finished run of a job `forecast` for tests."""

from __future__ import annotations

from typing import Any

from controlplane.models import SparkJob, SparkRun
from controlplane.models.spark import SparkRunState

AT = "2026-11-25T08:00:00+00:00"
DISK: dict[str, Any] = {
    "subject": "broker:1",
    "metric": "disk_used_bytes",
    "made_at": AT,
    "value": 5e9,
    "level": 9e9,
    "low": "2026-12-01T08:00:00+00:00",
    "median": "2026-12-03T08:00:00+00:00",
    "high": None,
    "until": "2026-12-25T08:00:00+00:00",
}
ACCURACY: dict[str, Any] = {
    "metric": "disk_used_bytes",
    "decided": 40,
    "inside_pct": 82.5,
    "stated_pct": 80,
    "error_pct": 7.1,
}


def finished_run(*forecasts: dict[str, Any]) -> SparkRun:
    job = SparkJob.objects.create(name="forecast", kind="forecast", actor="ann")
    status = {"forecasts": list(forecasts or [DISK]), "accuracy": [ACCURACY]}
    SparkRun.objects.create(job=job, actor="ann", state=SparkRunState.FAILED, status={})
    return SparkRun.objects.create(job=job, actor="ann", state=SparkRunState.FINISHED, status=status)
