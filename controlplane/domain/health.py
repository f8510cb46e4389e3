"""Health checks: the checked value, its importance, and its limit. Scores of objects. Pure.

Invariants: the list of checks is closed. Each check compares one number of an object with one limit; an unknown number neither passes nor fails.
Does not contain: rows, clocks; alerts, which are about what operators must do now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from controlplane.domain.alert_thresholds import AlertThresholds, ThresholdName


class CheckScope(StrEnum):
    """The kind of object that a check is about."""

    CLUSTER = "cluster"
    BROKER = "broker"
    TOPIC = "topic"
    GROUP = "group"


class CheckState(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


class CheckName(StrEnum):
    CONTROLLER = "controller"
    ZOOKEEPER = "zookeeper"
    OFFLINE_PARTITIONS = "offline_partitions"
    UNDER_MIN_ISR = "under_min_isr"
    UNDER_REPLICATED = "under_replicated"
    PREFERRED_LEADERS = "preferred_leaders"
    DECLARED_STATE = "declared_state"
    BROKER_UP = "broker_up"
    BROKER_RESPONDS = "broker_answers"  # the stored value
    LOG_DIRECTORIES = "log_directories"
    DISK_FREE = "disk_free"
    DISK_SPEED = "disk_speed"
    LEADER_BALANCE = "leader_balance"
    REPLICA_BALANCE = "replica_balance"
    REPLICATION = "replication"
    FAULT_TOLERANCE = "fault_tolerance"
    PARTITION_BALANCE = "partition_balance"
    GROUP_PROGRESS = "group_progress"
    GROUP_RETENTION = "group_retention"
    GROUP_LAG_KNOWN = "group_lag_known"


class ValueUnit(StrEnum):
    COUNT = "count"
    PERCENT = "percent"
    SECONDS = "seconds"
    YES = "yes"
    """Unit of a condition. The value is 1 if the condition is true, else 0."""


@dataclass(frozen=True, slots=True)
class CheckRule:
    """A value passes if it is `limit` or more (`at_least`), else if it is `limit` or less. `threshold`: gives the limit, where an administrator may
    change it. `weight`: in scores."""

    name: CheckName
    scope: CheckScope
    weight: int
    unit: ValueUnit
    title: str
    impact: str
    do: str
    at_least: bool = False
    limit: float = 0
    threshold: ThresholdName | None = None

    def limit_of(self, thresholds: AlertThresholds) -> float:
        return self.limit if self.threshold is None else thresholds[self.threshold]

    def state(self, value: float | None, thresholds: AlertThresholds) -> CheckState:
        if value is None:
            return CheckState.UNKNOWN
        limit = self.limit_of(thresholds)
        passed = value >= limit if self.at_least else value <= limit
        return CheckState.PASSED if passed else CheckState.FAILED

    def distance(self, value: float, thresholds: AlertThresholds) -> float:
        """Return the difference between a value and the limit: greater is worse, negative values pass."""
        return (self.limit_of(thresholds) - value) if self.at_least else (value - self.limit_of(thresholds))


_C, _B, _T, _G = CheckScope.CLUSTER, CheckScope.BROKER, CheckScope.TOPIC, CheckScope.GROUP
_N, _P, _S, _Y = ValueUnit.COUNT, ValueUnit.PERCENT, ValueUnit.SECONDS, ValueUnit.YES

RULES: tuple[CheckRule, ...] = (
    CheckRule(CheckName.CONTROLLER, _C, 10, _Y, "A controller is active",
        "Without a controller no leader is elected when a broker fails.",
        "Start a controller. If it does not become active, its log has the reason.", at_least=True, limit=1),
    CheckRule(CheckName.ZOOKEEPER, _C, 10, _Y, "ZooKeeper responds",
        "Without ZooKeeper no leader, ISR or topic changes.",
        "Start ZooKeeper, or repair the network to it.", at_least=True, limit=1),
    CheckRule(CheckName.OFFLINE_PARTITIONS, _C, 20, _N, "No partition is offline",
        "An offline partition cannot be read or written.",
        "Start a broker of its last ISR."),
    CheckRule(CheckName.UNDER_MIN_ISR, _C, 15, _N, "No partition is under its min.insync.replicas",
        "Producers with acks=all get NOT_ENOUGH_REPLICAS.",
        "Start the brokers of the missing replicas."),
    CheckRule(CheckName.UNDER_REPLICATED, _C, 10, _N, "All replicas are in sync",
        "A partition with fewer replicas survives fewer failures.",
        "Check the brokers of the missing replicas: process, disk, network."),
    CheckRule(CheckName.PREFERRED_LEADERS, _C, 3, _P, "Preferred replicas lead",
        "Leadership that has moved away from preferred replicas concentrates traffic on few brokers.",
        "Elect preferred leaders (Brokers, Leader elections).", threshold=ThresholdName.HEALTH_NOT_PREFERRED),
    CheckRule(CheckName.DECLARED_STATE, _C, 2, _N, "Topics are as declared",
        "The cluster and the database disagree about these topics, so the next change may have an unexpected result.",
        "Compare them under Topics, out of sync, and accept the cluster's state where it is correct."),
    CheckRule(CheckName.BROKER_UP, _B, 20, _Y, "Broker is up",
        "Its replicas are offline. Its partitions tolerate one failure less.",
        "Start the broker, or drain it if it is lost.", at_least=True, limit=1),
    CheckRule(CheckName.BROKER_RESPONDS, _B, 5, _Y, "Broker answers the console",
        "Its values are out of date, and clients may have the same difficulty.",
        "Check its log, its load and the network to it.", at_least=True, limit=1),
    CheckRule(CheckName.LOG_DIRECTORIES, _B, 10, _N, "All log directories work",
        "Replicas in a failed log directory are offline.",
        "Replace the disk and restart the broker."),
    CheckRule(CheckName.DISK_FREE, _B, 10, _P, "Disk has free space",
        "A full disk rejects writes.",
        "Move partitions off the broker, reduce retention, or add disk space.", at_least=True, threshold=ThresholdName.DISK_FREE_LOW),
    CheckRule(CheckName.DISK_SPEED, _B, 5, _N, "Disks are fast",
        "Requests that need a flush or old records wait for a slow disk, and a slow disk often fails soon.",
        "Move leadership off the broker, and check the load and the health of its disk."),
    CheckRule(CheckName.LEADER_BALANCE, _B, 3, _P, "Leaders are balanced",
        "A broker that leads many more partitions than others serves more traffic, and its failure moves more of it.",
        "Elect preferred leaders, or rebalance by leaders.", threshold=ThresholdName.HEALTH_LEADER_SKEW),
    CheckRule(CheckName.REPLICA_BALANCE, _B, 2, _P, "Replicas are balanced",
        "A broker with many more replicas than others has more disk and replication traffic.",
        "Rebalance by replicas.", threshold=ThresholdName.HEALTH_REPLICA_SKEW),
    CheckRule(CheckName.REPLICATION, _T, 10, _N, "Topic is replicated",
        "A topic without a second replica is unavailable while its broker restarts, and is lost with its disk.",
        "Change the replication factor (Moves, Create move).", at_least=True, threshold=ThresholdName.HEALTH_REPLICATION),
    CheckRule(CheckName.FAULT_TOLERANCE, _T, 5, _N, "Topic accepts acks=all while one broker is down",
        "min.insync.replicas equals the replication factor: a restart of one broker stops producers with acks=all.",
        "Raise the replication factor, or lower min.insync.replicas.", at_least=True, limit=1),
    CheckRule(CheckName.PARTITION_BALANCE, _T, 2, _P, "Partitions are of similar size",
        "One large partition limits the topic to one broker and one consumer. Usually few keys have most records.",
        "Check the keys of the largest partition. More partitions do not divide one key.", threshold=ThresholdName.HEALTH_PARTITION_SKEW),
    CheckRule(CheckName.GROUP_PROGRESS, _G, 10, _Y, "Group makes progress",
        "The group is falling behind, stalled, stopped, or lost records to retention.",
        "The group page shows rates, the worst partition and the cause.", at_least=True, limit=1),
    CheckRule(CheckName.GROUP_RETENTION, _G, 10, _S, "Retention is far from unread records",
        "Retention deletes records that the group has not read.",
        "Raise the limit of the topic, or make the group faster.", at_least=True, threshold=ThresholdName.RETENTION_AHEAD),
    CheckRule(CheckName.GROUP_LAG_KNOWN, _G, 1, _N, "Lag of all partitions is known",
        "Partitions without a committed offset or without an end offset have no lag, so a problem there is not seen.",
        "Check whether the group commits offsets of all its partitions."),
)  # fmt: skip
"""Health checks in the order of the page."""

RULE_OF: dict[CheckName, CheckRule] = {r.name: r for r in RULES}

Values = Mapping[str, float | None]
"""{object: value}. The object of a check of the cluster is ""."""


@dataclass(frozen=True, slots=True)
class Failure:
    subject: str
    value: float


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """`failures` are the worst failures, at most as many as requested. `failed` counts all failures. `worst` is the value that is farthest beyond the limit or
    nearest to it; None if no value is known."""

    name: CheckName
    state: CheckState
    objects: int
    failed: int
    unknown: int
    failures: tuple[Failure, ...]
    worst: float | None


def outcome(rule: CheckRule, values: Values, thresholds: AlertThresholds, failures_max: int) -> CheckOutcome:
    """Return the result of a check. A check without objects passes."""
    failed = [
        Failure(subject, value)
        for subject, value in values.items()
        if value is not None and rule.state(value, thresholds) is CheckState.FAILED
    ]
    failed.sort(key=lambda f: (-rule.distance(f.value, thresholds), f.subject))
    unknown = sum(1 for v in values.values() if v is None)
    all_unknown = bool(values) and unknown == len(values)
    state = CheckState.FAILED if failed else CheckState.UNKNOWN if all_unknown else CheckState.PASSED
    known = [v for v in values.values() if v is not None]
    worst = max(known, key=lambda v: rule.distance(v, thresholds), default=None)
    return CheckOutcome(rule.name, state, len(values), len(failed), unknown, tuple(failed[:failures_max]), worst)


@dataclass(frozen=True, slots=True)
class CheckCounts:
    """A check with the number of its objects, of failed and of unknown ones."""

    name: CheckName
    objects: int
    failed: int
    unknown: int


def cluster_score(checks: Iterable[CheckCounts]) -> int | None:
    """A score from 0 to 100: the share of objects that pass, averaged over the checks by weight. The score is 100 only if all objects pass. None if nothing is
    known."""
    total = passed = 0.0
    for check in checks:
        known = check.objects - check.unknown
        if known > 0:
            weight = RULE_OF[check.name].weight
            total += weight
            passed += weight * (known - check.failed) / known
    if not total:
        return None
    return int(100 * passed / total + 1e-9)


def object_score(scope: CheckScope, failed: Iterable[CheckName]) -> int:
    """A score from 0 to 100: the share of the weights of the object's checks that have not failed."""
    weights = {r.name: r.weight for r in RULES if r.scope is scope}
    lost = sum(weights[name] for name in set(failed))
    return int(100 * (sum(weights.values()) - lost) / sum(weights.values()))
