"""Values of a group: unknown positions, retention forecasts, one status for all partitions."""

from __future__ import annotations

import pytest

from controlplane.clients.broker_samples import BrokerSample
from controlplane.clients.group_samples import DescribedMember, GroupSample
from controlplane.domain.lag import LagStatus
from controlplane.models import (
    Alert,
    ConsumerGroup,
    GroupPartition,
)
from controlplane.monitoring.samples import MetricsCache
from controlplane.services import alerts
from tests.unit.controlplane.monitoring.test_samples import F0, group, sample
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_a_partition_assigned_but_never_committed_is_unknown_not_zero(world: World) -> None:
    world.topic("flights", (1, 2))
    metrics = MetricsCache()
    metrics.write(metrics.apply([sample(1000, 100, group({}))], {}, world.image, 1000), world.projection, world.image)
    g = ConsumerGroup.objects.get()
    assert (g.lag_records, g.partitions_unknown, g.status) == (None, 1, "unknown")
    assert GroupPartition.objects.get().lag_records is None


def test_a_partition_that_a_group_no_longer_reads_loses_its_row(world: World) -> None:
    world.topic("flights", (1, 2), (2, 1))
    metrics = MetricsCache()
    f1 = ("flights", 1)
    first = group({F0: 5, f1: 6})
    metrics.write(metrics.apply([sample(0, 100, first)], {}, world.image, 0), world.projection, world.image)
    assert GroupPartition.objects.count() == 2
    metrics.write(
        metrics.apply([sample(1000, 100, group({F0: 5}))], {}, world.image, 1000), world.projection, world.image
    )
    assert list(GroupPartition.objects.values_list("index", flat=True)) == [0]


def test_retention_is_forecast_before_records_are_lost(world: World) -> None:
    world.topic("flights", (1, 2), configs={"retention.bytes": "700", "retention.ms": "-1"})
    metrics = MetricsCache()
    for s in range(300):
        # `sample` gives a replica 700 bytes: one byte per record as soon as 700 records exist.
        response = BrokerSample(
            1, s * 1000, {F0: (max(0, 10 * s - 700), 10 * s)}, {F0: (min(700, 10 * s), 0)}, (group({F0: 6 * s}),)
        )
        metrics.write(metrics.apply([response], {}, world.image, s * 1000), world.projection, world.image)
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
            assert said == {"group_retention": "at_risk", "group_falling_behind": "degraded"}
        if s < 175:
            assert row.lost_records == 0
    assert row.status == "data_lost" and row.lost_records > 0


def test_a_group_that_reads_its_partitions_in_turn_has_one_status_for_all(world: World) -> None:
    """As librdkafka with a lag: each partition pauses for most of two minutes, then is read fast. The speed of a
    single partition jumps; the group's speed does not."""
    world.topic("flights", *[(1, 2)] * 6)
    metrics, keys = MetricsCache(), [("flights", i) for i in range(6)]

    def committed_at(part: int, s: int) -> int:
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
            {k: committed_at(k[1], s) for k in keys},
        )
        response = BrokerSample(1, s * 1000, dict.fromkeys(keys, (0, 333 * s)), None, (seen,))
        metrics.apply([response], {}, world.image, s * 1000)
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
