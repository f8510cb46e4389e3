"""Settings of streams groups: Kafka's defaults, bounds, and the effective settings of a group."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.config.groups import GROUP_SETTINGS, group_problem
from brokerd.config.share_groups import SHARE_SETTINGS
from brokerd.config.streams_groups import (
    STREAMS_CONFIGS,
    STREAMS_SETTINGS,
    StreamsGroupConfig,
    check_streams,
    streams_group_config,
)

DEFAULTS: dict[str, Any] = {s.name: s.default for s in (*GROUP_SETTINGS, *SHARE_SETTINGS, *STREAMS_SETTINGS)}


def test_kafkas_defaults() -> None:
    assert streams_group_config(DEFAULTS, {}) == StreamsGroupConfig(45_000, 5_000, 2**31 - 1, 0, 3_000, 1_000)
    assert StreamsGroupConfig() == streams_group_config(DEFAULTS, {})
    check_streams(DEFAULTS)


def test_settings_of_a_group() -> None:
    own = {
        "streams.session.timeout.ms": "50000",
        "streams.heartbeat.interval.ms": "6000",
        "streams.num.standby.replicas": "2",
        "streams.initial.rebalance.delay.ms": "0",
        "streams.assignment.interval.ms": "15000",
    }
    assert own.keys() == STREAMS_CONFIGS.keys()
    assert group_problem(own, DEFAULTS) is None
    config = streams_group_config(DEFAULTS, own)
    assert config == StreamsGroupConfig(50_000, 6_000, 2**31 - 1, 2, 0, 15_000)
    assert config.assignment_configs == (("num.standby.replicas", "2"),)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("streams.session.timeout.ms", "44999"),
        ("streams.session.timeout.ms", "60001"),
        ("streams.heartbeat.interval.ms", "4999"),
        ("streams.num.standby.replicas", "3"),
        ("streams.num.standby.replicas", "-1"),
        ("streams.initial.rebalance.delay.ms", "x"),
        ("streams.assignment.interval.ms", "15001"),
    ],
)
def test_values_outside_the_bounds_are_rejected(name: str, text: str) -> None:
    problem = group_problem({name: text}, DEFAULTS)
    assert problem is not None and name in problem


def test_unknown_settings_are_rejected() -> None:
    assert "streams.*" in (group_problem({"streams.unknown": "1"}, DEFAULTS) or "")


@pytest.mark.parametrize(
    "wrong",
    [
        {"group.streams.session.timeout.ms": 10},
        {"group.streams.num.standby.replicas": 3},
        {"group.streams.assignment.interval.ms": 20_000},
        {"group.streams.heartbeat.interval.ms": 45_000, "group.streams.max.heartbeat.interval.ms": 45_000},
    ],
)
def test_broker_settings_that_contradict_each_other(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        check_streams({**DEFAULTS, **wrong})


def test_a_heartbeat_interval_of_a_group_is_below_its_session_time_out() -> None:
    values = {**DEFAULTS, "group.streams.min.session.timeout.ms": 1}
    own = {"streams.session.timeout.ms": "5000", "streams.heartbeat.interval.ms": "5000"}
    assert "below" in (group_problem(own, values) or "")
