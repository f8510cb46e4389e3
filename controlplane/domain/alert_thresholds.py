"""Thresholds of alerts that an administrator can change: unit, default and bounds of each, and the values in force. Pure.

Invariants: a threshold without a value has its default. A value for one object takes precedence over the value for the cluster. A value that is out of bounds
or has an unknown name is ignored, because another version may have stored it. Does not contain: rows, and which alerts use a threshold (`alert`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from controlplane.domain import lag


class ThresholdUnit(StrEnum):
    PERCENT = "percent"
    SECONDS = "seconds"
    DAYS = "days"
    COUNT = "count"


class ThresholdName(StrEnum):
    DISK_FREE_LOW = "disk_free_low"
    DISK_FREE_LEAST = "disk_free_least"
    DISK_FULL_AHEAD = "disk_full_ahead"
    DISK_FULL_GRAVE = "disk_full_grave"
    RETENTION_AHEAD = "retention_ahead"
    RETENTION_GRAVE = "retention_grave"
    GROUP_BEHIND = "group_behind"
    GROUP_STALL = "group_stall"
    GROUP_STOPPED = "group_stopped"
    GROUP_ALERTS_MAX = "group_alerts_max"
    TRANSACTION_HANGING = "transaction_hanging"
    HALF_UNDECIDED = "half_undecided"
    HALF_EXPIRED = "half_expired"
    DELAYED_OVERDUE = "delayed_overdue"
    DEAD_LETTERS_GROWN = "dead_letters_grown"
    CLIENT_REJECTED = "client_refused"
    FAILURES_KEPT = "failures_kept"
    HEALTH_REPLICATION = "health_replication"
    HEALTH_LEADER_SKEW = "health_leader_skew"
    HEALTH_REPLICA_SKEW = "health_replica_skew"
    HEALTH_NOT_PREFERRED = "health_not_preferred"
    HEALTH_PARTITION_SKEW = "health_partition_skew"
    ANOMALY_DISTANCE = "anomaly_distance"
    ANOMALY_ALERTS_MAX = "anomaly_alerts_max"


class ThresholdScope(StrEnum):
    """The objects that a value of a threshold applies to."""

    CLUSTER = "cluster"
    BROKER = "broker"
    GROUP = "group"
    TOPIC = "topic"

    @property
    def is_cluster(self) -> bool:
        return self is ThresholdScope.CLUSTER


@dataclass(frozen=True, slots=True)
class ThresholdRule:
    """`text`: what the value decides. `minimum` and `maximum` are permitted values."""

    unit: ThresholdUnit
    default: float
    minimum: float
    maximum: float
    text: str


DAY_S = 86_400.0
_SECONDS, _PERCENT = ThresholdUnit.SECONDS, ThresholdUnit.PERCENT

RULES: dict[ThresholdName, ThresholdRule] = {
    ThresholdName.DISK_FREE_LOW: ThresholdRule(
        _PERCENT,
        10,
        0,
        90,
        "Free space of the log directory with the most free space of a broker. Below it the disk is low.",
    ),
    ThresholdName.DISK_FREE_LEAST: ThresholdRule(
        _PERCENT, 3, 0, 90, "Free space of the same log directory. Below it the alert is at risk instead of degraded."
    ),
    ThresholdName.DISK_FULL_AHEAD: ThresholdRule(
        ThresholdUnit.DAYS,
        7,
        0,
        90,
        "Time until the disk of a broker is forecast to be full (median). Below it there is an alert. Forecasts need a scheduled job of the kind forecast.",
    ),
    ThresholdName.DISK_FULL_GRAVE: ThresholdRule(
        ThresholdUnit.DAYS,
        2,
        0,
        90,
        "Time until the disk of a broker is forecast to be full (median). Below it the alert is at risk instead of degraded.",
    ),
    ThresholdName.RETENTION_AHEAD: ThresholdRule(
        _SECONDS,
        7_200,
        0,
        7 * DAY_S,
        "Time until retention deletes unread records of a group. Below it there is an alert.",
    ),
    ThresholdName.RETENTION_GRAVE: ThresholdRule(
        _SECONDS,
        1_800,
        0,
        7 * DAY_S,
        "Time until retention deletes unread records of a group. Below it the alert is at risk instead of degraded.",
    ),
    ThresholdName.GROUP_BEHIND: ThresholdRule(
        _SECONDS,
        lag.BEHIND_MS / 1000,
        5,
        DAY_S,
        "Lag of a group in time. A smaller lag does not count as falling behind, and the lag must have grown by as much.",
    ),
    ThresholdName.GROUP_STALL: ThresholdRule(
        _SECONDS,
        lag.STALL_MS / 1000,
        5,
        DAY_S,
        "Time without a commit while records are unread. A shorter time does not count as stalled. A group that commits rarely has a longer time.",
    ),
    ThresholdName.GROUP_STOPPED: ThresholdRule(
        _SECONDS,
        lag.GONE_MS / 1000,
        5,
        DAY_S,
        "Time without members and commits while records are unread, after which a group counts as stopped.",
    ),
    ThresholdName.GROUP_ALERTS_MAX: ThresholdRule(
        ThresholdUnit.COUNT,
        20,
        1,
        200,
        "Number of groups with an alert of their own, for each kind of alert. Further groups share one alert.",
    ),
    ThresholdName.TRANSACTION_HANGING: ThresholdRule(
        _SECONDS,
        60,
        0,
        DAY_S,
        "Time since a transaction was first found to hang in a partition. Above this value there is an alert.",
    ),
    ThresholdName.HALF_UNDECIDED: ThresholdRule(
        _SECONDS,
        180,
        6,
        DAY_S,
        "Age of the oldest undecided half message of a topic. Above this value there is an alert. Producers receive a check after 6 s, then every 30 s.",
    ),
    ThresholdName.HALF_EXPIRED: ThresholdRule(
        ThresholdUnit.COUNT,
        1,
        1,
        1_000_000,
        "Records in the topic of expired half messages. From this number on there is an alert.",
    ),
    ThresholdName.DELAYED_OVERDUE: ThresholdRule(
        _SECONDS,
        30,
        2,
        DAY_S,
        "How late the delivery of a delayed message of a topic is. Above this value there is an alert.",
    ),
    ThresholdName.DEAD_LETTERS_GROWN: ThresholdRule(
        ThresholdUnit.COUNT,
        10,
        1,
        1_000_000,
        "New dead letters of a topic in ten minutes. From this number on there is an alert.",
    ),
    ThresholdName.CLIENT_REJECTED: ThresholdRule(
        ThresholdUnit.COUNT,
        10,
        1,
        1_000_000,
        "Rejected requests of a client per minute for one reason. Above this value there is an alert, if requests are rejected for two minutes.",
    ),
    ThresholdName.FAILURES_KEPT: ThresholdRule(
        _SECONDS,
        DAY_S,
        3_600,
        7 * DAY_S,
        "How long failed moves, failed archive jobs, changes with an unknown outcome, records without dead letters and automatic unclean leader elections are reported. Nothing else ends these alerts.",
    ),
    ThresholdName.HEALTH_REPLICATION: ThresholdRule(
        ThresholdUnit.COUNT, 2, 1, 10, "Health check: minimum number of replicas of each partition of a topic."
    ),
    ThresholdName.HEALTH_LEADER_SKEW: ThresholdRule(
        _PERCENT, 50, 1, 1_000, "Health check: how far a broker's number of leaders may be from the mean."
    ),
    ThresholdName.HEALTH_REPLICA_SKEW: ThresholdRule(
        _PERCENT, 50, 1, 1_000, "Health check: how far a broker's number of replicas may be from the mean."
    ),
    ThresholdName.HEALTH_NOT_PREFERRED: ThresholdRule(
        _PERCENT, 10, 0, 100, "Health check: share of partitions that their preferred replica may not lead."
    ),
    ThresholdName.HEALTH_PARTITION_SKEW: ThresholdRule(
        _PERCENT, 400, 100, 10_000, "Health check: size of a topic's largest partition, of the mean of its partitions."
    ),
    ThresholdName.ANOMALY_DISTANCE: ThresholdRule(
        ThresholdUnit.COUNT,
        8,
        3,
        100,
        "Anomaly: how far a metric may be from the median of the same time on other days, in median absolute deviations.",
    ),
    ThresholdName.ANOMALY_ALERTS_MAX: ThresholdRule(
        ThresholdUnit.COUNT,
        5,
        0,
        50,
        "Number of anomalies with an alert of their own. Further anomalies are listed, but have no alert.",
    ),
}
"""Thresholds in the order of the page."""

ORDERED = (
    (ThresholdName.DISK_FREE_LEAST, ThresholdName.DISK_FREE_LOW),
    (ThresholdName.DISK_FULL_GRAVE, ThresholdName.DISK_FULL_AHEAD),
    (ThresholdName.RETENTION_GRAVE, ThresholdName.RETENTION_AHEAD),
)
"""Pairs of thresholds. The first must not be greater than the second, because an alert must exist before it becomes at risk."""

TITLES: dict[ThresholdName, str] = {
    ThresholdName.DISK_FREE_LOW: "Free disk space: degraded",
    ThresholdName.DISK_FREE_LEAST: "Free disk space: at risk",
    ThresholdName.DISK_FULL_AHEAD: "Forecast of a full disk: degraded",
    ThresholdName.DISK_FULL_GRAVE: "Forecast of a full disk: at risk",
    ThresholdName.RETENTION_AHEAD: "Deletion of unread records: degraded",
    ThresholdName.RETENTION_GRAVE: "Deletion of unread records: at risk",
    ThresholdName.GROUP_BEHIND: "Group is falling behind",
    ThresholdName.GROUP_STALL: "Group is stalled",
    ThresholdName.GROUP_STOPPED: "Group has stopped",
    ThresholdName.GROUP_ALERTS_MAX: "Maximum number of alerts of groups",
    ThresholdName.TRANSACTION_HANGING: "Hanging transaction",
    ThresholdName.HALF_UNDECIDED: "Undecided half message",
    ThresholdName.HALF_EXPIRED: "Expired half messages",
    ThresholdName.DELAYED_OVERDUE: "Overdue delayed message",
    ThresholdName.DEAD_LETTERS_GROWN: "New dead letters",
    ThresholdName.CLIENT_REJECTED: "Rejected requests of a client",
    ThresholdName.FAILURES_KEPT: "Duration of alerts of failures",
    ThresholdName.HEALTH_REPLICATION: "Health check: replicas",
    ThresholdName.HEALTH_LEADER_SKEW: "Health check: balance of leaders",
    ThresholdName.HEALTH_REPLICA_SKEW: "Health check: balance of replicas",
    ThresholdName.HEALTH_NOT_PREFERRED: "Health check: preferred leaders",
    ThresholdName.HEALTH_PARTITION_SKEW: "Health check: sizes of partitions",
    ThresholdName.ANOMALY_DISTANCE: "Distance of an anomaly",
    ThresholdName.ANOMALY_ALERTS_MAX: "Maximum number of alerts of anomalies",
}
"""Names of thresholds on pages. REST, the command line and the audit log have the keys."""

MAXIMUM_NUMBERS = frozenset({ThresholdName.GROUP_ALERTS_MAX, ThresholdName.ANOMALY_ALERTS_MAX})
"""Thresholds that limit how many objects have alerts of their own. They decide nothing about the alert of one object."""

OBJECTS: dict[ThresholdName, ThresholdScope] = {
    **dict.fromkeys(
        (
            ThresholdName.DISK_FREE_LOW,
            ThresholdName.DISK_FREE_LEAST,
            ThresholdName.DISK_FULL_AHEAD,
            ThresholdName.DISK_FULL_GRAVE,
        ),
        ThresholdScope.BROKER,
    ),
    **dict.fromkeys(
        (
            ThresholdName.RETENTION_AHEAD,
            ThresholdName.RETENTION_GRAVE,
            ThresholdName.GROUP_BEHIND,
            ThresholdName.GROUP_STALL,
            ThresholdName.GROUP_STOPPED,
        ),
        ThresholdScope.GROUP,
    ),
    **dict.fromkeys(
        (
            ThresholdName.HALF_UNDECIDED,
            ThresholdName.HALF_EXPIRED,
            ThresholdName.DELAYED_OVERDUE,
            ThresholdName.DEAD_LETTERS_GROWN,
        ),
        ThresholdScope.TOPIC,
    ),
}
"""The thresholds that can have values for single objects, and the kind of the objects."""

SUBJECT_CHARS_MAX = 255
"""Maximum length of the name of an object, as in its column. Names of topics have at most 249 characters, and names of groups may be longer."""

OVERRIDES_MAX = 100
"""Maximum number of objects with their own value, per threshold. Each object is a condition of the queries of an evaluation."""


@dataclass(frozen=True, slots=True)
class AlertThresholds:
    """`values`: those that differ from their defaults. `overrides`: those of single objects, by threshold and name of the object (a broker's id)."""

    values: Mapping[ThresholdName, float] = field(default_factory=dict)
    overrides: Mapping[ThresholdName, Mapping[str, float]] = field(default_factory=dict)

    def __getitem__(self, name: ThresholdName) -> float:
        """The value for the cluster."""
        return self.values.get(name, RULES[name].default)

    def value_for(self, name: ThresholdName, subject: str) -> float:
        """The value for an object: its own value, or else the value for the cluster."""
        own = self.overrides.get(name, {}).get(subject)
        return self[name] if own is None else own

    @property
    def lag_limits(self) -> lag.LagLimits:
        return self.lag_limits_of("")

    def lag_limits_of(self, group_id: str) -> lag.LagLimits:
        return lag.LagLimits(
            behind_ms=round(self.value_for(ThresholdName.GROUP_BEHIND, group_id) * 1000),
            stall_ms=round(self.value_for(ThresholdName.GROUP_STALL, group_id) * 1000),
            gone_ms=round(self.value_for(ThresholdName.GROUP_STOPPED, group_id) * 1000),
        )

    @property
    def groups_with_lag_limits(self) -> set[str]:
        """The groups that have their own value for a limit of the lag."""
        names = (ThresholdName.GROUP_BEHIND, ThresholdName.GROUP_STALL, ThresholdName.GROUP_STOPPED)
        return {group_id for name in names for group_id in self.overrides.get(name, {})}


def of_stored(stored: Mapping[str, float], overrides: Iterable[tuple[str, str, float]] = ()) -> AlertThresholds:
    """The values in force. `overrides`: (name of the threshold, object, value). A stored value that is not valid any more has no effect."""
    names = {str(n): n for n in ThresholdName}
    known = {names[k]: v for k, v in stored.items() if k in names}
    own: dict[ThresholdName, dict[str, float]] = {}
    for text, subject, value in overrides:
        name = names.get(text)
        if name in OBJECTS and value_problem(name, value) is None:
            own.setdefault(name, {})[subject] = value
    return AlertThresholds({n: v for n, v in known.items() if value_problem(n, v) is None}, own)


def value_problem(name: ThresholdName, value: float) -> str | None:
    """Return the reason why the threshold cannot have this value; None if it can."""
    rule = RULES[name]
    if not math.isfinite(value) or not rule.minimum <= value <= rule.maximum:
        return f"Enter a value from {rule.minimum:,g} to {rule.maximum:,.0f} ({rule.unit})."
    if rule.unit is ThresholdUnit.COUNT and value != int(value):
        return "Enter a whole number."
    return None


def order_problem(thresholds: AlertThresholds) -> str | None:
    """Return the reason why these values contradict each other, or None."""
    for lower, upper in ORDERED:
        subjects = {*thresholds.overrides.get(lower, {}), *thresholds.overrides.get(upper, {})}
        for subject in ("", *sorted(subjects)):
            least, most = thresholds.value_for(lower, subject), thresholds.value_for(upper, subject)
            if least > most:
                about = f" for {OBJECTS[lower]} {subject}" if subject else ""
                return f"{lower} may not be greater than {upper}{about}: {least:g} and {most:g} {RULES[upper].unit}."
    return None


def object_problem(name: ThresholdName, subject: str) -> str | None:
    """Return the reason why the threshold cannot have a value for this object; None if it can."""
    scope = OBJECTS.get(name)
    if scope is None:
        return f"{name} has a value for the whole cluster only."
    if not subject or len(subject) > SUBJECT_CHARS_MAX:
        return f"Enter the name of a {scope}, at most {SUBJECT_CHARS_MAX} characters."
    if scope is ThresholdScope.BROKER and not (subject.isascii() and subject.isdigit()):
        return "Enter the id of a broker."
    return None
