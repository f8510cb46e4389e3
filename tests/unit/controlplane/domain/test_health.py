"""Health checks: limits, unknown values, scores."""

from __future__ import annotations

import pytest

from controlplane.domain.alert_thresholds import AlertThresholds, ThresholdName
from controlplane.domain.health import (
    RULE_OF,
    RULES,
    CheckCounts,
    CheckName,
    CheckScope,
    CheckState,
    cluster_score,
    object_score,
    outcome,
)

LIMITS = AlertThresholds()


def test_each_check_has_one_rule_with_texts() -> None:
    assert [r.name for r in RULES] == list(CheckName) and set(RULE_OF) == set(CheckName)
    for rule in RULES:
        assert rule.weight > 0 and rule.impact.endswith(".") and rule.do.endswith(".") and not rule.title.endswith(".")


@pytest.mark.parametrize(
    ("name", "value", "state"),
    [
        (CheckName.OFFLINE_PARTITIONS, 0, CheckState.PASSED),
        (CheckName.OFFLINE_PARTITIONS, 1, CheckState.FAILED),
        (CheckName.DISK_FREE, 10, CheckState.PASSED),
        (CheckName.DISK_FREE, 9.9, CheckState.FAILED),
        (CheckName.DISK_FREE, None, CheckState.UNKNOWN),
        (CheckName.CONTROLLER, 0, CheckState.FAILED),
        (CheckName.LEADER_BALANCE, 50, CheckState.PASSED),
        (CheckName.LEADER_BALANCE, 51, CheckState.FAILED),
    ],
)
def test_a_value_is_compared_with_its_limit(name: CheckName, value: float | None, state: CheckState) -> None:
    assert RULE_OF[name].state(value, LIMITS) is state


def test_a_changed_threshold_changes_the_result() -> None:
    strict = AlertThresholds({ThresholdName.HEALTH_REPLICATION: 3})
    rule = RULE_OF[CheckName.REPLICATION]
    assert rule.state(2, LIMITS) is CheckState.PASSED and rule.state(2, strict) is CheckState.FAILED


def test_the_worst_objects_come_first_and_all_are_counted() -> None:
    values = {f"t{i}": float(i) for i in range(2, 10)} | {"a": 0.0, "b": 0.0, "c": 1.0, "d": None}
    found = outcome(RULE_OF[CheckName.REPLICATION], values, LIMITS, 2)
    assert (found.state, found.objects, found.failed, found.unknown) == (CheckState.FAILED, 12, 3, 1)
    assert [f.subject for f in found.failures] == ["a", "b"]
    assert found.worst == 0.0
    assert outcome(RULE_OF[CheckName.REPLICATION], {"a": 3.0, "b": 2.0}, LIMITS, 2).worst == 2.0
    sizes = outcome(RULE_OF[CheckName.PARTITION_BALANCE], {"x": 500.0, "y": 900.0}, LIMITS, 5)
    assert [f.subject for f in sizes.failures] == ["y", "x"]


def test_unknown_is_neither_passed_nor_failed() -> None:
    rule = RULE_OF[CheckName.DISK_FREE]
    assert outcome(rule, {"1": None, "2": None}, LIMITS, 5).state is CheckState.UNKNOWN
    assert outcome(rule, {"1": None, "2": 50.0}, LIMITS, 5).state is CheckState.PASSED
    assert outcome(rule, {}, LIMITS, 5).state is CheckState.PASSED


def test_scores_are_shares_of_weights() -> None:
    good = [CheckCounts(r.name, 4, 0, 0) for r in RULES]
    assert cluster_score(good) == 100
    assert cluster_score([]) is None and cluster_score([CheckCounts(CheckName.DISK_FREE, 2, 0, 2)]) is None
    half = [CheckCounts(CheckName.BROKER_UP, 4, 2, 0), CheckCounts(CheckName.REPLICATION, 0, 0, 0)]
    assert cluster_score(half) == 50
    one = [CheckCounts(r.name, 10_000, int(r.name is CheckName.GROUP_LAG_KNOWN), 0) for r in RULES]
    assert cluster_score(one) == 99, "100 only without a failure"
    assert object_score(CheckScope.GROUP, []) == 100
    assert object_score(CheckScope.BROKER, [r.name for r in RULES if r.scope is CheckScope.BROKER]) == 0
    assert object_score(CheckScope.GROUP, [CheckName.GROUP_PROGRESS, CheckName.GROUP_PROGRESS]) == 52
