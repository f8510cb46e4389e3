"""Lists as CSV."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.api.renderers import CsvRenderer
from controlplane.models import Change
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
API = "/api/v1"


def parse_csv(response: Any) -> list[dict[str, str]]:
    assert (response.status_code, response.headers["Content-Type"].partition(";")[0]) == (200, "text/csv"), (
        response.content
    )
    return list(csv.DictReader(io.StringIO(response.content.decode())))


def test_a_page_is_csv_on_request(world: World, operator: APIClient) -> None:
    for name in "abc":
        world.topic(name, (1, 2))
    for response in (
        operator.get(f"{API}/topics?format=csv&limit=2"),
        operator.get(f"{API}/topics?limit=2", HTTP_ACCEPT="text/csv"),
    ):
        rows = parse_csv(response)
        assert [(r["name"], r["partitions"], r["internal"]) for r in rows] == [("a", "1", "false"), ("b", "1", "false")]
        assert response.headers["X-Total-Count"] == "3"
    assert operator.get(f"{API}/topics").headers["Content-Type"] == "application/json"


def test_a_list_without_pages_is_csv_too(world: World, operator: APIClient) -> None:
    assert [r["broker_id"] for r in parse_csv(operator.get(f"{API}/brokers?format=csv"))] == ["1", "2", "3"]


def test_an_object_is_not_csv_and_an_error_stays_a_problem(world: World, operator: APIClient) -> None:
    assert operator.get(f"{API}/brokers/1", HTTP_ACCEPT="text/csv").status_code == 406
    rejected = operator.get(f"{API}/topics?format=csv&limit=0")
    assert (rejected.status_code, rejected.headers["Content-Type"]) == (400, "application/problem+json")


def test_values_are_quoted_and_formulas_are_text() -> None:
    rows = [{"a": "=1+1", "b": 'x,"y"', "c": None, "d": [1, 2], "e": -3}]
    text = CsvRenderer().render(rows).decode()
    assert text == 'a,b,c,d,e\r\n\'=1+1,"x,""y""",,"[1, 2]",-3\r\n'


def test_an_empty_list_is_an_empty_line() -> None:
    assert CsvRenderer().render([]) == b"\r\n"


def test_time_ordered_lists_have_since_and_until(world: World, operator: APIClient) -> None:
    for name in "abc":
        operator.post(f"{API}/topics", {"name": name}, format="json")
    _, second, third = Change.objects.order_by("id").values_list("at", flat=True)
    between = {"since": second.isoformat(), "until": third.isoformat()}
    found = operator.get(f"{API}/changes", between).json()
    assert [row["object_name"] for row in found["rows"]] == ["b"]
    for path in ("moves", "plans", "alerts", "proposals", "recoveries", "damage-reports", "offset-resets"):
        response = operator.get(f"{API}/{path}?since=2026-11-21T00:00:00Z&until=2026-11-22T00:00:00Z")
        assert (response.status_code, response.json()["total"]) == (200, 0), path
    rejected = operator.get(f"{API}/changes?since=yesterday")
    assert (rejected.status_code, rejected.json()["field"]) == (400, "since")
