"""The common part of bulk operations: all errors at once, limits, idempotency, the roles of all objects."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from rest_framework.authtoken.models import Token
from rest_framework.test import APIClient

from controlplane.api import bulk_operations
from controlplane.domain.roles import AccessRole, RoleResource
from controlplane.models import Change, Topic
from controlplane.services import role_bindings
from tests.unit.controlplane.api.test_access_rules import objects as objects
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
BULK = "/api/v1/bulk"


def post(client: APIClient, verb: str, body: dict[str, Any], status: int = 200, **headers: str) -> dict[str, Any]:
    response = client.post(f"{BULK}/{verb}", body, format="json", headers=headers)
    assert response.status_code == status, response.content
    found: dict[str, Any] = response.json()
    return found


def outcomes(report: dict[str, Any]) -> dict[str, str]:
    return {r["key"]: r["outcome"] for r in report["rows"]}


@pytest.fixture
def topics(world: World) -> World:
    for name in ("orders", "orders-2", "other"):
        world.topic(name, (1, 2))
    Topic.objects.filter(name="orders-2").update(configs={"retention.ms": "1000"})
    return world


def test_all_errors_of_a_body_are_in_one_problem(topics: World, operator: APIClient) -> None:
    body = {"names": [], "filter": {"state": "odd"}, "configs": {"retention.ms": "x", "nonsense": "1"}, "coment": "a"}
    rejected = operator.post(f"{BULK}/topic-configs", body, format="json")
    assert (rejected.status_code, rejected.headers["Content-Type"]) == (400, "application/problem+json")
    fields = {e["field"] for e in rejected.json()["errors"]}
    assert fields == {"names", "filter.state", "configs.retention.ms", "configs.nonsense", "coment"}
    rejected = operator.post(f"{BULK}/topic-deletion", {"names": ["a"], "filter": {}}, format="json")
    assert {e["field"] for e in rejected.json()["errors"]} == {"names", "comment"}
    problem = post(operator, "quota-limits", {"names": ["1"], "limits": {"bytes": 1, "producer_byte_rate": -1}}, 400)
    assert {e["field"] for e in problem["errors"]} == {"limits.bytes", "limits.producer_byte_rate"}
    problem = post(operator, "move-throttle", {"names": ["1"], "throttle_bytes_per_s": 5, "comment": "a"}, 400)
    assert problem["field"] == "throttle_bytes_per_s"
    assert not Change.objects.exists()


def test_more_objects_than_the_limit_are_rejected(
    topics: World, operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_operations.BulkTopics, "objects_max", 2)
    assert post(operator, "topic-deletion", {"filter": {}, "dry": True}, 400)["field"] == "filter"
    assert post(operator, "topic-deletion", {"names": ["a", "b", "c"], "dry": True}, 400)["field"] == "names"
    assert post(operator, "topic-deletion", {"filter": {"query": "orders"}, "dry": True})["total"] == 2


def test_a_repeated_request_with_its_key_changes_nothing_twice(topics: World, operator: APIClient) -> None:
    body = {"names": ["orders"], "configs": {"retention.ms": "5000"}, "comment": "disk"}
    first = post(operator, "topic-configs", body, **{"Idempotency-Key": "once"})
    assert post(operator, "topic-configs", body, **{"Idempotency-Key": "once"}) == first
    assert Change.objects.filter(verb="topic.alter").count() == 1


def test_the_role_is_needed_for_each_object_of_the_names_and_of_the_filter(objects: None) -> None:
    user = get_user_model().objects.create_user("team")
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {Token.objects.create(user=user).key}")
    for kind, pattern in ((RoleResource.TOPIC, "team."), (RoleResource.QUOTA, "user team.")):
        role_bindings.create_binding(
            user="team",
            role=AccessRole.OPERATOR,
            resource_type=kind,
            pattern_type="prefixed",
            resource_name=pattern,
            actor="root",
        )
    configs = {"configs": {"retention.ms": "1000"}, "comment": "disk"}
    rejected = post(client, "topic-configs", {"names": ["team.a", "other"], **configs}, 403)
    assert "role operator on topic other." in rejected["detail"]
    assert "topic other." in post(client, "topic-configs", {"filter": {}, **configs}, 403)["detail"]
    assert "topic other." in post(client, "topic-deletion", {"filter": {}, "dry": True}, 403)["detail"]
    assert outcomes(post(client, "topic-configs", {"filter": {"query": "team"}, **configs})) == {"team.a": "requested"}
    limits = {"limits": {"producer_byte_rate": 1e6}, "comment": "x"}
    assert "user other" in post(client, "quota-limits", {"names": ["1", "2"], **limits}, 403)["detail"]
    assert outcomes(post(client, "quota-limits", {"names": ["1"], **limits, "dry": True})) == {"1": "planned"}
    throttle = {"throttle_bytes_per_s": None, "dry": True}
    assert "topic other." in post(client, "move-throttle", {"names": ["1", "2"], **throttle}, 403)["detail"]
    assert outcomes(post(client, "move-throttle", {"names": ["1"], **throttle})) == {"1": "unchanged"}
    post(client, "user-deletion", {"names": ["team.a"], "dry": True}, 403)
    post(client, "alert-acknowledgement", {"filter": {}}, 403)
    assert Change.objects.filter(actor="team").count() == 1
