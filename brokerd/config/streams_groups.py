"""Settings of streams groups (KIP-1071), under Kafka's names: of the broker and of single groups. Does not contain their effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from brokerd.config.types import Setting


@dataclass(frozen=True, slots=True)
class StreamsGroupConfig:
    """The settings of one streams group. Times in ms. `initial_delay_ms`: the delay of the first assignment of an empty group, so that more members
    can join. `assignment_ms`: the minimum time between two assignments."""

    session_ms: int = 45_000
    heartbeat_ms: int = 5_000
    size_max: int = 2**31 - 1
    standby_replicas: int = 0
    initial_delay_ms: int = 3_000
    assignment_ms: int = 1_000

    @property
    def assignment_configs(self) -> tuple[tuple[str, str], ...]:
        """The settings that change the assignment, as Kafka stores them in the group's record."""
        return (("num.standby.replicas", str(self.standby_replicas)),)


STREAMS_SETTINGS: tuple[Setting, ...] = (
    Setting("group.streams.session.timeout.ms", int, 45_000, "Session time-out of members of streams groups.", 1),
    Setting("group.streams.min.session.timeout.ms", int, 45_000, "Minimum session time-out that may be set for a streams group.", 1),
    Setting("group.streams.max.session.timeout.ms", int, 60_000, "Maximum session time-out that may be set for a streams group.", 1),
    Setting("group.streams.heartbeat.interval.ms", int, 5_000, "Interval at which members of streams groups send heartbeats.", 1),
    Setting("group.streams.min.heartbeat.interval.ms", int, 5_000, "Minimum heartbeat interval that may be set for a streams group.", 1),
    Setting("group.streams.max.heartbeat.interval.ms", int, 15_000, "Maximum heartbeat interval that may be set for a streams group.", 1),
    Setting("group.streams.max.size", int, 2**31 - 1, "Maximum number of members of a streams group. Each join recomputes the assignment in the event loop.", 1),
    Setting("group.streams.num.standby.replicas", int, 0, "Number of standby tasks of each stateful task.", 0),
    Setting("group.streams.max.standby.replicas", int, 2, "Maximum number of standby tasks that may be set for a streams group.", 0),
    Setting("group.streams.initial.rebalance.delay.ms", int, 3_000, "Delay before the first assignment of an empty streams group, so that more members can join.", 0),
    Setting("group.streams.assignment.interval.ms", int, 1_000, "Minimum time between two assignments of a streams group.", 0),
    Setting("group.streams.min.assignment.interval.ms", int, 0, "Minimum assignment interval that may be set for a streams group.", 0),
    Setting("group.streams.max.assignment.interval.ms", int, 15_000, "Maximum assignment interval that may be set for a streams group.", 0),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StreamsConfigDefinition:
    """A setting of single streams groups. `broker` is the broker setting with its default, `low` and `high` are the broker settings with its
    bounds. None: the bound is 0, or there is none."""

    doc: str
    broker: str
    low: str | None = None
    high: str | None = None

    def problem(self, name: str, text: str, values: Mapping[str, object]) -> str | None:
        low = _number(values, self.low) if self.low is not None else 0
        high = _number(values, self.high) if self.high is not None else 2**31 - 1
        if text.isascii() and text.isdecimal() and low <= int(text[:10]) <= high:
            return None
        return f"{name}={text[:40]!r} is not a number between {low} and {high}"


STREAMS_CONFIGS = {
    "streams.session.timeout.ms": StreamsConfigDefinition(
        "Session time-out of the members of this streams group.",
        "group.streams.session.timeout.ms",
        "group.streams.min.session.timeout.ms",
        "group.streams.max.session.timeout.ms",
    ),
    "streams.heartbeat.interval.ms": StreamsConfigDefinition(
        "Interval at which the members of this streams group send heartbeats.",
        "group.streams.heartbeat.interval.ms",
        "group.streams.min.heartbeat.interval.ms",
        "group.streams.max.heartbeat.interval.ms",
    ),
    "streams.num.standby.replicas": StreamsConfigDefinition(
        "Number of standby tasks of each stateful task of this streams group.",
        "group.streams.num.standby.replicas",
        high="group.streams.max.standby.replicas",
    ),
    "streams.initial.rebalance.delay.ms": StreamsConfigDefinition(
        "Delay before the first assignment of this streams group when it is empty.",
        "group.streams.initial.rebalance.delay.ms",
    ),
    "streams.assignment.interval.ms": StreamsConfigDefinition(
        "Minimum time between two assignments of this streams group.",
        "group.streams.assignment.interval.ms",
        "group.streams.min.assignment.interval.ms",
        "group.streams.max.assignment.interval.ms",
    ),
}
"""Kafka's settings of streams groups. `streams.assignor.offload.enable` has no effect here and is not accepted."""


def streams_problem(overrides: Mapping[str, str], values: Mapping[str, object]) -> str | None:
    """Return the reason why the streams settings `overrides` of a group are invalid, or None. `values` are the broker's settings."""
    for name, text in overrides.items():
        problem = STREAMS_CONFIGS[name].problem(name, text, values)
        if problem is not None:
            return problem
    config = streams_group_config(values, overrides)
    if config.heartbeat_ms >= config.session_ms:
        return "the heartbeat interval of a streams group must be below its session time-out"
    return None


def check_streams(values: Mapping[str, object]) -> None:
    """Raises ValueError for settings that contradict each other."""
    for c in STREAMS_CONFIGS.values():
        problem = c.problem(c.broker, str(values[c.broker]), values)
        if problem is not None:
            raise ValueError(problem)
    heartbeat_ms = _number(values, "group.streams.heartbeat.interval.ms")
    if heartbeat_ms >= _number(values, "group.streams.session.timeout.ms"):
        raise ValueError("group.streams.heartbeat.interval.ms is not below group.streams.session.timeout.ms")


def streams_group_config(values: Mapping[str, object], overrides: Mapping[str, str]) -> StreamsGroupConfig:
    """The effective settings of a streams group. `overrides` are the settings of the group. Bounds are not checked: another broker may have had other
    bounds."""
    session, heartbeat, standby, initial, assignment = (
        int(overrides[name]) if name in overrides else _number(values, c.broker) for name, c in STREAMS_CONFIGS.items()
    )
    return StreamsGroupConfig(
        session, heartbeat, _number(values, "group.streams.max.size"), standby, initial, assignment
    )


def _number(values: Mapping[str, object], name: str) -> int:
    value = values[name]
    assert isinstance(value, int), f"{name} is not a number"
    return value
