"""The values of one point in time: recorded values, and values left out because they are unknown."""

from __future__ import annotations

import pytest

from brokerd.cluster.latency_buckets import BOUNDS_MS
from brokerd.cluster.model import NO_LEADER
from brokerd.cluster.request_buckets import BOUNDS_S
from controlplane.clients.broker_samples import ApiSample, BrokerSample, TrafficCounters
from controlplane.clients.group_samples import GroupSample
from controlplane.clients.share_groups import DescribedShareGroup, SharePartitionOffset
from controlplane.domain.history import metric_of
from controlplane.monitoring import history_metrics as module
from controlplane.monitoring.history_metrics import GROUP_MS_MAX, HistoryMetrics
from controlplane.monitoring.samples import MetricsCache
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
F0, F1 = ("flights", 0), ("flights", 1)


def apply_sample(metrics: MetricsCache, world: World, at_ms: int, end: int) -> None:
    group = GroupSample("g", "Stable", "consumer", "range", (), {F0: 40})
    samples = [
        BrokerSample(1, at_ms, {F0: (0, end)}, {F0: (700, 0)}, (group,), space=(1000, 300)),
        BrokerSample(2, at_ms, {F1: (0, 50)}, {F1: (200, 0)}),
    ]
    metrics.apply(samples, {}, world.image, at_ms)


def test_every_kind_of_subject_is_recorded(world: World) -> None:
    world.topic("flights", (1, 2), (2, 1))
    metrics, recorder = MetricsCache(), HistoryMetrics()
    apply_sample(metrics, world, 10_000, 100)
    recorder.collect(world.image, metrics, 10_000)
    apply_sample(metrics, world, 20_000, 300)
    found = recorder.collect(world.image, metrics, 20_000)
    for subject, metric in found:
        metric_of(subject, metric)
    assert found["topic:flights", "records_per_s"] == found["cluster", "records_per_s"] == 20
    assert found["cluster", "lag_records"] == found["group:g", "lag_records"] == 260
    assert found["cluster", "size_bytes"] == found["topic:flights", "size_bytes"] == 900
    assert (found["partition:flights:0", "records_per_s"], found["partition:flights:1", "records_per_s"]) == (20, 0)
    assert found["partition:flights:0", "replicas_in_sync"] == 2
    assert (found["broker:1", "disk_used_bytes"], found["broker:1", "size_bytes"]) == (700, 700)
    assert (found["broker:1", "replicas_in_sync"], found["broker:1", "replicas_out_of_sync"]) == (2, 0)
    assert (found["broker:3", "replicas_in_sync"], found.get(("broker:3", "size_bytes"))) == (0, None)
    assert (found["cluster", "offline"], found["cluster", "under_replicated"]) == (0, 0)


def test_metrics_of_a_silent_broker_are_unknown(world: World) -> None:
    world.topic("flights", (1, 2), (2, 1))
    metrics, recorder = MetricsCache(), HistoryMetrics()
    apply_sample(metrics, world, 10_000, 100)
    metrics.apply([], {1: "no response"}, world.image, 20_000)
    found = recorder.collect(world.image, metrics, 20_000)
    assert ("topic:flights", "records_per_s") not in found, "a rate of zero would be wrong"
    assert ("partition:flights:0", "size_bytes") not in found and ("broker:1", "disk_used_bytes") not in found
    assert found["partition:flights:1", "size_bytes"] == 200
    assert found["broker:1", "replicas_in_sync"] == 2, "the metadata log knows this"


def test_an_old_sample_of_a_group_is_not_recorded(world: World) -> None:
    world.topic("flights", (1, 2), (2, 1))
    metrics = MetricsCache()
    apply_sample(metrics, world, 10_000, 100)
    assert ("group:g", "lag_records") in HistoryMetrics().collect(world.image, metrics, 10_000 + GROUP_MS_MAX)
    found = HistoryMetrics().collect(world.image, metrics, 10_001 + GROUP_MS_MAX)
    assert ("group:g", "lag_records") not in found and ("cluster", "lag_records") not in found


def test_replicas_out_of_sync_and_offline_partitions_are_counted(world: World) -> None:
    world.topic("flights", (1, 2), (2, 1))
    world.put("flights", 0, isr=(1,))
    world.put("flights", 1, isr=(2,), leader=NO_LEADER)
    metrics = MetricsCache()
    found = HistoryMetrics().collect(world.image, metrics, 10_000)
    assert (found["cluster", "offline"], found["cluster", "under_replicated"]) == (1, 2)
    assert (found["broker:2", "replicas_in_sync"], found["broker:2", "replicas_out_of_sync"]) == (1, 1)
    assert ("cluster", "records_per_s") not in found, "nobody has answered yet"


def test_partitions_of_a_large_cluster_are_not_recorded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.topic("flights", (1, 2), (2, 1))
    metrics = MetricsCache()
    apply_sample(metrics, world, 10_000, 100)
    monkeypatch.setattr(module, "PARTITIONS_MAX", 1)
    found = HistoryMetrics().collect(world.image, metrics, 10_000)
    assert not [s for s, _ in found if s.startswith("partition:")] and ("topic:flights", "size_bytes") in found


