"""Permissions over REST."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.selectors import authorizers
from controlplane.selectors.authorizers import AuthorizerReport, AuthorizerState
from controlplane.services import acls

pytestmark = pytest.mark.django_db
HERE = "/api/v1/permissions"
CHECK = {"principal": "User:ann", "resource_type": "topic", "resource_name": "orders", "operation": "read"}


def test_a_viewer_reads_the_decision_and_its_rule(viewer_client: APIClient) -> None:
    row = acls.create_acl(
        resource_type="topic",
        resource_name="orders",
        principal="User:ann",
        operation="read",
        permission="deny",
        actor="op",
    )
    check = viewer_client.get(f"{HERE}/check", CHECK).json()
    assert (check["allowed"], check["reason"], check["acl"]["id"], check["host"]) == (
        False,
        "denied_by_acl",
        row.pk,
        "*",
    )
    root = viewer_client.get(f"{HERE}/check", {**CHECK, "super_users": ["User:x", "User:ann"]}).json()
    assert (root["allowed"], root["reason"], root["acl"]) == (True, "super_user", None)
    other = viewer_client.get(f"{HERE}/check", {**CHECK, "resource_name": "free", "allow_if_no_acl": "true"}).json()
    assert (other["allowed"], other["reason"]) == (True, "no_acl_of_resource")
    page = viewer_client.get(HERE, {"principal": "User:ann"}).json()
    assert page["total"] == 1 and page["rows"][0]["resource_name"] == "orders"
    read = next(o for o in page["rows"][0]["operations"] if o["operation"] == "read")
    assert read == {"operation": "read", "allowed": False, "reason": "denied_by_acl", "acl_id": row.pk}


def test_brokers_without_an_authorizer_allow_everything(
    viewer_client: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(authorizers, "authorizer_report", lambda: AuthorizerReport(AuthorizerState.NONE, without=(1,)))
    check = viewer_client.get(f"{HERE}/check", CHECK).json()
    assert (check["allowed"], check["reason"]) == (True, "no_authorizer")
    report = viewer_client.get(f"{HERE}/authorizer").json()
    assert (report["state"], report["without"]) == ("none", [1])


@pytest.mark.parametrize(("name", "value"), [("principal", "ann"), ("operation", "all"), ("resource_type", "x")])
def test_an_invalid_query_names_its_field(operator: APIClient, name: str, value: str) -> None:
    response = operator.get(f"{HERE}/check", {**CHECK, name: value})
    assert (response.status_code, response.json()["field"]) == (400, name)
