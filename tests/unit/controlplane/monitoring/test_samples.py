from __future__ import annotations

import pytest

from brokerd.cluster.model import NO_LEADER
from brokerd.cluster.request_buckets import BOUNDS_S
from controlplane.clients.broker_samples import ApiSample, BrokerSample, TrafficCounters
from controlplane.clients.group_samples import DescribedMember, GroupSample
from controlplane.models import (
    Broker,
    ConsumerGroup,
    GroupPartition,
    ObservedPartition,
    ObservedReplica,
    ObservedTopic,
)
from controlplane.monitoring.samples import BROKER_RATES, MetricsCache
from controlplane.selectors.overview import overview
from controlplane.selectors.topics import topic_list
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
F0 = ("flights", 0)


def group(committed: dict[tuple[str, int], int], members: int = 1, name: str = "g") -> GroupSample:
    actor = tuple(DescribedMember(f"m{i}", f"client-{i}", "127.0.0.1", (F0,) if i == 0 else ()) for i in range(members))
    return GroupSample(name, "Stable" if members else "Empty", "consumer", "range", actor, committed)


def sample(at_ms: int, end: int, *groups: GroupSample, broker: int = 1, size: int | None = 700) -> BrokerSample:
    replicas = None if size is None else {F0: (size, 0)}
    return BrokerSample(broker, at_ms, {F0: (0, end)}, replicas, groups)


def test_samples_become_rows(world: World) -> None:
    world.topic("flights", (1, 2))
    metrics = MetricsCache()
    other = BrokerSample(2, 1000, {}, {F0: (600, 10)})
    changed = metrics.apply([sample(1000, 100, group({F0: 60})), other], {}, world.image, 1000)
    metrics.write(changed, world.projection, world.image)
    row = ObservedPartition.objects.get()
    assert (row.start_offset, row.end_offset, row.size_bytes) == (0, 100, 700)
    assert list(ObservedReplica.objects.values_list("broker_id", "size_bytes", "lag_records", "end_offset")) == [
        (1, 700, 0, 100),
        (2, 600, 10, 90),
    ]
    assert ObservedTopic.objects.get().records == 100
    g = ConsumerGroup.objects.get()
    assert (g.lag_records, g.member_count, g.coordinator, g.status) == (40, 1, 1, "healthy")
    p = GroupPartition.objects.get()
    assert (p.committed, p.end_offset, p.lag_records, p.client_id) == (60, 100, 40, "client-0")


def test_the_health_of_log_directories_becomes_a_row(world: World) -> None:
    metrics = MetricsCache()
    reported = BrokerSample(2, 1000, {}, {}, failed=("/b",), hung=("/b",), slow=("/a",), probe_ms={"/a": 1_500})
    metrics.write(metrics.apply([reported], {}, world.image, 1000), world.projection, world.image)
    row = Broker.objects.get(broker_id=2)
    assert (row.dirs_failed, row.dirs_hung, row.dirs_slow) == (["/b"], ["/b"], ["/a"])
    assert row.dir_probe_ms == {"/a": 1_500}


def test_a_broker_without_a_response_keeps_its_metrics_and_is_marked(world: World) -> None:
    world.topic("flights", (1, 2))
    metrics = MetricsCache()
    metrics.write(metrics.apply([sample(1000, 100)], {}, world.image, 1000), world.projection, world.image)
    sampled = ObservedPartition.objects.get().sampled_at
    metrics.write(metrics.apply([], {1: "timed out"}, world.image, 2000), world.projection, world.image)
    row = ObservedPartition.objects.get()
    assert (row.end_offset, row.sampled_at) == (100, sampled)
    assert Broker.objects.get(broker_id=1).answered is False


def test_a_broker_that_registers_again_is_not_silent_before_a_request(world: World) -> None:
    metrics = MetricsCache()
    world.down(2)
    metrics.write(metrics.apply([sample(1000, 100)], {}, world.image, 1000), world.projection, world.image)
    assert Broker.objects.get(broker_id=2).answered is None, "nobody sends a request to a broker that is down"
    world.register(2)
    assert Broker.objects.get(broker_id=2).answered is None, "the row of the new registration"
    metrics.write(metrics.apply([sample(2000, 100)], {}, world.image, 2000), world.projection, world.image)
    assert Broker.objects.get(broker_id=2).answered is None, "the requests were sent before"
    metrics.write(metrics.apply([], {2: "timed out"}, world.image, 3000), world.projection, world.image)
    assert Broker.objects.get(broker_id=2).answered is False


