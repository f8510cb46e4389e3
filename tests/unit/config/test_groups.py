"""Group settings: bounds of the broker, settings of single groups, contradictions."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.config.groups import GROUP_SETTINGS, check, group_config, group_problem
from brokerd.config.share_groups import SHARE_SETTINGS

DEFAULTS: dict[str, Any] = {s.name: s.default for s in (*GROUP_SETTINGS, *SHARE_SETTINGS)}
SETTINGS = {s.name: s for s in GROUP_SETTINGS}


def test_the_defaults_do_not_contradict_each_other() -> None:
    check(DEFAULTS)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"group.consumer.session.timeout.ms": 70_000}, "is not between its min"),
        ({"group.consumer.heartbeat.interval.ms": 1}, "is not between its min"),
        ({"group.consumer.assignment.interval.ms": 20_000}, "is not between its min"),
        (
            {"group.consumer.heartbeat.interval.ms": 45_000, "group.consumer.max.heartbeat.interval.ms": 45_000},
            "is not below group.consumer.session.timeout.ms",
        ),
    ],
)
def test_broker_settings_that_contradict_each_other_are_rejected(changed: dict[str, int], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check({**DEFAULTS, **changed})


def test_a_group_has_the_broker_s_settings_except_its_own() -> None:
    config = group_config(DEFAULTS, {"consumer.heartbeat.interval.ms": "6000"})
    assert (config.session_ms, config.heartbeat_ms, config.assignment_ms) == (45_000, 6_000, 0)
    assert config.assignors == ("uniform", "range")


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ({"session.timeout.ms": "1"}, "unknown group setting"),
        ({"consumer.session.timeout.ms": "44999"}, "between 45000 and 60000"),
        ({"consumer.session.timeout.ms": "1e5"}, "not a number"),
        ({"consumer.session.timeout.ms": "٤٥٠٠٠"}, "not a number"),
        ({"consumer.session.timeout.ms": "9" * 5_000}, "not a number"),
    ],
)
def test_an_invalid_setting_of_a_group_is_rejected_with_a_reason(own: dict[str, str], reason: str) -> None:
    problem = group_problem(own, DEFAULTS)
    assert problem is not None and reason in problem and len(problem) < 200


def test_a_heartbeat_interval_of_a_group_must_be_below_its_session_time_out() -> None:
    values = {**DEFAULTS, "group.consumer.max.heartbeat.interval.ms": 60_000}
    assert group_problem({"consumer.heartbeat.interval.ms": "44999"}, values) is None
    assert "must be below" in (group_problem({"consumer.heartbeat.interval.ms": "45000"}, values) or "")


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("group.coordinator.rebalance.protocols", "Classic,CONSUMER", "consumer"),
        ("group.consumer.migration.policy", " Upgrade ", "sideways"),
        ("group.consumer.assignors", "range", "com.example.Assignor"),
    ],
)
def test_protocols_policies_and_assignors_are_read_under_kafka_s_names(name: str, good: str, bad: str) -> None:
    assert SETTINGS[name].read(good)
    with pytest.raises(ValueError, match="expected"):
        SETTINGS[name].read(bad)
