"""The pages of role bindings, and the pages that a role opens."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from controlplane.models import RoleBinding

FORM = {
    "user": "bob",
    "group": "",
    "role": "operator",
    "resource_type": "topic",
    "pattern_type": "prefixed",
    "resource_name": "ord",
    "comment": "on call",
}


@pytest.fixture
def administrator(db: None) -> Client:
    client = Client()
    client.force_login(get_user_model().objects.create_user("root", is_staff=True, is_superuser=True))
    return client


def test_an_administrator_creates_checks_and_deletes_a_binding(administrator: Client, viewer: Client) -> None:
    assert administrator.get("/role-bindings/new/").status_code == 200
    assert administrator.post("/role-bindings/new/", FORM).status_code == 302
    page = administrator.get("/role-bindings/?q=bob").content.decode()
    assert "ord" in page and "prefixed" in page
    check = "/role-bindings/?user={}&access=operate&resource_type=topic&resource_name={}"
    assert "Allowed" in viewer.get(check.format("bob", "orders")).content.decode()
    denied = " ".join(viewer.get(check.format("bob", "x")).content.decode().split())
    assert "No role binding permits it." in denied
    assert '<span lang="">bob</span> may not change the resource: topic <span lang="">x</span>.' in denied
    assert viewer.get(check.format("nobody", "x")).status_code == 400
    number = RoleBinding.objects.get().pk
    assert "bob loses the role operator" in administrator.get(f"/role-bindings/{number}/delete/").content.decode()
    chinese = administrator.get(f"/role-bindings/{number}/delete/", headers={"accept-language": "zh-hans"})
    assert "操作员" in chinese.content.decode() and "bob loses" not in chinese.content.decode()
    assert administrator.post(f"/role-bindings/{number}/delete/", {"comment": "left"}).status_code == 302
    assert administrator.get(f"/role-bindings/{number}/delete/").status_code == 404


def test_a_user_that_does_not_exist_is_named_beside_its_field(administrator: Client) -> None:
    page = administrator.post("/role-bindings/new/", FORM)
    assert page.status_code == 400 and "There is no user" in page.content.decode()


def test_operators_and_viewers_change_no_binding(administrator: Client, operator: Client, viewer: Client) -> None:
    administrator.post("/role-bindings/new/", FORM)
    number = RoleBinding.objects.get().pk
    for client in (operator, viewer):
        assert client.get("/role-bindings/").status_code == 200
        assert client.post("/role-bindings/new/", {**FORM, "role": "owner"}).status_code == 403
        assert client.post(f"/role-bindings/{number}/delete/", {"comment": "x"}).status_code == 403
    assert RoleBinding.objects.count() == 1


def test_buttons_are_on_the_pages_of_the_role_only(
    seeded_cluster: dict[str, Any], administrator: Client, viewer: Client
) -> None:
    button = 'href="/topics/orders/alter/"'
    assert button not in viewer.get("/topics/orders/").content.decode()
    administrator.post("/role-bindings/new/", FORM)
    assert button in viewer.get("/topics/orders/").content.decode()
    assert 'href="/topics/flights/alter/"' not in viewer.get("/topics/flights/").content.decode()


def test_a_bulk_operation_is_rejected_with_the_topics_that_lack_the_role(
    seeded_cluster: dict[str, Any], administrator: Client, viewer: Client
) -> None:
    administrator.post("/role-bindings/new/", FORM)
    assert viewer.get("/bulk/topics/?t=orders").status_code == 200
    rejected = viewer.get("/bulk/topics/?t=orders&t=flights")
    assert rejected.status_code == 403 and "role operator on topic flights" in rejected.content.decode()
    form = {"step": "apply", "operation": "delete", "topics": '{"flights": 1}', "typed": "1", "comment": "x"}
    assert viewer.post("/bulk/topics/?t=orders", form).status_code in (400, 403)


def test_a_move_in_the_wizard_needs_the_role_on_its_topics(
    seeded_cluster: dict[str, Any], administrator: Client, viewer: Client
) -> None:
    administrator.post("/role-bindings/new/", FORM)
    assert viewer.get("/moves/new/").status_code == 200
    form = {"comment": "x", "act": "plan", "parts_in_flight_max": "8", "parts_per_broker_max": "4", "mode": "copy"}
    for scope in ('{"kind": "topic", "topic": "flights", "brokers": [1]}', '{"kind": "drain", "broker": 1}'):
        assert viewer.post("/moves/new/", {**form, "scope": scope}).status_code == 403
    own = '{"kind": "topic", "topic": "orders", "brokers": [1]}'
    assert viewer.post("/moves/new/", {**form, "scope": own}).status_code != 403
    assert viewer.post("/moves/new/", {**form, "scope": own, "act": "save"}).status_code == 403
