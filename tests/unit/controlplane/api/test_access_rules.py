"""The table of changing routes and roles, generated from the URLs: a new route without a rule fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse
from django.utils import timezone
from rest_framework.authtoken.models import Token
from rest_framework.response import Response
from rest_framework.test import APIClient

from controlplane.api import access_rules, urls
from controlplane.domain.move_types import PlacementBefore
from controlplane.domain.offset_reset_types import ResetSpec, ResetTarget
from controlplane.domain.roles import ROLE_FOR, ROLES_OF, AccessRole, RoleResource
from controlplane.models import AccessEntry, Acl, Move, MovePartition, OffsetReset, Plan, RestartStep, RollingRestart
from controlplane.services import role_bindings
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
READS = {"POST cluster-document-diff"}
"""Routes that only read, and have a body because their input is long. Every user may use them."""
OWNED = [kind for kind in RoleResource if AccessRole.OWNER in ROLES_OF[kind]]
TEAM = {
    **dict.fromkeys(OWNED, ("prefixed", "team.")),
    RoleResource.BROKER: ("literal", "1"),
    RoleResource.QUOTA: ("prefixed", "user team."),
    RoleResource.ACL: ("prefixed", "topic:team."),
}
"""Pattern type and name of the bindings of the team."""
UUID = "00000000-0000-0000-0000-000000000001"


def changing_routes() -> Iterator[tuple[str, str, list[str]]]:
    """(method, URL name, parameters of the path) of each route that changes something."""
    for pattern in urls.urlpatterns:
        view: Any = pattern.callback
        methods = getattr(view, "actions", None) or {
            m: m for m in ("get", "post", "put", "patch", "delete") if hasattr(getattr(view, "cls", None), m)
        }
        for method in methods:
            if method not in ("get", "head", "options"):
                yield method.upper(), str(pattern.name), list(pattern.pattern.converters)


ROUTES = sorted(changing_routes())


def test_each_changing_route_has_a_rule_and_each_rule_a_route() -> None:
    routes = {f"{method} {name}" for method, name, _ in ROUTES}
    assert routes - access_rules.OWN - READS == set(access_rules.RULES)


def client(name: str, **flags: bool) -> APIClient:
    user = get_user_model().objects.create_user(name, **flags)
    made = APIClient()
    made.credentials(HTTP_AUTHORIZATION=f"Token {Token.objects.create(user=user).key}")
    return made


def bind(user: str, role: AccessRole, kind: RoleResource, pattern: str = "prefixed", name: str = "team.") -> None:
    role_bindings.create_binding(
        user=user, role=role, resource_type=kind, pattern_type=pattern, resource_name=name, actor="root"
    )


def path_of(name: str, parameters: list[str], resource: str) -> str:
    """A path about `resource`. The reset 1 and the move 1 are of the team, 2 of others."""
    number = 1 if resource.startswith("team.") else 2
    values = dict.fromkeys(parameters, number)
    values |= {p: resource for p in parameters if p in ("name", "group_id", "template", "action", "verb")}
    values |= {p: UUID for p in parameters if p == "topic_id"}
    return reverse(f"api:{name}", kwargs=values)


def body_of(resource: str) -> dict[str, Any]:
    scope = {"kind": "topic", "topic": resource, "brokers": [1]}
    return {
        "name": resource,
        "topic": resource,
        "group_id": resource,
        "scope": scope,
        "entity": {"user": resource},
        "resource_type": "topic",
        "resource_name": resource,
        "brokers": [1 if resource.startswith("team.") else 2],
    }


@pytest.fixture
def objects(world: World) -> None:
    for number, name in ((1, "team.a"), (2, "other")):
        world.topic(name, (1, 2))
        OffsetReset.objects.create(
            pk=number, group_id=name, actor="root", spec=ResetSpec(ResetTarget.EARLIEST), computed_at=timezone.now()
        )
        move = Move.objects.create(pk=number, actor="root")
        MovePartition.objects.create(
            move=move,
            topic_id=UUID,
            topic_name=name,
            partition=number,
            replicas_from=[1],
            replicas_to=[2],
            read_generation=1,
            desired_replicas=[2],
            before=PlacementBefore((1,), 1, (1,)),
        )
        AccessEntry.objects.create(pk=number, kind="quota", key=json.dumps({"user": name}), value={}, changed_by="root")
        Acl.objects.create(
            pk=number,
            resource_type="topic",
            resource_name=name,
            principal="User:x",
            operation="read",
            permission="allow",
        )
        Plan.objects.create(pk=number, name=name, actor="root", digest="0", parts=0, copies=0)
        restart = RollingRestart.objects.create(pk=number, actor="root", by_supervisor=False, turn=number)
        RestartStep.objects.create(restart=restart, place=0, broker_id=number)


def test_each_route_permits_only_the_expected_users(objects: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests only the rejection. The views are replaced, so that no request changes rows or reaches a broker."""
    reached: list[str] = []

    def reach(*_: Any, **__: Any) -> Response:
        reached.append("")
        return Response({})

    for pattern in urls.urlpatterns:
        view: Any = pattern.callback
        for method, handler in (getattr(view, "actions", None) or {m: m for m in ("post", "patch", "delete")}).items():
            if method != "get" and hasattr(view.cls, handler):
                monkeypatch.setattr(view.cls, handler, reach)
    users = {name: client(name, is_staff=name == "operator") for name in ("viewer", "operator", "team")}
    for kind in OWNED:
        bind("team", AccessRole.OWNER, kind, *TEAM[kind])
    for kind in OWNED:
        users[f"owner of every {kind}"] = client(kind.value)
        bind(kind.value, AccessRole.OWNER, kind, "literal", "*")
    for role in (AccessRole.READER, AccessRole.WRITER, AccessRole.OPERATOR):
        users[f"{role} of every topic"] = client(f"{role}-of-all")
        bind(f"{role}-of-all", role, RoleResource.TOPIC, "literal", "*")
    for method, name, parameters in ROUTES:
        key = f"{method} {name}"
        if key in access_rules.OWN | READS:
            continue
        rule = access_rules.RULES[key]

        def is_allowed(user: str, resource: str, method: str = method, name: str = name, at: Any = parameters) -> bool:
            reached.clear()
            send = getattr(users[user], method.lower())
            code = send(path_of(name, at, resource), body_of(resource), format="json").status_code
            assert (code == 403) is not bool(reached), (method, name, code)
            return bool(reached)

        expected = {"viewer": False, "operator": True, "team": rule is not None}
        for kind in OWNED:
            expected[f"owner of every {kind}"] = rule is not None and rule.resource is kind
        for role in (AccessRole.READER, AccessRole.WRITER, AccessRole.OPERATOR):
            fits = rule is not None and rule.resource is RoleResource.TOPIC and ROLE_FOR[rule.access] is role
            expected[f"{role} of every topic"] = fits
        assert {user: is_allowed(user, "team.a") for user in users} == expected, key
        checked_by_view = rule is not None and rule.checked_by_view  # test_bulk.py has the rejections of the view
        assert is_allowed("team", "other") is checked_by_view and is_allowed("operator", "other"), key


