"""The page that explains permissions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.test import Client

from console.views import permissions
from controlplane.models import Acl
from controlplane.selectors.authorizers import AuthorizerReport, AuthorizerState
from controlplane.services import acls, role_bindings

ASKED = "/permissions/?principal=User:billing&resource_type=topic&resource_name=orders&operation="


def test_the_page_shows_allowed_or_denied_with_the_rule(seeded_cluster: dict[str, Any], viewer: Client) -> None:
    allowed = viewer.get(ASKED + "read").content.decode()
    assert "<b>Allowed</b>" in allowed and "<b>allow read</b> on topic" in allowed and "An allow ACL matches" in allowed
    denied = viewer.get(ASKED + "write").content.decode()
    assert "<b>Denied</b>" in denied and "none allows this operation" in denied
    root = viewer.get(ASKED + "write&super_users=User:billing;User:x").content.decode()
    assert "<b>Allowed</b>" in root and "is in super.users" in root
    free = viewer.get(ASKED.replace("orders", "none") + "write&allow_if_no_acl=on").content.decode()
    assert "<b>Allowed</b>" in free and "The resource has no ACL" in free


def test_without_an_operation_the_page_lists_the_effective_permissions(
    seeded_cluster: dict[str, Any], viewer: Client
) -> None:
    text = viewer.get("/permissions/?principal=User:billing").content.decode()
    assert "1 resource pattern" in text and "1–1 of" not in text and "read, describe" in text
    short = viewer.get("/permissions/?principal=billing").content.decode()
    assert "Effective permissions of User:billing" in short and "read, describe" in short
    wrong = viewer.get("/permissions/?principal=User:")
    assert wrong.status_code == 400 and "has no type" in wrong.content.decode()


def test_a_denied_operation_leads_to_the_acl_that_allows_it(seeded_cluster: dict[str, Any], operator: Client) -> None:
    denied = operator.get(ASKED + "write").content.decode()
    query = "resource_type=topic&amp;resource_name=orders&amp;principal=User%3Abilling&amp;host=%2A&amp;operation=write&amp;permission=allow"
    assert f'href="/acls/new/?{query}"' in denied and "Delete this ACL" not in denied
    form = operator.get("/acls/new/?" + query.replace("&amp;", "&")).content.decode()
    assert 'value="orders"' in form and 'value="User:billing"' in form and '<option value="write" selected>' in form
    assert "/acls/new/" not in operator.get(ASKED + "read").content.decode()
    rule = Acl.objects.create(
        resource_type="topic",
        pattern_type="literal",
        resource_name="orders",
        principal="User:billing",
        host="*",
        operation="write",
        permission="deny",
        created_by="ann",
    )
    page = operator.get(ASKED + "write").content.decode()
    assert f'href="/acls/{rule.pk}/delete/"' in page and "/acls/new/" not in page


def test_a_user_who_may_not_change_acls_has_no_button_of_a_denied_operation(
    seeded_cluster: dict[str, Any], viewer: Client, operator: Client, settings: Any
) -> None:
    for operation, button in (("write", "Create the missing ACL"), ("alter", "Delete this ACL")):
        if operation == "alter":
            acl = {
                "resource_type": "topic",
                "resource_name": "orders",
                "principal": "User:billing",
                "operation": "alter",
            }
            acls.create_acl(**acl, permission="deny", actor="ann")
        assert button in operator.get(ASKED + operation).content.decode()
        assert button not in viewer.get(ASKED + operation).content.decode()
    role_bindings.create_binding(
        user="bob",
        role="operator",
        resource_type="acl",
        pattern_type="literal",
        resource_name="topic:orders",
        actor="root",
    )
    assert all(
        b in viewer.get(ASKED + o).content.decode() for o, b in (("write", "Create the"), ("alter", "Delete this"))
    )
    settings.WEIR = replace(settings.WEIR, read_only=True)
    assert "Create the missing ACL" not in operator.get(ASKED + "write").content.decode()


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (AuthorizerReport(AuthorizerState.NONE, without=(1, 2)), "<b>No authorizer is configured</b>"),
        (AuthorizerReport(AuthorizerState.DIFFERENT, without=(2,)), "Brokers 2 have no authorizer"),
        (AuthorizerReport(AuthorizerState.UNKNOWN, silent=(1,)), "it is unknown whether ACLs are enforced"),
        (AuthorizerReport(AuthorizerState.ENFORCED, silent=(3,)), "their authorizer is unknown: 3."),
    ],
)
def test_the_page_shows_whether_the_brokers_enforce_acls(
    seeded_cluster: dict[str, Any], viewer: Client, monkeypatch: pytest.MonkeyPatch, report: AuthorizerReport, said: str
) -> None:
    monkeypatch.setattr(permissions, "authorizer_report", lambda: report)
    page = viewer.get(ASKED + "write").content.decode()
    assert said in page
    allowed = report.state is AuthorizerState.NONE
    assert f"<b>{'Allowed' if allowed else 'Denied'}</b>" in page
    assert said in viewer.get("/permissions/?principal=User:billing").content.decode()
    assert "authorizer is" not in viewer.get("/permissions/").content.decode(), "no broker is asked without a query"
