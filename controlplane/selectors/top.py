"""The objects with the greatest values: topics, partitions, groups, brokers, clients, principals.

Invariants: a list has the greatest values, each with its share of the sum over all objects where a sum has a meaning. Unknown values are omitted. Only
the lists of clients and principals wait for brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from django.db.models import Avg, Count, ExpressionWrapper, F, FloatField, QuerySet, Sum
from django.utils import timezone

from controlplane.domain.errors import Rejected, not_one_of
from controlplane.domain.history import HistorySubject
from controlplane.models import Broker, ConsumerGroup, HistorySeries, ObservedPartition, ObservedTopic
from controlplane.selectors import clients, history
from weir_common.phrases import sentence

TOP_DEFAULT = 10
TOP_MAX = 100
"""Maximum number of rows of one response. The lists of topics, groups and partitions have pages for more."""

GROWTH = timedelta(hours=1)
GROWTH_TOPICS_MAX = 300
"""Number of topics, the largest ones, whose growth is compared."""

SKEW_BYTES_LEAST = 1_000_000
"""Mean size of a topic's partitions from which a partition can be skewed."""

CLIENTS_MAX = 500
"""Maximum number of clients that are summed, those with the most traffic. Further clients do not change the result."""


class TopOf(StrEnum):
    TOPICS = "topics"
    PARTITIONS = "partitions"
    GROUPS = "groups"
    BROKERS = "brokers"
    CLIENTS = "clients"
    PRINCIPALS = "principals"

    @property
    def is_topics(self) -> bool:
        return self is TopOf.TOPICS

    @property
    def is_partitions(self) -> bool:
        return self is TopOf.PARTITIONS

    @property
    def is_brokers(self) -> bool:
        return self is TopOf.BROKERS

    @property
    def is_connections(self) -> bool:
        """Its values are those of connections to brokers."""
        return self in (TopOf.CLIENTS, TopOf.PRINCIPALS)


class TopUnit(StrEnum):
    RECORDS = "records"
    RECORDS_PER_S = "records/s"
    BYTES = "bytes"
    BYTES_PER_S = "bytes/s"
    REQUESTS_PER_S = "requests/s"
    SECONDS = "s"
    PERCENT = "%"
    COUNT = "count"


UNITS_IN_HEADS = (TopUnit.RECORDS, TopUnit.RECORDS_PER_S, TopUnit.REQUESTS_PER_S, TopUnit.PERCENT)
"""Units that are in the head of a column. The values of the others have their unit."""


@dataclass(frozen=True, slots=True)
class TopRow:
    """`share_pct`: of the sum over all objects; null where a sum has no meaning. `subject`: kind:NAME of the object's page, empty for clients."""

    name: str
    value: float
    share_pct: float | None
    subject: str


@dataclass(frozen=True, slots=True)
class TopList:
    """`brokers_silent`: brokers that did not respond, whose clients are missing."""

    of: str
    by: str
    label: str
    unit: str
    rows: list[TopRow]
    brokers_silent: list[int]


@dataclass(frozen=True, slots=True)
class TopMetric:
    of: TopOf
    by: str
    label: str
    unit: TopUnit


@dataclass(frozen=True, slots=True)
class _TopValues:
    """(name, value, subject) of the greatest, and the sum over all objects."""

    rows: list[tuple[str, float, str]]
    total: float | None = None
    silent: tuple[int, ...] = ()


Read = Callable[[int], _TopValues]

_TOPICS = ObservedTopic.objects.filter(internal=False)


# -- rows of the database ----------------------------------------------------------------------------------------------
def _column(rows: QuerySet[Any], kind: str, name: str, column: object, *, summed: bool = True) -> Read:
    """The rows with the greatest values of a column or an expression."""

    def read(limit: int) -> _TopValues:
        valued = rows.all().order_by().annotate(top_value=F(column) if isinstance(column, str) else column)
        known = valued.filter(top_value__gt=0)
        found = known.order_by("-top_value", name).values_list(name, "top_value")[:limit]
        total = known.aggregate(all=Sum("top_value"))["all"] if summed else None
        return _TopValues([(str(n), float(v), f"{kind}:{n}") for n, v in found], total)

    return read


def _growth(limit: int) -> _TopValues:
    """Bytes per second by which the largest topics grew in the last hour: the last recorded size minus that of an hour before."""
    names = _TOPICS.filter(size_bytes__gt=0).order_by("-size_bytes", "name")
    keys = [
        (f"{HistorySubject.TOPIC}:{n}", "size_bytes") for n in names.values_list("name", flat=True)[:GROWTH_TOPICS_MAX]
    ]
    stored = set(HistorySeries.objects.filter(metric="size_bytes").values_list("subject", flat=True))
    keys = [k for k in keys if k[0] in stored]
    now = timezone.now()
    found = []
    for (subject, _), line in (history.lines(keys, now - GROWTH, now) if keys else {}).items():
        values = [(s.at_s, s.value) for s in line.steps if s.value is not None]
        if len(values) > 1 and values[-1][1] > values[0][1]:
            rate = (values[-1][1] - values[0][1]) / (values[-1][0] - values[0][0])
            found.append((subject.partition(":")[2], rate, subject))
    return _TopValues(_greatest(found, limit), sum(v for _, v, _ in found))


