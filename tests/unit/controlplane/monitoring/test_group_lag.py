"""The lag of groups over time: restarts, blocked partitions, subscriptions, thresholds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.clients.broker_samples import BrokerSample
from controlplane.clients.group_samples import DescribedMember, GroupSample
from controlplane.domain.alert_thresholds import of_stored
from controlplane.domain.lag import LagStatus
from controlplane.domain.log_ends import STORED_MAX
from controlplane.models import (
    Alert,
    AlertThreshold,
    AlertThresholdOverride,
    ConsumerGroup,
    GroupPartition,
    LogEnds,
)
from controlplane.monitoring import samples as samples_module
from controlplane.monitoring.group_lag import GROUP_GONE_MS, STORE_MS
from controlplane.monitoring.group_metrics import GroupMetrics
from controlplane.monitoring.samples import MetricsCache
from controlplane.selectors.alert_thresholds import current_thresholds
from controlplane.services import alerts
from tests.unit.controlplane.monitoring.test_samples import F0, group, sample
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_a_group_is_deleted_only_after_all_brokers_have_omitted_it_for_some_time(world: World) -> None:
    world.topic("flights", (1, 2))
    metrics = MetricsCache()
    metrics.write(metrics.apply([sample(0, 100, group({F0: 5}))], {}, world.image, 0), world.projection, world.image)
    later = GROUP_GONE_MS + 1000
    changed = metrics.apply([sample(later, 100)], {2: "away"}, world.image, later)
    assert not changed.groups_gone
    changed = metrics.apply([sample(later, 100)], {}, world.image, later)
    assert changed.groups_gone == {"g"}
    metrics.write(changed, world.projection, world.image)
    assert not ConsumerGroup.objects.exists()


def run(
    world: World, metrics: MetricsCache, from_s: int, to_s: int, committed: Any, end: Any, *, members: int = 1
) -> None:
    for s in range(from_s, to_s):
        changed = metrics.apply(
            [sample(s * 1000, end(s), group({F0: committed(s)}, members))], {}, world.image, s * 1000
        )
        metrics.write(changed, world.projection, world.image)


def test_a_restart_of_the_process_changes_no_lag_and_no_status(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The history of log ends was in memory only: after a restart 1,135 s became 41.7 s."""
    world.topic("flights", (1, 2))
    clock = [0.0]
    monkeypatch.setattr(samples_module.timezone, "now", lambda: datetime.fromtimestamp(clock[0], UTC))

    def run_seconds(metrics: MetricsCache, from_s: int, to_s: int) -> GroupMetrics:
        for s in range(from_s, to_s, 2):
            clock[0] = float(s)
            run(world, metrics, s, s + 1, lambda s: 600 * s, lambda s: 1000 * s)
        return metrics.groups["g"]

    before = run_seconds(MetricsCache(), 0, 400)
    assert (before.status, before.lag_at_least) == (LagStatus.FALLING_BEHIND, False)
    again = MetricsCache()
    again.restore()
    after = run_seconds(again, 420, 430)
    assert before.lag_ms_max is not None and after.lag_ms_max is not None
    assert abs(after.lag_ms_max - 1000 * (428 - 428 * 0.6)) < 2_000 and not after.lag_at_least
    assert after.status is LagStatus.FALLING_BEHIND
    assert after.consumed_per_s is not None and abs(after.consumed_per_s - 600) < 20, "its speed, too"
    empty = run_seconds(MetricsCache(), 430, 440)
    assert empty.lag_at_least, "without the rows it is a lower bound, and says so"
    assert ConsumerGroup.objects.get().lag_at_least


def test_the_state_for_a_restart_is_written_periodically_and_bounded(world: World) -> None:
    world.topic("flights", (1, 2))
    metrics = MetricsCache()
    run(world, metrics, 0, 200, lambda s: 0, lambda s: 10 * s)
    points = LogEnds.objects.get().observed
    assert len(points) <= STORED_MAX and points[0] == [0, 0]
    with CaptureQueriesContext(connection) as queries:
        changed = metrics.apply([sample(200_000, 2000, group({F0: 0}))], {}, world.image, 200_000)
        metrics.lags.store(lambda key: None, metrics.lags._stored_ms + STORE_MS - 1, {})
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
        metrics.write(metrics.apply([away], {}, world.image, s * 1000), world.projection, world.image)
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
    assert metrics.lags.stalled_partitions({"flights": [0]}) == []
    for s in range(60, 200):
        asked = {F0: 590} if metrics.lags.stalled_partitions({"flights": [0]}) else {}
        response = BrokerSample(1, s * 1000, {F0: (0, 10 * s)}, None, (group({F0: 590}),), stable=asked)
        metrics.write(metrics.apply([response], {}, world.image, s * 1000), world.projection, world.image)
    row = GroupPartition.objects.get()
    assert (row.status, row.block) == ("blocked", block)


def test_offsets_of_a_topic_without_an_assigned_member_are_not_subscribed(world: World) -> None:
    world.topic("flights", (1, 2))
    world.topic("orders", (1, 2))
    metrics, old = MetricsCache(), ("orders", 0)
    for s in range(0, 400, 2):
        response = BrokerSample(1, s * 1000, {F0: (0, s), old: (0, 50 + s)}, None, (group({F0: s, old: 50}),))
        metrics.write(metrics.apply([response], {}, world.image, s * 1000), world.projection, world.image)
    assert dict(GroupPartition.objects.values_list("topic", "status")) == {
        "flights": "healthy",
        "orders": "not_subscribed",
    }
    assert ConsumerGroup.objects.get().status == "healthy"


@pytest.mark.parametrize(("end", "status", "unknown"), [(0, "healthy", 0), (1, "unknown", 1)])
def test_an_added_partition_has_no_unknown_lag_while_it_is_empty(
    world: World, end: int, status: str, unknown: int
) -> None:
    """A healthy group became `Unknown` when partitions were added to its topic."""
    world.topic("flights", (1, 2), (1, 2))
    member = DescribedMember("m", "client", "127.0.0.1", (F0, ("flights", 1)))
    reader = GroupSample("g", "Stable", "consumer", "range", (member,), {F0: 9})
    metrics = MetricsCache()
    response = BrokerSample(1, 1000, {F0: (0, 9), ("flights", 1): (0, end)}, None, (reader,))
    metrics.write(metrics.apply([response], {}, world.image, 1000), world.projection, world.image)
    row = ConsumerGroup.objects.get()
    assert (row.status, row.lag_records, row.partitions_unknown) == (status, 0, unknown)


def test_the_threshold_of_a_group_precedes_the_one_of_the_cluster(world: World) -> None:
    world.topic("flights", (1, 2))
    metrics = MetricsCache()
    metrics.restore()
    AlertThresholdOverride.objects.create(name="group_stopped", subject="g", value=600, changed_by="alice")
    metrics.use_thresholds(current_thresholds())
    run(world, metrics, 0, 100, lambda s: s, lambda s: 10 + s)
    run(world, metrics, 100, 150, lambda s: 99, lambda s: 200, members=0)
    assert metrics.groups["g"].status is not LagStatus.STOPPED
    restarted = MetricsCache()
    restarted.restore()
    run(world, restarted, 150, 200, lambda s: 99, lambda s: 200, members=0)
    assert restarted.groups["g"].status is not LagStatus.STOPPED
    AlertThresholdOverride.objects.update(subject="another")
    metrics.use_thresholds(current_thresholds())
    run(world, metrics, 150, 155, lambda s: 99, lambda s: 200, members=0)
    assert metrics.groups["g"].status is LagStatus.STOPPED


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
