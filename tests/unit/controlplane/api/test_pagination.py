"""Pages of lists over REST: limits, cursors, and that a cursor belongs to its list."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.models import Change
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
API = "/api/v1"


@pytest.fixture
def topics(world: World) -> None:
    for name in "abc":
        world.topic(name, (1, 2))


def names(body: dict[str, Any]) -> list[str]:
    return [r["name"] for r in body["rows"]]


def test_a_page_has_rows_the_total_and_the_next_cursor(topics: None, operator: APIClient) -> None:
    response = operator.get(f"{API}/topics?limit=2&sort=-name")
    page = response.json()
    assert names(page) == ["c", "b"]
    cursor = page.pop("next_cursor")
    assert {k: v for k, v in page.items() if k != "rows"} == {"total": 3, "limit": 2, "sort": "-name", "query": ""}
    # The cursor has the order. The header has the address with all parameters.
    last = operator.get(f"{API}/topics?limit=2&cursor={cursor}").json()
    assert (names(last), last["sort"], last["next_cursor"]) == (["a"], "-name", None)
    address, relation = response.headers["Link"].split(";")
    assert relation.strip() == 'rel="next"' and "sort=-name" in address
    assert operator.get(address.strip("<>")).json() == last
    assert "Link" not in operator.get(f"{API}/topics").headers


def test_rows_that_are_added_between_two_requests_shift_nothing(operator: APIClient) -> None:
    def change(number: int) -> None:
        Change.objects.create(at=timezone.now(), actor="alice", verb=f"topic.{number}", object_kind="topic")

    for number in range(6):
        change(number)
    page = operator.get(f"{API}/changes?limit=4").json()
    seen = [r["verb"] for r in page["rows"]]
    for number in range(6, 9):
        change(number)
    page = operator.get(f"{API}/changes?limit=4&cursor={page['next_cursor']}").json()
    assert [*seen, *(r["verb"] for r in page["rows"])] == [f"topic.{n}" for n in (5, 4, 3, 2, 1, 0)]
    assert (page["total"], page["next_cursor"]) == (9, None)


def test_topics_that_are_not_applied_yet_are_on_the_first_page_only(topics: None, operator: APIClient) -> None:
    operator.post(f"{API}/topics", {"name": "new", "partitions": 1}, format="json")
    page = operator.get(f"{API}/topics?limit=2").json()
    assert names(page) == ["new", "a", "b"]
    assert names(operator.get(f"{API}/topics?limit=2&cursor={page['next_cursor']}").json()) == ["c"]


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("topics", "sort=name&limit=2"),
        ("brokers/1/replicas", ""),
        ("partitions", ""),
    ],
)
def test_a_cursor_belongs_to_its_list_and_its_order(topics: None, operator: APIClient, path: str, query: str) -> None:
    cursor = operator.get(f"{API}/topics?limit=1&sort=-name").json()["next_cursor"]
    response = operator.get(f"{API}/{path}?{query}&cursor={cursor}")
    assert (response.status_code, response.json()["field"]) == (400, "cursor")


@pytest.mark.parametrize("cursor", ["x", "WyItbmFtZSJd:x", "%00", "..."])
def test_another_text_is_no_cursor(topics: None, operator: APIClient, cursor: str) -> None:
    response = operator.get(f"{API}/topics?cursor={cursor}&limit=0&only=x")
    assert {e["field"] for e in response.json()["errors"]} >= {"limit", "only"} and response.status_code == 400
    assert operator.get(f"{API}/topics?cursor={cursor}").json()["field"] == "cursor"


@pytest.mark.parametrize("limit", ["501", "0", "-1", "x"])
def test_a_number_outside_its_bounds_is_rejected(topics: None, operator: APIClient, limit: str) -> None:
    response = operator.get(f"{API}/topics?limit={limit}")
    assert (response.status_code, response.json()["field"]) == (400, "limit")


@pytest.mark.parametrize(("name", "meant"), [("page=2", "cursor"), ("per_page=5", "limit"), ("only=drift", "state")])
def test_a_name_of_page_numbers_is_answered_with_the_name_of_this_api(
    topics: None, operator: APIClient, name: str, meant: str
) -> None:
    (error,) = operator.get(f"{API}/topics?{name}").json()["errors"]
    assert f"Did you mean {meant}?" in error["detail"]


def test_an_action_pages_with_its_own_selector_and_order(topics: None, operator: APIClient) -> None:
    page = operator.get(f"{API}/brokers/1/replicas?query=b").json()
    assert ([r["topic"] for r in page["rows"]], page["sort"], page["query"]) == (["b"], "topic", "b")


@pytest.mark.parametrize(
    ("query", "status", "total"),
    [("", 200, 3), ("?state=problems", 200, 0), ("?state=", 200, 3), ("?state=nonsense", 400, None)],
)
def test_a_filter_rejects_unknown_choices(
    topics: None, operator: APIClient, query: str, status: int, total: int | None
) -> None:
    response = operator.get(f"{API}/topics{query}")
    assert (response.status_code, response.json().get("total")) == (status, total)
