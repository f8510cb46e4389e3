"""Consumer groups and ACLs over REST: filtered, paged, deleted with a reason."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.clients import kafka
from controlplane.clients.connection import NoResponse
from tests.unit.console.seed import group

pytestmark = pytest.mark.django_db
API = "/api/v1"
ACL = {
    "resource_type": "topic",
    "resource_name": "orders",
    "principal": "User:ann",
    "operation": "read",
    "permission": "allow",
}


@pytest.fixture(autouse=True)
def groups() -> None:
    group("billing", {("orders", 0): (10, 15)}, "healthy")
    group("with/slash", {("payments", 0): (10, 15)}, "stopped", members=0)


def test_groups_are_listed_by_topic_and_read_by_a_name_with_slashes(operator: APIClient) -> None:
    page = operator.get(f"{API}/groups", {"topic": "orders"}).json()
    assert ([g["group_id"] for g in page["rows"]], page["total"]) == (["billing"], 1)
    found = operator.get(f"{API}/groups/with/slash").json()
    assert (found["row"]["status"], found["partitions"][0]["topic"]) == ("stopped", "payments")
    assert operator.get(f"{API}/groups/none").status_code == 404


@pytest.mark.parametrize(("error", "status"), [(None, 204), (NoResponse("late"), 202)])
def test_a_deleted_group_without_a_response_is_accepted_only(
    operator: APIClient, monkeypatch: pytest.MonkeyPatch, error: Exception | None, status: int
) -> None:
    def delete(group_id: str) -> None:
        if error is not None:
            raise error

    monkeypatch.setattr(kafka, "delete_group", delete)
    response = operator.delete(f"{API}/groups/with/slash", {"comment": "unused"}, format="json")
    assert response.status_code == status
    assert operator.delete(f"{API}/groups/none", {"comment": "x"}, format="json").status_code == 404


def test_an_acl_is_created_with_kafkas_defaults_listed_and_deleted(
    operator: APIClient, viewer_client: APIClient
) -> None:
    made: dict[str, Any] = operator.post(f"{API}/acls", ACL, format="json").json()
    assert (made["host"], made["pattern_type"], made["created_by"]) == ("*", "literal", "alice")
    assert viewer_client.get(f"{API}/acls", {"query": "ANN"}).json()["rows"] == [made]
    assert viewer_client.post(f"{API}/acls", ACL, format="json").status_code == 403
    path = f"{API}/acls/{made['id']}"
    assert operator.delete(path, {}, format="json").status_code == 400
    assert operator.delete(path, {"comment": "left"}, format="json").status_code == 204
    assert operator.get(f"{API}/acls").json()["total"] == 0
