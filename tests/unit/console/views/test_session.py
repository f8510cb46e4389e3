"""Sign-in: failed attempts are delayed, per user name and address."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db.models import F
from django.test import Client

from controlplane.clients import logins
from controlplane.models import LoginFailure

pytestmark = pytest.mark.django_db


RIGHT, WRONG = "the right password", "a wrong password"


def user(name: str, **more: Any) -> Any:
    return get_user_model().objects.create_user(name, password=RIGHT, **more)


@pytest.fixture(autouse=True)
def quick_hashes(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


# -- login ------------------------------------------------------------------------------------------------------------------


def sign_in(client: Client, password: str, name: str = "alice", address: str = "10.0.0.1") -> Any:
    return client.post("/login/", {"username": name, "password": password}, REMOTE_ADDR=address)


def test_a_user_with_failed_attempts_waits_even_with_the_right_password(client: Client) -> None:
    user("alice")
    for _ in range(logins.FREE_BY_PLACE):
        assert sign_in(client, WRONG).status_code == 200
    rejected = sign_in(client, RIGHT)
    assert rejected.status_code == 429 and int(rejected.headers["Retry-After"]) >= 1
    assert "Too many failed logins" in rejected.content.decode()
    assert sign_in(Client(), RIGHT, address="10.0.0.2").status_code == 302, "from elsewhere its owner gets in"
    LoginFailure.objects.update(last_at=F("last_at") - timedelta(seconds=5))
    assert sign_in(client, RIGHT).status_code == 302
    assert not LoginFailure.objects.filter(address="10.0.0.1").exists(), "forgotten"


def test_the_login_page_names_commands_only_where_they_help(client: Client, settings: Any) -> None:
    """A cluster in production showed `make up` on its login page."""
    local = replace(
        settings.LOCAL_CLUSTER, defaults={**settings.LOCAL_CLUSTER.defaults, "console_url": "http://127.0.0.1:9080"}
    )
    settings.LOCAL_CLUSTER = replace(local, defaults={**local.defaults, "console_url": ""})
    first = client.get("/login/").content.decode()
    assert "There is no user yet." in first and "make up" not in first
    user("alice")
    page = client.get("/login/").content.decode()
    assert "Ask your administrator for access." in page and "ensure_operator" not in page
    settings.LOCAL_CLUSTER = local
    assert "make up" in client.get("/login/").content.decode()


def test_guesses_from_many_addresses_are_slowed_down_too(client: Client) -> None:
    user("alice")
    responses = [sign_in(Client(), WRONG, address=f"10.0.1.{i}").status_code for i in range(logins.FREE_BY_NAME + 1)]
    assert responses[:-1] == [200] * logins.FREE_BY_NAME and responses[-1] == 429


def test_sign_in_delays_double_up_to_a_maximum() -> None:
    waits = [logins.wait_s(n, 0, free=5, longest=900) for n in range(40)]
    assert waits[:8] == [0, 0, 0, 0, 0, 1, 2, 4] and max(waits) == 900
    assert logins.wait_s(7, 3.0, free=5, longest=900) == 1 and logins.wait_s(7, 10.0, free=5, longest=900) == 0


def test_unknown_user_names_do_not_fill_the_database(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "ROWS_MAX", 10)
    for i in range(20):
        sign_in(client, WRONG, name=f"nobody-{i}")
    assert LoginFailure.objects.count() == 10
