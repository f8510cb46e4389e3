"""The page of dead letters, and the forms that send them again."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone

from console.views import dead_letters as views
from controlplane.models import Topic, TopicMessages
from tests.unit.controlplane.dead_letter_responses import (
    DLQ,
    DeadLetterResponses,
    letter,
    patch_responses,
    patch_share_responses,
    share_letter,
    user_with_permissions,
)
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
PAGE = "/topics/orders/dead-letters/"


@pytest.fixture(autouse=True)
def responses(monkeypatch: pytest.MonkeyPatch, world: World) -> DeadLetterResponses:
    return patch_responses(monkeypatch, world)


@pytest.fixture
def producer(operator: Client) -> Client:
    """An operator who may read and produce records."""
    for name in get_user_model().objects.filter(is_staff=True).values_list("username", flat=True):
        user_with_permissions(name)
    return operator


def text(client: Client, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status
    return response.content.decode()


def test_the_page_has_the_causes(producer: Client, viewer: Client) -> None:
    page = text(producer, PAGE)
    for shown in ("timeout of card", "bad address", "orders-0@51", "billing", 'value="0@1"', f"{PAGE}0/1/edit/"):
        assert shown in page
    times = re.findall(r'<time title="(\d+)">', page)
    assert times == sorted(times, reverse=True) and '<th scope="col" class="num">Offset</th>' in page
    assert "read_records" in text(viewer, PAGE, 403) and PAGE in text(viewer, "/topics/orders/")
    text(viewer, "/topics/orders.dead/dead-letters/", 404)


def test_filters(producer: Client) -> None:
    page = text(producer, f"{PAGE}?group=mail")
    assert "bad address" in page and "timeout of card" not in page and "send-matching/?group=mail" in page
    assert "Send all matching again" in page and "Send all again" in text(producer, PAGE)
    TopicMessages.objects.create(topic="orders", sampled_at=timezone.now(), dead_letters=12)
    assert "Send all 12 again" in text(producer, PAGE)
    assert "No dead letters match" in text(producer, f"{PAGE}?error_contains=nothing")
    assert "not a partition" in text(producer, f"{PAGE}?partitions=x", 400)


def test_chosen_dead_letters_are_sent_after_a_form(producer: Client, responses: DeadLetterResponses) -> None:
    shown = producer.post(f"{PAGE}send/", {"place": ["0@1", "0@2", "junk"]})
    assert "Send 2 dead letters of orders again" in shown.content.decode() and not responses.written
    assert "partitions=0&amp;start=offset&amp;offset=2" in shown.content.decode(), "what is sent"
    form = {"place": ["0@1", "0@2"], "step": "apply", "target": "retry", "comment": "fixed"}
    response = producer.post(f"{PAGE}send/", form, follow=True)
    assert "2 sent to orders.retry." in response.content.decode() and len(responses.written) == 2
    shown_again = producer.post(f"{PAGE}send/", {"place": ["0@1", "0@2"]}).content.decode()
    assert shown_again.count('<b class="t-amber">sent</b>: orders.retry') == 2
    again = producer.post(f"{PAGE}send/", form, follow=True)
    assert "2 sent before; not sent again." in again.content.decode() and len(responses.written) == 2
    assert producer.post(f"{PAGE}send/", {**form, "comment": ""}).status_code == 400
    text(producer, f"{PAGE}send/", 409)
    responses.rejection = "Too large."
    rejected = producer.post(f"{PAGE}send/", {**form, "target": "topic"})
    assert "Too large." in rejected.content.decode() and "2 rejected." in rejected.content.decode()


def test_all_that_match_are_sent_and_the_page_continues(
    producer: Client, responses: DeadLetterResponses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MATCHING_MAX", 2)
    responses.letters[0] += [letter(10), letter(11)]
    address = f"{PAGE}send-matching/?group=billing"
    shown = text(producer, address)
    assert "Consumer group: billing." in shown and "offset=11" in shown and "that match" not in shown
    monkeypatch.setattr(views, "LETTERS_SHOWN_MAX", 2)
    assert "The newest 2 that match" in text(producer, address)
    form = {"target": "retry", "comment": "fixed"}
    page = producer.post(address, form).content.decode()
    assert "Continue" in page and 'name="resume" value="0@10"' in page and len(responses.written) == 2
    response = producer.post(address, {**form, "resume": "0@10"}, follow=True)
    assert "2 sent to orders.retry." in response.content.decode() and len(responses.written) == 4


def test_one_is_edited_before_it_is_sent(producer: Client, responses: DeadLetterResponses) -> None:
    page = text(producer, f"{PAGE}0/1/edit/")
    assert "x-retry-group: billing" in page and ">v1<" in page.replace("\n", "")
    form = {
        "key": "k1",
        "key_format": "text",
        "value": "fixed",
        "value_format": "text",
        "headers": "x-retry-group: billing",
        "target": "retry",
        "comment": "typo",
    }
    response = producer.post(f"{PAGE}0/1/edit/", form, follow=True)
    assert "1 sent to orders.retry." in response.content.decode()
    ((_, sent),) = responses.written
    assert (sent.value, sent.partition) == (b"fixed", 0)
    bad = producer.post(f"{PAGE}0/1/edit/", {**form, "key": "xyz", "key_format": "hex"})
    assert bad.status_code == 400 and "Not hex" in bad.content.decode()
    text(producer, f"{PAGE}0/77/edit/", 409)
    text(producer, "/topics/plain/dead-letters/0/1/edit/", 404)


def test_viewers_send_nothing(viewer: Client, operator: Client) -> None:
    text(viewer, f"{PAGE}send/?place=0@1", 403)
    text(viewer, f"{PAGE}send-matching/", 403)
    text(operator, f"{PAGE}0/1/edit/", 403)
    form = {"place": "0@1", "step": "apply", "target": "topic", "comment": "x"}
    assert operator.post(f"{PAGE}send/", form).status_code == 403, "the permission is missing"


def test_dead_letters_of_share_groups(monkeypatch: pytest.MonkeyPatch, producer: Client, world: World) -> None:
    Topic.objects.all().delete()
    responses = patch_share_responses(monkeypatch, World())
    page = f"/topics/{DLQ}/dead-letters/"
    shown = text(producer, page)
    assert "Offset rejected by client." in shown and "Deliveries" in shown
    assert "/messages/?topic=orders&amp;partitions=1&amp;start=offset&amp;offset=31&amp;limit=1" in shown
    assert "/share-groups/mail/" in shown and page in text(producer, f"/topics/{DLQ}/")
    responses.letters[0].append(share_letter(9, 31, group="line\nend"))
    assert "line\nend" in text(producer, page), "a group name that is no address"
    form = {"place": ["0@0"], "step": "apply", "target": "topic", "comment": "fixed"}
    assert "1 sent to orders." in producer.post(f"{page}send/", form, follow=True).content.decode()
    rejected = producer.post(f"{page}send/", {**form, "target": "retry"}).content.decode()
    assert "orders has no retry topic; weir.retry.enable=true creates it." in rejected
    edit = text(producer, f"{page}0/1/edit/")
    assert ">v31<" in edit.replace("\n", "") and "x-retry-group" not in edit
    rest = producer.post(f"{page}send-matching/?source_begins=orders", {"target": "topic", "comment": "fixed"})
    assert "1 rejected." in rest.content.decode() and {r.value for _, r in responses.written} == {
        b"v30",
        b"v31",
        b"v32",
    }
