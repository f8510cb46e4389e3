"""The metrics that the history records for one point in time, from the image and the samples in memory.

Invariant: a metric that the brokers did not report is omitted. Does not contain: rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from brokerd.cluster.image import Image
from brokerd.cluster.model import NO_LEADER
from controlplane.clients.group_samples import Key
from controlplane.domain.limits import SAMPLE_GAP_MS
from controlplane.domain.message_metrics import values
from controlplane.domain.throttle import p99
from controlplane.monitoring.projection import broker_sums
from controlplane.monitoring.samples import BROKER_RATES, MetricsCache

GROUP_MS_MAX = 30_000
"""Milliseconds since the last sample of a group, after which its metrics are unknown. A sampling round takes up to 13 s."""

PARTITIONS_MAX = 2_000
"""Partitions of a cluster up to which metrics of single partitions are recorded. They need about 350 MB, by the bytes of decision 054."""

TOPIC_RATES, CLUSTER_RATES = BROKER_RATES[:2], BROKER_RATES[:3]
"""The sum of replication bytes over all brokers is the same for sent and received bytes. Topics have no metric for replication."""

TOPICS_MAX = 5_000
"""Topics of a cluster up to which rates of bytes of single topics are recorded: two more series for each."""

SeriesKey = tuple[str, str]
"""(subject, metric)."""


class HistoryMetrics:
    """Remembers the log end offsets of the last time, for the rates of partitions, and the histograms of produce latencies."""

    def __init__(self) -> None:
        self._ends: dict[Key, tuple[int, int]] = {}
        self._produced: dict[int, tuple[int, ...]] = {}

    def collect(self, image: Image, metrics: MetricsCache, now_ms: int) -> dict[SeriesKey, float]:
        found: dict[SeriesKey, float] = {}
        for subject, metric, value in self._all_values(image, metrics, now_ms):
            if value is not None:
                found[subject, metric] = value
        return found

    def _all_values(
        self, image: Image, metrics: MetricsCache, now_ms: int
    ) -> Iterator[tuple[str, str, int | float | None]]:
        silent = {b for b, answered in metrics.answered.items() if not answered}
        stale = {t.name for t, _, s in image.each_partition() if s.leader in silent} if silent else set()
        yield from self._cluster(image, metrics, stale, now_ms)
        for name, topic_sample in metrics.topics.items():
            yield f"topic:{name}", "records_per_s", None if name in stale else topic_sample.records_per_s
            for rate in TOPIC_RATES if len(metrics.topics) <= TOPICS_MAX else ():
                yield f"topic:{name}", rate, None if name in stale else getattr(topic_sample, rate)
            yield (
                f"topic:{name}",
                "size_bytes",
                None if topic_sample.size_as_of_ms is not None else topic_sample.size_bytes,
            )
        for name, group in metrics.groups.items():
            if now_ms - group.at_ms > GROUP_MS_MAX:
                continue
            yield f"group:{name}", "lag_records", group.lag_records
            yield f"group:{name}", "lag_s", None if group.lag_ms_max is None else group.lag_ms_max / 1000
            yield f"group:{name}", "consumed_per_s", group.consumed_per_s
        for name, shared in metrics.share_groups.latest.items():
            if now_ms - metrics.share_groups.at_ms[name] <= GROUP_MS_MAX:
                yield f"share_group:{name}", "lag_records", shared.lag_records
                yield f"share_group:{name}", "member_count", len(shared.members)
                age = found.age if (found := metrics.share_lags.groups.get(name)) is not None else None
                yield f"share_group:{name}", "lag_s", None if age is None else age.ms / 1000
        for name, metrics_of_messages in metrics.messages.items():
            for metric, value in values(metrics_of_messages, now_ms).items():
                yield f"topic:{name}", metric, value
        yield from _brokers(image, metrics)
        yield from self._latencies(metrics)
        for broker_id, by_api in metrics.requests.by_broker.items():
            for name, api in by_api.items():
                yield f"broker_api:{broker_id}:{name}", "p99_ms", api.p99_ms
                yield f"broker_api:{broker_id}:{name}", "requests_per_s", api.requests_per_s
                yield f"broker_api:{broker_id}:{name}", "errors_per_s", api.errors_per_s
        if sum(t.partition_count for t in image.topics.values()) <= PARTITIONS_MAX:
            yield from self._partitions(image, metrics, silent, now_ms)

    def _cluster(
        self, image: Image, metrics: MetricsCache, stale: set[str], now_ms: int
    ) -> Iterator[tuple[str, str, int | float | None]]:
        rates = [f.records_per_s for n, f in metrics.topics.items() if n not in stale and f.records_per_s is not None]
        sizes = [f.size_bytes for f in metrics.topics.values() if f.size_bytes is not None]
        lags = [
            g.lag_records
            for g in metrics.groups.values()
            if g.lag_records is not None and now_ms - g.at_ms <= GROUP_MS_MAX
        ]
        yield "cluster", "records_per_s", sum(rates) if rates else None
        traffic = metrics.traffic.cluster(stale)
        for metric, rate in zip(CLUSTER_RATES, traffic.values if traffic else (), strict=False):
            yield "cluster", metric, rate
        yield "cluster", "size_bytes", sum(sizes) if sizes else None
        yield "cluster", "lag_records", sum(lags) if lags else None
        states = [s for _, _, s in image.each_partition()]
        yield "cluster", "under_replicated", sum(1 for s in states if s.under_replicated)
        yield "cluster", "offline", sum(1 for s in states if s.leader == NO_LEADER)

    def _latencies(self, metrics: MetricsCache) -> Iterator[tuple[str, str, float | None]]:
        """The p99 of the produce requests since the last time. Without requests there is no value."""
        for broker_id, counts in metrics.produce_counts.items():
            before = self._produced.get(broker_id)
            if before is not None and metrics.answered.get(broker_id):
                yield f"broker:{broker_id}", "produce_p99_ms", p99(before, counts)
        self._produced = dict(metrics.produce_counts)

    def _partitions(
        self, image: Image, metrics: MetricsCache, silent: set[int], now_ms: int
    ) -> Iterator[tuple[str, str, int | float | None]]:
        ends: dict[Key, tuple[int, int]] = {}
        for topic, index, state in image.each_partition():
            key, subject = (topic.name, index), f"partition:{topic.name}:{index}"
            yield subject, "replicas_in_sync", len(state.isr)
            offsets = metrics.offsets.get(key)
            if offsets is None or state.leader in silent or state.leader == NO_LEADER:
                continue
            ends[key] = (now_ms, offsets[1])
            before_ms, before = self._ends.get(key, (now_ms, 0))
            if before_ms < now_ms <= before_ms + SAMPLE_GAP_MS and offsets[1] >= before:
                yield subject, "records_per_s", (offsets[1] - before) * 1000 / (now_ms - before_ms)
            if (traffic := metrics.traffic.partitions.get(key)) is not None:
                yield subject, "bytes_in_per_s", traffic.bytes_in
                yield subject, "bytes_out_per_s", traffic.bytes_out
            yield subject, "size_bytes", metrics.size_of(key, state.leader)
        self._ends = ends


def _brokers(image: Image, metrics: MetricsCache) -> Iterator[tuple[str, str, int | float | None]]:
    sizes: dict[int, int] = {}
    for by_broker in metrics.sizes.values():
        for broker_id, (size, _) in by_broker.items():
            sizes[broker_id] = sizes.get(broker_id, 0) + size
    for broker_id, sums in broker_sums(image).items():
        subject = f"broker:{broker_id}"
        yield subject, "leaders", sums.leaders
        yield subject, "replicas_in_sync", sums.replicas - sums.replicas_out_of_sync
        yield subject, "replicas_out_of_sync", sums.replicas_out_of_sync
        if not metrics.answered.get(broker_id):
            continue
        traffic = metrics.traffic.broker(broker_id)
        for metric, rate in zip(BROKER_RATES, traffic.values if traffic else (), strict=False):
            yield subject, metric, rate
        nothing = 0 if metrics.replica_counts.get(broker_id) == 0 else None
        yield subject, "size_bytes", sizes.get(broker_id, nothing)
        if broker_id in metrics.space:
            total, free = metrics.space[broker_id]
            yield subject, "disk_used_bytes", total - free
