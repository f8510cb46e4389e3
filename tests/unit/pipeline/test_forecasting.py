"""The stated interval has the true time as often as stated, on synthetic series; outcomes of earlier forecasts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pipeline.forecasting import VALUES_MIN, Floats, ForecastOutcome, Passage, Stated, evenly, outcome, passage

SERIES, KNOWN, HORIZON = 150, 168, 400
Changes = Callable[[np.random.Generator, int], Floats]


def independent_noise(random: np.random.Generator, count: int) -> Floats:
    return random.normal(1, 3, count)


def heavy_tailed(random: np.random.Generator, count: int) -> Floats:
    return 1 + 2 * random.standard_t(3, count)


def daily(random: np.random.Generator, count: int) -> Floats:
    return 1 + 3 * np.sin(2 * np.pi * (np.arange(count) / 24 + random.uniform())) + random.normal(0, 1, count)


def coverage(changes: Changes, distance: float, series: int = SERIES) -> float:
    """The part of series whose true time is in the interval."""
    inside = 0
    for seed in range(series):
        values = np.cumsum(changes(np.random.default_rng(seed), KNOWN + HORIZON))
        level = values[KNOWN - 1] + distance
        reached = values[KNOWN:] >= level
        true = float(reached.argmax()) + 1 if reached.any() else np.inf
        found = passage(list(values[:KNOWN]), 1, level, HORIZON, seed)
        assert found is not None
        low, high = (np.inf if t is None else t for t in (found.low_s, found.high_s))
        inside += bool(low <= true <= high)
    return inside / series


@pytest.mark.parametrize("changes", [independent_noise, heavy_tailed])
def test_the_interval_has_the_true_time_as_often_as_stated(changes: Changes) -> None:
    """80 % is stated. 150 series have a standard error of 3.3 percent points."""
    assert 0.70 <= coverage(changes, 100) <= 0.90


def test_with_a_daily_cycle_the_interval_is_not_too_short() -> None:
    assert coverage(daily, 100, 60) >= 0.75


def test_a_steady_series_reaches_the_level_when_its_line_does() -> None:
    assert passage([10.0 * n for n in range(50)], 60, 590, 86_400) == Passage(600, 600, 600)
    assert passage([1000 - 10.0 * n for n in range(50)], 60, 410, 86_400) == Passage(600, 600, 600)


def test_a_level_beyond_the_horizon_and_one_that_is_reached() -> None:
    assert passage([10.0 * n for n in range(50)], 60, 1e9, 86_400) == Passage(None, None, None)
    assert passage([5.0] * 50, 60, 6, 86_400) == Passage(None, None, None)
    assert passage([5.0] * 50, 60, 5, 86_400) == Passage(0, 0, 0)


def test_few_values_are_not_forecast() -> None:
    assert passage([1.0] * (VALUES_MIN - 1), 60, 5, 600) is None


def test_averages_of_steps_with_a_gap_on_a_line() -> None:
    values = [(130, 1.0), (140, 3.0), (250, 6.0), (400, 9.0)]
    assert evenly(values, 100, 400, 60) == [2.0, 4.0, 6.0]
    assert evenly([], 100, 400, 60) == []


@pytest.mark.parametrize(
    ("values", "now", "expected"),
    [
        ([(90, 10.0), (150, 5.0)], 160, (ForecastOutcome.OPEN, None)),
        ([(90, 10.0), (250, 10.0)], 260, (ForecastOutcome.INSIDE, 250)),
        ([(150, 12.0)], 260, (ForecastOutcome.EARLIER, 150)),
        ([(350, 12.0)], 360, (ForecastOutcome.LATER, 350)),
        ([(350, 5.0)], 360, (ForecastOutcome.LATER, None)),
    ],
)
def test_the_outcome_of_a_forecast(
    values: list[tuple[int, float]], now: float, expected: tuple[ForecastOutcome, float | None]
) -> None:
    assert outcome(Stated(100, 1, 10, 200, 250, 300, 1000), values, now) == expected


def test_the_outcome_of_a_forecast_that_is_open_at_the_end() -> None:
    stated = Stated(100, 10, 1, 200, None, None, 1000)
    assert outcome(stated, [], 999) == (ForecastOutcome.OPEN, None)
    assert outcome(stated, [], 1001) == (ForecastOutcome.INSIDE, None)
    assert outcome(stated, [(900, 0.5)], 1001) == (ForecastOutcome.INSIDE, 900)
    assert outcome(Stated(100, 10, 1, None, None, None, 1000), [(900, 0.5)], 1001) == (ForecastOutcome.EARLIER, 900)
