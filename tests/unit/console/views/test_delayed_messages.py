"""The page of delayed messages, and the cancellation with its preview."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client

from tests.unit.controlplane.delayed_responses import DelayedResponses, patch_responses
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
PAGE = "/topics/orders/delayed-messages/"


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


def text(client: Client, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status
    return response.content.decode()


def test_the_page_has_the_histogram_and_the_next_records(producer: Client, viewer: Client) -> None:
    page = text(producer, PAGE)
    assert "Within 1 minute" in page and "?due_from=" in page and f"{PAGE}0/3/cancel/" in page
    assert f"{PAGE}0/7/cancel/" not in page, "it is cancelled already"
    assert f"{PAGE}0/3/cancel/" not in text(viewer, PAGE), "a viewer cancels nothing"
    assert PAGE in text(viewer, "/topics/orders/")
    assert PAGE in text(viewer, "/topics/orders.delay/"), "the front topic leads to them"
    text(viewer, "/topics/orders.delay/delayed-messages/", 404)
    text(viewer, f"{PAGE}0/3/cancel/", 403)


def test_a_look_up_by_key_and_time(producer: Client, viewer: Client) -> None:
    page = text(producer, f"{PAGE}?key=61&key_format=hex")
    assert f"{PAGE}0/4/cancel/" in page and f"{PAGE}1/5/cancel/" not in page
    assert "read_records" in text(viewer, f"{PAGE}?key=a", 403)
    assert "No pending records that match" in text(producer, f"{PAGE}?due_until=2020-01-01")
    assert "does not exist" in text(producer, f"{PAGE}?partition=9", 400)
    assert "not before its end" in text(producer, f"{PAGE}?due_from=2030-01-02&due_until=2030-01-01", 400)


def test_missing_and_blocked_partitions_are_named(viewer: Client, responses: DelayedResponses) -> None:
    responses.silent, responses.blocked = {2}, 10
    page = text(viewer, PAGE)
    assert "partition 1 are missing: it is frozen" in page and "MESSAGE_TOO_LARGE" in page


def test_a_cancellation_shows_its_effect_first(producer: Client, responses: DelayedResponses) -> None:
    page = text(producer, f"{PAGE}0/3/cancel/")
    assert "2 pending records" in page and "delayed-messages/cancel" in page and not responses.written
    assert producer.post(f"{PAGE}0/3/cancel/", {"comment": ""}).status_code == 400, "a reason is required"
    response = producer.post(f"{PAGE}0/3/cancel/", {"comment": "paid twice"}, follow=True)
    assert "The record is not delivered. It cancels 2 records with this key." in response.content.decode()
    assert len(responses.written) == 1
    text(producer, f"{PAGE}0/3/cancel/", 409)
    text(producer, "/topics/plain/delayed-messages/0/3/cancel/", 404)


def test_a_cancellation_leads_back_to_the_look_up(producer: Client, responses: DelayedResponses) -> None:
    """The cancelled record had to be searched for in the list of all pending records."""
    looked_up = "key=61&key_format=hex"
    page = text(producer, f"{PAGE}?{looked_up}").replace("&amp;", "&")
    cancel = f"{PAGE}0/4/cancel/?{looked_up}"
    assert f'href="{cancel}"' in page
    assert f'href="{PAGE}?{looked_up}#pending"' in text(producer, cancel).replace("&amp;", "&")
    response = producer.post(cancel, {"comment": "paid twice"})
    assert response.headers["Location"] == f"{PAGE}?{looked_up}#pending"
