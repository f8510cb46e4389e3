"""Group settings, under Kafka's names: of the broker and of single groups. Does not contain their effect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from brokerd.config.share_groups import SHARE_CONFIGS, share_problem
from brokerd.config.streams_groups import STREAMS_CONFIGS, streams_problem
from brokerd.config.types import Setting, split_items

CLASSIC, CONSUMER, STREAMS = "classic", "consumer", "streams"
ASSIGNORS = ("uniform", "range")
"""Server-side assignors of the consumer protocol, under Kafka's names (`brokerd.coordinator.consumer.assignors`)."""
BIDIRECTIONAL, UPGRADE, DOWNGRADE, DISABLED = MIGRATIONS = "bidirectional", "upgrade", "downgrade", "disabled"


def _assignors(text: str) -> tuple[str, ...]:
    names = split_items(text)
    if not names or not set(names) <= set(ASSIGNORS):
        raise ValueError(f"expected one or more of {', '.join(ASSIGNORS)}; custom assignor classes are not supported")
    return names


def _protocols(text: str) -> tuple[str, ...]:
    names = split_items(text.lower())
    if CLASSIC not in names or not set(names) <= {CLASSIC, CONSUMER, STREAMS}:
        raise ValueError(f"expected {CLASSIC}, and optionally {CONSUMER} and {STREAMS}")
    return names


def _migration(text: str) -> str:
    policy = text.strip().lower()
    if policy not in MIGRATIONS:
        raise ValueError(f"expected one of {', '.join(MIGRATIONS)}")
    return policy


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The settings of one group. Times in ms. Members may select one of `assignors`; the first is the default. `assignment_ms` is the
    minimum time between two assignments."""

    session_ms: int
    heartbeat_ms: int
    size_max: int
    assignors: tuple[str, ...] = ASSIGNORS
    assignment_ms: int = 0


GROUP_SETTINGS: tuple[Setting, ...] = (
    Setting("group.min.session.timeout.ms", int, 1_000, "Minimum session time-out that a member of a classic group may request.", 1),
    Setting("group.max.session.timeout.ms", int, 1_800_000, "Maximum session time-out that a member of a classic group may request.", 1),
    Setting("group.initial.rebalance.delay.ms", int, 0, "Delay before the first rebalance of a new group, so that more members can join.", 0),
    Setting("group.max.size", int, 10_000, "Maximum number of members of a classic group.", 1),
    Setting("group.coordinator.rebalance.protocols", _protocols, (CLASSIC, CONSUMER, STREAMS), "Enabled group protocols: classic, and optionally consumer and streams."),
    Setting("group.consumer.session.timeout.ms", int, 45_000, "Session time-out of members that use the consumer protocol.", 1),
    Setting("group.consumer.min.session.timeout.ms", int, 45_000, "Minimum session time-out that may be set for a consumer group.", 1),
    Setting("group.consumer.max.session.timeout.ms", int, 60_000, "Maximum session time-out that may be set for a consumer group.", 1),
    Setting("group.consumer.heartbeat.interval.ms", int, 5_000, "Interval at which members that use the consumer protocol send heartbeats.", 1),
    Setting("group.consumer.min.heartbeat.interval.ms", int, 5_000, "Minimum heartbeat interval that may be set for a consumer group.", 1),
    Setting("group.consumer.max.heartbeat.interval.ms", int, 15_000, "Maximum heartbeat interval that may be set for a consumer group.", 1),
    Setting("group.consumer.assignment.interval.ms", int, 0, "Minimum time between two assignments of a consumer group. Members that join within it are assigned together. 0: each join computes a new assignment immediately.", 0),
    Setting("group.consumer.min.assignment.interval.ms", int, 0, "Minimum assignment interval that may be set for a consumer group.", 0),
    Setting("group.consumer.max.assignment.interval.ms", int, 15_000, "Maximum assignment interval that may be set for a consumer group.", 0),
    Setting("group.consumer.max.size", int, 2_000, "Maximum number of members of a consumer group. Each join recomputes the assignment in the event loop.", 1),
    Setting("group.consumer.migration.policy", _migration, BIDIRECTIONAL, "Online conversion between group protocols. upgrade: a classic group is converted when a member joins with the consumer protocol. downgrade: a consumer group is converted when its last member with the consumer protocol leaves and classic members remain. bidirectional: both. disabled: none."),
    Setting("group.consumer.assignors", _assignors, ASSIGNORS, "Server-side assignors that members may select. The first is the default."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class GroupConfigDefinition:
    """A setting of single groups. `broker` is the broker setting with its default, `low` and `high` are the broker settings with its bounds."""

    broker: str
    low: str
    high: str
    doc: str


GROUP_CONFIGS = {
    "consumer.session.timeout.ms": GroupConfigDefinition(
        "group.consumer.session.timeout.ms",
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
        "Session time-out of the members of this group.",
    ),
    "consumer.heartbeat.interval.ms": GroupConfigDefinition(
        "group.consumer.heartbeat.interval.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
        "Interval at which the members of this group send heartbeats.",
    ),
    "consumer.assignment.interval.ms": GroupConfigDefinition(
        "group.consumer.assignment.interval.ms",
        "group.consumer.min.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms",
        "Minimum time between two assignments of this group.",
    ),
}
"""Kafka's settings of consumer groups. Those of share groups are in `share_groups`, those of streams groups in `streams_groups`."""