def test_a_move_needs_the_role_on_every_topic_of_it(objects: None) -> None:
    team = client("team")
    bind("team", AccessRole.OPERATOR, RoleResource.TOPIC)
    scope = {
        "version": 1,
        "partitions": [{"topic": t, "partition": 0, "replicas": [2, 1]} for t in ("team.a", "other", "third")],
    }
    response = team.post("/api/v1/moves", {"scope": scope}, format="json")
    assert response.status_code == 403 and "role operator on topics other, third." in response.json()["detail"]
    assert Move.objects.count() == 2
    MovePartition.objects.filter(move=2).update(move=1)
    assert team.post("/api/v1/moves/1/pause", {}, format="json").status_code == 403
    drain = {"scope": {"kind": "drain", "broker": 1}}
    assert team.post("/api/v1/moves", drain, format="json").status_code == 403


def test_a_route_needs_roles_on_its_topics_too(world: World) -> None:
    team = client("team")
    bind("team", AccessRole.OWNER, RoleResource.ROUTE)
    bind("team", AccessRole.READER, RoleResource.TOPIC)
    body = {"name": "team.r", "source": "team.in", "bindings": [{"target": "other.out", "match": {"kind": "all"}}]}
    rejected = team.post("/api/v1/routes", body, format="json")
    assert rejected.status_code == 403 and "role writer on topic other.out." in rejected.json()["detail"]
    rejected = team.post("/api/v1/routes", {**body, "source": "other.in"}, format="json")
    assert rejected.status_code == 403 and "role reader on topic other.in." in rejected.json()["detail"]
    bind("team", AccessRole.WRITER, RoleResource.TOPIC, name="other.out")
    assert team.post("/api/v1/routes", body, format="json").status_code != 403


