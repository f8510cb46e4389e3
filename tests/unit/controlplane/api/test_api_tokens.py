"""API tokens: shown once, stored as a hash, limited by scope and end, revocable."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone
from rest_framework.test import APIClient

from controlplane.models import ApiToken, Change, Topic
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
URL = "/api/v1/tokens"


def create(client: APIClient, **body: Any) -> Any:
    return client.post(URL, {"name": "ci", "scope": "operate", **body}, format="json")


def with_token(text: str, scheme: str = "Token") -> APIClient:
    return APIClient(HTTP_AUTHORIZATION=f"{scheme} {text}")


@pytest.fixture
def root(db: None) -> APIClient:
    user = get_user_model().objects.create_user("root", is_staff=True, is_superuser=True)
    client = APIClient()
    client.force_login(user)
    return client


def test_a_token_is_shown_one_time_and_stored_as_a_hash(world: World, operator: APIClient) -> None:
    made = create(operator, comment="pipeline")
    assert made.status_code == 201
    text = made.json()["token"]
    row = ApiToken.objects.get()
    assert (row.digest, row.prefix) == (hashlib.sha256(text.encode()).hexdigest(), text[:11])
    assert text not in operator.get(URL).content.decode() + operator.get(f"{URL}/{row.pk}").content.decode()
    change = Change.objects.get(verb="token.create")
    assert (change.actor, change.object_name, change.outcome) == ("alice", "ci", "confirmed")
    assert text not in str(change.after)


@pytest.mark.parametrize("scheme", ["Token", "Bearer"])
def test_a_token_authenticates_and_its_use_is_recorded(world: World, operator: APIClient, scheme: str) -> None:
    client = with_token(create(operator).json()["token"], scheme)
    made = client.post("/api/v1/topics", {"name": "t"}, format="json")
    assert made.status_code == 202
    assert Change.objects.get(verb="topic.create").actor == "alice"
    used = ApiToken.objects.get().last_used_at
    assert used is not None and client.get(URL).status_code == 200
    assert ApiToken.objects.get().last_used_at == used, "a use is recorded one time a minute"


def test_a_read_token_changes_nothing(world: World, operator: APIClient) -> None:
    client = with_token(create(operator, scope="read").json()["token"])
    assert client.get("/api/v1/topics").status_code == 200
    assert client.post("/api/v1/topics", {"name": "t"}, format="json").status_code == 403
    assert create(client, name="more").status_code == 403
    assert not Topic.objects.exists()


def test_a_token_creates_no_token_of_more_rights(world: World, root: APIClient) -> None:
    operate = with_token(create(root).json()["token"])
    assert create(operate, name="more").status_code == 403
    admin = with_token(create(root, name="root", scope="admin").json()["token"])
    assert create(admin, name="more", scope="admin").status_code == 201


def test_the_scope_is_within_the_role(world: World, operator: APIClient) -> None:
    rejected = create(operator, scope="admin")
    assert (rejected.status_code, rejected.json()["field"]) == (400, "scope")
    assert Change.objects.get(verb="token.create").outcome == "refused"


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        ({"name": ""}, "name", "blank"),
        ({"scope": "all"}, "scope", "invalid_choice"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at", "rejected"),
        ({"expires_at": "soon"}, "expires_at", "invalid"),
    ],
)
def test_wrong_input_is_rejected(
    world: World, operator: APIClient, body: dict[str, str], field: str, code: str
) -> None:
    rejected = create(operator, **body)
    assert [(e["field"], e["code"]) for e in rejected.json()["errors"]] == [(field, code)]


def test_a_name_is_used_one_time_per_user(world: World, operator: APIClient, root: APIClient) -> None:
    create(operator)
    assert create(operator).json()["errors"][0]["code"] == "already_exists"
    assert create(root).status_code == 201


def test_a_user_has_a_limited_number_of_tokens(
    world: World, operator: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.services.api_tokens.TOKENS_PER_USER_MAX", 1)
    create(operator)
    assert create(operator, name="second").status_code == 409


def test_an_expired_a_revoked_and_an_unknown_token_are_rejected(world: World, operator: APIClient) -> None:
    text = create(operator).json()["token"]
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    expired = with_token(text).get(URL)
    assert (expired.status_code, "expired" in expired.json()["detail"]) == (401, True)
    assert operator.get(URL).json()["rows"][0]["expired"] is True
    ApiToken.objects.update(expires_at=None)
    assert operator.delete(f"{URL}/{ApiToken.objects.get().pk}").status_code == 204
    for gone in (text, "weir_unknown", "weir_\xff"):
        response = with_token(gone).get(URL)
        assert (response.status_code, response.headers["WWW-Authenticate"]) == (401, "Token")
    assert Change.objects.get(verb="token.revoke").before["user"] == "alice"


def test_the_token_of_an_inactive_user_is_rejected(world: World, operator: APIClient) -> None:
    text = create(operator).json()["token"]
    get_user_model().objects.update(is_active=False)
    assert with_token(text).get(URL).status_code == 401


def test_a_user_sees_his_own_tokens_and_a_superuser_all(world: World, operator: APIClient, root: APIClient) -> None:
    create(root)
    row = ApiToken.objects.get()
    assert operator.get(URL).json()["total"] == 0
    assert operator.get(f"{URL}/{row.pk}").status_code == 404
    assert operator.delete(f"{URL}/{row.pk}").status_code == 404
    create(operator)
    assert {r["user"] for r in root.get(f"{URL}?scope=operate").json()["rows"]} == {"root", "alice"}


def test_a_repeated_creation_does_not_show_the_token_again(world: World, operator: APIClient) -> None:
    body = {"name": "ci", "scope": "read"}
    first = operator.post(URL, body, format="json", HTTP_IDEMPOTENCY_KEY="k")
    again = operator.post(URL, body, format="json", HTTP_IDEMPOTENCY_KEY="k")
    assert (first.status_code, again.status_code, ApiToken.objects.count()) == (201, 409, 1)


@pytest.fixture
def viewer() -> APIClient:
    """The user bob in the console: a session, not a token."""
    client = APIClient()
    client.force_login(get_user_model().objects.create_user("bob"))
    return client


def test_a_viewer_creates_and_revokes_a_read_token(world: World, viewer: APIClient) -> None:
    made = create(viewer, scope="read", comment="dashboard")
    assert (made.status_code, made.json()["row"]["scope"], made.json()["row"]["user"]) == (201, "read", "bob")
    client = with_token(made.json()["token"])
    assert client.get("/api/v1/topics").status_code == 200
    assert client.post("/api/v1/topics", {"name": "t"}, format="json").status_code == 403
    assert viewer.delete(f"{URL}/{made.json()['row']['id']}").status_code == 204
    assert client.get("/api/v1/topics").status_code == 401
    assert [c.actor for c in Change.objects.filter(verb__startswith="token.")] == ["bob", "bob"]


@pytest.mark.parametrize("scope", ["operate", "admin"])
def test_a_viewer_creates_no_token_of_more_than_its_role(world: World, viewer: APIClient, scope: str) -> None:
    rejected = create(viewer, scope=scope)
    assert (rejected.status_code, rejected.json()["field"], ApiToken.objects.count()) == (400, "scope", 0)
    assert Change.objects.get(verb="token.create").outcome == "refused"


def test_a_viewer_names_no_other_user(world: World, viewer: APIClient, operator: APIClient) -> None:
    assert create(viewer, scope="read", user="alice").status_code == 400
    create(operator)
    row = ApiToken.objects.get()
    assert viewer.get(f"{URL}/{row.pk}").status_code == 404
    assert viewer.delete(f"{URL}/{row.pk}").status_code == 404
    assert ApiToken.objects.count() == 1


def test_a_read_token_creates_and_revokes_no_token(world: World, viewer: APIClient) -> None:
    made = create(viewer, scope="read").json()
    client = with_token(made["token"])
    assert create(client, name="more", scope="read").status_code == 403
    assert client.delete(f"{URL}/{made['row']['id']}").status_code == 403
    assert ApiToken.objects.count() == 1


@pytest.mark.parametrize("scope", ["operate", "admin"])
def test_the_token_of_a_former_operator_has_the_permissions_of_a_viewer(
    world: World, operator: APIClient, root: APIClient, scope: str
) -> None:
    owner = {"operate": operator, "admin": root}[scope]
    client = with_token(create(owner, scope=scope).json()["token"])
    get_user_model().objects.update(is_staff=False, is_superuser=False)
    assert client.post("/api/v1/topics", {"name": "t"}, format="json").status_code == 403
    for asked, expected in (("admin", 400), ("operate", 400), ("read", 201)):
        assert create(client, name=asked, scope=asked).status_code == (403 if scope == "operate" else expected)


def test_a_viewer_needs_the_csrf_token_of_its_session(world: World, viewer: APIClient) -> None:
    browser = APIClient(enforce_csrf_checks=True)
    browser.cookies = viewer.cookies
    assert create(browser, scope="read").status_code == 403


def test_an_unknown_user_and_an_inactive_one_create_nothing(world: World, viewer: APIClient) -> None:
    assert create(APIClient(), scope="read").status_code == 401
    get_user_model().objects.filter(username="bob").update(is_active=False)
    assert create(viewer, scope="read").status_code in (401, 403)
    assert not ApiToken.objects.exists()
