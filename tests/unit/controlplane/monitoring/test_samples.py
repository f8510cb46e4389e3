from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from brokerd.cluster.model import NO_LEADER
from controlplane.clients.broker_samples import BrokerSample
from controlplane.clients.group_samples import DescribedMember, GroupSample
from controlplane.domain.alert_thresholds import of_stored
from controlplane.domain.lag import LagStatus
from controlplane.domain.log_ends import STORED_MAX
from controlplane.models import (
    Alert,
    AlertThreshold,
    Broker,
    ConsumerGroup,
    GroupPartition,
    LogEnds,
    ObservedTopic,
    Partition,
    Replica,
)
from controlplane.monitoring import samples as samples_module
from controlplane.monitoring.group_figures import GroupFigures
from controlplane.monitoring.group_lag import GROUP_GONE_MS, STORE_MS
from controlplane.monitoring.hub import Hub
from controlplane.monitoring.projection import Difference
from controlplane.monitoring.publisher import LivePublisher
from controlplane.monitoring.samples import MetricsCache
from controlplane.selectors.overview import overview
from controlplane.selectors.topics import topic_list
from controlplane.services import alerts
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
    changed = metrics.take([sample(1000, 100, group({F0: 60})), other], {}, world.image, 1000)
    metrics.write(changed, world.projection, world.image)
    row = Partition.objects.get()
    assert (row.start_offset, row.end_offset, row.size_bytes) == (0, 100, 700)
    assert list(Replica.objects.values_list("broker_id", "size_bytes", "lag_records", "end_offset")) == [
        (1, 700, 0, 100),
        (2, 600, 10, 90),
    ]
    assert ObservedTopic.objects.get().records == 100
    g = ConsumerGroup.objects.get()
    assert (g.lag_records, g.member_count, g.coordinator, g.status) == (40, 1, 1, "healthy")
    p = GroupPartition.objects.get()
    assert (p.committed, p.end_offset, p.lag_records, p.client_id) == (60, 100, 40, "client-0")


def test_a_changed_replica_count_is_published_after_its_row_is_written(world: World) -> None:
    """A page reads its rows again after a notification. If the notification came before the write, the page would show the old rows for ever."""
    world.topic("flights", (1, 2))
    hub, metrics = Hub(), MetricsCache()
    reported = LivePublisher(hub)
    reported.image(world.image, Difference(), metrics)

    heard: list[dict[int, Any]] = []
    hub.listen(
        lambda u: (
            heard.append({b["broker_id"]: b["replicas_on_disk"] for b in u["data"]["brokers"]})
            if u["kind"] == "brokers"
            else None
        )
    )
    changed = metrics.take([sample(1000, 100)], {}, world.image, 1000)
    reported.samples(changed, metrics)
    assert all(h[1] is None for h in heard), "no row says so yet"
    metrics.write(changed, world.projection, world.image)
    assert Broker.objects.get(broker_id=1).replicas_on_disk == 1
    reported.samples(metrics.take([sample(2000, 100)], {}, world.image, 2000), metrics)
    assert heard[-1][1] == 1


def test_a_broker_without_a_response_keeps_its_figures_and_is_marked(world: World) -> None:
    world.topic("flights", (1, 2))
    metrics = MetricsCache()
    metrics.write(metrics.take([sample(1000, 100)], {}, world.image, 1000), world.projection, world.image)
    sampled = Partition.objects.get().sampled_at
    metrics.write(metrics.take([], {1: "timed out"}, world.image, 2000), world.projection, world.image)
    row = Partition.objects.get()
    assert (row.end_offset, row.sampled_at) == (100, sampled)
    assert Broker.objects.get(broker_id=1).answered is False


def test_only_offsets_of_the_leader_count(world: World) -> None:
    world.topic("flights", (1, 2))
    metrics = MetricsCache()
    metrics.take([sample(1000, 100), BrokerSample(2, 1000, {F0: (0, 40)})], {}, world.image, 1000)
    assert metrics.offsets[F0] == (0, 100)


def test_a_partition_assigned_but_never_committed_is_unknown_not_zero(world: World) -> None:
    world.topic("flights", (1, 2))
    metrics = MetricsCache()
    metrics.write(metrics.take([sample(1000, 100, group({}))], {}, world.image, 1000), world.projection, world.image)
    g = ConsumerGroup.objects.get()
    assert (g.lag_records, g.partitions_unknown, g.status) == (None, 1, "unknown")
    assert GroupPartition.objects.get().lag_records is None


