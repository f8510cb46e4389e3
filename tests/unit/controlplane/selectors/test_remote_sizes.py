"""Sizes over both tiers: of a topic with all its partitions, and the estimated cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone

from controlplane.models import ObservedPartition, ObservedReplica, RemoteSize
from controlplane.selectors.remote_sizes import partition_storage, topic_storage
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def create_tiered_topic(world: World) -> None:
    world.topic("flights", (1, 2), (1, 2))
    ObservedPartition.objects.filter(index=0).update(size_bytes=300)
    ObservedReplica.objects.filter(index=0).update(size_bytes=300)
    ObservedPartition.objects.filter(index=1).update(size_bytes=None)
    ObservedReplica.objects.filter(index=1).update(size_bytes=None)
    RemoteSize.objects.create(
        partition=ObservedPartition.objects.get(index=0),
        remote_bytes=2_000,
        local_only_bytes=100,
        copying_bytes=50,
        read_bytes_per_s=7.5,
        sampled_at=timezone.now(),
    )


def test_a_topic_has_sums_over_both_tiers(world: World) -> None:
    create_tiered_topic(world)
    found = topic_storage("flights")
    assert found is not None
    assert (found.tiered, found.unknown, found.cost) == (True, 1, None)
    assert (found.local_bytes, found.replica_bytes, found.remote_bytes, found.total_bytes) == (300, 600, 2_000, 2_100)
    assert (found.copying_bytes, found.read_bytes_per_s) == (50, 7.5)
    first, second = (partition_storage("flights", i) for i in (0, 1))
    assert first is not None and second is not None
    assert (first.local_bytes, first.replica_bytes, first.remote_bytes, first.total_bytes) == (300, 600, 2_000, 2_100)
    assert (first.copying_bytes, first.read_bytes_per_s, first.cost) == (50, 7.5, None)
    assert (second.local_bytes, second.replica_bytes, second.remote_bytes, second.total_bytes) == (None,) * 4
    assert topic_storage("unknown") is None and partition_storage("flights", 7) is None


def test_a_topic_without_tiered_storage_has_local_bytes_only(world: World) -> None:
    world.topic("plain", (1, 2))
    ObservedPartition.objects.update(size_bytes=40)
    found = topic_storage("plain")
    assert found is not None and not found.tiered
    assert (found.local_bytes, found.remote_bytes, found.total_bytes) == (40, 0, 40)


def test_the_cost_uses_the_prices_of_the_settings(world: World, settings: Any) -> None:
    create_tiered_topic(world)
    settings.WEIR = replace(settings.WEIR, price_disk=100_000.0, price_remote=10_000.0, price_currency="EUR")
    found = topic_storage("flights")
    assert found is not None and found.cost is not None
    assert found.cost.disk == pytest.approx(0.06) and found.cost.remote == pytest.approx(0.02)
    assert found.cost.currency == "EUR" and found.cost.total == pytest.approx(0.08)
