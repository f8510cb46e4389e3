"""Recorded history for tests, written as the monitor writes it."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.monitoring.history import HistoryRecorder
from controlplane.monitoring.history_metrics import SeriesKey


def record(recorder: HistoryRecorder, values: Mapping[int, Mapping[SeriesKey, float]]) -> None:
    """`values`: the values at each time in Unix seconds."""
    for at, metrics in values.items():
        recorder._pending.append((at, dict(metrics)))
        recorder.write()
