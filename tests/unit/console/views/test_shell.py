"""The frame of all pages: logins, roles, missing objects, errors, security headers, options of lists."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.db import OperationalError
from django.test import Client, RequestFactory
from django.urls import reverse

from console.views import shell
from controlplane.domain.errors import Rejected
from controlplane.models import Change, Topic
from controlplane.selectors import acls


@pytest.mark.parametrize("address", ["/", "/topics/x/", "/moves/new/"])
def test_an_anonymous_request_is_redirected_to_the_login(db: None, client: Client, address: str) -> None:
    response = client.get(address)
    assert response.status_code == 302 and response.headers["Location"].startswith("/login/?next=")


def test_an_anonymous_htmx_request_redirects_the_browser_to_the_login(db: None, client: Client) -> None:
    response = client.get("/topics/", headers={"HX-Request": "true"})
    assert response.status_code == 204 and response.headers["HX-Redirect"].startswith("/login/")


@pytest.mark.parametrize(
    "address",
    [
        "/topics/nope/",
        "/topics/orders/99/",
        "/brokers/77/",
        "/brokers/77/configs/",
        "/brokers/77/log-directories/",
        "/groups/nope/",
        "/users/nope/",
        "/quotas/99/",
        "/routes/nope/",
        "/moves/99/",
        "/plans/99/",
        "/plans/1/difference/?other=99",
        "/proposals/99/",
        "/pipeline/99/",
        "/audit/999/",
    ],
)
def test_a_missing_object_has_a_404_page_with_a_link_to_its_list(
    seeded_cluster: dict[str, Any], operator: Client, address: str
) -> None:
    response = operator.get(address)
    assert response.status_code == 404 and "Back to the list" in response.content.decode()


def test_a_viewer_sees_disabled_buttons_with_the_missing_permission(
    seeded_cluster: dict[str, Any], viewer: Client
) -> None:
    text = viewer.get("/topics/orders/").content.decode()
    assert 'aria-disabled="true" title="Your account is a viewer.' in text
    assert 'href="/topics/orders/delete/"' not in text


@pytest.mark.parametrize(
    "address", ["/new/topic/", "/topics/orders/delete/", "/moves/1/pause/", "/acls/new/", "/pipeline/1/stop/"]
)
def test_a_viewer_cannot_change_anything(seeded_cluster: dict[str, Any], viewer: Client, address: str) -> None:
    before = Change.objects.count()
    response = viewer.post(address, {"name": "x", "confirm_name": "orders", "comment": "no"})
    assert response.status_code == 403 and Change.objects.count() == before


def test_every_post_needs_a_csrf_token(seeded_cluster: dict[str, Any]) -> None:

    strict = Client(enforce_csrf_checks=True)
    strict.force_login(get_user_model().objects.create_user("eve", is_staff=True))
    response = strict.post("/new/topic/", {"name": "forged", "partitions": "1"})
    assert response.status_code == 403 and "expired" in response.content.decode()
    assert not Topic.objects.filter(name="forged").exists()


def test_an_error_page_shows_path_and_time_and_reads_no_database(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from controlplane.selectors import moves

    def raise_error(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(moves, "move_list", raise_error)
    operator.raise_request_exception = False
    response = operator.get("/moves/")
    text = response.content.decode()
    assert response.status_code == 500 and "<code>/moves/</code>" in text and re.search(r"\d\d:\d\d:\d\d UTC", text)
    assert "script-src 'self'" in response.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", {"sort": "-id", "page": 1, "per_page": 50}),
        ("sort=name&page=3&per_page=20", {"sort": "name", "page": 3, "per_page": 20}),
        ("page=x&per_page=-1", {"sort": "-id", "page": 1, "per_page": 50}),
        ("page=9999999999&per_page=0", {"sort": "-id", "page": 1, "per_page": 1}),
        ("per_page=100000", {"sort": "-id", "page": 1, "per_page": 500}),
    ],
)
def test_options_of_a_list_are_limited(query: str, options: dict[str, Any]) -> None:
    assert shell.list_options(RequestFactory().get(f"/?{query}"), "-id") == options


def test_an_unknown_theme_is_the_automatic_one() -> None:
    request = RequestFactory().get("/")
    request.COOKIES[shell.THEME_COOKIE] = "<script>"
    assert shell.theme(request) == "auto"
    request.COOKIES[shell.THEME_COOKIE] = "dark"
    assert shell.theme(request) == "dark"


def test_a_database_error_is_a_page_of_its_own(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_error(**_: Any) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(acls, "acl_list", raise_error)
    response = operator.get("/acls/")
    assert response.status_code == 503 and "database is locked" in response.content.decode()
    assert "script-src 'self'" in response.headers["Content-Security-Policy"]


def test_a_redirect_has_its_query() -> None:
    assert shell.redirect_to("topic", "orders", tab="configs").url == "/topics/orders/?tab=configs"


def test_every_entry_of_the_navigation_has_a_page_and_a_key_of_its_own() -> None:
    assert all(reverse(name) for name, _, _ in shell.NAV)
    assert len({key for _, _, key in shell.NAV}) == len(shell.NAV)


def test_a_page_names_its_entry_of_the_navigation_by_address(operator: Client) -> None:
    """Pages below another address than their entry were marked by the server, and by no script after a boosted request."""
    for address, entry in (
        ("/", "/"),
        ("/topics/", "/topics/"),
        ("/schemas/", "/topics/"),
        ("/documents/", "/topics/"),
    ):
        assert f'data-nav="{entry}"' in operator.get(address).content.decode(), address
    assert 'data-nav=""' in operator.get("/saved-views/").content.decode()


def test_the_colour_of_the_cluster_is_in_the_frame(operator: Client, settings: Any) -> None:
    settings.WEIR = replace(settings.WEIR, cluster_colour="red")
    assert 'data-colour="red"' in operator.get("/").content.decode()


def test_a_read_only_console_offers_and_accepts_no_change(operator: Client, settings: Any) -> None:
    assert 'href="/acls/new/"' in operator.get("/acls/").content.decode()
    settings.WEIR = replace(settings.WEIR, read_only=True)
    page = operator.get("/acls/").content.decode()
    assert 'href="/acls/new/"' not in page and "<b>read-only</b>" in page
    rejected = operator.post("/acls/new/", {"resource_type": "topic"})
    assert rejected.status_code == 403 and "WEIR_READ_ONLY" in rejected.content.decode()
    assert operator.post("/theme/", {"theme": "dark", "next": "/"}).status_code == 302
    assert "Create ACL" not in operator.get("/palette/?q=create").content.decode()


@pytest.mark.parametrize(
    ("headers", "following"),
    [
        ({"HX-Request": "true", "HX-Current-URL": "http://testserver/topics/a/?tab=configs"}, "/topics/a/?tab=configs"),
        ({"HX-Request": "true"}, "/new/topic/"),
        ({}, "/new/topic/"),
    ],
)
def test_a_form_after_the_end_of_the_session_leads_back_to_its_page_and_says_that_it_was_not_sent(
    db: None, client: Client, headers: dict[str, str], following: str
) -> None:
    response = client.post("/new/topic/", {"name": "a"}, headers=headers)
    address = response.headers.get("HX-Redirect") or response.headers["Location"]
    assert parse_qs(urlsplit(address).query) == {"next": [following], "unsent": ["1"]}
    assert "your input was not sent" in client.get(address).content.decode()
    assert "your input was not sent" not in client.get("/login/?next=/").content.decode()


def test_the_page_of_a_rejected_operation_accepts_the_url_name_of_the_page_before(rf: RequestFactory) -> None:
    request = rf.get("/bulk/users/")
    request.user = AnonymousUser()
    page = shell.rejected(request, Rejected("no"), "users").content.decode()
    assert f'href="{reverse("users")}"' in page


def test_the_user_menu_names_the_role(operator: Client, viewer: Client) -> None:
    administrator = Client()
    administrator.force_login(get_user_model().objects.create_superuser("root"))
    for client, role in ((operator, "operator"), (viewer, "viewer"), (administrator, "administrator")):
        shown = client.get("/topics/").content.decode().partition('<span class="role">')[2].partition("</span>")[0]
        assert " ".join(shown.split()) == f"· {role}"
