from __future__ import annotations

import pytest
from django.core.management import call_command
from rest_framework.test import APIClient

from controlplane.models import Change
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World
from weir.settings import database

pytestmark = pytest.mark.django_db
API = "/api/v1"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "field"),
    [
        ("post", "topics", {"name": "a b"}, 400, "name"),
        ("post", "topics", {}, 400, "name"),
        ("post", "topics", {"name": "t", "partitions": "many"}, 400, "partitions"),
        ("post", "topics", {"name": "t", "configs": {"retention.ms": "x"}}, 400, "configs.retention.ms"),
        ("post", "topics", {"name": "t", "assignment": {"x": [1]}}, 400, "assignment"),
        ("patch", "topics/nope", {"partitions": 2}, 404, ""),
        ("delete", "topics/nope", {}, 404, ""),
        ("get", "topics?limit=100000", None, 400, "limit"),
        ("get", "topics/nope/partitions/0/messages", None, 404, ""),
        ("get", "brokers/77", None, 404, ""),
        ("get", "moves/77", None, 404, ""),
        ("post", "moves/77/start", {}, 404, ""),
        ("post", "moves", {"scope": "everything"}, 400, "scope"),
        ("post", "moves", {"scope": {"kind": "drain", "broker": 9}, "comment": "x"}, 400, "scope"),
        ("post", "recoveries", {"topic": "nope", "partition": 0, "broker_id": 1, "comment": "x"}, 400, "partition"),
        ("post", "archives", {"topics": ["nope"]}, 400, "topics"),
        ("post", "acls", {"resource_type": "topic"}, 400, "resource_name"),
        ("delete", "acls/7", {"comment": "x"}, 409, ""),
    ],
)
def test_invalid_input_gets_the_error_shape(
    world: World, operator: APIClient, method: str, path: str, body: object, status: int, field: str
) -> None:
    call = getattr(operator, method)
    response = call(f"{API}/{path}") if body is None else call(f"{API}/{path}", body, format="json")
    assert (response.status_code, response.json()["field"]) == (status, field), response.content
    assert len(response.json()["detail"]) > 10


COSTLY = [
    ("delete", "topics/flights", {}),
    ("delete", "groups/readers", {}),
    ("delete", "acls/1", {}),
    ("post", "moves", {"scope": {"kind": "drain", "broker": 1}}),
    ("post", "moves/1/cancel", {}),
    ("post", "moves/1/roll_back", {}),
    ("post", "recoveries", {"topic": "flights", "partition": 0, "broker_id": 1}),
    ("post", "proposals", {"kind": "move.approve", "target": "1"}),
    ("post", "proposals/1/reject", {}),
]
"""Operations that copy or destroy data, or approve that. Operations that are as easily reverted need no confirmation."""


@pytest.mark.parametrize("comment", [{}, {"comment": ""}, {"comment": "  "}])
@pytest.mark.parametrize(("method", "path", "body"), COSTLY)
def test_a_costly_act_requires_a_reason(
    world: World, operator: APIClient, method: str, path: str, body: dict[str, object], comment: dict[str, str]
) -> None:
    from controlplane.models import Acl, ConsumerGroup
    from controlplane.services import moves, proposals

    world.topic("flights", (1, 2), configs={"min.insync.replicas": "2"})
    ConsumerGroup.objects.create(group_id="readers", state="Empty", observed_at="2026-11-21T00:00:00Z")
    Acl.objects.create(
        pk=1,
        resource_type="topic",
        pattern_type="literal",
        resource_name="x",
        principal="User:x",
        host="*",
        operation="read",
        permission="allow",
        created_by="x",
    )
    to_3 = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [3]}]}
    move = moves.plan_move(parse_scope(to_3), actor="bea", comment="x", override=True)
    row = proposals.propose("move.approve", str(move.pk), actor="bea", comment="x")
    before = Change.objects.count()
    path = path.replace("moves/1", f"moves/{move.pk}").replace("proposals/1", f"proposals/{row.pk}")
    response = getattr(operator, method)(f"{API}/{path}", {**body, **comment}, format="json")
    assert (response.status_code, response.json()["field"]) == (400, "comment"), response.content
    assert "Give a reason" in response.json()["detail"]
    assert Change.objects.count() == before


def test_a_malformed_json_body_is_rejected(world: World, operator: APIClient) -> None:
    response = operator.generic("POST", f"{API}/topics", "{not json", content_type="application/json")
    assert response.status_code == 400
    assert response.headers["Content-Type"] == "application/problem+json"


def test_every_get_endpoint_responds(world: World, operator: APIClient) -> None:
    world.topic("flights", (1, 2))
    for path in (
        "overview",
        "brokers",
        "brokers/1",
        "brokers/1/replicas",
        "brokers/1/restart",
        "topics",
        "topics/flights",
        "topics/flights/configs",
        "topics/flights/partitions",
        "topics/flights/partitions/0",
        "partitions",
        "drift",
        "groups",
        "acls",
        "moves",
        "recoveries",
        "changes",
        "archives",
    ):
        response = operator.get(f"{API}/{path}")
        assert response.status_code == 200, (path, response.content)


def test_an_operator_is_created_once_and_keeps_its_token(db: None, tmp_path: object) -> None:
    out = tmp_path / "token"  # type: ignore[operator]
    call_command("ensure_operator", username="weir", password="a-long-password", token_out=str(out))
    first = out.read_text()
    call_command("ensure_operator", username="weir", password="another-password", token_out=str(out))
    assert out.read_text() == first
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {first}")
    assert client.get(f"{API}/overview").status_code == 200
    assert client.login(username="weir", password="another-password")


def test_the_database_is_chosen_by_url() -> None:
    chosen = database("postgres://weir:p%40ss@db.example:5433/weir")
    assert (chosen["ENGINE"], chosen["NAME"], chosen["PASSWORD"], chosen["PORT"]) == (
        "django.db.backends.postgresql",
        "weir",
        "p@ss",
        "5433",
    )