def _skew(limit: int) -> _TopValues:
    """Partitions with the greatest size in per cent of the mean of their topic."""
    means = {
        topic: mean
        for topic, mean, count in ObservedPartition.objects.filter(size_bytes__isnull=False)
        .order_by()
        .values_list("topic_id")
        .annotate(mean=Avg("size_bytes"), count=Count("pk"))
        if mean >= SKEW_BYTES_LEAST and count > 1
    }
    found: list[tuple[str, float, str]] = []
    columns = ("topic_id", "topic__name", "index", "size_bytes")
    # The partitions that are far above their mean are among the largest partitions of the cluster.
    rows = ObservedPartition.objects.filter(topic_id__in=_largest(means), size_bytes__isnull=False)
    for topic_id, name, index, size in rows.order_by("-size_bytes").values_list(*columns)[: 20 * TOP_MAX]:
        found.append((f"{name}-{index}", 100 * size / means[topic_id], f"partition:{name}:{index}"))
    return _TopValues(_greatest(found, limit))


def _largest(means: dict[Any, float]) -> list[Any]:
    return sorted(means, key=lambda t: -means[t])[:GROWTH_TOPICS_MAX]


def _greatest(objects: Iterable[tuple[str, float, str]], limit: int) -> list[tuple[str, float, str]]:
    return sorted(objects, key=lambda r: (-r[1], r[0]))[:limit]


# -- clients -----------------------------------------------------------------------------------------------------------
def _clients(column: str, *, by_principal: bool) -> Read:
    def read(limit: int) -> _TopValues:
        page = clients.client_list(sort=f"-{column}", per_page=CLIENTS_MAX)
        sums: dict[str, float] = {}
        for row in page.rows:
            name = row.principal if by_principal else f"{row.client_id or 'no client ID'} ({row.principal}, {row.host})"
            sums[name] = sums.get(name, 0.0) + float(getattr(row, column))
        found = [(name, value, "") for name, value in sums.items() if value > 0]
        silent = tuple(b.broker_id for b in page.brokers_silent)
        return _TopValues(_greatest(found, limit), sum(sums.values()), silent)

    return read


_BEHIND = ExpressionWrapper(F("produced_per_s") - F("consumed_per_s"), output_field=FloatField())
_LAG_S = ExpressionWrapper(F("lag_ms_max") / 1000.0, output_field=FloatField())
_DISK = ExpressionWrapper(100.0 * (F("total_bytes") - F("free_bytes")) / F("total_bytes"), output_field=FloatField())
_LIVE = Broker.objects.filter(alive=True)
_PARTITIONS = ObservedPartition.objects.annotate(top_name=F("topic__name"))
_TRAFFIC = (("bytes_in_per_s", "Bytes in per second"), ("bytes_out_per_s", "Bytes out per second"))

