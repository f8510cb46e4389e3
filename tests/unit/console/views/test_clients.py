"""The page of connected clients."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.models import ConsumerGroup, GroupPartition
from tests.unit.controlplane.selectors.test_clients import WRITE, client, patch_responses, rejection
from tests.unit.controlplane.world import World


def text(viewer: Client, address: str) -> str:
    response = viewer.get(address)
    assert response.status_code == 200
    return response.content.decode()


def test_the_list_shows_the_clients_of_the_brokers(
    viewer: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = client("shop", 2_500_000, software_name="apache-kafka-java", software_version="4.1.0")
    old = client("", principal="User:<b>", host="10.0.0.2")
    patch_responses(monkeypatch, {1: [java, old], 2: [client("broker-1", is_broker=True)]})
    page = text(viewer, "/clients/")
    assert "apache-kafka-java 4.1.0" in page and "10.0.0.1" in page and "2.5" in page
    assert "User:&lt;b&gt;" in page and "User:<b>" not in page
    assert "broker-1" not in page and "broker-1" in text(viewer, "/clients/?with=brokers")
    page = text(viewer, "/clients/?broker=2&with=brokers")
    assert "Clients of broker 2" in page and "apache-kafka-java" not in page
    assert "No matching clients." in text(viewer, "/clients/?q=nothing&broker=x")


def test_a_button_of_a_client_opens_a_quota_for_it(
    operator: Client, viewer: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch_responses(monkeypatch, {1: [client("shop api")]})
    link = "/new/quota/?applies_to=client-id&amp;client_id=shop%20api"
    page = text(operator, "/clients/")
    assert f'href="{link}"' in page and "Set limit" in page and ">shop api</a>" not in page, (
        "the name is no link to a form"
    )
    form = text(operator, link.replace("&amp;", "&"))
    assert 'value="shop api"' in form and '<option value="client-id" selected>' in form
    assert "/new/quota/" not in text(viewer, "/clients/")


def test_the_note_explains_the_columns_that_the_page_has(
    viewer: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.topic("orders", (1, 2))
    patch_responses(monkeypatch, {1: [client("shop")]})
    page, of_topic = text(viewer, "/clients/"), text(viewer, "/clients/?topic=orders")
    assert "From disk: loaded" in page and "Rejected requests of all topics" not in page
    assert "From disk: loaded" not in of_topic and "Rejected requests of all topics" in of_topic


def test_the_form_of_a_quota_has_the_current_rates_of_the_client(
    operator: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    noisy = client("shop", 4_000_000, received_bytes_per_second=1_500_000)
    patch_responses(monkeypatch, {1: [noisy, client("other", 9_000_000)], 2: [client("shop", 1_000_000)]})
    form = text(operator, "/new/quota/?applies_to=client-id&client_id=shop")
    assert "Current rate of client-id shop: 1.5 MB/s at broker 1, 1.5 MB/s at 2 brokers together." in form
    assert "Current rate of client-id shop: 4.0 MB/s at broker 1, 5.0 MB/s at 2 brokers together." in form
    rejected = operator.post("/new/quota/?applies_to=client-id&client_id=shop", {"applies_to": "client-id"})
    assert rejected.status_code == 400 and "Current rate of client-id shop" in rejected.content.decode()
    assert "Current rate" not in text(operator, "/new/quota/?applies_to=client-id")
    assert "Current rate" not in text(operator, "/new/quota/")


def test_missing_clients_are_named(viewer: Client, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    patch_responses(monkeypatch, {}, silent=[3], count=1_200)
    page = text(viewer, "/clients/")
    assert "2 of 3 brokers answered." in page and "Broker 3: it is frozen" in page
    assert "lists 1,000 clients at most" in page and "No connected clients." in page


def test_rejected_requests_have_their_client_and_reason(
    viewer: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied = rejection("10.0.0.9", "app", "unauthorized", 2, 9_000, **WRITE)
    patch_responses(
        monkeypatch, {}, rejections={1: [rejection("10.0.0.9", "<b>", "authentication_failed", 12, 3_000), denied]}
    )
    page = text(viewer, "/clients/")
    assert "10.0.0.9" in page and "authentication failed" in page and "&lt;b&gt;" in page and "3 s ago" in page
    assert "write, topic orders" in page
    address = "/permissions/?principal=User%3Ax&amp;host=10.0.0.9&amp;resource_type=topic&amp;resource_name=orders&amp;operation=write"
    assert f'href="{address}"' in viewer.get("/clients/").content.decode()
    patch_responses(monkeypatch, {})
    assert "No rejected requests." in text(viewer, "/clients/")


def test_the_producers_of_a_topic_are_listed_from_its_page(
    viewer: Client, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.topic("orders", (1, 2, 3))
    assert "/clients/?topic=orders" in text(viewer, "/topics/orders/")
    patch_responses(monkeypatch, {1: [client("shop", produced_bytes=2_000_000, produced_bytes_per_second=1_500)]})
    page = text(viewer, "/clients/?topic=orders")
    assert "Clients of topic" in page and 'href="/topics/orders/"' in page
    assert "1.5 kB" in page and "2.0 MB" in page and 'name="topic" value="orders"' in page
    assert "2.0 MB" not in text(viewer, "/clients/")
    patch_responses(monkeypatch, {})
    assert "No connected client has produced to this topic or read from it" in text(viewer, "/clients/?topic=orders")


def test_readers_without_a_group_are_distinguished(
    viewer: Client, seeded_cluster: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = ConsumerGroup.objects.create(group_id="billing/eu", observed_at=timezone.now())
    member = {"member_id": "m", "client_id": "app", "host": "10.0.0.1"}
    GroupPartition.objects.create(group=group, topic="orders", index=0, observed_at=timezone.now(), **member)
    reader = client("app", fetched_bytes=3_000_000, fetched_bytes_per_second=2_500)
    patch_responses(monkeypatch, {1: [reader, client("dump", fetched_bytes=7), client("writer", produced_bytes=9)]})
    page = text(viewer, "/clients/?topic=orders")
    assert 'href="/groups/billing/eu/"' in page and "3.0 MB" in page and "2.5 kB" in page
    assert page.count("No consumer group has a member") == 1, "only the reader without a group"
    consumers = text(viewer, "/clients/?topic=orders&use=fetched")
    assert "dump" in consumers and "writer" not in consumers
    assert "dump" not in text(viewer, "/clients/?topic=orders&use=produced")
