"""Role bindings over REST, what they permit, and the limits of a token."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from rest_framework.authtoken.models import Token
from rest_framework.test import APIClient

from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
API = "/api/v1"
TEAM = {
    "user": "bob",
    "role": "operator",
    "resource_type": "topic",
    "pattern_type": "prefixed",
    "resource_name": "team.",
}


@pytest.fixture
def root(db: None) -> APIClient:
    user = get_user_model().objects.create_superuser("root")
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {Token.objects.create(user=user).key}")
    return client


def test_a_role_is_given_used_and_withdrawn(world: World, root: APIClient, viewer_client: APIClient) -> None:
    world.topic("team.a", (1, 2))
    change = {"configs": {"retention.ms": "1000"}}
    assert viewer_client.patch(f"{API}/topics/team.a", change, format="json").status_code == 403
    row = root.post(f"{API}/role-bindings", TEAM, format="json").json()
    assert (row["user"], row["group"], row["role"], row["created_by"]) == ("bob", "", "operator", "root")
    assert viewer_client.patch(f"{API}/topics/team.a", change, format="json").status_code == 202
    created = viewer_client.post(f"{API}/topics", {"name": "team.new"}, format="json")
    rejected = viewer_client.post(f"{API}/topics", {"name": "other"}, format="json")
    assert (created.status_code, rejected.status_code) == (202, 403)
    assert "role operator on topic other" in rejected.json()["detail"]
    query = "user=bob&access=operate&resource_type=topic&resource_name=team.b"
    found = viewer_client.get(f"{API}/access-check?{query}").json()
    assert (found["allowed"], found["reason"], [b["id"] for b in found["bindings"]]) == (
        True,
        "role_binding",
        [row["id"]],
    )
    assert root.delete(f"{API}/role-bindings/{row['id']}", {"comment": "left"}, format="json").status_code == 204
    assert viewer_client.patch(f"{API}/topics/team.a", change, format="json").status_code == 403
    assert [c["verb"] for c in root.get(f"{API}/changes?object_kind=role_binding").json()["rows"]] == [
        "role_binding.delete",
        "role_binding.create",
    ]


def test_only_an_administrator_gives_roles(operator: APIClient, viewer_client: APIClient, root: APIClient) -> None:
    assert viewer_client.post(f"{API}/role-bindings", TEAM, format="json").status_code == 403
    rejected = operator.post(f"{API}/role-bindings", TEAM, format="json")
    assert rejected.status_code == 403 and "superusers" in rejected.json()["detail"]
    assert root.post(f"{API}/role-bindings", TEAM, format="json").status_code == 201
    assert root.post(f"{API}/role-bindings", TEAM, format="json").json()["code"]
    for wrong in ({"role": "chief"}, {"user": "nobody"}, {"resource_type": "cluster"}, {"resource_name": ""}):
        assert root.post(f"{API}/role-bindings", {**TEAM, **wrong}, format="json").status_code == 400
    (row,) = operator.get(f"{API}/role-bindings?user=bob").json()["rows"]
    assert operator.get(f"{API}/role-bindings/{row['id']}").json() == row
    assert operator.delete(f"{API}/role-bindings/{row['id']}", {"comment": "x"}, format="json").status_code == 403
    assert root.delete(f"{API}/role-bindings/99", {"comment": "x"}, format="json").status_code == 404


def test_the_scope_of_a_token_limits_a_role(world: World, root: APIClient, viewer_client: APIClient) -> None:
    world.topic("team.a", (1, 2))
    assert viewer_client.post(f"{API}/tokens", {"name": "n", "scope": "operate"}, format="json").status_code == 400
    root.post(f"{API}/role-bindings", TEAM, format="json")
    for scope, status in (("read", 403), ("operate", 202)):
        token = viewer_client.post(f"{API}/tokens", {"name": scope, "scope": scope}, format="json").json()["token"]
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Token {token}")
        change = {"configs": {"retention.ms": "1000"}}
        assert client.patch(f"{API}/topics/team.a", change, format="json").status_code == status
