"""Login through OpenID Connect, with a real provider on loopback: what is verified, who may log in, when a session ends."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from console.session_renewal import RENEW_AT
from console.views.oidc import STARTED_MAX
from controlplane.clients import oidc as protocol
from controlplane.domain.token_scopes import TokenScope
from controlplane.models import Change, ExternalIdentity
from controlplane.selectors.sessions import signed_in
from controlplane.services.api_tokens import create_token
from tests.foreign.provider import Provider, provider, query_of, with_query

pytestmark = pytest.mark.django_db
SILENT = "prompt=none"


@pytest.fixture(scope="module")
def idp() -> Iterator[Provider]:
    with provider() as running:
        yield running


@pytest.fixture(autouse=True)
def with_oidc(settings: Any, idp: Provider) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    use(settings, idp.url)
    idp.requests.clear()
    idp.set_user("s-1", preferred_username="alice", email="alice@example.org", groups=["ops", "payments"])


def use(settings: Any, issuer: str, **more: Any) -> None:
    values = {
        "oidc_issuer": issuer,
        "oidc_client_secret": "of the console",
        "login_groups": (("payments", "payments-team"),),
        "login_operator_groups": ("ops",),
        "login_admin_groups": ("root",),
        **more,
    }
    settings.WEIR = replace(settings.WEIR, **values)
    settings.AUTHENTICATION_BACKENDS = [
        "django.contrib.auth.backends.ModelBackend",
        "controlplane.services.login_backends.OidcUsers",
    ]
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "console.session_renewal.SessionRenewal"]
    protocol._client.cache_clear()


def start_login(client: Client, following: str = "/topics/?q=a") -> str:
    response = client.get("/login/oidc/", {"next": following})
    assert response.status_code == 302, response.content
    return response.headers["Location"]


def callback(client: Client, address: str) -> Any:
    assert address.startswith("http://testserver/login/oidc/callback/?"), address
    return client.get(address.removeprefix("http://testserver"))


def log_in(client: Client, idp: Provider, subject: str = "s-1", following: str = "/topics/?q=a") -> Any:
    return callback(client, idp.log_in(start_login(client, following), subject))


# -- the login -----------------------------------------------------------------------------------------------------------------


def test_a_user_lands_on_the_page_that_was_asked_for_with_the_rights_of_the_groups(
    client: Client, idp: Provider
) -> None:
    page = client.get("/topics/?q=a")
    login = client.get(page.headers["Location"]).content.decode()
    assert 'href="/login/oidc/?next=%2Ftopics%2F%3Fq%3Da"' in login and "Log in with OpenID Connect" in login
    response = log_in(client, idp)
    assert (response.status_code, response.headers["Location"]) == (302, "/topics/?q=a")
    user = get_user_model().objects.get(username="alice")
    assert user.is_staff and not user.is_superuser and not user.has_usable_password()
    assert [g.name for g in user.groups.all()] == ["payments-team"]
    assert client.get("/topics/").status_code == 200
    rows = {(c.verb, c.actor, c.outcome) for c in Change.objects.all()}
    assert rows == {("session.login", "alice", "confirmed"), ("console_user.create", "alice", "confirmed")}
    client.post("/logout/")
    assert Change.objects.filter(verb="session.logout", actor="alice").count() == 1


def test_the_request_has_state_nonce_and_the_challenge_of_a_verifier_that_only_the_exchange_shows(
    client: Client, idp: Provider
) -> None:
    address = start_login(client)
    asked = query_of(address)
    assert asked["code_challenge_method"] == "S256" and asked["scope"] == "openid profile email"
    assert len(asked["state"]) == 40 and len(asked["nonce"]) >= 20
    callback(client, idp.log_in(address, "s-1"))
    exchange = next(form for path, form in idp.requests if path == "/oauth2/token")
    digest = hashlib.sha256(exchange["code_verifier"][0].encode()).digest()
    assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"]
    assert "code_verifier" not in asked


@pytest.mark.parametrize("following", ["//evil.example/", "https://evil.example/", "javascript:alert(1)", ""])
def test_the_page_after_the_login_is_never_at_another_site(client: Client, idp: Provider, following: str) -> None:
    assert log_in(client, idp, following=following).headers["Location"] == "/"


def test_rights_are_those_of_the_last_login(client: Client, idp: Provider) -> None:
    log_in(client, idp)
    idp.set_user("s-1", preferred_username="alice-renamed", groups="root")
    log_in(Client(), idp)
    user = get_user_model().objects.get()
    assert user.username == "alice" and user.is_superuser and not user.groups.exists()
    refresh = Change.objects.get(verb="console_user.refresh")
    assert refresh.before["groups"] == ["payments-team"] and refresh.after["is_superuser"]


def test_the_claim_may_be_inside_of_an_object_and_come_from_userinfo(
    client: Client, idp: Provider, settings: Any
) -> None:
    use(settings, idp.url, oidc_groups_claim="realm_access.roles", oidc_username_claim="email")
    idp.set_user("s-1", email="alice@example.org", realm_access={"roles": ["payments"]})
    assert log_in(client, idp).status_code == 302
    assert Group.objects.get(user__username="alice@example.org").name == "payments-team"


# -- rejected ---------------------------------------------------------------------------------------------------------------------


def rejection(response: Any, status: int) -> str:
    assert response.status_code == status, response.content
    assert "Content-Security-Policy" in response.headers
    return " ".join(response.content.decode().split())


def test_a_state_of_another_browser_or_used_twice_is_rejected(client: Client, idp: Provider) -> None:
    back = idp.log_in(start_login(client), "s-1")
    assert "was not started in this browser" in rejection(callback(Client(), back), 400)
    assert "was not started in this browser" in rejection(callback(client, with_query(back, state="forged")), 400)
    assert callback(client, back).status_code == 302
    assert "was not started in this browser" in rejection(callback(client, back), 400)


def test_a_forged_nonce_is_rejected(client: Client, idp: Provider) -> None:
    back = idp.log_in(with_query(start_login(client), nonce="another-nonce-of-20-chars"), "s-1")
    assert "is not valid" in rejection(callback(client, back), 502)
    assert not get_user_model().objects.exists()


def test_an_expired_token_is_rejected(client: Client, settings: Any) -> None:
    with provider(token_lifetime=timedelta(seconds=-600)) as late:
        use(settings, late.url)
        assert "is not valid" in rejection(log_in(client, late), 502)
    assert not get_user_model().objects.exists()


def test_a_token_for_another_client_is_rejected(client: Client, idp: Provider, settings: Any) -> None:
    back = idp.log_in(with_query(start_login(client), client_id="another-client"), "s-1")
    response = callback(client, back)
    assert "rejected the login" in rejection(response, 403), "the provider rejects the code of another client"


def test_a_token_that_another_key_signed_is_rejected(client: Client, idp: Provider) -> None:
    address = start_login(client)
    with provider() as other:
        protocol._provider().server_metadata["jwks_uri"] = f"{other.url}/jwks"
        assert "is not valid" in rejection(callback(client, idp.log_in(address, "s-1")), 502)


def test_a_provider_with_another_issuer_is_rejected(client: Client, idp: Provider, settings: Any) -> None:
    use(settings, idp.url.replace("127.0.0.1", "localhost") + "/")
    assert "its issuer is" in rejection(client.get("/login/oidc/"), 502)


def test_an_unreachable_provider_is_named(client: Client, settings: Any) -> None:
    use(settings, "http://127.0.0.1:9")
    text = rejection(client.get("/login/oidc/"), 503)
    assert "http://127.0.0.1:9" in text and "no connection" in text and "emergency account" in text


def test_a_missing_claim_is_named_with_those_that_were_sent(client: Client, idp: Provider) -> None:
    idp.set_user("s-1", preferred_username="alice")
    text = rejection(log_in(client, idp), 502)
    assert "sent no claim groups" in text and "preferred_username" in text and "WEIR_OIDC_GROUPS_CLAIM" in text
    assert Change.objects.get(verb="session.login").outcome == "refused"


def test_groups_that_the_provider_left_out_are_a_cause_of_their_own(client: Client, idp: Provider) -> None:
    idp.set_user("s-1", preferred_username="alice", _claim_names={"groups": "src1"})
    assert "too many" in rejection(log_in(client, idp), 502)


def test_a_user_in_no_configured_group_sees_the_needed_groups_and_loses_roles_and_tokens(
    client: Client, idp: Provider
) -> None:
    log_in(client, idp)
    user = get_user_model().objects.get()
    token = create_token("ci", actor="alice", scope=TokenScope.OPERATE, limit=TokenScope.OPERATE)[1]
    assert api(token).status_code == 200
    idp.set_user("s-1", preferred_username="alice", groups=["sales"])
    text = rejection(log_in(Client(), idp), 403)
    assert "alice is in no group that may log in" in text and "ops, payments, root" in text and "sales" in text
    user.refresh_from_db()
    assert not user.is_staff and not user.groups.exists()
    assert api(token).status_code == 401


def api(token: str) -> Any:
    return Client().get("/api/v1/topics", headers={"Authorization": f"Token {token}"})


def test_a_rejection_of_the_provider_is_shown(client: Client) -> None:
    state = query_of(start_login(client))["state"]
    response = client.get(
        "/login/oidc/callback/", {"state": state, "error": "access_denied", "error_description": "<b>no"}
    )
    assert "rejected the login: &lt;b&gt;no" in rejection(response, 403)


def test_a_local_user_is_not_taken_over_unless_the_setting_permits_it(
    client: Client, idp: Provider, settings: Any
) -> None:
    local = get_user_model().objects.create_user("alice", password="a long password")
    assert "Another user named alice exists" in rejection(log_in(client, idp), 403)
    use(settings, idp.url, login_link_users=True)
    assert log_in(client, idp).status_code == 302
    local.refresh_from_db()
    assert local.external_identity.subject == "s-1" and not local.has_usable_password()
    get_user_model().objects.create_superuser("admin", password="a long password")
    idp.set_user("s-2", preferred_username="admin", groups=["ops"])
    assert "Another user named admin" in rejection(log_in(Client(), idp, "s-2"), 403)


def test_a_name_with_other_characters_is_rejected(client: Client, idp: Provider) -> None:
    idp.set_user("s-3", preferred_username="alice <x>", groups=["ops"])
    assert "cannot be the name of a user" in rejection(log_in(client, idp, "s-3"), 403)


def test_a_disabled_user_is_rejected(client: Client, idp: Provider) -> None:
    log_in(client, idp)
    get_user_model().objects.update(is_active=False)
    assert not signed_in(client.session.session_key)
    assert "was disabled in Weir" in rejection(log_in(Client(), idp), 403)


# -- the end of a session ------------------------------------------------------------------------------------------------------


def test_a_session_ends_at_a_fixed_time_and_is_renewed_without_a_question_before(client: Client, idp: Provider) -> None:
    log_in(client, idp)
    key = client.session.session_key
    assert timedelta(minutes=59) < client.session.get_expiry_date() - timezone.now() <= timedelta(minutes=60)
    make_renewal_due(client)
    response = client.get("/topics/?q=b")
    assert response.headers["Location"] == "/login/renew/?next=%2Ftopics%2F%3Fq%3Db"
    address = client.get(response.headers["Location"]).headers["Location"]
    assert SILENT in address and address.startswith(idp.url)
    response = callback(client, idp.log_in(address.replace(SILENT, ""), "s-1"))
    assert response.headers["Location"] == "/topics/?q=b" and client.session.session_key == key
    assert client.session[RENEW_AT] > time.time() + 1700
    assert Change.objects.filter(verb="session.login").count() == 1, "a renewal is no login"
    session = Session.objects.get(session_key=key)
    assert session.expire_date <= timezone.now() + timedelta(minutes=60)
    Session.objects.filter(session_key=key).update(expire_date=timezone.now())
    assert not signed_in(key) and client.get("/topics/").status_code == 302


def make_renewal_due(client: Client) -> None:
    session = client.session
    session[RENEW_AT] = time.time() - 1
    session.save()


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("get", "/api/v1/topics", {}),
        ("post", "/theme/", {}),
        ("get", "/topics/", {"HX-Request": "true"}),
        ("get", "/topics/", {"Sec-Fetch-Mode": "cors"}),
    ],
)
def test_only_whole_pages_are_sent_to_the_provider(
    client: Client, idp: Provider, method: str, path: str, headers: dict[str, str]
) -> None:
    log_in(client, idp)
    make_renewal_due(client)
    response = getattr(client, method)(path, headers=headers)
    assert "oidc" not in response.headers.get("Location", "") and response.status_code in (200, 302)


def test_a_boosted_link_makes_the_browser_go_to_the_provider(client: Client, idp: Provider) -> None:
    log_in(client, idp)
    make_renewal_due(client)
    response = client.get("/topics/", headers={"HX-Request": "true", "HX-Boosted": "true"})
    assert response.headers["HX-Redirect"] == "/login/renew/?next=%2Ftopics%2F"


def test_a_renewal_without_a_session_at_the_provider_ends_the_session(client: Client, idp: Provider) -> None:
    log_in(client, idp)
    key = client.session.session_key
    make_renewal_due(client)
    back = idp.log_in(client.get("/login/renew/?next=/topics/").headers["Location"], "s-1")
    assert query_of(back)["error"] == "login_required"
    response = callback(client, back)
    assert response.headers["Location"] == "/login/?next=%2Ftopics%2F&ended=1"
    assert "no longer confirms your session" in client.get(response.headers["Location"]).content.decode()
    assert not signed_in(key)
    assert "has no session" in Change.objects.get(verb="session.logout").detail


def test_a_renewal_that_does_not_reach_the_provider_keeps_the_session(
    client: Client, idp: Provider, settings: Any
) -> None:
    log_in(client, idp)
    make_renewal_due(client)
    end = client.session.get_expiry_date()
    use(settings, "http://127.0.0.1:9")
    assert client.get("/login/renew/?next=/topics/").headers["Location"] == "/topics/"
    assert client.get("/topics/").status_code == 200 and client.session.get_expiry_date() == end


def test_logins_that_are_started_and_never_finished_are_limited(client: Client) -> None:
    for _ in range(STARTED_MAX + 5):
        start_login(client)
    session = client.session
    row = Session.objects.get(session_key=session.session_key)
    assert len(session["oidc_started"]) == STARTED_MAX
    assert len([key for key in row.get_decoded() if key.startswith("_state_")]) == STARTED_MAX
    assert session.get_expiry_age() <= 3600


def test_the_login_continues_at_the_address_that_the_provider_returns_to(client: Client, settings: Any) -> None:
    settings.WEIR = replace(settings.WEIR, console_url="https://console.example")
    response = client.get("/login/oidc/?next=/topics/")
    assert response.headers["Location"] == "https://console.example/login/oidc/?next=/topics/"


# -- API tokens ---------------------------------------------------------------------------------------------------------------------


def test_api_tokens_of_a_user_without_a_recent_login_are_rejected(client: Client, idp: Provider) -> None:
    log_in(client, idp)
    token = create_token("ci", actor="alice", scope=TokenScope.READ, limit=TokenScope.READ)[1]
    ExternalIdentity.objects.update(seen_at=timezone.now() - timedelta(days=31))
    response = api(token)
    assert response.status_code == 401 and "has not logged in for 30 days" in response.json()["detail"]
    log_in(Client(), idp)
    assert api(token).status_code == 200


# -- passwords ------------------------------------------------------------------------------------------------------------------------


def test_without_password_login_the_console_and_the_admin_accept_no_password(client: Client, settings: Any) -> None:
    get_user_model().objects.create_superuser("admin", password="a long password")
    form = {"username": "admin", "password": "a long password", "next": "/admin/"}
    assert client.get("/admin/").headers["Location"] == "/admin/login/?next=/admin/"
    assert client.get("/admin/login/?next=/admin/").headers["Location"] == "/login/?next=/admin/"
    assert client.post("/admin/login/", form).status_code == 302 and "_auth_user_id" not in client.session
    assert client.post("/login/", form).headers["Location"] == "/admin/"
    assert client.get("/admin/").status_code == 200
    settings.WEIR = replace(settings.WEIR, password_login=False)
    settings.AUTHENTICATION_BACKENDS = settings.AUTHENTICATION_BACKENDS[1:]
    assert client.get("/admin/").status_code == 302, "the session of a local user has ended"
    page = Client().get("/login/").content.decode()
    assert 'name="password"' not in page and "Log in with OpenID Connect" in page
    rejected = Client().post("/login/", form)
    assert rejected.status_code == 403 and "Login with a password is off" in rejected.content.decode()


def test_after_the_logout_the_page_says_that_the_session_of_the_provider_continues(
    client: Client, idp: Provider, settings: Any
) -> None:
    settings.WEIR = replace(settings.WEIR, oidc_name="Example ID")
    assert log_in(client, idp).status_code == 302
    response = client.post("/logout/", follow=True)
    assert "Your session at Example ID continues." in " ".join(response.content.decode().split())
    get_user_model().objects.create_user("local", password="long enough for a test")
    client.force_login(get_user_model().objects.get(username="local"), "django.contrib.auth.backends.ModelBackend")
    assert "Example ID continues" not in client.post("/logout/", follow=True).content.decode()


def test_a_rejected_login_keeps_the_requested_page_and_says_how_to_use_another_account(
    client: Client, idp: Provider, settings: Any
) -> None:
    settings.WEIR = replace(settings.WEIR, oidc_name="Example ID")
    idp.set_user("s-9", preferred_username="mallory", groups=["sales"])
    page = log_in(client, idp, "s-9").content.decode()
    assert 'href="/login/?next=%2Ftopics%2F%3Fq%3Da"' in page
    assert "To use another account, log out at Example ID first." in " ".join(page.split())
