"""Notification channels over REST."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from rest_framework.test import APIClient

from controlplane.models import Change, NotificationChannel
from tests.unit.controlplane.receivers import http_receiver

CHANNELS = "/api/v1/notification-channels"
CHANNEL = {"name": "ops", "kind": "webhook", "url": "https://a.example/p4th", "secret": "s3cret"}


@pytest.fixture
def administrator(db: None) -> Any:
    client = APIClient()
    client.force_authenticate(get_user_model().objects.create_user("root", is_staff=True, is_superuser=True))
    return client


def test_a_channel_is_created_read_changed_and_deleted_and_shows_no_credential(administrator: Any) -> None:
    made = administrator.post(CHANNELS, CHANNEL, format="json")
    assert made.status_code == 201
    address = f"{CHANNELS}/{made.json()['id']}"
    read = administrator.get(address)
    assert read.json() == made.json() and read["ETag"] == '"1"'
    assert "url" not in read.json() and read.json()["destination"] == "https://a.example" and read.json()["has_secret"]
    changed = administrator.patch(address, {"enabled": False}, format="json", HTTP_IF_MATCH='"1"')
    assert changed.status_code == 200 and changed["ETag"] == '"2"' and changed.json()["enabled"] is False
    stale = administrator.patch(address, {"enabled": True}, format="json", HTTP_IF_MATCH='"1"')
    assert stale.status_code == 412
    assert administrator.patch(address, {"secret": None}, format="json").json()["has_secret"] is False
    assert NotificationChannel.objects.get().url == CHANNEL["url"]
    for response in (made, read, changed, stale, administrator.get(CHANNELS)):
        assert b"p4th" not in response.content and b"s3cret" not in response.content
    assert administrator.delete(address, {}, format="json").status_code == 400
    assert administrator.delete(address, {"comment": "old"}, format="json").status_code == 204
    assert administrator.get(address).status_code == 404


def test_a_repeated_create_with_a_key_makes_one_channel(administrator: Any) -> None:
    responses = [
        administrator.post(CHANNELS, CHANNEL, format="json", HTTP_IDEMPOTENCY_KEY="k" * 20).json() for _ in range(2)
    ]
    assert responses[0] == responses[1] and NotificationChannel.objects.count() == 1


def test_unknown_and_wrong_fields_are_problems(administrator: Any) -> None:
    for given, field in (
        ({"url_": "x"}, "url_"),
        ({"severity_min": "bad"}, "severity_min"),
        ({"url": "ftp://x"}, "url"),
    ):
        response = administrator.post(CHANNELS, {**CHANNEL, **given}, format="json")
        assert response.status_code == 400 and response["Content-Type"].startswith("application/problem+json")
        assert field in response.content.decode()


def test_a_test_notification_returns_the_response_of_the_receiver(administrator: Any) -> None:
    with http_receiver() as receiver:
        receiver.responses = [(401, "unknown key")]
        number = administrator.post(CHANNELS, {**CHANNEL, "url": receiver.url}, format="json").json()["id"]
        done = administrator.post(f"{CHANNELS}/{number}/test", {}, format="json")
    assert done.status_code == 200
    assert (done.json()["state"], done.json()["status"], done.json()["answer"]) == ("failed", 401, "unknown key")
    listed = administrator.get(f"/api/v1/notification-deliveries?channel={number}&state=failed").json()
    assert listed["rows"] == [done.json()]
    assert administrator.get(f"/api/v1/notification-deliveries/{done.json()['id']}").json() == done.json()
    assert administrator.get("/api/v1/notification-deliveries?alert=7").json()["total"] == 0


def test_operators_read_and_administrators_change(operator: APIClient, administrator: Any) -> None:
    address = f"{CHANNELS}/{administrator.post(CHANNELS, CHANNEL, format='json').json()['id']}"
    assert operator.get(address).status_code == operator.get("/api/v1/notification-deliveries").status_code == 200
    for response in (
        operator.post(CHANNELS, {**CHANNEL, "name": "b"}, format="json"),
        operator.patch(address, {"enabled": False}, format="json"),
        operator.delete(address, {"comment": "x"}, format="json"),
        operator.post(f"{address}/test", {}, format="json"),
    ):
        assert response.status_code == 403 and "administrators" in response.json()["detail"]
    assert Change.objects.filter(outcome="refused").count() == 4