def test_a_group_is_deleted_only_after_all_brokers_have_omitted_it_for_some_time(world: World) -> None:
    world.topic("flights", (1, 2))
    metrics = MetricsCache()
    metrics.write(metrics.take([sample(0, 100, group({F0: 5}))], {}, world.image, 0), world.projection, world.image)
    later = GROUP_GONE_MS + 1000
    changed = metrics.take([sample(later, 100)], {2: "away"}, world.image, later)
    assert not changed.groups_gone
    changed = metrics.take([sample(later, 100)], {}, world.image, later)
    assert changed.groups_gone == {"g"}
    metrics.write(changed, world.projection, world.image)
    assert not ConsumerGroup.objects.exists()


def test_a_partition_that_a_group_no_longer_reads_loses_its_row(world: World) -> None:
    world.topic("flights", (1, 2), (2, 1))
    metrics = MetricsCache()
    f1 = ("flights", 1)
    first = group({F0: 5, f1: 6})
    metrics.write(metrics.take([sample(0, 100, first)], {}, world.image, 0), world.projection, world.image)
    assert GroupPartition.objects.count() == 2
    metrics.write(
        metrics.take([sample(1000, 100, group({F0: 5}))], {}, world.image, 1000), world.projection, world.image
    )
    assert list(GroupPartition.objects.values_list("index", flat=True)) == [0]


def test_records_per_second_are_an_average_over_seconds(world: World) -> None:
    world.topic("flights", (1, 2))
    metrics = MetricsCache()
    for second in range(5):
        metrics.take([sample(second * 1000, 100 * second)], {}, world.image, second * 1000)
    assert metrics.topics["flights"].records_per_s == 100.0


def run(
    world: World, metrics: MetricsCache, from_s: int, to_s: int, committed: Any, end: Any, *, members: int = 1
) -> None:
    for s in range(from_s, to_s):
        changed = metrics.take(
            [sample(s * 1000, end(s), group({F0: committed(s)}, members))], {}, world.image, s * 1000
        )
        metrics.write(changed, world.projection, world.image)


