"""Routes over REST."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.models import AccessEntry, Change, Topic
from controlplane.selectors import routes as selectors

pytestmark = pytest.mark.django_db
ROUTES = "/api/v1/routes"
BODY: dict[str, Any] = {
    "name": "r",
    "source": "orders",
    "bindings": [{"target": "paid", "match": {"kind": "key", "value": "paid"}}],
}


@pytest.fixture(autouse=True)
def topic_without_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    Topic.objects.create(name="orders", partitions=2, replication_factor=3)
    monkeypatch.setattr(selectors, "_states", lambda row: ({}, "no brokers"))


def test_a_route_is_declared_tested_changed_and_deleted(operator: APIClient) -> None:
    made = operator.post(ROUTES, BODY, format="json")
    assert made.status_code == 201 and made.json()["targets"] == ["paid"], made.content
    tested = operator.post(f"{ROUTES}/r/test", {"key": "paid", "headers": [{"name": "a", "value": "b"}]}, format="json")
    assert tested.json() == [{"binding": 0, "target": "paid", "key": "paid", "headers": [["a", "b"]]}]
    assert operator.post(f"{ROUTES}/r/test", {"key": "open"}, format="json").json() == []
    changed = operator.patch(f"{ROUTES}/r", {"enabled": False, "comment": "pause"}, format="json")
    assert changed.status_code == 200 and changed.json()["enabled"] is False and changed.json()["generation"] == 2
    shown = operator.get(f"{ROUTES}/r").json()
    assert shown["states_unknown"] == "no brokers" and shown["bindings"] == BODY["bindings"]
    assert operator.get(ROUTES, {"source": "orders"}).json()["total"] == 1
    assert operator.delete(f"{ROUTES}/r", {"comment": "done"}, format="json").status_code == 204
    assert operator.get(f"{ROUTES}/r").status_code == 404
    assert [c.verb for c in Change.objects.order_by("id")] == ["route.create", "route.change", "route.delete"]


def test_the_principal_is_shown_and_changed(operator: APIClient) -> None:
    made = operator.post(ROUTES, {**BODY, "principal": "User:payments"}, format="json")
    assert made.json()["principal"] == "User:payments"
    changed = operator.patch(f"{ROUTES}/r", {"principal": "User:billing", "comment": "team"}, format="json")
    assert changed.json()["principal"] == operator.get(f"{ROUTES}/r").json()["route"]["principal"] == "User:billing"
    removed = operator.patch(f"{ROUTES}/r", {"principal": "", "comment": "none"}, format="json")
    assert removed.json()["principal"] == ""


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"source": "missing"}, "source"),
        ({"start": "now"}, "start"),
        ({"bindings": [{"target": "orders", "match": {"kind": "all"}}]}, "bindings"),
        ({"bindings": [{"target": "paid", "match": {"kind": "key"}}]}, "bindings.0.match.value"),
        ({"principal": "User:*"}, "principal"),
    ],
)
def test_bad_input(operator: APIClient, body: dict[str, Any], field: str) -> None:
    response = operator.post(ROUTES, {**BODY, **body}, format="json")
    assert response.status_code in (400, 409, 422) and response.json()["field"] == field, response.content
    assert not AccessEntry.objects.exists()


def test_a_viewer_reads_and_tests_and_changes_nothing(operator: APIClient, viewer_client: APIClient) -> None:
    assert viewer_client.post(ROUTES, BODY, format="json").status_code == 403
    operator.post(ROUTES, BODY, format="json")
    assert viewer_client.get(ROUTES).json()["total"] == 1
