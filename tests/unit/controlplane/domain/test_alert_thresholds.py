"""Thresholds: defaults, bounds, order, and stored values of other versions."""

from __future__ import annotations

import math

import pytest

from controlplane.domain.alert import THRESHOLD_KINDS
from controlplane.domain.alert_thresholds import (
    ORDERED,
    RULES,
    AlertThresholds,
    ThresholdName,
    of_stored,
    order_problem,
    value_problem,
)
from controlplane.domain.lag import DEFAULT_LIMITS


def test_every_threshold_has_a_rule_a_kind_and_a_valid_default() -> None:
    assert set(RULES) == set(THRESHOLD_KINDS) == set(ThresholdName)
    assert all(value_problem(name, rule.default) is None for name, rule in RULES.items())
    assert order_problem(AlertThresholds()) is None
    assert AlertThresholds().lag_limits == DEFAULT_LIMITS


@pytest.mark.parametrize("name", list(ThresholdName))
def test_a_value_outside_its_bounds_is_a_problem(name: ThresholdName) -> None:
    rule = RULES[name]
    for value in (rule.minimum - 1, rule.maximum + 1, math.nan, math.inf, -math.inf):
        assert value_problem(name, value) is not None, value
    assert value_problem(name, rule.minimum) is None and value_problem(name, rule.maximum) is None


def test_a_count_is_a_whole_number() -> None:
    assert value_problem(ThresholdName.GROUP_ALERTS_MAX, 2.5) is not None
    assert value_problem(ThresholdName.DISK_FREE_LOW, 2.5) is None


@pytest.mark.parametrize(("lower", "upper"), ORDERED)
def test_an_alert_cannot_be_at_risk_before_it_exists(lower: ThresholdName, upper: ThresholdName) -> None:
    value = RULES[upper].default
    assert order_problem(AlertThresholds({lower: value})) is None
    problem = order_problem(AlertThresholds({lower: value + 1}))
    assert problem is not None and lower in problem and upper in problem


def test_stored_values_that_are_not_valid_have_no_effect() -> None:
    found = of_stored({"disk_free_low": 20, "group_stall": -1, "of_another_version": 7})
    assert found.values == {ThresholdName.DISK_FREE_LOW: 20}
    assert found[ThresholdName.GROUP_STALL] == RULES[ThresholdName.GROUP_STALL].default
    assert of_stored({"group_stall": 60}).lag_limits.stall_ms == 60_000