def test_a_restart_of_the_process_changes_no_lag_and_no_status(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The history of log ends was in memory only: after a restart 1,135 s became 41.7 s."""
    world.topic("flights", (1, 2))
    clock = [0.0]
    monkeypatch.setattr(samples_module.timezone, "now", lambda: datetime.fromtimestamp(clock[0], UTC))

    def play(metrics: MetricsCache, from_s: int, to_s: int) -> GroupFigures:
        for s in range(from_s, to_s, 2):
            clock[0] = float(s)
            run(world, metrics, s, s + 1, lambda s: 600 * s, lambda s: 1000 * s)
        return metrics.groups["g"]

    before = play(MetricsCache(), 0, 400)
    assert (before.status, before.lag_at_least) == (LagStatus.FALLING_BEHIND, False)
    again = MetricsCache()
    again.restore()
    after = play(again, 420, 430)
    assert before.lag_ms_max is not None and after.lag_ms_max is not None
    assert abs(after.lag_ms_max - 1000 * (428 - 428 * 0.6)) < 2_000 and not after.lag_at_least
    assert after.status is LagStatus.FALLING_BEHIND
    assert after.consumed_per_s is not None and abs(after.consumed_per_s - 600) < 20, "its speed, too"
    empty = play(MetricsCache(), 430, 440)
    assert empty.lag_at_least, "without the rows it is a lower bound, and says so"
    assert ConsumerGroup.objects.get().lag_at_least


def test_the_state_for_a_restart_is_written_periodically_and_bounded(world: World) -> None:
    world.topic("flights", (1, 2))
    metrics = MetricsCache()
    run(world, metrics, 0, 200, lambda s: 0, lambda s: 10 * s)
    points = LogEnds.objects.get().observed
    assert len(points) <= STORED_MAX and points[0] == [0, 0]
    with CaptureQueriesContext(connection) as queries:
        changed = metrics.take([sample(200_000, 2000, group({F0: 0}))], {}, world.image, 200_000)
        metrics.lags.store(lambda key: None, metrics.lags._stored_ms + STORE_MS - 1)
    assert changed.groups == {"g"} and not queries.captured_queries


def test_a_partition_without_a_leader_is_blocked_and_not_stalled(world: World) -> None:
    """The message blamed the consumer: `commits the same offsets again and again`."""
    world.topic("flights", (1, 2))
    metrics = MetricsCache()
    run(world, metrics, 0, 60, lambda s: max(0, 10 * s - 5), lambda s: 10 * s)
    world.offline("flights", 0)
    waiting = group({F0: 580})
    for s in range(60, 200):
        away = BrokerSample(2, s * 1000, {}, {}, (waiting,))
        metrics.write(metrics.take([away], {}, world.image, s * 1000), world.projection, world.image)
    row = GroupPartition.objects.get()
    assert (row.status, row.block, ConsumerGroup.objects.get().status) == ("blocked", "no_leader", "blocked")
    alerts.evaluate()
    assert set(Alert.objects.values_list("kind", flat=True)) == {"partitions_offline"}
    world.put("flights", 0, isr=(1,), leader=1, leader_broker_epoch=101)
    run(world, metrics, 200, 229, lambda s: 580, lambda s: 590)
    assert ConsumerGroup.objects.get().status == "healthy", "its wait begins when the leader is back"
    run(world, metrics, 229, 240, lambda s: 580, lambda s: 590)
    assert ConsumerGroup.objects.get().status == "stalled"


@pytest.mark.parametrize(("isr", "block"), [((1, 2), "open_transaction"), ((1,), "under_min_isr")])
def test_a_read_committed_consumer_behind_an_open_transaction_is_blocked(
    world: World, isr: tuple[int, ...], block: str
) -> None:
    world.topic("flights", (1, 2), configs={"min.insync.replicas": "2"})
    world.put("flights", 0, isr=isr)
    metrics = MetricsCache()
    run(world, metrics, 0, 60, lambda s: 10 * s, lambda s: 10 * s + 5)
    assert metrics.lags.stuck({"flights": [0]}) == []
    for s in range(60, 200):
        asked = {F0: 590} if metrics.lags.stuck({"flights": [0]}) else {}
        answer = BrokerSample(1, s * 1000, {F0: (0, 10 * s)}, None, (group({F0: 590}),), stable=asked)
        metrics.write(metrics.take([answer], {}, world.image, s * 1000), world.projection, world.image)
    row = GroupPartition.objects.get()
    assert (row.status, row.block) == ("blocked", block)


def test_offsets_of_a_topic_without_an_assigned_member_are_not_subscribed(world: World) -> None:
    world.topic("flights", (1, 2))
    world.topic("orders", (1, 2))
    metrics, old = MetricsCache(), ("orders", 0)
    for s in range(0, 400, 2):
        answer = BrokerSample(1, s * 1000, {F0: (0, s), old: (0, 50 + s)}, None, (group({F0: s, old: 50}),))
        metrics.write(metrics.take([answer], {}, world.image, s * 1000), world.projection, world.image)
    assert dict(GroupPartition.objects.values_list("topic", "status")) == {
        "flights": "healthy",
        "orders": "not_subscribed",
    }
    assert ConsumerGroup.objects.get().status == "healthy"


def test_retention_is_forecast_before_records_are_lost(world: World) -> None:
    world.topic("flights", (1, 2), configs={"retention.bytes": "700", "retention.ms": "-1"})
    metrics = MetricsCache()
    for s in range(300):
        # `sample` gives a replica 700 bytes: one byte per record as soon as 700 records exist.
        answer = BrokerSample(
            1, s * 1000, {F0: (max(0, 10 * s - 700), 10 * s)}, {F0: (min(700, 10 * s), 0)}, (group({F0: 6 * s}),)
        )
        metrics.write(metrics.take([answer], {}, world.image, s * 1000), world.projection, world.image)
        row = ConsumerGroup.objects.get()
        if s == 120:
            assert row.status == "falling_behind" and (row.retention_partition, row.retention_limit) == (
                "flights-0",
                "retention.bytes",
            )
            assert row.retention_in_s is not None and abs(row.retention_in_s - (175 - 120)) <= 6
            assert row.consumed_per_s is not None and abs(row.consumed_per_s - 6) < 0.5
            alerts.evaluate()
            said = dict(Alert.objects.filter(ended_at__isnull=True).values_list("kind", "severity"))
            assert said == {"group_retention": "at_risk", "group_falling_behind": "at_risk"}
        if s < 175:
            assert row.lost_records == 0
    assert row.status == "data_lost" and row.lost_records > 0


def test_sizes_of_a_missing_broker_stay_with_their_age(world: World) -> None:
    """134 MB became 72.7 kB, and no message said that a broker did not answer."""
    world.topic("flights", (1,))
    world.topic("orders", (2,))
    here, gone = (
        BrokerSample(1, 1000, {F0: (0, 9)}, {F0: (72_700, 0)}),
        BrokerSample(2, 1000, {("orders", 0): (0, 9)}, {("orders", 0): (134_000_000, 0)}),
    )
    metrics = MetricsCache()
    metrics.write(metrics.take([here, gone], {}, world.image, 1000), world.projection, world.image)
    assert (overview().size_bytes, overview().size_as_of) == (134_072_700, None)
    world.down(2)
    world.put("orders", 0, leader=NO_LEADER)
    for again in (metrics, MetricsCache()):
        again.restore()
        later = BrokerSample(1, 61_000, {F0: (0, 9)}, {F0: (72_700, 0)})
        again.write(again.take([later], {}, world.image, 61_000), world.projection, world.image)
        now = overview()
        assert (now.size_bytes, now.brokers_sized, now.brokers_total) == (134_072_700, 2, 3)
        assert now.size_as_of is not None
        row = {t.name: t for t in topic_list().rows}
        assert (row["orders"].size_bytes, row["flights"].size_as_of) == (134_000_000, None)
        assert row["orders"].size_as_of is not None and (row["orders"].state, row["orders"].health) == (
            "active",
            "offline",
        )


def test_a_group_that_reads_its_partitions_in_turn_has_one_status_for_all(world: World) -> None:
    """As librdkafka with a lag: each partition pauses for most of two minutes, then is read fast. The speed of a
    single partition jumps; the group's speed does not."""
    world.topic("flights", *[(1, 2)] * 6)
    metrics, keys = MetricsCache(), [("flights", i) for i in range(6)]

    def committed(part: int, s: int) -> int:
        whole, within = divmod(s - s % 5, 120)
        return 200 * (120 * whole + min(120, max(0, within - 20 * part) * 6))

    first = None
    for s in range(1200):
        seen = GroupSample(
            "g",
            "Stable",
            "consumer",
            "range",
            (DescribedMember("m", "c", "h", tuple(keys)),),
            {k: committed(k[1], s) for k in keys},
        )
        answer = BrokerSample(1, s * 1000, dict.fromkeys(keys, (0, 333 * s)), None, (seen,))
        metrics.take([answer], {}, world.image, s * 1000)
        found = metrics.groups["g"]
        assert LagStatus.STALLED not in {p.status for p in found.lags.values()}
        if found.status is not LagStatus.HEALTHY and first is None:
            first = s
        assert first is None or found.status is LagStatus.FALLING_BEHIND
        if s >= 180:
            assert found.consumed_per_s is not None and abs(found.consumed_per_s - 1200) < 120
            assert found.produced_per_s is not None and abs(found.produced_per_s - 1998) < 60
    assert first is not None and first <= 150
    assert {p.status for p in metrics.groups["g"].lags.values()} == {LagStatus.FALLING_BEHIND}


def test_changed_thresholds_apply_to_running_and_restored_groups(world: World) -> None:
    world.topic("flights", (1, 2))
    metrics = MetricsCache()
    metrics.restore()
    patient = of_stored({"group_stopped": 600})
    run(world, metrics, 0, 100, lambda s: s, lambda s: 10 + s)
    run(world, metrics, 100, 140, lambda s: 99, lambda s: 200, members=0)
    assert metrics.groups["g"].status is LagStatus.STOPPED
    metrics.use_thresholds(patient)
    run(world, metrics, 140, 150, lambda s: 99, lambda s: 200, members=0)
    assert metrics.groups["g"].status is not LagStatus.STOPPED
    AlertThreshold.objects.create(name="group_stopped", value=600, changed_by="root")
    restarted = MetricsCache()
    restarted.restore()
    run(world, restarted, 150, 200, lambda s: 99, lambda s: 200, members=0)
    assert restarted.groups["g"].status is not LagStatus.STOPPED
