"""Local and remote sizes of topics and partitions over REST."""

from __future__ import annotations

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.models import ObservedPartition, RemoteSize
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_topics_and_partitions_have_sizes_over_both_tiers(world: World, viewer_client: APIClient) -> None:
    world.topic("orders", (1, 2), size=3_000_000)
    RemoteSize.objects.create(
        partition=ObservedPartition.objects.get(),
        remote_bytes=70_000_000,
        local_only_bytes=2_000_000,
        copying_bytes=1_000_000,
        read_bytes_per_s=None,
        sampled_at=timezone.now(),
    )
    topic = viewer_client.get("/api/v1/topics/orders/storage").json()
    assert (topic["tiered"], topic["remote_bytes"], topic["replica_bytes"]) == (True, 70_000_000, 6_000_000)
    partition = viewer_client.get("/api/v1/topics/orders/partitions/0/storage").json()
    assert (partition["total_bytes"], partition["copying_bytes"], partition["cost"]) == (72_000_000, 1_000_000, None)
    for address in ("unknown/storage", "orders/partitions/9/storage"):
        assert viewer_client.get(f"/api/v1/topics/{address}").status_code == 404
