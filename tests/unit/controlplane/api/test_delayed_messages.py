"""Delayed messages by REST: values, look-ups, the cancellation with its preview."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client

from tests.unit.controlplane.delayed_responses import DelayedResponses, patch_responses
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
REST = "/api/v1/topics/orders/delayed-messages"


@pytest.fixture(autouse=True)
def responses(monkeypatch: pytest.MonkeyPatch, world: World) -> DelayedResponses:
    monkeypatch.setattr("controlplane.services.delayed_messages.CONFIRM_SECONDS", 0.0)
    return patch_responses(monkeypatch, world)


@pytest.fixture
def producer(operator: Client) -> Client:
    """An operator who may read and produce records."""
    wanted = Permission.objects.filter(codename__in=("produce_records", "read_records"))
    for row in get_user_model().objects.filter(is_staff=True):
        row.user_permissions.set(wanted)
    return operator


def test_the_rest_resources_have_the_same_rows(producer: Client, viewer_client: Client) -> None:
    assert viewer_client.get(REST).json()["pending"] == 5
    first = viewer_client.get(f"{REST}/pending?limit=2").json()
    second = viewer_client.get(f"{REST}/pending?limit=3&token={first['token']}").json()
    assert [r["offset"] for r in first["rows"] + second["rows"]] == [5, 3, 6, 7, 4]
    assert viewer_client.get(f"{REST}/pending?key=a").status_code == 403
    assert len(producer.get(f"{REST}/pending?key_hex=61").json()["rows"]) == 2
    assert viewer_client.get("/api/v1/topics/orders.delay/delayed-messages").status_code == 404
    place = {"partition": 0, "offset": 3}
    json = "application/json"
    assert producer.post(f"{REST}/cancel/preview", place, content_type=json).json()["same_key"] == 2
    assert producer.post(f"{REST}/cancel", place, content_type=json).status_code == 400
    done = producer.post(f"{REST}/cancel", place | {"comment": "paid twice"}, content_type=json)
    assert done.status_code == 200 and done.json()["state"] == "cancelled"
    assert viewer_client.post(f"{REST}/cancel", place | {"comment": "x"}, content_type=json).status_code == 403
