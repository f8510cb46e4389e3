"""Samples of brokers in memory and as rows: offsets, sizes, groups and their lag.

Invariant: without a response the old values stay with their age; they never become zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from brokerd.cluster.configs import ALL_BROKERS, TopicConfig
from brokerd.cluster.image import Image
from brokerd.cluster.model import NO_LEADER
from brokerd.config.share_groups import ISOLATION_LEVEL, READ_COMMITTED
from controlplane.clients.broker_samples import BrokerSample
from controlplane.clients.group_samples import Key
from controlplane.db.bulk import update_many
from controlplane.domain.alert_thresholds import AlertThresholds
from controlplane.domain.limits import SAMPLE_GAP_MS
from controlplane.domain.message_metrics import MessageMetrics
from controlplane.domain.times import utc_of_ms
from controlplane.models import Broker, ObservedPartition, ObservedReplica, ObservedTopic
from controlplane.monitoring.broker_starts import BrokerStarts
from controlplane.monitoring.group_lag import GroupLags, PartitionFacts, partition_pk
from controlplane.monitoring.group_metrics import GroupMetrics
from controlplane.monitoring.projection import MetadataProjection
from controlplane.monitoring.record_rates import RecordRates
from controlplane.monitoring.rejection_metrics import RejectedClients, RejectionMetrics
from controlplane.monitoring.remote_sizes import RemoteSizeCache
from controlplane.monitoring.request_metrics import RequestStatistics
from controlplane.monitoring.share_group_lag import ShareGroupLags
from controlplane.monitoring.share_group_samples import ShareGroupSamples
from controlplane.monitoring.share_limits import ShareLimits
from controlplane.monitoring.traffic import TrafficCache
from controlplane.selectors import alert_thresholds
from controlplane.selectors.topic_configs import min_insync

BROKER_RATES = ("bytes_in_per_s", "bytes_out_per_s", "replication_bytes_in_per_s", "replication_bytes_out_per_s")
"""Columns of a broker's row, in the order of `Traffic`."""


@dataclass(slots=True)
class TopicMetrics:
    """`size_as_of_ms`: time of the oldest size in the sum, if the leader of its partition does not report it now."""

    size_bytes: int | None = None
    records: int | None = None
    records_per_s: float | None = None
    size_as_of_ms: int | None = None
    bytes_in_per_s: float | None = None
    bytes_out_per_s: float | None = None
    replication_bytes_in_per_s: float | None = None


@dataclass(slots=True)
class SampleChanges:
    """The changes of the last `apply`, for rows and live updates."""

    offsets: set[Key] = field(default_factory=set)
    sizes: set[Key] = field(default_factory=set)
    lagging: set[Key] = field(default_factory=set)
    traffic: set[Key] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    groups_gone: set[str] = field(default_factory=set)
    share_groups: set[str] = field(default_factory=set)
    share_groups_gone: set[str] = field(default_factory=set)


