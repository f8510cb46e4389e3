"""Live updates of the monitor: they follow the rows that a page reads."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.models import (
    Broker,
)
from controlplane.monitoring.hub import Hub
from controlplane.monitoring.projection import Difference
from controlplane.monitoring.publisher import LivePublisher
from controlplane.monitoring.samples import MetricsCache
from tests.unit.controlplane.monitoring.test_samples import sample
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


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
