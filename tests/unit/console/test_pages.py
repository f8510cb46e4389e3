"""Every page opens, for whoever may, and says what it does not know."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from controlplane.models import Change, Topic

PAGES = [
    "/", "/brokers/", "/brokers/1/", "/topics/", "/topics/?only=problems&internal=1", "/topics/?only=drift", "/topics/orders/",
    "/topics/orders/?tab=configs", "/topics/orders/?tab=groups", "/topics/orders/?tab=changes", "/topics/orders/1/",
    "/topics/orders/alter/", "/topics/orders/delete/", "/topics/orders/0/recover/1/", "/new/topic/", "/groups/", "/groups/slow-reader/",
    "/delete/group/nightly/", "/moves/", "/moves/?tab=recoveries", "/moves/1/", "/moves/1/cancel/", "/moves/1/roll_back/", "/moves/1/throttle/", "/moves/new/",
    "/moves/new/?kind=partitions&topic=orders", "/moves/new/?kind=partitions&topic=orders&step=where&p=0&p=2",
    "/moves/new/?kind=partitions&topic=orders&step=review&p=0&r0=1,2,4", "/moves/new/?kind=drain", "/moves/new/?kind=plan", "/moves/new/?kind=drain&broker=1&step=review",
    "/moves/new/?kind=topic&topic=orders&over=1&over=2&over=3&step=review", "/moves/new/?kind=replication_factor&topic=orders&factor=2&step=review",
    "/messages/", "/acls/", "/acls/new/", "/acls/1/delete/", "/pipeline/", "/pipeline/new/", "/pipeline/1/", "/audit/", "/audit/?outcome=refused",
    "/audit/1/", "/search/?q=or",
]  # fmt: skip


@pytest.mark.parametrize("address", PAGES)
def test_every_page_opens_on_a_busy_cluster(seeded: dict[str, Any], operator: Client, address: str) -> None:
    answer = operator.get(address)
    assert answer.status_code == 200, answer.content.decode()[:2000]
    text = answer.content.decode()
    assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
    assert not re.search(r"<script(?![^>]*\bsrc=)", text) and not re.search(r"\sstyle=|\son[a-z]+=", text)


@pytest.mark.parametrize(
    "address", ["/", "/brokers/", "/topics/", "/groups/", "/moves/", "/acls/", "/pipeline/", "/audit/", "/messages/"]
)
def test_every_list_opens_on_an_empty_database(db: None, operator: Client, address: str) -> None:
    answer = operator.get(address)
    assert answer.status_code == 200
    assert "The observer has not read the cluster yet." in answer.content.decode()


@pytest.mark.parametrize("address", ["/", "/topics/x/", "/moves/new/"])
def test_a_stranger_is_asked_to_log_in_and_comes_back(db: None, client: Client, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 302 and answer.headers["Location"].startswith("/login/?next=")


def test_a_part_of_a_page_sends_a_stranger_to_the_login_too(db: None, client: Client) -> None:
    answer = client.get("/topics/", headers={"HX-Request": "true"})
    assert answer.status_code == 204 and answer.headers["HX-Redirect"].startswith("/login/")


def test_the_login_lets_in_and_refuses(db: None, client: Client) -> None:
    from django.contrib.auth import get_user_model

    get_user_model().objects.create_user("carol", password="a long password")
    assert "correct username" in client.post("/login/", {"username": "carol", "password": "no"}).content.decode()
    answer = client.post(
        "/login/?next=/topics/", {"username": "carol", "password": "a long password", "next": "/topics/"}
    )
    assert answer.headers["Location"] == "/topics/"


@pytest.mark.parametrize(
    "address",
    [
        "/topics/nope/",
        "/topics/orders/99/",
        "/brokers/77/",
        "/groups/nope/",
        "/moves/99/",
        "/pipeline/99/",
        "/audit/999/",
    ],
)
def test_what_is_not_there_is_said_with_a_way_back(seeded: dict[str, Any], operator: Client, address: str) -> None:
    answer = operator.get(address)
    assert answer.status_code == 404 and "Back to the list" in answer.content.decode()


def test_an_onlooker_sees_the_acts_disabled_with_the_permission_he_lacks(
    seeded: dict[str, Any], onlooker: Client
) -> None:
    text = onlooker.get("/topics/orders/").content.decode()
    assert 'aria-disabled="true" title="Your login may look but not act.' in text
    assert 'href="/topics/orders/delete/"' not in text


@pytest.mark.parametrize(
    "address", ["/new/topic/", "/topics/orders/delete/", "/moves/1/pause/", "/acls/new/", "/pipeline/1/stop/"]
)
def test_an_onlooker_cannot_act(seeded: dict[str, Any], onlooker: Client, address: str) -> None:
    before = Change.objects.count()
    answer = onlooker.post(address, {"name": "x", "confirm_name": "orders", "why": "no"})
    assert answer.status_code == 403 and Change.objects.count() == before


def test_every_act_wants_a_token_of_the_session(seeded: dict[str, Any]) -> None:
    from django.contrib.auth import get_user_model

    strict = Client(enforce_csrf_checks=True)
    strict.force_login(get_user_model().objects.create_user("eve", is_staff=True))
    answer = strict.post("/new/topic/", {"name": "forged", "partitions": "1"})
    assert answer.status_code == 403 and "expired" in answer.content.decode()
    assert not Topic.objects.filter(name="forged").exists()


def test_a_list_keeps_its_filter_order_and_page_in_its_links(seeded: dict[str, Any], operator: Client) -> None:
    text = operator.get("/topics/?q=o&sort=-size_bytes&per_page=1&internal=1").content.decode()
    assert 'aria-sort="descending"' in text
    assert "page=2" in text and "q=o" in text and "of 2 topics" in text


def test_unknown_is_a_dash_with_its_reason_and_not_a_zero(seeded: dict[str, Any], operator: Client) -> None:
    text = operator.get("/groups/nightly/").content.decode()
    assert '<span class="unk" title="Not known yet' in text


def test_the_theme_is_remembered_and_leads_nowhere_else(db: None, operator: Client) -> None:
    answer = operator.post("/theme/", {"theme": "dark", "next": "https://evil.example/"})
    assert answer.headers["Location"] == "/"
    assert 'data-theme="dark"' in operator.get("/").content.decode()


def test_a_pasted_plan_is_reviewed_and_nothing_is_written(seeded: dict[str, Any], operator: Client) -> None:
    before = operator.get("/api/v1/moves").json()["total"]
    plan = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [4, 2, 1]}]}'
    answer = operator.post("/moves/new/", {"plan": plan})
    assert answer.status_code == 200
    assert "Review the move" in answer.content.decode() and "orders-0" in answer.content.decode()
    for nonsense, word in (("[1]", "partitions"), ("{", "not JSON"), ("", "kafka-reassign-partitions")):
        refused = operator.post("/moves/new/", {"plan": nonsense})
        assert (refused.status_code, word in refused.content.decode()) == (400, True), nonsense
    assert operator.get("/api/v1/moves").json()["total"] == before


def test_a_throttle_is_set_and_taken_off_by_its_form(seeded: dict[str, Any], operator: Client) -> None:
    said = operator.post("/moves/1/throttle/", {"throttle_bytes_per_s": "1.5", "why": "night"}, follow=True)
    assert "1.5 MB/s per broker" in said.content.decode()
    assert operator.get("/api/v1/moves/1").json()["throttle_bytes_per_s"] == 1_500_000
    low = operator.post("/moves/1/throttle/", {"throttle_bytes_per_s": "0.0001"})
    assert (low.status_code, "too low" in low.content.decode()) == (409, True)
    operator.post("/moves/1/throttle/", {"throttle_bytes_per_s": ""})
    assert operator.get("/api/v1/moves/1").json()["throttle_bytes_per_s"] is None