def test_a_truncated_log_has_no_rate(world: World) -> None:
    world.topic("flights", (1, 2), (2, 1))
    metrics, recorder = MetricsCache(), HistoryMetrics()
    apply_sample(metrics, world, 10_000, 100)
    recorder.collect(world.image, metrics, 10_000)
    metrics.offsets[F0] = (0, 60)
    found = recorder.collect(world.image, metrics, 20_000)
    assert ("partition:flights:0", "records_per_s") not in found


def test_produce_latency_is_the_p99_between_two_times(world: World) -> None:
    metrics, recorder = MetricsCache(), HistoryMetrics()
    buckets = len(BOUNDS_MS) + 1

    def produce_latencies(at_ms: int, **counts: int) -> dict[tuple[str, str], float]:
        histogram = tuple(counts.get(f"b{i}", 0) for i in range(buckets))
        metrics.apply([BrokerSample(1, at_ms, produce_counts=histogram)], {}, world.image, at_ms)
        return recorder.collect(world.image, metrics, at_ms)

    key = ("broker:1", "produce_p99_ms")
    assert key not in produce_latencies(10_000, b0=1000, b9=900), "counts since the start of the broker are no latency"
    assert produce_latencies(20_000, b0=1099, b3=1, b9=900)[key] == BOUNDS_MS[0]
    assert produce_latencies(30_000, b0=1100, b3=1, b9=999)[key] == BOUNDS_MS[9]
    assert key not in produce_latencies(40_000, b0=1100, b3=1, b9=999), "no produce requests"
    assert key not in produce_latencies(50_000, b0=3), "the broker has restarted"
    metrics.apply([], {1: "no response"}, world.image, 60_000)
    assert key not in recorder.collect(world.image, metrics, 60_000)


def test_a_share_group_without_a_recent_sample_is_unknown(world: World) -> None:
    shared = DescribedShareGroup("workers", "Empty", 1, "simple", (), (SharePartitionOffset("flights", 0, 1, 3),))
    metrics, recorder = MetricsCache(), HistoryMetrics()
    metrics.apply([BrokerSample(1, 10_000, share_groups=(shared,))], {}, world.image, 10_000)
    found = recorder.collect(world.image, metrics, 10_000 + GROUP_MS_MAX)
    assert (found["share_group:workers", "lag_records"], found["share_group:workers", "member_count"]) == (3, 0)
    assert ("share_group:workers", "lag_s") not in found, "the log end is unknown"
    assert ("share_group:workers", "lag_records") not in recorder.collect(world.image, metrics, 10_001 + GROUP_MS_MAX)


def test_bytes_in_and_out_of_every_subject(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.topic("flights", (1, 2), (2, 1))
    metrics, recorder = MetricsCache(), HistoryMetrics()
    for at_ms in (0, 10_000):
        counters = TrafficCounters(at_ms, 3 * at_ms, 0, at_ms), TrafficCounters(0, 0, at_ms, 0)
        samples = [BrokerSample(b, at_ms, {}, {}, traffic={F0: c}) for b, c in zip((1, 2), counters, strict=True)]
        metrics.apply(samples, {}, world.image, at_ms)
        found = recorder.collect(world.image, metrics, at_ms)
    for subject in ("cluster", "topic:flights", "broker:1"):
        assert (found[subject, "bytes_in_per_s"], found[subject, "bytes_out_per_s"]) == (1_000, 3_000)
    assert found["cluster", "replication_bytes_in_per_s"] == found["broker:2", "replication_bytes_in_per_s"] == 1_000
    assert found["broker:1", "replication_bytes_out_per_s"] == 1_000
    monkeypatch.setattr(module, "TOPICS_MAX", 0)
    assert ("topic:flights", "bytes_in_per_s") not in recorder.collect(world.image, metrics, 10_000)
    monkeypatch.undo()
    metrics.apply([], {2: "no response"}, world.image, 20_000)
    found = recorder.collect(world.image, metrics, 20_000)
    assert ("topic:flights", "bytes_in_per_s") not in found and ("broker:2", "bytes_in_per_s") not in found


def test_requests_of_each_api_are_recorded(world: World) -> None:
    metrics = MetricsCache()
    for at_ms in (0, 10_000):
        counts = (0, at_ms // 100, *(0,) * (len(BOUNDS_S) - 1))
        requests = {"FetchConsumer": ApiSample(counts, 0.5, {1: at_ms // 1_000})}
        metrics.apply([BrokerSample(1, at_ms, requests=requests)], {}, world.image, at_ms)
    found = HistoryMetrics().collect(world.image, metrics, 10_000)
    of = {metric: value for (subject, metric), value in found.items() if subject == "broker_api:1:FetchConsumer"}
    assert of == {"p99_ms": BOUNDS_S[1] * 1000, "requests_per_s": 10.0, "errors_per_s": 1.0}
    for metric in of:
        metric_of("broker_api:1:FetchConsumer", metric)