def test_the_principal_of_a_route_needs_a_role_on_its_user(world: World) -> None:
    """Its quotas and permissions would be used by others. Without a principal no ACL applies, so its removal needs the role on all users."""
    team = client("team")
    bind("team", AccessRole.OWNER, RoleResource.ROUTE)
    bind("team", AccessRole.OWNER, RoleResource.TOPIC)
    bind("team", AccessRole.OPERATOR, RoleResource.USER)
    place = "/api/v1/routes/team.r"
    world.topic("team.in", (1,))
    body = {"name": "team.r", "source": "team.in", "bindings": [{"target": "team.out", "match": {"kind": "all"}}]}
    rejected = team.post("/api/v1/routes", {**body, "principal": "User:other"}, format="json")
    assert rejected.status_code == 403 and "role operator on user other." in rejected.json()["detail"]
    assert team.post("/api/v1/routes", {**body, "principal": "User:team.a"}, format="json").status_code == 201
    for given, expected in (("User:other", 403), ("", 403), ("User:team.b", 200)):
        response = team.patch(place, {"principal": given, "comment": "team"}, format="json")
        assert response.status_code == expected, response.content
    kept = team.patch(place, {"principal": "User:team.b", "owner": "b", "comment": "owner"}, format="json")
    assert kept.status_code == 200, "an unchanged principal needs no role"


def test_a_role_for_the_acls_of_one_topic_permits_no_acl_of_a_prefix(world: World) -> None:
    team = client("team")
    bind("team", AccessRole.OPERATOR, RoleResource.ACL, "literal", "topic:pay")
    body = {
        "resource_type": "topic",
        "resource_name": "pay",
        "principal": "User:a",
        "operation": "read",
        "permission": "allow",
    }
    assert team.post("/api/v1/acls", {**body, "pattern_type": "prefixed"}, format="json").status_code == 403
    assert team.post("/api/v1/acls", body, format="json").status_code == 201


def test_an_operation_on_all_brokers_needs_the_role_on_all_brokers(world: World) -> None:
    team = client("team")
    bind("team", AccessRole.OPERATOR, RoleResource.BROKER, "literal", "1")
    for path, body in (("restarts", {"comment": "x"}), ("restarts", {"comment": "x", "brokers": [1, 2]})):
        assert team.post(f"/api/v1/{path}", body, format="json").status_code == 403
    wide = {"cluster_wide": True, "configs": {"log.retention.ms": "1"}, "comment": "x"}
    assert team.patch("/api/v1/brokers/1/configs", wide, format="json").status_code == 403
    assert team.post("/api/v1/brokers/1/cordon", {"comment": "disk"}, format="json").status_code == 200
    assert team.post("/api/v1/brokers/2/cordon", {"comment": "disk"}, format="json").status_code == 403


def test_an_unknown_resource_type_is_rejected_with_the_known_ones(db: None) -> None:
    root = client("root", is_staff=True, is_superuser=True)
    body = {
        "user": "root",
        "role": "owner",
        "resource_type": "brokers",
        "pattern_type": "literal",
        "resource_name": "1",
    }
    rejected = root.post("/api/v1/role-bindings", body, format="json")
    assert rejected.status_code == 400 and "broker" in rejected.content.decode()
