"""The page of undecided half messages, and the REST resource with the same rows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.models import TopicMessages
from tests.unit.controlplane.half_responses import HalfResponses, patch_responses
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def responses(monkeypatch: pytest.MonkeyPatch, world: World) -> HalfResponses:
    return patch_responses(monkeypatch, world)


def text(client: Client, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status
    return response.content.decode()


def test_the_page_lists_messages_and_offers_requests_to_operators(
    operator: Client, viewer: Client, responses: HalfResponses
) -> None:
    page = text(operator, "/topics/orders/half-messages/")
    assert "3 undecided" in page and "/proposals/new/?kind=half.commit&amp;target=orders-0%403" in page
    assert "/messages/?topic=orders.half&amp;partitions=0&amp;start=offset&amp;offset=3&amp;limit=1" in page
    review = text(operator, "/proposals/new/?kind=half.commit&target=orders-0%403")
    assert 'href="/topics/orders/half-messages/">Cancel</a>' in review
    assert "4 of 15" in page and page.count("kind=half.rollback") == 2
    assert "st st-amber" in page and "expiring</span>" in page and "can no longer be committed" in page
    assert page.count('class="button fatal"') == 2, "only the rollback deletes"
    assert "kind=half.commit" not in text(viewer, "/topics/orders/half-messages/"), "a viewer requests nothing"
    assert "/topics/orders/half-messages/" in text(viewer, "/topics/orders/")
    assert "/topics/orders.half/half-messages/" not in text(viewer, "/topics/orders.half/")
    assert "/topics/orders/half-messages/" in text(viewer, "/topics/orders.half/"), "the front topic leads to them"
    text(viewer, "/topics/orders.half/half-messages/", 404)


def test_missing_partitions_are_named(viewer: Client, responses: HalfResponses) -> None:
    responses.silent = {2}
    assert "partition 1 are missing: it is frozen" in text(viewer, "/topics/orders/half-messages/")


def test_the_rest_resource_has_the_same_rows(viewer: Client) -> None:
    found = viewer.get("/api/v1/topics/orders/half-messages").json()
    assert [r["target"] for r in found["rows"]] == ["orders-0@3", "orders-1@5", "orders-0@9"]
    assert viewer.get("/api/v1/topics/orders.half/half-messages").status_code == 404


def test_a_filter_selects_from_the_oldest(viewer: Client) -> None:
    page = text(viewer, "/topics/orders/half-messages/?checks_min=4")
    assert "2 of the oldest 3 match" in page and "orders-1" not in page
    assert "No undecided half messages match" in text(viewer, "/topics/orders/half-messages/?id_contains=zz")
    assert "3 undecided" in text(viewer, "/topics/orders/half-messages/?checks_min=many", 400)


def test_the_page_of_all_topics_lists_filters_and_exports(
    operator: Client, viewer: Client, responses: HalfResponses
) -> None:
    page = text(operator, "/half-messages/")
    assert "/proposals/new/?kind=half.commit&amp;target=orders-0%403" in page and page.count("kind=half.rollback") == 2
    assert "/messages/?topic=orders.half.expired" in page and page.count('class="button fatal"') == 2
    assert "/messages/?topic=orders.half&amp;partitions=1&amp;start=offset&amp;offset=5&amp;limit=1" in page
    assert "kind=half.commit" not in text(viewer, "/half-messages/"), "a viewer requests nothing"
    filtered = text(viewer, "/half-messages/?state=expiring&topic=ord")
    assert "offset=5&amp;" in filtered and "offset=3&amp;" not in filtered
    assert "No undecided half messages match" in text(viewer, "/half-messages/?topic=zz")
    csv = viewer.get("/half-messages/?format=csv&q=c")
    assert csv.headers["Content-Type"].startswith("text/csv") and csv.content.decode().count("orders-1@5") == 1
    responses.silent = {2}
    assert "orders-1: it is frozen" in text(viewer, "/half-messages/")


def test_the_rest_list_has_cursors_filters_and_csv(viewer: Client) -> None:
    first = viewer.get("/api/v1/half-messages?limit=2").json()
    assert [r["target"] for r in first["rows"]] == ["orders-0@3", "orders-1@5"] and first["total"] == 3
    rest = viewer.get(f"/api/v1/half-messages?limit=2&cursor={first['next_cursor']}").json()
    assert [r["target"] for r in rest["rows"]] == ["orders-0@9"] and rest["next_cursor"] is None
    assert viewer.get("/api/v1/half-messages?state=expiring&topic=orders").json()["total"] == 1
    assert viewer.get("/api/v1/half-messages?state=old").status_code == 400
    assert viewer.get("/api/v1/half-messages?format=csv").content.decode().count("orders.half") == 3


def test_the_list_of_topics_leads_to_overdue_messages(viewer: Client) -> None:
    assert "overdue half messages" not in text(viewer, "/topics/")
    now = timezone.now()
    TopicMessages.objects.create(
        topic="orders", half_undecided=1, half_oldest_at=now - timedelta(hours=1), sampled_at=now
    )
    page = text(viewer, "/topics/")
    assert "/half-messages/?state=overdue" in page and "1 topic has overdue half messages: orders" in page
