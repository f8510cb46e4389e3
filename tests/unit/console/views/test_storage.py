"""Local and remote sizes, and the estimated cost, on the pages of a topic and a partition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.models import Partition, RemoteSize
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
PAGES = ("/topics/orders/", "/topics/orders/0/")


@pytest.fixture
def tiered(world: World) -> None:
    world.topic("orders", (1, 2), size=3_000_000)
    RemoteSize.objects.create(
        partition=Partition.objects.get(),
        remote_bytes=70_000_000,
        local_only_bytes=2_000_000,
        copying_bytes=1_000_000,
        read_bytes_per_s=None,
        sampled_at=timezone.now(),
    )


@pytest.mark.usefixtures("tiered")
def test_pages_show_both_tiers_and_the_cost(viewer: Client, settings: Any) -> None:
    for address in PAGES:
        page = viewer.get(address).content.decode()
        assert "Remote, MB" in page and "70.0" in page and "72.0" in page, address
        assert "Estimated cost per month" not in page
    settings.WEIR = replace(settings.WEIR, price_disk=1_000.0, price_remote=100.0)
    for address in PAGES:
        page = viewer.get(address).content.decode()
        assert "13.00 USD" in page and "disks 6.00" in page and "remote 7.00" in page, address


def test_a_topic_without_tiered_storage_shows_nothing_remote(world: World, viewer: Client) -> None:
    world.topic("orders", (1, 2))
    assert all('id="storage"' not in viewer.get(address).content.decode() for address in PAGES)
