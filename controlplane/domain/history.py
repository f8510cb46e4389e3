"""Recorded history of metrics: subjects, metrics and units, and the points of a chart. Pure.

Points are averages of the stored values of their step; a step without a stored value has none. Invariant: nothing is interpolated. Does not contain:
clocks, rows, the stored form of values (`weir_common.history_codes`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from controlplane.domain.errors import Rejected
from weir_common.history_codes import STEP_S
from weir_common.phrases import sentence

POINTS_MAX = 450
"""Maximum number of points of a chart. More points would not be visible."""

STEPS_S = (10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400)
"""Seconds between two points of a chart. With the last step a chart of 366 days has 367 points."""

RANGE_S_MAX = 366 * 86_400
"""Maximum number of seconds of one request: a year."""

ROWS_KEPT_S = 30 * 86_400
"""Seconds after which averages of a minute are deleted from the database. Older values are in the lake, if a job `history` copied them."""


class HistorySubject(StrEnum):
    CLUSTER = "cluster"
    TOPIC = "topic"
    GROUP = "group"
    SHARE_GROUP = "share_group"
    BROKER = "broker"
    PARTITION = "partition"
    BROKER_API = "broker_api"


class Unit(StrEnum):
    RECORDS = "records"
    RECORDS_PER_S = "records/s"
    BYTES = "bytes"
    BYTES_PER_S = "bytes/s"
    SECONDS = "s"
    MILLISECONDS = "ms"
    PARTITIONS = "partitions"
    REPLICAS = "replicas"
    MEMBERS = "members"
    REQUESTS_PER_S = "requests/s"
    ERRORS_PER_S = "errors/s"


@dataclass(frozen=True, slots=True)
class HistoryMetric:
    name: str
    unit: Unit
    label: str


METRICS: dict[HistorySubject, tuple[HistoryMetric, ...]] = {
    HistorySubject.CLUSTER: (
        HistoryMetric("records_per_s", Unit.RECORDS_PER_S, "Records in per second"),
        HistoryMetric("bytes_in_per_s", Unit.BYTES_PER_S, "Bytes in per second"),
        HistoryMetric("bytes_out_per_s", Unit.BYTES_PER_S, "Bytes out per second"),
        HistoryMetric("replication_bytes_in_per_s", Unit.BYTES_PER_S, "Replication bytes in per second"),
        HistoryMetric("lag_records", Unit.RECORDS, "Lag of all groups, records"),
        HistoryMetric("size_bytes", Unit.BYTES, "Size, bytes"),
        HistoryMetric("under_replicated", Unit.PARTITIONS, "Under-replicated partitions"),
        HistoryMetric("offline", Unit.PARTITIONS, "Offline partitions"),
    ),
    HistorySubject.TOPIC: (
        HistoryMetric("records_per_s", Unit.RECORDS_PER_S, "Records in per second"),
        HistoryMetric("bytes_in_per_s", Unit.BYTES_PER_S, "Bytes in per second"),
        HistoryMetric("bytes_out_per_s", Unit.BYTES_PER_S, "Bytes out per second"),
        HistoryMetric("size_bytes", Unit.BYTES, "Size, bytes"),
        HistoryMetric("half_undecided", Unit.RECORDS, "Undecided half messages"),
        HistoryMetric("half_oldest_s", Unit.SECONDS, "Oldest undecided half message, seconds"),
        HistoryMetric("half_expired", Unit.RECORDS, "Expired half messages"),
        HistoryMetric("delayed_pending", Unit.RECORDS, "Pending delayed messages"),
        HistoryMetric("delayed_overdue_s", Unit.SECONDS, "Overdue delayed messages, seconds"),
        HistoryMetric("dead_letters", Unit.RECORDS, "Dead letters"),
    ),
    HistorySubject.GROUP: (
        HistoryMetric("lag_records", Unit.RECORDS, "Lag, records"),
        HistoryMetric("lag_s", Unit.SECONDS, "Longest lag, seconds"),
        HistoryMetric("consumed_per_s", Unit.RECORDS_PER_S, "Consumed records per second"),
    ),
    HistorySubject.SHARE_GROUP: (
        HistoryMetric("lag_records", Unit.RECORDS, "Lag, records"),
        HistoryMetric("lag_s", Unit.SECONDS, "Longest lag, seconds"),
        HistoryMetric("member_count", Unit.MEMBERS, "Members"),
    ),
    HistorySubject.BROKER: (
        HistoryMetric("produce_p99_ms", Unit.MILLISECONDS, "Produce latency p99, ms"),
        HistoryMetric("bytes_in_per_s", Unit.BYTES_PER_S, "Bytes in per second"),
        HistoryMetric("bytes_out_per_s", Unit.BYTES_PER_S, "Bytes out per second"),
        HistoryMetric("replication_bytes_in_per_s", Unit.BYTES_PER_S, "Replication bytes in per second"),
        HistoryMetric("replication_bytes_out_per_s", Unit.BYTES_PER_S, "Replication bytes out per second"),
        HistoryMetric("disk_used_bytes", Unit.BYTES, "Disk used, bytes"),
        HistoryMetric("size_bytes", Unit.BYTES, "Size of its replicas, bytes"),
        HistoryMetric("replicas_in_sync", Unit.REPLICAS, "Replicas in sync"),
        HistoryMetric("replicas_out_of_sync", Unit.REPLICAS, "Replicas out of sync"),
        HistoryMetric("leaders", Unit.PARTITIONS, "Partitions that it leads"),
    ),
    HistorySubject.PARTITION: (
        HistoryMetric("records_per_s", Unit.RECORDS_PER_S, "Records in per second"),
        HistoryMetric("bytes_in_per_s", Unit.BYTES_PER_S, "Bytes in per second"),
        HistoryMetric("bytes_out_per_s", Unit.BYTES_PER_S, "Bytes out per second"),
        HistoryMetric("size_bytes", Unit.BYTES, "Size on the leader, bytes"),
        HistoryMetric("replicas_in_sync", Unit.REPLICAS, "Replicas in sync"),
    ),
    HistorySubject.BROKER_API: (
        HistoryMetric("p99_ms", Unit.MILLISECONDS, "Request latency p99, ms"),
        HistoryMetric("requests_per_s", Unit.REQUESTS_PER_S, "Requests per second"),
        HistoryMetric("errors_per_s", Unit.ERRORS_PER_S, "Errors per second"),
    ),
}


def object_of(subject: str) -> tuple[HistorySubject, str]:
    """The kind of the object of a subject, and its name: "" for the cluster. Raises ValueError for a kind that is not recorded."""
    kind, _, name = subject.partition(":")
    return HistorySubject(kind), name


def metric_of(subject: str, name: str) -> HistoryMetric:
    """Return the metric `name` of this subject. Raises Rejected for a subject or a metric that is not recorded."""
    kind, separator, rest = subject.partition(":")
    known = {k.value for k in HistorySubject}
    if kind not in known or (kind == HistorySubject.CLUSTER) != (not separator) or (separator and not rest):
        forms = "cluster, topic:NAME, group:ID, share_group:ID, broker:ID, partition:TOPIC:INDEX, broker_api:ID:API"
        raise Rejected(
            sentence(
                "There is no subject {subject}. A subject has one of these forms: {forms}.",
                subject=repr(subject),
                forms=forms,
            ),
            "subject",
        )
    metrics = {f.name: f for f in METRICS[HistorySubject(kind)]}
    if name not in metrics:
        raise Rejected(
            sentence(
                "A {kind} has no metric {name}. Its metrics are: {metrics}.",
                kind=kind,
                name=repr(name),
                metrics=", ".join(metrics),
            ),
            "metric",
        )
    return metrics[name]


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """A point of a chart: average and greatest value of the step that begins at `at_s`; None = no value was recorded."""

    at_s: int
    value: float | None
    peak: float | None


def step_for(span_s: float, least_s: int = STEP_S) -> int:
    """The smallest step with at most POINTS_MAX points, and not below the resolution of the stored values."""
    fitting = [s for s in STEPS_S if s >= least_s and span_s <= s * (POINTS_MAX - 1)]
    return fitting[0] if fitting else STEPS_S[-1]


def steps_of(values: Iterable[tuple[int, float]], since_s: float, until_s: float, step_s: int) -> list[ChartPoint]:
    """All points from `since_s` to `until_s`, in order. `values` are pairs (time, value) in any order."""
    found: dict[int, list[float]] = {}
    for at, value in values:
        found.setdefault(at - at % step_s, []).append(value)
    first = math.floor(since_s / step_s) * step_s
    points = []
    for at in range(first, math.ceil(until_s), step_s):
        here = found.get(at)
        points.append(
            ChartPoint(at, round(sum(here) / len(here), 3), max(here)) if here else ChartPoint(at, None, None)
        )
    return points
