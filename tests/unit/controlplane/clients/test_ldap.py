"""Logins with passwords of a real LDAP directory (slapd): who may log in, what a rejection says, when a session ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from console.session_renewal import RENEW_AT
from controlplane.clients import ldap
from controlplane.domain.external_login import LoginRejected, LoginRejection
from controlplane.models import Change, ExternalIdentity
from tests.foreign.slapd import GROUPS, PASSWORD, PEOPLE, READER, Directory, directory

pytestmark = pytest.mark.django_db
RIGHT = "of alice (*)"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    with directory(tmp_path_factory.mktemp("slapd")) as server:
        yield server


@pytest.fixture
def slapd(running: Directory, settings: Any) -> Iterator[Directory]:
    use(settings, running.url)
    alice, bob = running.add_user("alice", RIGHT), running.add_user("bob", RIGHT)
    running.add_group("kafka-oncall", alice, bob)
    running.add_group("payments", alice)
    yield running
    for dn in (alice, bob, f"cn=kafka-oncall,{GROUPS}", f"cn=payments,{GROUPS}"):
        running.delete(dn)


def use(settings: Any, url: str, **more: Any) -> None:
    values: dict[str, Any] = {
        "ldap_url": url,
        "ldap_bind_dn": READER,
        "ldap_bind_password": PASSWORD,
        "ldap_user_base": PEOPLE,
        "ldap_group_base": GROUPS,
        "login_operator_groups": ("kafka-oncall",),
        "login_groups": (("payments", "payments-team"),),
        **more,
    }
    settings.SECRET_KEY_GIVEN = True
    settings.WEIR = replace(settings.WEIR, **values)
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.AUTHENTICATION_BACKENDS = [
        "django.contrib.auth.backends.ModelBackend",
        "controlplane.services.login_backends.LdapUsers",
    ]
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "console.session_renewal.SessionRenewal"]


def log_in(client: Client, name: str = "alice", password: str = RIGHT) -> Any:
    return client.post("/login/", {"username": name, "password": password, "next": "/topics/"})


def make_renewal_due(client: Client) -> None:
    session = client.session
    session[RENEW_AT] = time.time() - 1
    session.save()


def text(response: Any, status: int) -> str:
    assert response.status_code == status, response.content
    return " ".join(response.content.decode().split())


def test_a_user_logs_in_with_the_password_of_the_directory(client: Client, slapd: Directory) -> None:
    response = log_in(client)
    assert (response.status_code, response.headers["Location"]) == (302, "/topics/")
    user = get_user_model().objects.get(username="alice")
    assert user.is_staff and not user.is_superuser and not user.has_usable_password()
    assert user.email == "alice@example.org" and [g.name for g in user.groups.all()] == ["payments-team"]
    identity = ExternalIdentity.objects.get()
    assert identity.source == "ldap" and identity.subject.startswith("entryUUID:")
    assert Change.objects.get(verb="session.login").after["source"] == "ldap"
    assert 3500 < client.session.get_expiry_age() <= 3600


@pytest.mark.parametrize("name", ["alice", "carol", "*", "alice)(uid=*", "al*", ""])
@pytest.mark.parametrize("password", ["wrong", ""])
def test_a_wrong_password_or_name_is_rejected_like_those_of_local_users(
    client: Client, slapd: Directory, name: str, password: str
) -> None:
    assert log_in(client, name, password).status_code == 200
    assert "_auth_user_id" not in client.session


def test_a_name_with_filter_characters_matches_no_other_user(slapd: Directory) -> None:
    assert ldap.authenticate("*", RIGHT) is None and ldap.authenticate("ali*", RIGHT) is None
    found = ldap.authenticate("ALICE", RIGHT)
    assert found is not None and found.name == "alice", "the name is that of the entry"


def test_a_user_in_no_configured_group_sees_the_needed_groups(client: Client, slapd: Directory, settings: Any) -> None:
    use(settings, slapd.url, login_operator_groups=("admins",), login_groups=())
    page = text(log_in(client), 403)
    assert "One of these groups is needed: admins" in page and "kafka-oncall, payments" in page


def test_a_directory_that_does_not_respond_is_named_and_local_users_still_log_in(
    client: Client, slapd: Directory, settings: Any
) -> None:
    use(settings, "ldap://127.0.0.1:9")
    assert "ldap://127.0.0.1:9 cannot be reached" in text(log_in(client), 503)
    get_user_model().objects.create_user("local", password="a long password")
    assert log_in(client, "local", "a long password").status_code == 302


@pytest.mark.parametrize(
    ("wrong", "rejection"),
    [
        ({"ldap_bind_password": "wrong"}, LoginRejection.BAD_DIRECTORY),
        ({"ldap_user_base": "ou=none,dc=example,dc=org"}, LoginRejection.BAD_DIRECTORY),
        ({"ldap_user_filter": "(|(uid={user})(uid=bob))"}, LoginRejection.BAD_DIRECTORY),
        ({"ldap_user_attribute": "employeeNumber"}, LoginRejection.ATTRIBUTE_MISSING),
    ],
)
def test_wrong_settings_are_named(
    slapd: Directory, settings: Any, wrong: dict[str, str], rejection: LoginRejection
) -> None:
    use(settings, slapd.url, **wrong)
    with pytest.raises(LoginRejected) as raised:
        ldap.authenticate("alice", RIGHT)
    assert raised.value.rejection == rejection


def test_starttls_is_never_left_out(slapd: Directory, settings: Any) -> None:
    use(settings, slapd.url.replace("ldap:", "ldap+starttls:"))
    with pytest.raises(LoginRejected) as rejection:
        ldap.authenticate("alice", RIGHT)
    assert rejection.value.rejection == LoginRejection.BAD_DIRECTORY, "this server has no certificate"


def test_a_session_is_renewed_by_the_directory_and_follows_its_groups(client: Client, slapd: Directory) -> None:
    log_in(client)
    make_renewal_due(client)
    slapd.leave("kafka-oncall", f"uid=alice,{PEOPLE}")
    assert client.get("/topics/").headers["Location"] == "/login/renew/?next=%2Ftopics%2F"
    assert client.get("/login/renew/?next=/topics/").headers["Location"] == "/topics/"
    assert client.session[RENEW_AT] > time.time() + 1700
    assert not get_user_model().objects.get().is_staff and client.get("/topics/").status_code == 200


def test_the_session_of_a_removed_user_ends_and_a_new_entry_of_the_name_is_another_user(
    client: Client, slapd: Directory
) -> None:
    log_in(client)
    make_renewal_due(client)
    slapd.delete(f"uid=alice,{PEOPLE}")
    slapd.add_user("alice", "of another alice")
    response = client.get("/login/renew/?next=/topics/")
    assert response.headers["Location"] == "/login/?next=%2Ftopics%2F&ended=1" and "_auth_user_id" not in client.session
    assert "Another user named alice exists" in text(log_in(client, password="of another alice"), 403)


def test_a_renewal_that_does_not_reach_the_directory_keeps_the_session(
    client: Client, slapd: Directory, settings: Any
) -> None:
    log_in(client)
    make_renewal_due(client)
    use(settings, "ldap://127.0.0.1:9")
    assert client.get("/login/renew/?next=/topics/").headers["Location"] == "/topics/"
    assert client.get("/topics/").status_code == 200
