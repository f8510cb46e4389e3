"""Evaluation of the health checks. Runs in the monitor. Writes only results and failures.

Invariant: the time of the first failure does not change while an object continues to fail. Does not contain: the checks
(`controlplane.domain.health`).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from django.db import transaction
from django.db.models import Avg, Max, Sum
from django.utils import timezone

from controlplane.domain.alert_thresholds import AlertThresholds
from controlplane.domain.alert_types import GROUP_STATUSES
from controlplane.domain.health import RULES, CheckName, CheckOutcome, Values, outcome
from controlplane.domain.lag import LagStatus
from controlplane.models import (
    Broker,
    Cluster,
    ConsumerGroup,
    HealthFailure,
    HealthResult,
    ObservedPartition,
    ObservedTopic,
)
from controlplane.selectors import alert_thresholds
from controlplane.selectors.topic_configs import cluster_defaults, min_insync

FAILURES_MAX = 200
"""Maximum number of stored failures of a check, the worst first. All are counted."""

BALANCED_LEAST = 4
"""Minimum average of leaders or replicas per broker for a check of the balance. A few of them cannot be divided evenly."""

SKEW_BYTES_LEAST = 10 * 1024 * 1024
"""Mean size of a topic's partitions from which their balance is checked."""

BATCH = 500


def evaluate(thresholds: AlertThresholds | None = None) -> list[CheckOutcome]:
    """Run all checks and store their results. Raises DatabaseError."""
    limits = thresholds or alert_thresholds.current_thresholds()
    values = {**_cluster_values(), **_broker_values(), **_topic_values(), **_group_values()}
    found = [outcome(rule, values[rule.name], limits, FAILURES_MAX) for rule in RULES]
    with transaction.atomic():
        _store(found)
    return found


def _store(checks: list[CheckOutcome]) -> None:
    now = timezone.now()
    results = {r.name: r for r in HealthResult.objects.all()}
    failures = {(f.name, f.subject): f for f in HealthFailure.objects.all()}
    new, changed = [], []
    for check in checks:
        old = results.get(check.name)
        since = old.since if old is not None and old.state == check.state else now
        HealthResult.objects.update_or_create(
            name=check.name,
            defaults={
                "state": check.state,
                "since": since,
                "checked_at": now,
                "objects_count": check.objects,
                "failed": check.failed,
                "unknown": check.unknown,
                "value": check.worst,
            },
        )
        for failure in check.failures:
            row = failures.pop((check.name, failure.subject), None)
            if row is None:
                new.append(HealthFailure(name=check.name, subject=failure.subject, value=failure.value, since=now))
            elif row.value != failure.value:
                row.value = failure.value
                changed.append(row)
    HealthFailure.objects.bulk_create(new, batch_size=BATCH)
    HealthFailure.objects.bulk_update(changed, ["value"], batch_size=BATCH)
    over = iter([f.pk for f in failures.values()])
    while some := list(islice(over, BATCH)):
        HealthFailure.objects.filter(pk__in=some).delete()


# -- values ------------------------------------------------------------------------------------------------------------
def _cluster_values() -> dict[CheckName, Values]:
    cluster = Cluster.objects.filter(pk=1).first()
    sums = ObservedTopic.objects.aggregate(
        offline=Sum("offline"),
        under_min_isr=Sum("under_min_isr"),
        under_replicated=Sum("under_replicated"),
        not_preferred=Sum("not_preferred"),
        partitions=Sum("partition_count"),
    )
    partitions = sums["partitions"] or 0
    connected = None if cluster is None else cluster.zookeeper_connected
    values: dict[CheckName, float | None] = {
        # Without ZooKeeper the console does not know whether a controller is active.
        CheckName.CONTROLLER: None if cluster is None or not connected else float(cluster.controller_id is not None),
        CheckName.ZOOKEEPER: None if connected is None else float(connected),
        CheckName.OFFLINE_PARTITIONS: sums["offline"] or 0,
        CheckName.UNDER_MIN_ISR: sums["under_min_isr"] or 0,
        CheckName.UNDER_REPLICATED: sums["under_replicated"] or 0,
        CheckName.PREFERRED_LEADERS: round(100 * (sums["not_preferred"] or 0) / partitions, 1) if partitions else 0,
        CheckName.DECLARED_STATE: cluster.drift if cluster is not None else None,
    }
    return {name: {"": value} for name, value in values.items()}


def _broker_values() -> dict[CheckName, Values]:
    brokers = list(Broker.objects.all())
    living = [b for b in brokers if b.alive]

    def each(value: Callable[[Broker], float | None], brokers: list[Broker] = living) -> Values:
        return {str(b.broker_id): value(b) for b in brokers}

    def skew(count: Callable[[Broker], int]) -> Values:
        mean = sum(count(b) for b in living) / len(living) if living else 0
        return each(lambda b: round(100 * abs(count(b) - mean) / mean, 1)) if mean >= BALANCED_LEAST else {}

    return {
        CheckName.BROKER_UP: each(lambda b: float(b.alive), brokers),
        CheckName.BROKER_RESPONDS: each(lambda b: None if b.answered is None else float(b.answered)),
        CheckName.LOG_DIRECTORIES: each(lambda b: len(b.dirs_failed)),
        CheckName.DISK_FREE: each(
            lambda b: (
                round(100 * b.free_bytes / b.total_bytes, 1) if b.free_bytes is not None and b.total_bytes else None
            )
        ),
        CheckName.DISK_SPEED: each(lambda b: len(b.dirs_slow)),
        CheckName.LEADER_BALANCE: skew(lambda b: b.leaders),
        CheckName.REPLICA_BALANCE: skew(lambda b: b.replicas),
    }


def _topic_values() -> dict[CheckName, Values]:
    defaults = cluster_defaults()
    replication: dict[str, float | None] = {}
    spare: dict[str, float | None] = {}
    rows = ObservedTopic.objects.filter(internal=False).values_list("name", "replication_factor", "configs")
    for name, factor, configs in rows.iterator():
        replication[name] = factor
        if factor > 1:
            spare[name] = factor - min(factor, min_insync(configs, defaults))
    sizes = (
        ObservedPartition.objects.filter(topic__internal=False, size_bytes__isnull=False)
        .order_by()
        .values_list("topic__name")
        .annotate(largest=Max("size_bytes"), mean=Avg("size_bytes"))
    )
    balance = {name: round(100 * largest / mean, 1) for name, largest, mean in sizes if mean >= SKEW_BYTES_LEAST}
    return {
        CheckName.REPLICATION: replication,
        CheckName.FAULT_TOLERANCE: spare,
        CheckName.PARTITION_BALANCE: balance,
    }


def _group_values() -> dict[CheckName, Values]:
    progress: dict[str, float | None] = {}
    retention: dict[str, float | None] = {}
    unknown: dict[str, float | None] = {}
    columns = ("group_id", "status", "retention_in_s", "partitions_unknown")
    for group_id, status, retention_in_s, partitions_unknown in ConsumerGroup.objects.values_list(*columns).iterator():
        progress[group_id] = None if status == LagStatus.UNKNOWN else float(status not in GROUP_STATUSES)
        if retention_in_s is not None:
            retention[group_id] = retention_in_s
        unknown[group_id] = partitions_unknown
    return {
        CheckName.GROUP_PROGRESS: progress,
        CheckName.GROUP_RETENTION: retention,
        CheckName.GROUP_LAG_KNOWN: unknown,
    }