def group_problem(overrides: Mapping[str, str], values: Mapping[str, Any]) -> str | None:
    """Return the reason why the settings `overrides` of a group are invalid, or None. `values` are the broker's settings."""
    for name, text in overrides.items():
        if name in SHARE_CONFIGS or name in STREAMS_CONFIGS:
            continue
        definition = GROUP_CONFIGS.get(name)
        if definition is None:
            known = (
                [*GROUP_CONFIGS]
                if name.startswith("consumer.")
                else [
                    "consumer.*",
                    "streams.*",
                    "share.*, errors.deadletterqueue.*, weir.share.* (docs/share-groups.md)",
                ]
            )
            return f"unknown group setting {name[:60]!r}; known are {', '.join(known)}"
        if (
            not (text.isascii() and text.isdecimal())
            or not values[definition.low] <= int(text[:10]) <= values[definition.high]
        ):
            return (
                f"{name}={text[:40]!r} is not a number between {values[definition.low]} and {values[definition.high]}"
            )
    config = group_config(values, overrides)
    if config.heartbeat_ms >= config.session_ms:
        return "the heartbeat interval must be below the session time-out"
    of_share = {name: text for name, text in overrides.items() if name in SHARE_CONFIGS}
    of_streams = {name: text for name, text in overrides.items() if name in STREAMS_CONFIGS}
    return share_problem(of_share, values) or (streams_problem(of_streams, values) if of_streams else None)


def check(values: Mapping[str, Any]) -> None:
    """Raises ValueError for settings that contradict each other."""
    for name, least, most in (
        (
            "group.consumer.session.timeout.ms",
            "group.consumer.min.session.timeout.ms",
            "group.consumer.max.session.timeout.ms",
        ),
        (
            "group.consumer.heartbeat.interval.ms",
            "group.consumer.min.heartbeat.interval.ms",
            "group.consumer.max.heartbeat.interval.ms",
        ),
        (
            "group.consumer.assignment.interval.ms",
            "group.consumer.min.assignment.interval.ms",
            "group.consumer.max.assignment.interval.ms",
        ),
    ):
        if not values[least] <= values[name] <= values[most]:
            raise ValueError(
                f"{name}={values[name]} is not between its min ({values[least]}) and its max ({values[most]})"
            )
    if values["group.consumer.heartbeat.interval.ms"] >= values["group.consumer.session.timeout.ms"]:
        raise ValueError("group.consumer.heartbeat.interval.ms is not below group.consumer.session.timeout.ms")


def group_config(values: Mapping[str, Any], overrides: Mapping[str, str]) -> GroupConfig:
    """The effective settings of a group. `overrides` are the settings of the group. Bounds are not checked: another broker may have had other bounds."""
    session, heartbeat, assignment = (int(overrides.get(name, values[c.broker])) for name, c in GROUP_CONFIGS.items())
    return GroupConfig(
        session,
        heartbeat,
        values["group.consumer.max.size"],
        values["group.consumer.assignors"],
        assignment,
    )