def test_a_broker_that_died_during_its_last_request_is_not_silent_when_it_registers_again(world: World) -> None:
    metrics = MetricsCache()
    metrics.write(metrics.apply([], {2: "connection reset"}, world.image, 1000), world.projection, world.image)
    assert Broker.objects.get(broker_id=2).answered is False
    world.down(2)
    assert Broker.objects.get(broker_id=2).answered is None
    world.register(2)
    metrics.write(metrics.apply([], {}, world.image, 2000), world.projection, world.image)
    assert Broker.objects.get(broker_id=2).answered is None


def test_only_offsets_of_the_leader_count(world: World) -> None:
    world.topic("flights", (1, 2))
    metrics = MetricsCache()
    metrics.apply([sample(1000, 100), BrokerSample(2, 1000, {F0: (0, 40)})], {}, world.image, 1000)
    assert metrics.offsets[F0] == (0, 100)


def test_records_per_second_are_an_average_over_seconds(world: World) -> None:
    world.topic("flights", (1, 2))
    metrics = MetricsCache()
    for second in range(5):
        metrics.apply([sample(second * 1000, 100 * second)], {}, world.image, second * 1000)
    assert metrics.topics["flights"].records_per_s == 100.0


def test_a_rate_of_records_begins_again_after_a_silent_leader_and_after_a_gap(world: World) -> None:
    """A leader that responded again had the records of the whole pause in the rate of its first seconds."""
    world.topic("flights", (1, 2))
    metrics = MetricsCache()

    def rate(at_ms: int, end: int, failed: dict[int, str]) -> float | None:
        metrics.apply([] if failed else [sample(at_ms, end)], failed, world.image, at_ms)
        return metrics.topics["flights"].records_per_s

    assert [rate(at_ms, 0, {}) for at_ms in (0, 1000)] == [None, 0.0]
    assert rate(2000, 0, {1: "timed out"}) is None, "unknown is not zero"
    assert [rate(30_000, 90_000, {}), rate(31_000, 90_100, {})] == [None, 100.0]
    assert [rate(1_831_000, 90_300, {}), rate(1_832_000, 90_320, {})] == [None, 20.0]


def test_bytes_are_not_averaged_over_a_gap(world: World) -> None:
    world.topic("flights", (1, 2))
    metrics = MetricsCache()

    def rate(at_ms: int, bytes_in: int) -> float | None:
        counters = {F0: TrafficCounters(bytes_in, 0, 0, 0)}
        metrics.apply([BrokerSample(1, at_ms, {F0: (0, 1)}, {}, traffic=counters)], {}, world.image, at_ms)
        return metrics.topics["flights"].bytes_in_per_s

    assert [rate(0, 0), rate(10_000, 10_000)] == [None, 1000.0]
    assert [rate(1_810_000, 12_000), rate(1_820_000, 32_000)] == [None, 2000.0]


def test_sizes_of_a_missing_broker_stay_with_their_age(world: World) -> None:
    """Before the fix, 134 MB became 72.7 kB without a message that a broker did not respond."""
    world.topic("flights", (1,))
    world.topic("orders", (2,))
    here, gone = (
        BrokerSample(1, 1000, {F0: (0, 9)}, {F0: (72_700, 0)}),
        BrokerSample(2, 1000, {("orders", 0): (0, 9)}, {("orders", 0): (134_000_000, 0)}),
    )
    metrics = MetricsCache()
    metrics.write(metrics.apply([here, gone], {}, world.image, 1000), world.projection, world.image)
    assert (overview().size_bytes, overview().size_as_of) == (134_072_700, None)
    world.down(2)
    world.put("orders", 0, leader=NO_LEADER)
    for again in (metrics, MetricsCache()):
        again.restore()
        later = BrokerSample(1, 61_000, {F0: (0, 9)}, {F0: (72_700, 0)})
        again.write(again.apply([later], {}, world.image, 61_000), world.projection, world.image)
        now = overview()
        assert (now.size_bytes, now.brokers_sized, now.brokers_total) == (134_072_700, 2, 3)
        assert now.size_as_of is not None
        row = {t.name: t for t in topic_list().rows}
        assert (row["orders"].size_bytes, row["flights"].size_as_of) == (134_000_000, None)
        assert row["orders"].size_as_of is not None and (row["orders"].state, row["orders"].health) == (
            "active",
            "offline",
        )


