from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
API = "/api/v1"


@pytest.fixture
def topics(world: World) -> None:
    for name in "abc":
        world.topic(name, (1, 2))


def test_a_page_has_rows_and_the_total(topics: None, operator: APIClient) -> None:
    page = operator.get(f"{API}/topics?per_page=2&sort=-name").json()
    assert [r["name"] for r in page.pop("rows")] == ["c", "b"]
    assert page == {"total": 3, "page": 1, "pages": 2, "per_page": 2, "sort": "-name", "query": ""}


def test_a_page_after_the_last_is_the_last(topics: None, operator: APIClient) -> None:
    page = operator.get(f"{API}/topics?per_page=2&page=99").json()
    assert (page["page"], [r["name"] for r in page["rows"]]) == (2, ["c"])


@pytest.mark.parametrize("query", ["per_page=501", "per_page=0", "page=0", "page=x"])
def test_a_number_outside_its_bounds_is_refused(topics: None, operator: APIClient, query: str) -> None:
    answer = operator.get(f"{API}/topics?{query}")
    assert (answer.status_code, answer.json()["field"]) == (400, query.partition("=")[0])


def test_an_action_pages_with_its_own_selector_and_order(topics: None, operator: APIClient) -> None:
    page = operator.get(f"{API}/brokers/1/replicas?query=b").json()
    assert ([r["topic"] for r in page["rows"]], page["sort"], page["query"]) == (["b"], "topic", "b")


@pytest.mark.parametrize(
    ("query", "status", "total"),
    [("", 200, 3), ("?only=problems", 200, 0), ("?only=", 200, 3), ("?only=nonsense", 400, None)],
)
def test_a_filter_rejects_unknown_choices(
    topics: None, operator: APIClient, query: str, status: int, total: int | None
) -> None:
    answer = operator.get(f"{API}/topics{query}")
    assert (answer.status_code, answer.json().get("total")) == (status, total)
