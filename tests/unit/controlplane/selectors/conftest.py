"""A partition with a replica that is out of sync."""

from __future__ import annotations

import pytest

from controlplane.models import Broker
from tests.unit.controlplane.world import World


@pytest.fixture
def world_with_lagging_replica(world: World) -> World:
    """flights-0 on brokers 1, 2 and 3; 3 is out of sync."""
    world.topic("flights", (1, 2, 3))
    world.put("flights", 0, isr=(1, 2))
    Broker.objects.update(answered=True)
    return world