def test_rates_of_bytes_become_rows(world: World) -> None:
    world.topic("flights", (1, 2))
    metrics = MetricsCache()

    def take(at_ms: int, counters: TrafficCounters, failed: dict[int, str]) -> None:
        samples = [
            BrokerSample(1, at_ms, {F0: (0, 100)}, {F0: (700, 0)}, traffic={F0: counters}),
            BrokerSample(2, at_ms, {}, {F0: (700, 0)}, traffic={F0: TrafficCounters(0, 0, counters.bytes_in, 0)}),
        ]
        changed = metrics.apply([s for s in samples if s.broker_id not in failed], failed, world.image, at_ms)
        metrics.write(changed, world.projection, world.image)

    take(0, TrafficCounters(), {})
    take(10_000, TrafficCounters(20_000, 10_000, 0, 20_000), {})
    topic, partition = ObservedTopic.objects.get(), ObservedPartition.objects.get()
    assert (partition.bytes_in_per_s, partition.bytes_out_per_s) == (2_000, 1_000)
    assert (topic.bytes_in_per_s, topic.bytes_out_per_s, topic.replication_bytes_in_per_s) == (2_000, 1_000, 2_000)
    rates = Broker.objects.filter(broker_id__lt=3).order_by("broker_id").values_list(*BROKER_RATES)
    assert list(rates) == [(2_000, 1_000, 0, 2_000), (0, 0, 2_000, 0)]
    o, row = overview(), topic_list().rows[0]
    assert (o.bytes_in_per_s, o.bytes_out_per_s, o.replication_bytes_in_per_s) == (2_000, 1_000, 2_000)
    assert (row.bytes_in_per_s, row.bytes_out_per_s) == (2_000, 1_000)
    take(20_000, TrafficCounters(), {1: "timed out"})
    assert ObservedPartition.objects.get().bytes_in_per_s is None and ObservedTopic.objects.get().bytes_in_per_s is None
    assert list(rates.all()) == [(None,) * 4, (0, 0, 0, 0)], "unknown is not zero"


def test_the_rates_of_a_dead_broker_end_and_are_not_added_to_those_of_the_new_leader(world: World) -> None:
    """The controller sees the death of a broker before a round of samples times out, so no round reports it as failed."""
    world.topic("flights", (1, 2))
    metrics = MetricsCache()

    def take(broker_id: int, at_ms: int, bytes_in: int) -> None:
        sample = BrokerSample(
            broker_id, at_ms, {F0: (0, 100)}, {F0: (700, 0)}, traffic={F0: TrafficCounters(bytes_in, 0, 0, 0)}
        )
        metrics.write(metrics.apply([sample], {}, world.image, at_ms), world.projection, world.image)

    take(1, 0, 0)
    take(1, 10_000, 20_000)
    sampled_at = Broker.objects.get(broker_id=1).sampled_at
    world.put("flights", 0, leader=2)
    world.down(1)
    take(2, 11_000, 0)
    take(2, 21_000, 30_000)
    dead = Broker.objects.get(broker_id=1)
    assert (dead.answered, dead.bytes_in_per_s, dead.sampled_at) == (None, None, sampled_at)
    assert dead.size_bytes == 700, "the last known size"
    assert ObservedPartition.objects.get().bytes_in_per_s == ObservedTopic.objects.get().bytes_in_per_s == 3_000
    restarted = MetricsCache()
    Broker.objects.filter(broker_id=1).update(answered=True, bytes_in_per_s=2_000)
    restarted.write(restarted.apply([], {}, world.image, 22_000), world.projection, world.image)
    assert Broker.objects.get(broker_id=1).bytes_in_per_s is None, "the monitor was not running when the broker died"


def test_metrics_of_requests_become_rows_and_end_with_the_responses(world: World) -> None:
    metrics = MetricsCache()
    for at_ms in (0, 10_000):
        counts = (at_ms // 100, *(0,) * len(BOUNDS_S))
        reported = BrokerSample(1, at_ms, {}, {}, requests={"Produce": ApiSample(counts, 0.5, {})})
        metrics.write(metrics.apply([reported], {}, world.image, at_ms), world.projection, world.image)
    (row,) = Broker.objects.get(broker_id=1).requests
    assert (row["name"], row["requests_per_s"], row["greatest_ms"]) == ("Produce", 10.0, 500.0)
    metrics.write(metrics.apply([], {1: "timed out"}, world.image, 20_000), world.projection, world.image)
    assert Broker.objects.get(broker_id=1).requests == []
