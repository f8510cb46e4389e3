"""Responses of the API are not cached. No request is served without a secret key."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse
from django.test import Client

from weir.middleware import Guard

pytestmark = pytest.mark.django_db


def user(name: str, **more: Any) -> Any:
    return get_user_model().objects.create_user(name, password="the right password", **more)


def client_of(person: Any) -> Client:
    client = Client()
    client.force_login(person)
    return client


@pytest.fixture(autouse=True)
def quick_hashes_and_a_key(settings: Any) -> None:
    settings.SECRET_KEY_GIVEN = True
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.mark.parametrize("address", ["/api/v1/brokers", "/api/v1/topics/none", "/api/v1/nothing", "/api/v1/schema"])
def test_no_response_of_the_api_is_cached(client: Client, address: str) -> None:
    assert client.get(address).headers["Cache-Control"] == "no-store"
    assert client_of(user("alice")).get(address).headers["Cache-Control"] == "no-store"


def test_the_server_does_not_start_without_a_secret_key(settings: Any) -> None:
    settings.SECRET_KEY_GIVEN = False
    with pytest.raises(ImproperlyConfigured, match="WEIR_SECRET_KEY"):
        Guard(lambda request: HttpResponse())


def test_errors_outside_the_views_of_the_api_are_problems_and_pages_stay_pages() -> None:
    client = client_of(user("alice"))
    response = client.get("/api/v9/x")
    assert (response.status_code, response.headers["Content-Type"]) == (404, "application/problem+json")
    rejected = client.get("/api/v1/topics", headers={"Host": "elsewhere.example"})
    assert (rejected.status_code, rejected.json()["code"]) == (400, "invalid")
    assert client.get("/nothing/").headers["Content-Type"].startswith("text/html")
