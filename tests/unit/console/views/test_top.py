"""The page "Top"."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from controlplane.models import Broker, ObservedPartition, ObservedTopic
from tests.unit.controlplane.selectors.test_clients import client, patch_responses
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def text(viewer: Client, query: str = "") -> str:
    response = viewer.get(f"/top/{query}")
    assert response.status_code == 200
    return re.sub(r"\s+", " ", response.content.decode())


def test_each_kind_has_its_lists(viewer: Client, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.topic("orders", (1,), (2,), size=2_000_000)
    ObservedTopic.objects.update(records_per_s=12.5, size_bytes=3_000_000)
    ObservedPartition.objects.filter(index=1).update(size_bytes=8_000_000)
    Broker.objects.update(size_bytes=5_000_000)
    page = text(viewer)
    assert '<th scope="col">Topic</th>' in page, "each row is one topic"
    assert "Top topics" in page and 'href="/topics/orders/"' in page and "12.5" in page and "3.0 MB" in page
    page = text(viewer, "?of=partitions")
    assert 'href="/topics/orders/1/"' in page and "160" in page
    assert "No groups with a known value" in text(viewer, "?of=groups")
    assert 'href="/brokers/1/"' in text(viewer, "?of=brokers")
    patch_responses(monkeypatch, {1: [client("shop", 1000)]}, silent=[3])
    page = text(viewer, "?of=clients")
    assert "shop (" in page and "Brokers that did not respond" in page
    assert "Top topics" in text(viewer, "?of=nothing")
