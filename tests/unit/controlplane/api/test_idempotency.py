"""A POST with an Idempotency-Key takes effect once, and its repetition gets the first response."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.models import Change, IdempotencyKey, Move
from controlplane.services import idempotency
from controlplane.services.idempotency import ClaimState
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
API = "/api/v1"
SCOPE = {"kind": "drain", "broker": 1}


@pytest.fixture
def orders(world: World) -> World:
    world.topic("orders", (1, 2))
    return world


def post(client: APIClient, path: str, body: Any, key: str = "k-1") -> Any:
    return client.post(f"{API}/{path}", body, format="json", HTTP_IDEMPOTENCY_KEY=key)


def test_a_repeated_request_makes_one_move_and_gets_the_same_response(orders: World, operator: APIClient) -> None:
    first = post(operator, "moves", {"scope": SCOPE, "comment": "x"})
    again = post(operator, "moves", {"comment": "x", "scope": SCOPE})
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert "Idempotency-Replayed" not in first.headers and again.headers["Idempotency-Replayed"] == "true"
    assert Move.objects.count() == 1


def test_another_body_or_path_with_the_key_is_422(orders: World, operator: APIClient) -> None:
    post(operator, "moves", {"scope": SCOPE, "comment": "x"})
    before = Change.objects.count()
    for path, body in (("moves", {"scope": SCOPE, "comment": "y"}), ("topics", {"scope": SCOPE, "comment": "x"})):
        rejected = post(operator, path, body)
        assert (rejected.status_code, rejected.json()["code"]) == (422, "idempotency_key_reused")
    assert Change.objects.count() == before


def test_a_duplicate_of_a_running_request_is_409(
    orders: World, operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    from controlplane.services import moves

    seen = []
    real = moves.plan_move

    def send_duplicate_and_continue(*args: Any, **kwargs: Any) -> Any:
        inner = post(operator, "moves", {"scope": SCOPE, "comment": "x"})
        seen.append((inner.status_code, inner.json()["code"]))
        return real(*args, **kwargs)

    monkeypatch.setattr(moves, "plan_move", send_duplicate_and_continue)
    assert post(operator, "moves", {"scope": SCOPE, "comment": "x"}).status_code == 201
    assert seen == [(409, "idempotency_key_in_use")]


def test_a_rejected_request_may_be_repeated_with_its_key(orders: World, operator: APIClient) -> None:
    assert post(operator, "topics", {"name": "a b"}).status_code == 400
    assert not IdempotencyKey.objects.exists()
    assert post(operator, "topics", {"name": "ab"}).status_code == 202


def test_after_a_defect_the_key_stays_reserved(
    orders: World, operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.services.moves.plan_move", lambda *_, **__: 1 / 0)
    operator.raise_request_exception = False
    assert post(operator, "moves", {"scope": SCOPE, "comment": "x"}).status_code == 500
    assert post(operator, "moves", {"scope": SCOPE, "comment": "x"}).status_code == 409


def test_a_key_belongs_to_its_user_and_expires(orders: World, operator: APIClient, viewer_client: APIClient) -> None:
    post(operator, "topics", {"name": "one"})
    assert post(viewer_client, "topics", {"name": "one"}).status_code == 403
    other = idempotency.claim("zoe", "k-1", "f")
    assert other.state is ClaimState.NEW
    old = timezone.now() - idempotency.LIFETIME - timedelta(seconds=1)
    IdempotencyKey.objects.filter(actor="alice").update(created_at=old)
    assert post(operator, "topics", {"name": "two"}).status_code == 202


@pytest.mark.parametrize("key", ["x" * 256, "two words", "é"])
def test_a_key_has_visible_characters(orders: World, operator: APIClient, key: str) -> None:
    response = post(operator, "topics", {"name": "t"}, key)
    assert (response.status_code, response.json()["field"]) == (400, "Idempotency-Key")


def test_a_response_with_a_password_is_not_stored(orders: World, operator: APIClient) -> None:
    made = post(operator, "users", {"name": "billing"})
    assert made.status_code == 201 and made.json()["password"]
    again = post(operator, "users", {"name": "billing"})
    assert (again.status_code, again.json()["code"]) == (409, "idempotency_key_in_use")
    assert IdempotencyKey.objects.get().body is None


def test_the_key_of_a_path_without_post_is_405(orders: World, operator: APIClient) -> None:
    assert post(operator, "changes", {}).status_code == 405
