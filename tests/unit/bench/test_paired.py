"""Statistics of measurements in pairs."""

from __future__ import annotations

import random

import pytest

from bench.paired import bootstrap_median, in_order, ratios


def test_pairs_alternate() -> None:
    assert [in_order("a", "b", pair) for pair in range(3)] == [("a", "b"), ("b", "a"), ("a", "b")]


def test_a_ratio_is_of_one_pair() -> None:
    assert ratios([2.0, 3.0], [4.0, 2.0]) == [0.5, 1.5]
    with pytest.raises(ValueError, match="shorter"):
        ratios([1.0, 2.0], [1.0])


def test_equal_values_have_an_interval_without_width() -> None:
    assert bootstrap_median([1.02] * 20) == (1.02, 1.02, 1.02)


def test_the_result_depends_on_the_values_only() -> None:
    values = [1 + i / 100 for i in range(31)]
    assert bootstrap_median(values) == bootstrap_median(values)
    assert bootstrap_median(values).median == pytest.approx(1.15)


def test_outliers_do_not_move_the_interval() -> None:
    """Some slices in which the host takes the processor away."""
    rng = random.Random(1)
    values = [rng.gauss(1.02, 0.02) for _ in range(60)]
    found = bootstrap_median([*values[:55], *[3.0] * 5], 2_000)
    assert found.low > 1.0
    assert found.high < 1.04


def test_the_interval_contains_the_true_median_in_about_95_of_100_cases() -> None:
    rng = random.Random(2)
    covered = 0
    for _ in range(200):
        found = bootstrap_median([rng.gauss(1.02, 0.1) for _ in range(30)], 400)
        covered += found.low <= 1.02 <= found.high
    assert 180 <= covered <= 198
