"""Starts of brokers: the columns of their rows, and one event per start after an unclean shutdown."""

from __future__ import annotations

import pytest

from brokerd.cluster.model import ProcessStart
from controlplane.clients.broker_samples import BrokerSample
from controlplane.domain.cluster_events import ClusterEventKind
from controlplane.domain.times import utc_of_ms
from controlplane.models import Broker, ClusterEvent
from controlplane.monitoring.samples import MetricsCache
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def report(metrics: MetricsCache, world: World, start: ProcessStart | None) -> None:
    changed = metrics.apply([BrokerSample(2, 9_000, {}, {}, start=start)], {}, world.image, 9_000)
    metrics.write(changed, world.projection, world.image)


def events() -> list[str]:
    rows = ClusterEvent.objects.filter(kind=ClusterEventKind.BROKER_UNCLEAN_START)
    return list(rows.order_by("id").values_list("text", flat=True))


TEXT = "Broker 2 started after an unclean shutdown: it was killed, it crashed or its machine stopped."


def test_a_start_after_an_unclean_shutdown_is_in_the_row_and_one_event(world: World) -> None:
    metrics = MetricsCache()
    report(metrics, world, ProcessStart(1_000, unclean=False))
    assert metrics.starts.in_row(2) == 1_000 and events() == []
    for _ in range(2):
        report(metrics, world, ProcessStart(5_001, unclean=True))
    row = Broker.objects.get(broker_id=2)
    assert (row.started_at, row.unclean_start) == (utc_of_ms(5_001), True)
    assert events() == [TEXT]
    report(MetricsCache(), world, ProcessStart(5_001, unclean=True))
    assert events() == [TEXT], "after a restart of the monitor the start is known from the row"
    report(metrics, world, ProcessStart(8_000, unclean=False))
    assert Broker.objects.get(broker_id=2).unclean_start is False and events() == [TEXT]


def test_the_first_start_that_a_broker_reports_is_no_event(world: World) -> None:
    metrics = MetricsCache()
    report(metrics, world, None)
    assert Broker.objects.get(broker_id=2).started_at is None and metrics.starts.in_row(2) is None
    report(metrics, world, ProcessStart(5_000, unclean=True))
    assert Broker.objects.get(broker_id=2).unclean_start and events() == []
