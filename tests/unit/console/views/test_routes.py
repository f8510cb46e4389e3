"""The pages of routes."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from controlplane.models import AccessEntry, Change, ConsumerGroup, GroupPartition, Topic
from controlplane.selectors import routes as selectors

BINDINGS = '[{"target": "paid", "match": {"kind": "pattern", "value": "*.paid"}}]'
FORM = {"name": "r", "source": "orders", "start": "latest", "enabled": "on", "bindings": BINDINGS, "comment": "billing"}


@pytest.fixture(autouse=True)
def topic_without_coordinator(monkeypatch: pytest.MonkeyPatch, db: Any) -> None:
    Topic.objects.create(name="orders", partitions=2, replication_factor=3)
    monkeypatch.setattr(selectors, "_states", lambda row: ({}, "no coordinator responded"))


def test_a_route_is_created_shown_tested_edited_and_deleted(operator: Client) -> None:
    assert "No routes." in operator.get("/routes/").content.decode()
    page = operator.post("/new/route/", FORM, follow=True).content.decode()
    assert (
        "Route r created." in page
        and "not applied yet" in page
        and "*.paid" in page
        and "no coordinator responded" in page
    )
    assert "orders" in operator.get("/routes/").content.decode()
    tested = operator.get("/routes/r/", {"key": "eu.paid", "headers": "a=b"}).content.decode()
    assert "eu.paid" in tested and "a=b" in tested
    assert "No binding matches." in operator.get("/routes/r/", {"key": "eu.open", "headers": ""}).content.decode()
    assert "has no" in operator.get("/routes/r/", {"key": "x", "headers": "wrong"}).content.decode()
    assert "*.paid" in operator.get("/routes/r/edit/").content.decode()
    operator.post("/routes/r/edit/", {"bindings": BINDINGS, "owner": "ops", "comment": "pause"})
    row = AccessEntry.objects.get()
    assert row.value is not None and row.value["enabled"] is False and row.value["owner"] == "ops"
    assert "no longer routed" in operator.get("/routes/r/delete/").content.decode()
    operator.post("/routes/r/delete/", {"comment": "done"})
    assert AccessEntry.objects.get().value is None
    assert [c.verb for c in Change.objects.order_by("id")] == ["route.create", "route.change", "route.delete"]


def test_a_route_that_another_operator_changed_is_not_overwritten(operator: Client) -> None:
    operator.post("/new/route/", FORM)
    assert 'name="generation" value="1"' in operator.get("/routes/r/edit/").content.decode()
    change = {"bindings": BINDINGS, "enabled": "on", "comment": "x", "generation": "1"}
    operator.post("/routes/r/edit/", {**change, "owner": "ann"})
    late = operator.post("/routes/r/edit/", {**change, "owner": "bob"})
    row = AccessEntry.objects.get()
    assert late.status_code == 400 and "it has generation 2, not 1" in late.content.decode()
    assert row.value is not None and row.value["owner"] == "ann" and "generation" not in row.value


def test_a_route_is_stopped_and_started_by_a_button(operator: Client, viewer: Client) -> None:
    """The page of a stopped route said "Healthy" and "running": a live update of its group replaced the word. To stop a route, its form had to be known."""
    operator.post("/new/route/", FORM)
    row = AccessEntry.objects.get(kind="route")
    page = operator.get("/routes/r/").content.decode()
    assert page.count("data-unsettled") == 1 and 'action="/routes/r/stop/"' in page, "until the change is applied"
    assert 'data-f="status"' in page
    assert viewer.post("/routes/r/stop/").status_code == 403 and operator.get("/routes/r/stop/").status_code == 405
    stopped = operator.post("/routes/r/stop/", follow=True).content.decode()
    row.refresh_from_db()
    assert row.value is not None and row.value["enabled"] is False
    assert "Route r stopped. It keeps its position." in stopped and 'action="/routes/r/start/"' in stopped
    assert 'data-f="status"' not in stopped and "Nothing is routed." in stopped
    assert "already" in operator.post("/routes/r/stop/").content.decode()
    assert "stopped" in operator.get("/routes/").content.decode()
    assert "Route r started." in operator.post("/routes/r/start/", follow=True).content.decode()
    assert operator.post("/routes/r/pause/").status_code == operator.post("/routes/x/stop/").status_code == 404
    AccessEntry.objects.update(waiting=False)
    assert "data-unsettled" not in operator.get("/routes/r/").content.decode()


def test_a_principal_is_entered_shown_and_removed(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = operator.post("/new/route/", {**FORM, "principal": "payments"})
    assert wrong.status_code == 400 and "such as User:alice" in wrong.content.decode()
    page = operator.post("/new/route/", {**FORM, "principal": "User:payments"}, follow=True).content.decode()
    assert "<dt>Principal</dt><dd>User:payments</dd>" in page
    assert 'value="User:payments"' in operator.get("/routes/r/edit/").content.decode()
    operator.post("/routes/r/edit/", {"bindings": BINDINGS, "principal": "", "comment": "without"})
    value = AccessEntry.objects.get(kind="route").value
    assert value is not None and "principal" not in value
    assert "<dt>Principal</dt>" not in operator.get("/routes/r/").content.decode()


def test_the_problem_of_a_permission_and_a_throttled_state_are_shown(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator.post("/new/route/", {**FORM, "principal": "User:payments"})
    seen = {"observed_at": timezone.now()}
    group = ConsumerGroup.objects.create(group_id="weir.route.r", state="Empty", status="healthy", **seen)
    for index in (0, 1):
        GroupPartition.objects.create(group=group, topic="orders", index=index, committed=5, end_offset=12, **seen)
    denied = ["orders", "source_not_authorized", "TOPIC_AUTHORIZATION_FAILED"]
    states = {0: {"state": "blocked", "problems": [denied]}, 1: {"state": "throttled", "problems": []}}
    monkeypatch.setattr(selectors, "_states", lambda row: (states, ""))
    page = operator.get("/routes/r/").content.decode()
    assert "orders: source_not_authorized (TOPIC_AUTHORIZATION_FAILED)" in page
    assert '<span class="st-amber">throttled</span>' in page


def rows(**typed: str) -> dict[str, str]:
    """The fields of a new route with one row per binding."""
    fields = {name: value for name, value in FORM.items() if name != "bindings"}
    return {**fields, "bindings-rows": "1", "bindings-0-kind": "key", **{f"bindings-{k}": v for k, v in typed.items()}}


def test_bindings_are_entered_as_rows(operator: Client) -> None:
    page = operator.get("/new/route/").content.decode()
    assert 'name="bindings-0-target"' in page and 'name="bindings-rows" value="1"' in page
    typed = rows(**{"0-target": "paid", "0-match": "eu.paid"})
    more = operator.post("/new/route/", {**typed, "bindings-edit": "add"}).content.decode()
    assert 'value="paid"' in more and "eu.paid" in more and 'name="bindings-1-target"' in more
    assert not AccessEntry.objects.filter(kind="route").exists(), "a button for rows creates nothing"
    typed |= {"bindings-rows": "2", "bindings-1-target": "all", "bindings-1-kind": "all"}
    less = operator.post("/new/route/", {**typed, "bindings-edit": "0"}).content.decode()
    assert 'value="all"' in less and 'value="paid"' not in less and 'name="bindings-rows" value="1"' in less
    operator.post("/new/route/", typed)
    assert [b["target"] for b in AccessEntry.objects.get(kind="route").value["bindings"]] == ["paid", "all"]
    assert 'name="bindings-1-target"' in operator.get("/routes/r/edit/").content.decode()
    assert 'textarea name="bindings"' in operator.get("/routes/r/edit/?as=json").content.decode()


def test_rows_replace_bindings_that_rows_cannot_have(operator: Client) -> None:
    """Another operator may have changed the route after the form with its rows was opened."""
    header = '[{"target": "paid", "match": {"kind": "headers_all", "headers": [{"name": "a=b"}]}}]'
    operator.post("/new/route/", {**FORM, "bindings": header})
    assert 'textarea name="bindings"' in operator.get("/routes/r/edit/").content.decode()
    typed = rows(**{"0-target": "paid", "0-match": "eu"})
    assert (
        'name="bindings-1-target"'
        in operator.post("/routes/r/edit/", {**typed, "bindings-edit": "add"}).content.decode()
    )
    operator.post("/routes/r/edit/", typed)
    assert AccessEntry.objects.get(kind="route").value["bindings"][0]["match"] == {"kind": "key", "value": "eu"}


def test_a_wrong_row_says_what_is_wrong_with_it(operator: Client) -> None:
    wrong = operator.post("/new/route/", rows(**{"0-target": "a b", "0-match": "x"}))
    page = wrong.content.decode()
    assert wrong.status_code == 400 and 'id="id_bindings-0-target-error"' in page and "Correct the bindings." in page
    loop = operator.post("/new/route/", rows(**{"0-target": "orders", "0-match": "x"}))
    assert loop.status_code == 400 and not AccessEntry.objects.filter(kind="route").exists()


def test_errors_are_beside_their_fields(operator: Client) -> None:
    wrong = operator.post("/new/route/", {**FORM, "bindings": "["})
    assert wrong.status_code == 400 and "Not valid JSON" in wrong.content.decode()
    loop = BINDINGS.replace('"paid"', '"orders"')
    assert "could return" in operator.post("/new/route/", {**FORM, "bindings": loop}).content.decode()
    assert "no topic" in operator.post("/new/route/", {**FORM, "source": "x"}).content.decode()


def test_a_viewer_sees_routes_and_changes_none(operator: Client, viewer: Client) -> None:
    operator.post("/new/route/", FORM)
    assert viewer.get("/routes/r/").status_code == 200
    assert viewer.get("/new/route/").status_code == 403
    assert operator.get("/routes/missing/").status_code == 404
