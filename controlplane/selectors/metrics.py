"""The cluster's metrics for Prometheus, in its text format. Invariants: metrics come from rows, never from a broker, with the age of the data as a
metric. An unknown metric is omitted, never zero. Metrics per topic are optional: ten thousand topics are five times as many series."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import IntegerField, Max, Sum
from django.db.models.functions import Cast
from django.utils import timezone
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from brokerd.wire.errors import error_name
from controlplane.domain.broker_metrics import StoredApi
from controlplane.domain.history import HistorySubject
from controlplane.domain.message_metrics import STALE_MS, age_s
from controlplane.models import (
    Broker,
    ConsumerGroup,
    Move,
    ObservedTopic,
    ShareGroupLetters,
    ShareGroupPartition,
    TopicMessages,
)
from controlplane.models.move import WORKING_STATES
from controlplane.selectors.alerts import open_alerts
from controlplane.selectors.history import newest_values
from controlplane.selectors.overview import overview

COUNTERS = (
    "weir_broker_refused_requests_total",
    "weir_half_messages_checks_total",
    "weir_share_group_dead_letters_total",
    "weir_share_group_archived_without_dead_letter_total",
)
"""Names of the counters. All other metrics are gauges, also `weir_move_bytes_total`, which is a size."""

Labels = Mapping[str, str | int]
Series = Iterable[tuple[Labels, float | int | None]]
MetricRows = tuple[str, str, Series]
"""Name, help text and series of one metric."""


def exposition(*, topics: bool = False) -> bytes:
    """Every metric: a help line, a type line, and a line per series."""
    metrics = [
        *_cluster_metrics(),
        *_broker_metrics(),
        *_group_metrics(),
        *_share_group_metrics(),
        *_message_metrics(),
        *_move_metrics(),
        *_alert_metrics(),
        *(_topic_metrics() if topics else ()),
    ]
    registry = CollectorRegistry()
    registry.register(_Read(metrics))
    return generate_latest(registry)


def _cluster_metrics() -> list[MetricRows]:
    totals = overview()

    def single(value: float | None) -> Series:
        return [({}, value)]

    return [
        (
            "weir_data_age_seconds",
            "Seconds since the cluster monitor last read the metadata log to its end.",
            single(totals.age_s),
        ),
        (
            "weir_sample_age_seconds",
            "Seconds since brokers last answered the cluster monitor.",
            single(totals.sample_age_s),
        ),
        (
            "weir_zookeeper_connected",
            "1 while the cluster monitor has a ZooKeeper session.",
            single(totals.zookeeper_connected),
        ),
        (
            "weir_controller_epoch",
            "Epoch of the active controller; each controller election increases it.",
            single(totals.controller_epoch),
        ),
        ("weir_metadata_sequence", "Last entry of the metadata log that was read.", single(totals.metadata_seq)),
        ("weir_brokers", "Brokers that have ever registered.", single(totals.brokers_total)),
        ("weir_topics", "Topics, including internal ones.", single(totals.topics)),
        ("weir_partitions", "Partitions, including those of internal topics.", single(totals.partitions)),
        ("weir_partitions_offline", "Partitions without a leader.", single(totals.offline)),
        (
            "weir_partitions_under_min_isr",
            "Partitions with fewer in-sync replicas than min.insync.replicas.",
            single(totals.under_min_isr),
        ),
        ("weir_partitions_under_replicated", "Partitions with a replica out of sync.", single(totals.under_replicated)),
        ("weir_partitions_reassigning", "Partitions that are being moved.", single(totals.reassigning)),
        ("weir_size_bytes", "Bytes of all topics, one replica of each partition.", single(totals.size_bytes)),
        ("weir_records_per_second", "Records produced per second.", single(totals.records_per_s)),
        ("weir_bytes_in_per_second", "Bytes produced by clients per second.", single(totals.bytes_in_per_s)),
        ("weir_bytes_out_per_second", "Bytes sent to consumers per second.", single(totals.bytes_out_per_s)),
        (
            "weir_replication_bytes_per_second",
            "Bytes copied between brokers per second.",
            single(totals.replication_bytes_in_per_s),
        ),
        ("weir_drift_topics", "Topics that differ between database and cluster.", single(totals.drift)),
        ("weir_changes_pending", "Changes with an unknown outcome.", single(totals.changes_pending)),
    ]


def _broker_metrics() -> list[MetricRows]:
    brokers = list(Broker.objects.all())

    def of_brokers(name: str) -> Series:
        return [({"broker": b.broker_id}, getattr(b, name)) for b in brokers]

    def of_requests(value_of: Callable[[StoredApi], float | None]) -> Series:
        return [({"broker": b.broker_id, "api": r["name"]}, value_of(r)) for b in brokers for r in b.requests]

    return [
        ("weir_broker_alive", "1 while the broker is registered.", of_brokers("alive")),
        (
            "weir_broker_answered",
            "1 if the broker answered the last poll of the cluster monitor. A broker that is down is not polled.",
            of_brokers("answered"),
        ),
        (
            "weir_broker_bytes_in_per_second",
            "Bytes that clients produce to the broker per second.",
            of_brokers("bytes_in_per_s"),
        ),
        (
            "weir_broker_bytes_out_per_second",
            "Bytes that the broker sends to consumers per second.",
            of_brokers("bytes_out_per_s"),
        ),
        (
            "weir_broker_replication_bytes_in_per_second",
            "Bytes that the broker copies from leaders per second.",
            of_brokers("replication_bytes_in_per_s"),
        ),
        (
            "weir_broker_replication_bytes_out_per_second",
            "Bytes that the broker sends to followers per second.",
            of_brokers("replication_bytes_out_per_s"),
        ),
        (
            "weir_broker_requests_per_second",
            "Requests to the broker per second, by API.",
            of_requests(lambda r: r["requests_per_s"]),
        ),
        (
            "weir_broker_request_p99_milliseconds",
            "p99 of the total time of requests by API, with waiting: an upper bound of a histogram.",
            of_requests(lambda r: r["p99_ms"]),
        ),
        (
            "weir_broker_request_errors_per_second",
            "Errors in responses of the broker per second, by API and error.",
            [
                ({"broker": b.broker_id, "api": r["name"], "error": error_name(int(code))}, rate)
                for b in brokers
                for r in b.requests
                for code, rate in r["errors"].items()
            ],
        ),
        (
            "weir_broker_refused_requests_per_second",
            "Requests and connections that the broker rejects or throttles per second, by reason.",
            [({"broker": b.broker_id, "reason": r["reason"]}, r["per_s"]) for b in brokers for r in b.refusals],
        ),
        (
            "weir_broker_refused_requests_total",
            "Requests and connections that the broker has rejected or throttled since its start, by reason.",
            [({"broker": b.broker_id, "reason": r["reason"]}, r["total"]) for b in brokers for r in b.refusals],
        ),
        ("weir_broker_leaders", "Partitions that the broker leads.", of_brokers("leaders")),
        ("weir_broker_replicas", "Replicas assigned to the broker.", of_brokers("replicas")),
        (
            "weir_broker_replicas_out_of_sync",
            "Replicas of the broker that are out of sync.",
            of_brokers("replicas_out_of_sync"),
        ),
        ("weir_broker_size_bytes", "Bytes of the broker's replicas.", of_brokers("size_bytes")),
        (
            "weir_broker_disk_total_bytes",
            "Bytes of the log directory with the most free space.",
            of_brokers("total_bytes"),
        ),
        (
            "weir_broker_disk_free_bytes",
            "Free bytes of the log directory with the most free space.",
            of_brokers("free_bytes"),
        ),
        (
            "weir_broker_disk_probe_seconds",
            "Seconds of the last probe of a log directory: a write and a flush of 4 KiB.",
            [
                ({"broker": b.broker_id, "directory": d}, ms / 1000)
                for b in brokers
                for d, ms in sorted(b.dir_probe_ms.items())
            ],
        ),
        (
            "weir_broker_disk_slow",
            "1 for each log directory whose disk is slow.",
            [({"broker": b.broker_id, "directory": d}, 1) for b in brokers for d in b.dirs_slow],
        ),
        (
            "weir_broker_disk_hung",
            "1 for each log directory that is offline because its disk does not respond.",
            [({"broker": b.broker_id, "directory": d}, 1) for b in brokers for d in b.dirs_hung],
        ),
    ]


def _group_metrics() -> list[MetricRows]:
    groups = list(ConsumerGroup.objects.defer("members").order_by("pk"))

    def of_groups(name: str) -> Series:
        return [({"group": g.pk}, getattr(g, name)) for g in groups]

    return [
        (
            "weir_group_lag_records",
            "Lag of a group in records, of the partitions whose lag is known.",
            of_groups("lag_records"),
        ),
        (
            "weir_group_lag_seconds",
            "Age of the oldest unread record of a group.",
            [({"group": g.pk}, None if g.lag_ms_max is None else g.lag_ms_max / 1000) for g in groups],
        ),
        (
            "weir_group_lag_seconds_is_lower_bound",
            "1 if weir_group_lag_seconds is a lower bound.",
            of_groups("lag_at_least"),
        ),
        (
            "weir_group_consumed_per_second",
            "Records per second that a group reads, over the last minutes.",
            of_groups("consumed_per_s"),
        ),
        (
            "weir_group_produced_per_second",
            "Records per second produced to the partitions of a group, over the last minutes.",
            of_groups("produced_per_s"),
        ),
        (
            "weir_group_retention_seconds",
            "Seconds until retention deletes unread records, at the current rates.",
            of_groups("retention_in_s"),
        ),
        (
            "weir_group_status",
            "1 for each group with its status.",
            [({"group": g.pk, "status": g.status}, 1) for g in groups],
        ),
    ]


def _share_group_metrics() -> list[MetricRows]:
    observed = ShareGroupPartition.objects.filter(lag_ms__isnull=False).order_by("group_id").values("group_id")
    lags = observed.annotate(ms=Max("lag_ms"), at_least=Max(Cast("lag_at_least", IntegerField())))
    share_lags = [({"group": x["group_id"]}, x["ms"], x["at_least"]) for x in lags]

    def of_share_groups(name: str) -> Series:
        return [({"group": g}, value) for g, value in newest_values(HistorySubject.SHARE_GROUP, name).items()]

    return [
        (
            "weir_share_group_lag_records",
            "Records of a share group whose delivery has not ended, of the partitions whose lag is known. Three significant digits.",
            of_share_groups("lag_records"),
        ),
        ("weir_share_group_members", "Members of a share group.", of_share_groups("member_count")),
        (
            "weir_share_group_lag_seconds",
            "Age of the oldest record whose delivery has not ended in a share group.",
            [(labels, ms / 1000) for labels, ms, _ in share_lags],
        ),
        (
            "weir_share_group_lag_seconds_is_lower_bound",
            "1 if weir_share_group_lag_seconds is a lower bound.",
            [(labels, at_least) for labels, _, at_least in share_lags],
        ),
    ]


def _move_metrics() -> list[MetricRows]:
    moves = list(
        Move.objects.filter(state__in=WORKING_STATES)
        .order_by("pk")
        .annotate(total=Sum("parts__bytes_total"), done=Sum("parts__bytes_done"))
    )
    return [
        (
            "weir_move_bytes_total",
            "Bytes that an active move has to copy.",
            [({"move": m.pk, "state": m.state}, m.total) for m in moves],
        ),
        (
            "weir_move_bytes_done",
            "Bytes that an active move has copied.",
            [({"move": m.pk, "state": m.state}, m.done) for m in moves],
        ),
        (
            "weir_move_bytes_per_second",
            "Copy rate of an active move.",
            [({"move": m.pk, "state": m.state}, m.bytes_per_s) for m in moves],
        ),
    ]


def _alert_metrics() -> list[MetricRows]:
    return [
        (
            "weir_alert",
            "1 for each open alert.",
            [({"kind": a.kind, "subject": a.subject, "severity": a.severity}, 1) for a in open_alerts()],
        ),
    ]


def _topic_metrics() -> list[MetricRows]:
    rows = list(
        ObservedTopic.objects.order_by("name").values_list(
            "name", "size_bytes", "records_per_s", "records", "bytes_in_per_s", "bytes_out_per_s"
        )
    )
    return [
        (
            "weir_topic_size_bytes",
            "Bytes of a topic, one replica of each partition.",
            [({"topic": t[0]}, t[1]) for t in rows],
        ),
        (
            "weir_topic_records_per_second",
            "Records produced to the topic per second.",
            [({"topic": t[0]}, t[2]) for t in rows],
        ),
        ("weir_topic_records", "Records of the topic, by its offsets.", [({"topic": t[0]}, t[3]) for t in rows]),
        (
            "weir_topic_bytes_in_per_second",
            "Bytes produced to the topic per second.",
            [({"topic": t[0]}, t[4]) for t in rows],
        ),
        (
            "weir_topic_bytes_out_per_second",
            "Bytes of the topic sent to consumers per second.",
            [({"topic": t[0]}, t[5]) for t in rows],
        ),
    ]


def _message_metrics() -> list[MetricRows]:
    """Half messages, delayed messages and dead letters. Topics whose leaders did not respond for a minute are omitted."""
    now = timezone.now()
    since = now - timedelta(milliseconds=STALE_MS)
    rows = list(TopicMessages.objects.filter(sampled_at__gt=since).order_by("topic"))
    letters = list(ShareGroupLetters.objects.order_by("group_id", "topic", "broker_id"))

    def of_topics(name: str) -> Series:
        return [({"topic": r.topic}, getattr(r, name)) for r in rows]

    def ages(at: str, metric: str) -> Series:
        return [
            (
                {"topic": r.topic},
                None if getattr(r, metric) is None else age_s(getattr(r, at), r.sampled_at.timestamp()),
            )
            for r in rows
        ]

    def of_letters(name: str) -> Series:
        return [({"group": x.group_id, "topic": x.topic, "broker": x.broker_id}, getattr(x, name)) for x in letters]

    return [
        ("weir_half_messages_undecided", "Half messages without a decision.", of_topics("half_undecided")),
        (
            "weir_half_messages_oldest_seconds",
            "Age of the oldest undecided half message; 0 without one.",
            ages("half_oldest_at", "half_undecided"),
        ),
        (
            "weir_half_messages_checks_total",
            "Questions to producers about half messages, since the present leaders lead.",
            of_topics("half_checks"),
        ),
        ("weir_half_messages_expired", "Records in the topic of expired half messages.", of_topics("half_expired")),
        ("weir_delayed_messages_pending", "Delayed messages that are not delivered.", of_topics("delayed_pending")),
        (
            "weir_delayed_messages_overdue_seconds",
            "Time since the delivery time of the first delayed message that is not delivered; 0 before that time.",
            ages("delayed_next_at", "delayed_pending"),
        ),
        (
            "weir_delayed_messages_late_seconds",
            "How late the last batch of delayed messages was sent.",
            [({"topic": r.topic}, None if r.delayed_late_ms is None else r.delayed_late_ms / 1000) for r in rows],
        ),
        ("weir_dead_letters", "Records in the topic of dead letters, by its offsets.", of_topics("dead_letters")),
        (
            "weir_share_group_dead_letters_total",
            "Dead letters of a share group by the topic of the records, since the start of the broker.",
            of_letters("written"),
        ),
        (
            "weir_share_group_archived_without_dead_letter_total",
            "Records that a share group with a topic of dead letters has archived without one, since the start of the broker.",
            of_letters("unwritten"),
        ),
    ]


@dataclass(frozen=True, eq=False)
class _Read(Collector):
    """The metrics in the form that the Prometheus library collects."""

    families: Sequence[MetricRows]

    def collect(self) -> Iterator[Metric]:
        for name, text, series in self.families:
            counter = name in COUNTERS
            family = Metric(name.removesuffix("_total") if counter else name, text, "counter" if counter else "gauge")
            for labels, value in series:
                if value is not None:
                    family.add_sample(name, {k: str(v) for k, v in labels.items()}, float(value))
            if family.samples:
                yield family
