"""Local and remote sizes, and the estimated cost, on the pages of a topic and a partition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.models import ObservedPartition, RemoteSize
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
PAGES = ("/topics/orders/", "/topics/orders/0/")


@pytest.fixture
def tiered_topic(world: World) -> None:
    world.topic("orders", (1, 2), size=3_000_000, configs={"remote.storage.enable": "true"})
    RemoteSize.objects.create(
        partition=ObservedPartition.objects.get(),
        remote_bytes=70_000_000,
        local_only_bytes=2_000_000,
        copying_bytes=1_000_000,
        read_bytes_per_s=None,
        sampled_at=timezone.now(),
    )


@pytest.mark.usefixtures("tiered_topic")
def test_pages_show_both_tiers_and_the_cost(viewer: Client, settings: Any) -> None:
    for address in PAGES:
        page = viewer.get(address).content.decode()
        assert "Remote" in page and "70.0 MB" in page and "72.0 MB" in page, address
        assert "Estimated cost per month" not in page
    settings.WEIR = replace(settings.WEIR, price_disk=1_000.0, price_remote=100.0)
    for address in PAGES:
        page = viewer.get(address).content.decode()
        assert "13.00 USD" in page and "disks 6.00" in page and "remote 7.00" in page, address


def test_a_topic_without_tiered_storage_shows_nothing_remote(world: World, viewer: Client) -> None:
    world.topic("orders", (1, 2))
    assert all('id="storage"' not in viewer.get(address).content.decode() for address in PAGES)


@pytest.mark.usefixtures("tiered_topic")
def test_the_review_of_a_move_estimates_the_copies_to_the_store(operator: Client) -> None:
    shown = " ".join(
        operator.get("/moves/new/?kind=partitions&topic=orders&step=review&p=0&r0=2,3").content.decode().split()
    )
    assert "almost nothing is copied between brokers" in shown and "not in the remote store yet (2.0 MB)" in shown
    assert "about 30 s" in shown and "as above" in shown and "until retention has deleted" not in shown
    RemoteSize.objects.all().delete()
    unknown = operator.get("/moves/new/?kind=partitions&topic=orders&step=review&p=0&r0=2,3").content.decode()
    assert "unknown: the leader has not reported its remote sizes yet" in unknown
