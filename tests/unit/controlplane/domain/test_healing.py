"""Limits of self-healing."""

from __future__ import annotations

import pytest

from controlplane.domain.healing import (
    COOL_DOWN_S_MAX,
    COOL_DOWN_S_MIN,
    PER_HOUR_MAX,
    RULES,
    HealingAction,
    HealingLimits,
    HealingMode,
    HealingVerdict,
    limits_problem,
    verdict,
)

NOW = 100_000.0


def healing_verdict(
    mode: HealingMode, *ago_s: float, is_due: bool = True, cool_down_s: int = 600, per_hour: int = 3
) -> str:
    return verdict(HealingLimits(mode, cool_down_s, per_hour), is_due, [NOW - s for s in ago_s], NOW)


def test_off_is_off_and_nothing_is_done_without_a_cause() -> None:
    assert healing_verdict(HealingMode.OFF) is HealingVerdict.OFF
    assert healing_verdict(HealingMode.ON, is_due=False) is HealingVerdict.NOTHING


@pytest.mark.parametrize(("mode", "acts"), [(HealingMode.ON, "act"), (HealingMode.DRY_RUN, "dry_run")])
def test_cool_down_and_limit_hold_in_both_modes(mode: HealingMode, acts: str) -> None:
    assert healing_verdict(mode) == acts
    assert healing_verdict(mode, 599) is HealingVerdict.COOLING_DOWN
    assert healing_verdict(mode, 600) == acts
    assert healing_verdict(mode, 700, 1400, 3599) is HealingVerdict.LIMITED
    assert healing_verdict(mode, 700, 1400, 3600) == acts
    assert healing_verdict(mode, 4000, cool_down_s=7200) is HealingVerdict.COOLING_DOWN


def test_each_action_has_a_rule_with_valid_limits() -> None:
    assert set(RULES) == set(HealingAction)
    for rule in RULES.values():
        assert limits_problem(rule.cool_down_s, rule.per_hour) is None


@pytest.mark.parametrize(
    ("cool_down_s", "per_hour", "field"),
    [
        (COOL_DOWN_S_MIN - 1, 1, "cool_down_s"),
        (COOL_DOWN_S_MAX + 1, 1, "cool_down_s"),
        (900, 0, "per_hour"),
        (900, PER_HOUR_MAX + 1, "per_hour"),
    ],
)
def test_limits_have_bounds(cool_down_s: int, per_hour: int, field: str) -> None:
    problem = limits_problem(cool_down_s, per_hour)
    assert problem is not None and problem[0] == field
