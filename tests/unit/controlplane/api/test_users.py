"""SCRAM users over REST."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.models import AccessEntry, Change
from controlplane.services import access
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
USERS = "/api/v1/users"


def test_a_user_is_created_changed_and_deleted(world: World, operator: APIClient) -> None:
    made = operator.post(USERS, {"name": "ann/ops", "comment": "new"}, format="json")
    assert made.status_code == 201 and made.json()["name"] == "ann/ops"
    generated = made.json()["password"]
    assert all(access.password_fits(r, generated) for r in AccessEntry.objects.all())
    shown = operator.get(f"{USERS}/ann/ops")
    assert shown.status_code == 200 and generated not in shown.content.decode() and "key" not in shown.json()["row"]
    assert [c["mechanism"] for c in shown.json()["row"]["credentials"]] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    typed = operator.patch(f"{USERS}/ann/ops", {"password": " spaces stay ", "comment": "x"}, format="json")
    assert (typed.status_code, typed.json()) == (200, {"name": "ann/ops", "password": None})
    assert all(access.password_fits(r, " spaces stay ") for r in AccessEntry.objects.all())
    assert operator.get(USERS, {"mechanism": "SCRAM-SHA-512", "query": "ops"}).json()["total"] == 1
    assert operator.delete(f"{USERS}/ann/ops", {"comment": "left"}, format="json").status_code == 204
    assert operator.get(USERS).json()["total"] == 0
    assert [c.verb for c in Change.objects.order_by("id")] == [
        verb for verb in ("scram.create", "scram.alter", "scram.delete") for _ in range(2)
    ]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "field"),
    [
        ("post", "", {}, 400, "name"),
        ("post", "", {"name": "ann"}, 400, "name"),
        ("post", "", {"name": "bob", "password": "short"}, 400, "password"),
        ("post", "", {"name": "bob", "mechanisms": ["PLAIN"]}, 400, "mechanisms"),
        ("post", "", {"name": "bob", "iterations": 1}, 400, "iterations"),
        ("patch", "/ann", {"comment": "x"}, 400, "password"),
        ("patch", "/ann", {"password": None}, 400, "comment"),
        ("delete", "/ann", {}, 400, "comment"),
        ("patch", "/bob", {"password": None, "comment": "x"}, 404, ""),
        ("delete", "/bob", {"comment": "x"}, 404, ""),
        ("get", "/bob", None, 404, ""),
        ("get", "?mechanism=PLAIN", None, 400, "mechanism"),
    ],
)
def test_bad_input(operator: APIClient, method: str, path: str, body: object, status: int, field: str) -> None:
    operator.post(USERS, {"name": "ann", "password": "a long password"}, format="json")
    call = getattr(operator, method)
    response = call(f"{USERS}{path}") if body is None else call(f"{USERS}{path}", body, format="json")
    assert (response.status_code, response.json()["field"]) == (status, field), response.content
    assert "a long password" not in response.content.decode()
    assert all(access.password_fits(r, "a long password") for r in AccessEntry.objects.all())


def test_a_viewer_reads_users_and_cannot_change_them(operator: APIClient, viewer_client: APIClient) -> None:
    operator.post(USERS, {"name": "ann"}, format="json")
    assert viewer_client.get(USERS).status_code == viewer_client.get(f"{USERS}/ann").status_code == 200
    for method, path in (("post", ""), ("patch", "/ann"), ("delete", "/ann")):
        body = {"name": "x", "password": None, "comment": "x"}
        assert getattr(viewer_client, method)(f"{USERS}{path}", body, format="json").status_code == 403
    assert AccessEntry.objects.filter(value__isnull=False).count() == 2
