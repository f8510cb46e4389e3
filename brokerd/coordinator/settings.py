"""The settings of groups, under Kafka's names. Called by `config`, which joins them to its own. Must not come in: what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from brokerd.coordinator.assignors import ASSIGNORS
from brokerd.coordinator.consumer_events import Terms
from brokerd.setting import Setting, words

CLASSIC, CONSUMER = "classic", "consumer"
BIDIRECTIONAL, UPGRADE, DOWNGRADE, DISABLED = MIGRATIONS = "bidirectional", "upgrade", "downgrade", "disabled"


def _assignors(text: str) -> tuple[str, ...]:
    wanted = words(text)
    if not wanted or not set(wanted) <= ASSIGNORS.keys():
        raise ValueError(f"expected some of {', '.join(ASSIGNORS)}; classes of one's own cannot be loaded")
    return wanted


def _protocols(text: str) -> tuple[str, ...]:
    wanted = words(text.lower())
    if CLASSIC not in wanted or not set(wanted) <= {CLASSIC, CONSUMER}:
        raise ValueError(f"expected {CLASSIC}, or {CLASSIC},{CONSUMER}")
    return wanted


def _migration(text: str) -> str:
    wanted = text.strip().lower()
    if wanted not in MIGRATIONS:
        raise ValueError(f"expected one of {', '.join(MIGRATIONS)}")
    return wanted


GROUP_SETTINGS: tuple[Setting, ...] = (
    Setting("group.min.session.timeout.ms", int, 1_000, "Shortest session a group member may ask for.", 1),
    Setting("group.max.session.timeout.ms", int, 1_800_000, "Longest session a group member may ask for.", 1),
    Setting("group.initial.rebalance.delay.ms", int, 0, "Pause before a new group's first assignment.", 0),
    Setting("group.max.size", int, 10_000, "Members of one group at most.", 1),
    Setting("group.coordinator.rebalance.protocols", _protocols, (CLASSIC, CONSUMER), "The group protocols that are served."),
    Setting("group.consumer.session.timeout.ms", int, 45_000, "Session of a member of the new protocol.", 1),
    Setting("group.consumer.min.session.timeout.ms", int, 45_000, "Shortest session of the new protocol that may be set.", 1),
    Setting("group.consumer.max.session.timeout.ms", int, 60_000, "Longest session of the new protocol that may be set.", 1),
    Setting("group.consumer.heartbeat.interval.ms", int, 5_000, "How often members of the new protocol are to beat.", 1),
    Setting("group.consumer.min.heartbeat.interval.ms", int, 5_000, "Shortest such interval that may be set.", 1),
    Setting("group.consumer.max.heartbeat.interval.ms", int, 15_000, "Longest such interval that may be set.", 1),
    Setting("group.consumer.assignment.interval.ms", int, 0, "Pause between two assignments of a group of the new protocol: who joins meanwhile is assigned to with the others. 0: everybody at once.", 0),
    Setting("group.consumer.min.assignment.interval.ms", int, 0, "Shortest such pause that may be set.", 0),
    Setting("group.consumer.max.assignment.interval.ms", int, 15_000, "Longest such pause that may be set.", 0),
    Setting("group.consumer.max.size", int, 2_000, "Members of one group of the new protocol at most: each that joins has all shares reckoned anew, in the loop.", 1),
    Setting("group.consumer.migration.policy", _migration, BIDIRECTIONAL, "Which groups with members go over to the other protocol: classic ones when a member of the new protocol joins (upgrade), those of the new one when its last member has left and classic ones remain (downgrade), both, or none."),
    Setting("group.consumer.assignors", _assignors, tuple(ASSIGNORS), "Assignors that members may ask for; the first is the default."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """A setting of one group; `broker` is what counts where it is not set, `low` and `high` bound it."""

    broker: str
    low: str
    high: str
    doc: str


GROUP_CONFIGS = {
    "consumer.session.timeout.ms": GroupConfig(
        "group.consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms",
        "Session of this group's members.",
    ),
    "consumer.heartbeat.interval.ms": GroupConfig(
        "group.consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms", "How often this group's members are to beat.",
    ),
    "consumer.assignment.interval.ms": GroupConfig(
        "group.consumer.assignment.interval.ms", "group.consumer.min.assignment.interval.ms",
        "group.consumer.max.assignment.interval.ms", "Pause between two assignments of this group.",
    ),
}  # fmt: skip
"""Kafka's names. What it has beside them is of share and streams groups."""


def group_problem(own: Mapping[str, str], values: Mapping[str, Any]) -> str | None:
    """Why a group's settings cannot stand, or None. `values` are the broker's."""
    for name, text in own.items():
        c = GROUP_CONFIGS.get(name)
        if c is None:
            return f"{name!r} is no setting of a group; there are {', '.join(GROUP_CONFIGS)}"
        if not (text.isascii() and text.isdecimal()) or not values[c.low] <= int(text[:10]) <= values[c.high]:
            return f"{name}={text[:40]!r} is not a number between {values[c.low]} and {values[c.high]}"
    terms = terms_of(values, own)
    return None if terms.heartbeat_ms < terms.session_ms else "the heartbeat interval is not below the session's time"


def check(values: Mapping[str, Any]) -> None:
    """Raises ValueError where settings, each possible in itself, cannot stand together."""
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


def terms_of(values: Mapping[str, Any], own: Mapping[str, str]) -> Terms:
    """`own` is set for the group alone: perhaps by a broker with other bounds, which then do not matter."""
    session, heartbeat, assignment = (int(own.get(name, values[c.broker])) for name, c in GROUP_CONFIGS.items())
    return Terms(
        session,
        heartbeat,
        values["group.consumer.max.size"],
        values["group.consumer.assignors"],
        assignment,
    )
