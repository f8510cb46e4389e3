"""Dead letters by REST: the list, the sending of chosen, matching and edited ones."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from controlplane.models import Topic
from tests.unit.controlplane.dead_letter_responses import (
    DLQ,
    DeadLetterResponses,
    patch_responses,
    patch_share_responses,
    user_with_permissions,
)
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
REST = "/api/v1/topics/orders/dead-letters"
JSON = "application/json"


@pytest.fixture(autouse=True)
def responses(monkeypatch: pytest.MonkeyPatch, world: World) -> DeadLetterResponses:
    return patch_responses(monkeypatch, world)


@pytest.fixture
def producer(operator: Client) -> Client:
    """An operator who may read and produce records."""
    for name in get_user_model().objects.filter(is_staff=True).values_list("username", flat=True):
        user_with_permissions(name)
    return operator


def test_the_list_has_causes(producer: Client, viewer_client: Client) -> None:
    found = producer.get(f"{REST}?group=billing&limit=1").json()
    assert found["rows"][0]["cause"] == {
        "group": "billing",
        "source": "orders-0@51",
        "attempts": 4,
        "error": "timeout of card",
    }
    following = producer.get(f"{REST}?group=billing&limit=1&resume={found['resume']}").json()
    assert following["rows"][0]["record"]["partition"] == 1 and following["complete"]
    assert viewer_client.get(REST).status_code == 403
    assert producer.get("/api/v1/topics/orders.dead/dead-letters").status_code == 404


def test_chosen_ones_are_sent_once(producer: Client, viewer_client: Client, responses: DeadLetterResponses) -> None:
    body = {"places": [{"partition": 0, "offset": 1}], "target": "retry", "comment": "fixed"}
    assert viewer_client.post(f"{REST}/send", body, content_type=JSON).status_code == 403
    first = producer.post(f"{REST}/send", body, content_type=JSON).json()
    again = producer.post(f"{REST}/send", body, content_type=JSON).json()
    assert (first["sent"], again["sent"], again["already"]) == (1, 0, 1) and len(responses.written) == 1
    assert producer.post(f"{REST}/send", {**body, "target": "x"}, content_type=JSON).status_code == 400
    assert producer.post(f"{REST}/send", {**body, "comment": ""}, content_type=JSON).status_code == 400


def test_matching_ones_are_sent_in_parts(producer: Client, responses: DeadLetterResponses) -> None:
    body = {"error_contains": "timeout", "limit": 1, "target": "topic", "comment": "fixed"}
    first = producer.post(f"{REST}/send-matching", body, content_type=JSON).json()
    assert first["sent"] == 1 and first["resume"]
    last = producer.post(f"{REST}/send-matching", {**body, "resume": first["resume"]}, content_type=JSON).json()
    assert last["sent"] == 1 and not last["resume"] and {t for t, _ in responses.written} == {"orders"}


def test_an_edited_one_is_sent(producer: Client, responses: DeadLetterResponses) -> None:
    body = {
        "partition": 0,
        "offset": 1,
        "target": "retry",
        "key": "6b",
        "key_format": "hex",
        "value": None,
        "headers": [{"name": "x-retry-group", "value": "billing"}],
        "comment": "typo",
    }
    assert producer.post(f"{REST}/send-edited", body, content_type=JSON).json()["sent"] == 1
    ((_, sent),) = responses.written
    assert (sent.key, sent.value) == (b"k", None)
    bad = producer.post(f"{REST}/send-edited", {**body, "key": "x"}, content_type=JSON)
    assert bad.status_code == 400


def test_dead_letters_of_share_groups(
    monkeypatch: pytest.MonkeyPatch, world: World, producer: Client, responses: DeadLetterResponses
) -> None:
    Topic.objects.all().delete()
    responses = patch_share_responses(monkeypatch, World())
    base = f"/api/v1/topics/{DLQ}/dead-letters"
    found = producer.get(f"{base}?group=mail").json()
    assert found["kind"] == "share_group"
    assert found["rows"][0]["failed"] == {"topic": "orders", "partition": 1, "offset": 31}
    body = {"places": [{"partition": 0, "offset": 1}], "target": "topic", "comment": "fixed"}
    assert producer.post(f"{base}/send", body, content_type=JSON).json()["sent"] == 1
    assert producer.post(f"{base}/send", body, content_type=JSON).json()["already"] == 1
    retried = producer.post(f"{base}/send", {**body, "target": "retry"}, content_type=JSON).json()
    assert (retried["sent"], retried["refused"]) == (0, 1)
    assert retried["problems"] == ["orders has no retry topic; weir.retry.enable=true creates it."]
    assert [topic for topic, _ in responses.written] == ["orders"]