READS: dict[TopMetric, Read] = {
    TopMetric(TopOf.TOPICS, "records_per_s", "Records in per second", TopUnit.RECORDS_PER_S): _column(
        _TOPICS, "topic", "name", "records_per_s"
    ),
    **{
        TopMetric(TopOf.TOPICS, by, label, TopUnit.BYTES_PER_S): _column(_TOPICS, "topic", "name", by)
        for by, label in (*_TRAFFIC, ("replication_bytes_in_per_s", "Replication bytes in per second"))
    },
    TopMetric(TopOf.TOPICS, "size_bytes", "Size", TopUnit.BYTES): _column(_TOPICS, "topic", "name", "size_bytes"),
    TopMetric(TopOf.TOPICS, "growth_bytes_per_s", "Growth in the last hour", TopUnit.BYTES_PER_S): _growth,
    TopMetric(TopOf.TOPICS, "records", "Records", TopUnit.RECORDS): _column(_TOPICS, "topic", "name", "records"),
    TopMetric(TopOf.TOPICS, "partitions", "Partitions", TopUnit.COUNT): _column(
        _TOPICS, "topic", "name", "partition_count"
    ),
    TopMetric(TopOf.PARTITIONS, "size_bytes", "Size", TopUnit.BYTES): _column(
        _PARTITIONS, "partition", "pk", "size_bytes"
    ),
    **{
        TopMetric(TopOf.PARTITIONS, by, label, TopUnit.BYTES_PER_S): _column(_PARTITIONS, "partition", "pk", by)
        for by, label in _TRAFFIC
    },
    TopMetric(TopOf.PARTITIONS, "skew_pct", "Size, % of the mean size in its topic", TopUnit.PERCENT): _skew,
    TopMetric(TopOf.GROUPS, "lag_records", "Lag", TopUnit.RECORDS): _column(
        ConsumerGroup.objects.all(), "group", "group_id", "lag_records"
    ),
    TopMetric(TopOf.GROUPS, "lag_s", "Lag in time", TopUnit.SECONDS): _column(
        ConsumerGroup.objects.all(), "group", "group_id", _LAG_S, summed=False
    ),
    TopMetric(TopOf.GROUPS, "lag_growth_per_s", "Growth of the lag", TopUnit.RECORDS_PER_S): _column(
        ConsumerGroup.objects.all(), "group", "group_id", _BEHIND
    ),
    TopMetric(TopOf.GROUPS, "consumed_per_s", "Consumed records per second", TopUnit.RECORDS_PER_S): _column(
        ConsumerGroup.objects.all(), "group", "group_id", "consumed_per_s"
    ),
    TopMetric(TopOf.BROKERS, "leaders", "Leaders", TopUnit.COUNT): _column(_LIVE, "broker", "broker_id", "leaders"),
    TopMetric(TopOf.BROKERS, "replicas", "Replicas", TopUnit.COUNT): _column(_LIVE, "broker", "broker_id", "replicas"),
    **{
        TopMetric(TopOf.BROKERS, by, label, TopUnit.BYTES_PER_S): _column(_LIVE, "broker", "broker_id", by)
        for by, label in (
            *_TRAFFIC,
            ("replication_bytes_in_per_s", "Replication bytes in per second"),
            ("replication_bytes_out_per_s", "Replication bytes out per second"),
        )
    },
    TopMetric(TopOf.BROKERS, "replicas_out_of_sync", "Replicas out of sync", TopUnit.COUNT): _column(
        Broker.objects.all(), "broker", "broker_id", "replicas_out_of_sync"
    ),
    TopMetric(TopOf.BROKERS, "size_bytes", "Size of its replicas", TopUnit.BYTES): _column(
        _LIVE, "broker", "broker_id", "size_bytes"
    ),
    TopMetric(TopOf.BROKERS, "disk_used_pct", "Disk used", TopUnit.PERCENT): _column(
        _LIVE, "broker", "broker_id", _DISK, summed=False
    ),
    **{
        TopMetric(of, by, label, unit): _clients(by, by_principal=of is TopOf.PRINCIPALS)
        for of in (TopOf.CLIENTS, TopOf.PRINCIPALS)
        for by, label, unit in (
            ("bytes_per_s", "Bytes per second", TopUnit.BYTES_PER_S),
            ("received_bytes_per_s", "Bytes in per second", TopUnit.BYTES_PER_S),
            ("sent_bytes_per_s", "Bytes out per second", TopUnit.BYTES_PER_S),
            ("requests_per_s", "Requests per second", TopUnit.REQUESTS_PER_S),
            ("connections", "Connections", TopUnit.COUNT),
        )
    },
}

METRICS: dict[TopOf, list[TopMetric]] = {of: [f for f in READS if f.of is of] for of in TopOf}


def top_list(kind: str, by: str = "", limit: int = TOP_DEFAULT) -> TopList:
    """The objects of a kind with the greatest values of a metric; the first metric of the kind by default. Raises Rejected."""
    if kind not in list(TopOf):
        raise not_one_of("There is no kind {value}. The kinds are: {allowed}.", kind, TopOf, "of")
    metrics = {f.by: f for f in METRICS[TopOf(kind)]}
    metric = metrics.get(by or next(iter(metrics)))
    if metric is None:
        raise Rejected(
            sentence(
                "There is no metric {by} of {kind}. The metrics are: {metrics}.",
                by=repr(by),
                kind=kind,
                metrics=", ".join(metrics),
            ),
            "by",
        )
    return _shape(metric, READS[metric](max(1, min(limit, TOP_MAX))))


def top_lists(kind: TopOf, limit: int = TOP_DEFAULT) -> list[TopList]:
    """All metrics of a kind that the database has."""
    return [_shape(f, READS[f](limit)) for f in METRICS[kind]]


def _shape(metric: TopMetric, objects: _TopValues) -> TopList:
    names: dict[str, str] = {}
    if metric.of is TopOf.PARTITIONS and metric.by != "skew_pct":
        keys = [int(name) for name, _, _ in objects.rows]
        rows = ObservedPartition.objects.filter(pk__in=keys).values_list("pk", "topic__name", "index")
        names = {str(pk): f"{topic}:{index}" for pk, topic, index in rows}
    result = []
    for name, value, subject in objects.rows:
        if name in names:
            topic, _, index = names[name].rpartition(":")
            name, subject = f"{topic}-{index}", f"partition:{topic}:{index}"
        share = round(100 * value / objects.total, 1) if objects.total else None
        result.append(TopRow(name, round(value, 3), share, subject))
    return TopList(metric.of, metric.by, metric.label, metric.unit, result, list(objects.silent))
