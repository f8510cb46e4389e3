"""The cluster's figures for Prometheus, in its text format. Laws: read from rows, never from a broker, with the age of the data beside them;
what is not known is left out, never zero. Per topic only where it is asked for: ten thousand topics are as many series thrice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Sum
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from controlplane.models import Broker, ConsumerGroup, Move, ObservedTopic
from controlplane.models.move import WORKING_STATES
from controlplane.selectors.alerts import open_alerts
from controlplane.selectors.overview import overview

Labels = Mapping[str, str | int]
Series = Iterable[tuple[Labels, float | int | None]]


def exposition(*, topics: bool = False) -> bytes:
    """Every metric: a line of help, one of type, a line per series."""
    o = overview()
    brokers = list(Broker.objects.all())
    groups = list(ConsumerGroup.objects.order_by("pk").values_list("pk", "lag_records", "lag_ms_max", "verdict"))
    moves = list(
        Move.objects.filter(state__in=WORKING_STATES)
        .order_by("pk")
        .annotate(total=Sum("parts__bytes_total"), done=Sum("parts__bytes_done"))
    )

    def of_brokers(name: str) -> Series:
        return [({"broker": b.broker_id}, getattr(b, name)) for b in brokers]

    def one(value: float | int | bool | None) -> Series:
        return [({}, value)]

    found: list[tuple[str, str, Series]] = [
        ("weir_data_age_seconds", "Since the observer last read the metadata log to its head.", one(o.age_s)),
        ("weir_sample_age_seconds", "Since brokers last answered the observer.", one(o.sample_age_s)),
        ("weir_zookeeper_connected", "1 while the observer has a ZooKeeper session.", one(o.zookeeper_connected)),
        ("weir_controller_epoch", "Epoch of the acting controller; it grows with every change of the seat.", one(o.controller_epoch)),
        ("weir_metadata_sequence", "Last entry of the metadata log that was read.", one(o.metadata_seq)),
        ("weir_brokers", "Brokers that ever registered.", one(o.brokers_total)),
        ("weir_topics", "Topics, internal ones included.", one(o.topics)),
        ("weir_partitions", "Partitions, of internal topics, too.", one(o.partitions)),
        ("weir_partitions_offline", "Partitions without a leader.", one(o.offline)),
        ("weir_partitions_under_min_isr", "Partitions with fewer replicas in sync than min.insync.replicas.", one(o.under_min_isr)),
        ("weir_partitions_under_replicated", "Partitions with a replica out of sync.", one(o.under_replicated)),
        ("weir_partitions_reassigning", "Partitions that are being moved.", one(o.reassigning)),
        ("weir_size_bytes", "Bytes of all topics, one copy of each partition.", one(o.size_bytes)),
        ("weir_records_per_second", "Records that come in.", one(o.records_per_s)),
        ("weir_drift_topics", "Topics that differ between database and cluster.", one(o.drift)),
        ("weir_changes_pending", "Changes nobody has read back yet.", one(o.changes_pending)),
        ("weir_broker_alive", "1 while the broker holds its seat.", of_brokers("alive")),
        ("weir_broker_answered", "1 if it answered the observer's last round.", of_brokers("answered")),
        ("weir_broker_leaders", "Partitions that it leads.", of_brokers("leaders")),
        ("weir_broker_replicas", "Replicas placed on it.", of_brokers("replicas")),
        ("weir_broker_replicas_out_of_sync", "Of these, out of sync.", of_brokers("replicas_out_of_sync")),
        ("weir_broker_size_bytes", "Bytes of its replicas.", of_brokers("size_bytes")),
        ("weir_broker_disk_total_bytes", "Of its directory with most room.", of_brokers("total_bytes")),
        ("weir_broker_disk_free_bytes", "Free in its directory with most room.", of_brokers("free_bytes")),
        ("weir_group_lag_records", "Records a group has still to read, of the partitions whose lag is known.", [({"group": g[0]}, g[1]) for g in groups]),
        ("weir_group_lag_seconds", "A group's longest lag in time.", [({"group": g[0]}, None if g[2] is None else g[2] / 1000) for g in groups]),
        ("weir_group_verdict", "1 for each group with its verdict of lag.", [({"group": g[0], "verdict": g[3]}, 1) for g in groups]),
        ("weir_move_bytes_total", "Bytes that a move under way has to copy.", [({"move": m.pk, "state": m.state}, m.total) for m in moves]),
        ("weir_move_bytes_done", "Of these, copied.", [({"move": m.pk, "state": m.state}, m.done) for m in moves]),
        ("weir_move_bytes_per_second", "How fast it copies.", [({"move": m.pk, "state": m.state}, m.bytes_per_s) for m in moves]),
        ("weir_alert", "1 for each alert that is open.",
         [({"kind": a.kind, "subject": a.subject, "severity": a.severity}, 1) for a in open_alerts()]),
    ]  # fmt: skip
    if topics:
        rows = list(
            ObservedTopic.objects.order_by("name").values_list("name", "size_bytes", "records_per_s", "records")
        )
        found += [
            ("weir_topic_size_bytes", "Bytes of a topic, one copy of each partition.", [({"topic": t[0]}, t[1]) for t in rows]),
            ("weir_topic_records_per_second", "Records that come into it.", [({"topic": t[0]}, t[2]) for t in rows]),
            ("weir_topic_records", "Records it holds, by its offsets.", [({"topic": t[0]}, t[3]) for t in rows]),
        ]  # fmt: skip
    registry = CollectorRegistry()
    registry.register(_Read(found))
    return generate_latest(registry)


@dataclass(frozen=True, eq=False)
class _Read(Collector):
    """What was read, as the library takes it."""

    families: Sequence[tuple[str, str, Series]]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, text, series in self.families:
            family = GaugeMetricFamily(name, text)
            for labels, value in series:
                if value is not None:
                    family.add_sample(name, {k: str(v) for k, v in labels.items()}, float(value))
            if family.samples:
                yield family
