"""Detection of anomalies: detected and ignored changes, and the rate of false detections in noise."""

from __future__ import annotations

import random

import pytest

from controlplane.domain.anomaly import (
    DAYS_LEAST,
    HOURS_LEAST,
    WATCHED,
    WATCHED_OF,
    AnomalyState,
    Baseline,
    judge,
)
from controlplane.domain.history import METRICS

RATE, LAG = WATCHED_OF["topic.records_per_s"], WATCHED_OF["group.lag_s"]
LIMIT = 8.0


def test_watched_metrics_are_recorded_ones() -> None:
    for w in WATCHED:
        assert w.metric in [f.name for f in METRICS[w.subject]]


def test_too_few_values_say_nothing() -> None:
    few = judge(RATE, 9999, [10] * (DAYS_LEAST - 1), [10] * (HOURS_LEAST - 1), LIMIT)
    assert (few.state, few.usual, few.values) == (AnomalyState.TOO_FEW_VALUES, None, HOURS_LEAST - 1)
    assert judge(RATE, None, [10] * 14, [10] * 24, LIMIT).state is AnomalyState.NO_VALUE


def test_days_are_preferred_to_hours() -> None:
    found = judge(RATE, 1000, [1000] * 5, [10] * 24, LIMIT)
    assert (found.state, found.baseline, found.values) == (AnomalyState.NORMAL, Baseline.DAYS, 5)
    assert judge(RATE, 1000, [], [10] * 24, LIMIT).baseline is Baseline.HOURS


@pytest.mark.parametrize(
    ("value", "state"),
    [
        (1000, AnomalyState.NORMAL),
        (1500, AnomalyState.NORMAL),
        (1900, AnomalyState.HIGH),
        (250, AnomalyState.NORMAL),
        (90, AnomalyState.LOW),
        (0, AnomalyState.LOW),
    ],
)
def test_high_and_missing_traffic(value: float, state: AnomalyState) -> None:
    assert judge(RATE, value, [950, 1000, 1050, 990, 1010, 1000, 980], [], LIMIT).state is state


def test_one_unusual_day_does_not_change_the_usual_value() -> None:
    assert judge(RATE, 1900, [1000, 1010, 990, 50_000, 1000, 1005, 0], [], LIMIT).state is AnomalyState.HIGH


def test_small_metrics_and_a_short_lag_are_normal() -> None:
    assert judge(RATE, 70, [0.0] * 7, [], LIMIT).state is AnomalyState.NORMAL
    assert judge(LAG, 200, [1.0] * 7, [], LIMIT).state is AnomalyState.NORMAL
    assert judge(LAG, 900, [1.0] * 7, [], LIMIT).state is AnomalyState.HIGH
    assert judge(LAG, 0, [900.0] * 7, [], LIMIT).state is AnomalyState.NORMAL, "no lag is good"


def test_a_change_that_is_small_for_the_metric_is_normal_at_night() -> None:
    """Twenty records per second at night, ten thousand by day: two hundred at night are little."""
    nights, day = [20.0] * 14, [10_000.0] * 14 + [20.0] * 10
    assert judge(RATE, 200, nights, day, LIMIT).state is AnomalyState.NORMAL
    assert judge(RATE, 200, nights, [], LIMIT).state is AnomalyState.HIGH
    assert judge(RATE, 9_000, nights, day, LIMIT).state is AnomalyState.HIGH


@pytest.mark.parametrize("noise", [0.05, 0.2, 0.4])
def test_noise_is_no_anomaly(noise: float) -> None:
    """Two years of days with a random rate: normally distributed around the usual value."""
    draw = random.Random(7)
    days = [max(0.0, 1000 * draw.gauss(1, noise)) for _ in range(730)]
    found = [judge(RATE, days[i], days[i - 14 : i], [], LIMIT).state for i in range(14, len(days))]
    assert found.count(AnomalyState.HIGH) == 0
    assert found.count(AnomalyState.LOW) <= (10 if noise == 0.4 else 0), "a tenth of the usual rate is rare"