class MetricsCache:
    """The latest values. `apply` is pure memory, `write` makes them rows."""

    def __init__(self) -> None:
        self.offsets: dict[Key, tuple[int, int]] = {}
        self.sizes: dict[Key, dict[int, tuple[int, int | None]]] = {}
        self.lagging: dict[Key, Mapping[int, tuple[int, int]]] = {}
        """Out-of-sync replicas by partition: the positions that the leader reports."""
        self.topics: dict[str, TopicMetrics] = {}
        self.lags = GroupLags()
        self.share_groups = ShareGroupSamples()
        self.share_limits = ShareLimits()
        self.share_lags = ShareGroupLags(self.share_limits.is_full)
        self.messages: Mapping[str, MessageMetrics] = {}
        """Half messages, delayed messages and dead letters by topic, from their own rounds."""
        self.answered: dict[int, bool | None] = {}
        """True if a broker responded to the last request, False if it did not. None: it was down, so it got none."""
        self.responded_ms: dict[int, int] = {}
        """Time of the last response of a broker, Unix ms."""
        self.space: dict[int, tuple[int, int]] = {}
        self.produce_counts: dict[int, tuple[int, ...]] = {}
        """Produce requests of a broker by latency, since its start."""
        self.replica_counts: dict[int, int] = {}
        """Number of replicas in a broker's directories, as it reports."""
        self.replica_counts_in_rows: dict[int, int] = {}
        """Number of replicas per broker as written to the rows. Live updates use it: a page that reloads its panel then reads the same value."""
        self.remote = RemoteSizeCache()
        self.traffic = TrafficCache()
        self.requests = RequestStatistics()
        self.rejections = RejectionMetrics()
        self.rejected_clients = RejectedClients()
        self.starts = BrokerStarts()
        self.directories: dict[int, dict[str, object]] = {}
        """The log directories as the broker reports them, by the columns of its row."""
        self._known_sizes: dict[Key, tuple[int, int]] = {}
        """(bytes, time of the report) of each partition, as last reported by its leader, or by another replica while there was no leader."""
        self._record_rates = RecordRates()
        self._restored = False
        self.thresholds = AlertThresholds()
        """The thresholds in force at the last evaluation of the alerts."""

    def use_thresholds(self, thresholds: AlertThresholds) -> None:
        self.thresholds = thresholds
        self.lags.use_thresholds(thresholds)

    @property
    def groups(self) -> dict[str, GroupMetrics]:
        return self.lags.groups

    def restore(self) -> None:
        """Load the values of the rows once, before the first `apply`. Raises DatabaseError."""
        if self._restored:
            return
        self.use_thresholds(alert_thresholds.current_thresholds())
        self.lags.restore()
        self.share_lags.restore()
        columns = ("topic__name", "index", "start_offset", "end_offset", "size_bytes", "sampled_at")
        for name, index, start, end, size, at in ObservedPartition.objects.values_list(*columns).iterator():
            if start is not None and end is not None:
                self.offsets[name, index] = (start, end)
            if size is not None and at is not None:
                self._known_sizes[name, index] = (size, int(at.timestamp() * 1000))
        self._restored = True

    settled = False
    """True after every live broker has responded for long enough that a group that is not in memory no longer exists."""

    # -- memory --------------------------------------------------------------------------------------------------------
    def apply(self, samples: list[BrokerSample], failed: Mapping[int, str], image: Image, now_ms: int) -> SampleChanges:
        """Apply the responses of one round. `failed`: brokers without a response. No request is sent to a broker that is down, so its metrics end here."""
        changed = SampleChanges()
        leaders = {(t.name, i): s.leader for t, i, s in image.each_partition()}
        samples = [s for s in samples if image.alive(s.broker_id)]
        responded = {s.broker_id for s in samples}
        silent = {*failed, *(b for b, state in image.brokers.items() if not state.alive)}
        newly_silent = any(self.answered.get(b, True) for b in silent)
        for broker_id in silent:
            self._forget_broker(broker_id)
        # One that registered while the requests of this round were on their way got none: it is not silent.
        self.answered = {
            b: True if b in responded else False if b in failed else (state.alive and self.answered.get(b)) or None
            for b, state in image.brokers.items()
        }
        for sample in samples:
            if sample.at_ms - self.responded_ms.get(sample.broker_id, sample.at_ms) > SAMPLE_GAP_MS:
                self._forget_broker(
                    sample.broker_id
                )  # no round ran for some time, so counters would be averaged over it
            self.responded_ms[sample.broker_id] = sample.at_ms
            for key, value in sample.offsets.items():
                if leaders.get(key) != sample.broker_id:
                    continue
                if self.offsets.get(key) != value:
                    self.offsets[key] = value
                    changed.offsets.add(key)
                self.lags.end_observed(key, sample.at_ms, value[1])
            self.lags.stable_observed(sample.broker_id, sample.stable)
            if sample.produce_counts:
                self.produce_counts[sample.broker_id] = sample.produce_counts
            if sample.space is not None:
                self.space[sample.broker_id] = sample.space
            if sample.replicas is not None:
                self.replica_counts[sample.broker_id] = len(sample.replicas)
                self.directories[sample.broker_id] = {
                    "dirs_failed": list(sample.failed),
                    "dirs_slow": list(sample.slow),
                    "dirs_hung": list(sample.hung),
                    "dir_probe_ms": dict(sample.probe_ms),
                }
                self._apply_sizes(sample, leaders, changed)
                self._apply_lagging(sample, leaders, changed)
            self.remote.apply(sample, leaders)
            self.share_limits.apply(sample)
            self.traffic.apply(sample)
            self.requests.apply(sample)
            self.rejections.apply(sample)
            self.rejected_clients.apply(sample)
            self.starts.apply(sample)
        if newly_silent or any(s.traffic is not None for s in samples):
            changed.traffic = self.traffic.sum_up(leaders)
        self._forget_gone(leaders, changed)
        self._apply_topics(leaders, changed, now_ms)
        facts = self._facts(image)
        for sample in samples:
            changed.groups.update(self.lags.apply(sample, facts, now_ms))
        if not failed and samples:
            changed.groups_gone |= self.lags.forget_groups(now_ms)
        complete = not failed and bool(samples)
        changed.share_groups, changed.share_groups_gone = self.share_groups.apply(
            samples, complete=complete, now_ms=now_ms
        )
        changed.share_groups |= self.share_lags.apply(
            self.share_groups.sampled_at(now_ms),
            facts,
            self.lags.age,
            self.lags.last_stable,
            lambda group_id: image.configs_of_group(group_id).get(ISOLATION_LEVEL) == READ_COMMITTED,
            self.thresholds,
            now_ms,
        )
        self.share_lags.forget(changed.share_groups_gone)
        return changed

    def _forget_broker(self, broker_id: int) -> None:
        """The broker did not respond, or is down. Its sizes stay as last reported."""
        self.traffic.forget(broker_id)
        self.share_limits.forget(broker_id)
        self.requests.forget(broker_id)
        self.rejections.forget(broker_id)
        self.rejected_clients.forget(broker_id)

    def _facts(self, image: Image) -> Callable[[Key], PartitionFacts | None]:
        for_all = _dynamic(image, ALL_BROKERS)

        def facts_of(key: Key) -> PartitionFacts | None:
            offsets, topic = self.offsets.get(key), image.topic_named(key[0])
            if offsets is None or topic is None or (state := topic.partitions.get(key[1])) is None:
                return None
            size = self._known_sizes.get(key)
            return PartitionFacts(
                *offsets,
                size_bytes=None if size is None else size[0],
                leader=state.leader_id,
                under_min_isr=len(state.isr) < state.effective_min_insync(min_insync(topic.configs, for_all)),
                config=TopicConfig.from_overrides(topic.configs, {**for_all, **_dynamic(image, state.leader)}),
            )

        return facts_of

    def size_of(self, key: Key, leader: int) -> int | None:
        """Size of a partition in bytes: its leader's replica, or the last known size."""
        if (reported := self.sizes.get(key, {}).get(leader)) is not None:
            return reported[0]
        last = self._known_sizes.get(key)
        return None if last is None else last[0]

    def _apply_sizes(self, sample: BrokerSample, leaders: Mapping[Key, int], changed: SampleChanges) -> None:
        assert sample.replicas is not None
        for key, value in sample.replicas.items():
            if leaders.get(key) == sample.broker_id or key not in self._known_sizes:
                self._known_sizes[key] = (value[0], sample.at_ms)
            if self.sizes.setdefault(key, {}).get(sample.broker_id) != value:
                self.sizes[key][sample.broker_id] = value
                changed.sizes.add(key)
        for key, by_broker in self.sizes.items():
            if sample.broker_id in by_broker and key not in sample.replicas:
                del by_broker[sample.broker_id]
                changed.sizes.add(key)

    def _apply_lagging(self, sample: BrokerSample, leaders: Mapping[Key, int], changed: SampleChanges) -> None:
        for key in {*sample.lagging, *self.lagging}:
            if leaders.get(key) != sample.broker_id or self.lagging.get(key, {}) == sample.lagging.get(key, {}):
                continue
            self.lagging[key] = sample.lagging.get(key, {})
            if not self.lagging[key]:
                del self.lagging[key]
            changed.lagging.add(key)

    def _forget_gone(self, leaders: Mapping[Key, int], changed: SampleChanges) -> None:
        for key in [k for k in self.offsets if k not in leaders]:
            del self.offsets[key]
        self.lags.forget_partitions(leaders)
        for key in [k for k in self._known_sizes if k not in leaders]:
            del self._known_sizes[key]
        for key in [k for k in self.sizes if k not in leaders]:
            del self.sizes[key]
            changed.sizes.discard(key)
        for key in [k for k in self.lagging if k not in leaders]:
            del self.lagging[key]
            changed.lagging.discard(key)
        names = {name for name, _ in leaders}
        for name in [n for n in self.topics if n not in names]:
            del self.topics[name]
            self._record_rates.forget(name)

    def _apply_topics(self, leaders: Mapping[Key, int], changed: SampleChanges, now_ms: int) -> None:
        records: dict[str, int] = {}
        ends: dict[str, int] = {}
        sizes: dict[str, int] = {}
        as_of: dict[str, int] = {}
        unknown: set[str] = set()
        silent: set[str] = set()
        for key, leader in leaders.items():
            name = key[0]
            if leader != NO_LEADER and not self.answered.get(leader):
                silent.add(name)  # its log grows unseen; a partition without a leader gets no records
            if (offsets := self.offsets.get(key)) is None:
                unknown.add(name)
            else:
                records[name] = records.get(name, 0) + offsets[1] - offsets[0]
                ends[name] = ends.get(name, 0) + offsets[1]
            if (size := self.size_of(key, leader)) is not None:
                sizes[name] = sizes.get(name, 0) + size
                if key in self._known_sizes and not self.answered.get(leader):
                    as_of[name] = min(as_of.get(name, now_ms), self._known_sizes[key][1])
        for name in {n for n, _ in leaders}:
            metrics = TopicMetrics(
                sizes.get(name), None if name in unknown else records.get(name), None, as_of.get(name)
            )
            if (traffic := self.traffic.topics.get(name)) is not None:
                metrics.bytes_in_per_s, metrics.bytes_out_per_s, metrics.replication_bytes_in_per_s, _ = (
                    traffic.rounded().values
                )
            if name in silent:
                self._record_rates.forget(name)
            elif name not in unknown:
                metrics.records_per_s = self._record_rates.add(name, ends[name], now_ms)
            if self.topics.get(name) != metrics:
                self.topics[name] = metrics
                changed.topics.add(name)

    # -- rows ----------------------------------------------------------------------------------------------------------
    def write(self, changed: SampleChanges, projection: MetadataProjection, image: Image) -> None:
        """Write the changes to rows. Raises DatabaseError; the call is idempotent."""
        now = timezone.now()
        ids = {t.name: t.topic_id for t in image.topics.values()}
        pks = {
            key: projection.partition_ids[ids[key[0]], key[1]]
            for key in changed.offsets | changed.sizes | changed.lagging | changed.traffic
            if key[0] in ids and (ids[key[0]], key[1]) in projection.partition_ids
        }
        leaders = {(t.name, i): s.leader for t, i, s in image.each_partition()}
        with transaction.atomic():
            update_many(
                ObservedPartition,
                ["start_offset", "end_offset", "sampled_at"],
                [(*self.offsets[k], now, pks[k]) for k in changed.offsets if k in pks and k in self.offsets],
            )
            update_many(
                ObservedPartition,
                ["lagging"],
                [
                    ({str(b): state for b, state in self.lagging.get(k, {}).items()}, pks[k])
                    for k in changed.lagging
                    if k in pks
                ],
            )
            self._write_sizes(changed, pks, leaders, now)
            rates = self.traffic.partitions
            update_many(
                ObservedPartition,
                ["bytes_in_per_s", "bytes_out_per_s"],
                [
                    ((rate.bytes_in, rate.bytes_out) if (rate := rates.get(k)) else (None, None)) + (pks[k],)
                    for k in changed.traffic
                    if k in pks
                ],
            )
            self._write_topics(changed, ids)
            self._write_brokers(now)
            self.lags.write(changed.groups, changed.groups_gone, now, settled=self.settled)
            self.share_lags.write(changed.share_groups, changed.share_groups_gone, now, settled=self.settled)
            now_ms, starts = int(now.timestamp() * 1000), self.share_lags.starts()
            self.lags.store(lambda key: partition_pk(projection, ids, key), now_ms, starts)
            self.share_lags.store(now_ms)
        self.remote.write(lambda key: partition_pk(projection, ids, key), now)
        self.replica_counts_in_rows = dict(self.replica_counts)

    def _write_sizes(
        self, changed: SampleChanges, pks: Mapping[Key, int], leaders: Mapping[Key, int], now: datetime
    ) -> None:
        whole: list[tuple[object, ...]] = []
        copies: list[tuple[object, ...]] = []
        for key in changed.sizes:
            if key not in pks:
                continue
            by_broker = self.sizes.get(key, {})
            if (leader := by_broker.get(leaders.get(key, -1))) is not None:
                whole.append((leader[0], pks[key]))
            end = self.offsets.get(key, (None, None))[1]
            for broker_id, (size, behind) in by_broker.items():
                copies.append(
                    (size, behind, None if end is None or behind is None else end - behind, now, pks[key], broker_id)
                )
        update_many(ObservedPartition, ["size_bytes"], whole)
        update_many(
            ObservedReplica,
            ["size_bytes", "lag_records", "end_offset", "sampled_at"],
            copies,
            where=["partition_id", "broker_id"],
        )

    def _write_topics(self, changed: SampleChanges, ids: Mapping[str, UUID]) -> None:
        for name in changed.topics:
            metrics = self.topics.get(name)
            if metrics is not None and name in ids:
                ObservedTopic.objects.filter(id=ids[name]).update(
                    size_bytes=metrics.size_bytes,
                    records=metrics.records,
                    records_per_s=metrics.records_per_s,
                    bytes_in_per_s=metrics.bytes_in_per_s,
                    bytes_out_per_s=metrics.bytes_out_per_s,
                    replication_bytes_in_per_s=metrics.replication_bytes_in_per_s,
                    size_as_of=None if metrics.size_as_of_ms is None else utc_of_ms(metrics.size_as_of_ms),
                )

    def _write_brokers(self, now: datetime) -> None:
        totals: dict[int, int] = {}
        for by_broker in self.sizes.values():
            for broker_id, (size, _) in by_broker.items():
                totals[broker_id] = totals.get(broker_id, 0) + size
        self.starts.write_events(now)
        for broker_id, answered in self.answered.items():
            rates = self.traffic.broker(broker_id)
            values: dict[str, object] = {
                "answered": answered,
                **dict(zip(BROKER_RATES, rates.values if rates else (None,) * len(BROKER_RATES), strict=True)),
            }
            values["requests"] = [f.to_json() for f in self.requests.by_broker.get(broker_id, {}).values()]
            values["refusals"] = [asdict(f) for f in self.rejections.by_broker.get(broker_id, ())]
            values["refused_clients"] = [asdict(f) for f in self.rejected_clients.by_broker.get(broker_id, ())]
            if answered:
                nothing = 0 if self.replica_counts.get(broker_id) == 0 else None
                values |= {"sampled_at": now, "size_bytes": totals.get(broker_id, nothing)}
                values |= self.starts.columns(broker_id)
                if broker_id in self.space:
                    values["total_bytes"], values["free_bytes"] = self.space[broker_id]
                if broker_id in self.replica_counts:
                    values |= {"replicas_on_disk": self.replica_counts[broker_id], **self.directories[broker_id]}
            Broker.objects.filter(broker_id=broker_id).update(**values)


def _dynamic(image: Image, broker_id: int) -> Mapping[str, str]:
    """Dynamic configs of a broker, or (ALL_BROKERS) the cluster-wide ones."""
    return image.broker_configs.get(broker_id, (0, {}))[1]
