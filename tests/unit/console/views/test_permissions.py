"""The page that explains permissions."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from console.views import permissions
from controlplane.selectors.authorizers import AuthorizerReport, AuthorizerState

ASKED = "/permissions/?principal=User:billing&resource_type=topic&resource_name=orders&operation="


def test_the_page_shows_allowed_or_denied_with_the_rule(seeded: dict[str, Any], viewer: Client) -> None:
    allowed = viewer.get(ASKED + "read").content.decode()
    assert "<b>Allowed</b>" in allowed and "<b>allow read</b> on topic" in allowed and "An allow ACL matches" in allowed
    denied = viewer.get(ASKED + "write").content.decode()
    assert "<b>Denied</b>" in denied and "none allows this operation" in denied
    root = viewer.get(ASKED + "write&super_users=User:billing;User:x").content.decode()
    assert "<b>Allowed</b>" in root and "is in super.users" in root
    free = viewer.get(ASKED.replace("orders", "none") + "write&allow_if_no_acl=on").content.decode()
    assert "<b>Allowed</b>" in free and "The resource has no ACL" in free


def test_without_an_operation_the_page_lists_the_effective_permissions(seeded: dict[str, Any], viewer: Client) -> None:
    text = viewer.get("/permissions/?principal=User:billing").content.decode()
    assert "1 resource pattern" in text and "1–1 of" not in text and "read, describe" in text
    wrong = viewer.get("/permissions/?principal=billing")
    assert wrong.status_code == 400 and "has no type" in wrong.content.decode()


@pytest.mark.parametrize(
    ("report", "said"),
    [
        (AuthorizerReport(AuthorizerState.NONE, without=(1, 2)), "<b>No authorizer is configured</b>"),
        (AuthorizerReport(AuthorizerState.DIFFERENT, without=(2,)), "Brokers 2 have no authorizer"),
        (AuthorizerReport(AuthorizerState.UNKNOWN, unanswered=(1,)), "it is unknown whether ACLs are enforced"),
        (AuthorizerReport(AuthorizerState.ENFORCED, unanswered=(3,)), "their authorizer is unknown: 3."),
    ],
)
def test_the_page_shows_whether_the_brokers_enforce_acls(
    seeded: dict[str, Any], viewer: Client, monkeypatch: pytest.MonkeyPatch, report: AuthorizerReport, said: str
) -> None:
    monkeypatch.setattr(permissions, "authorizer_report", lambda: report)
    page = viewer.get(ASKED + "write").content.decode()
    assert said in page
    allowed = report.state is AuthorizerState.NONE
    assert f"<b>{'Allowed' if allowed else 'Denied'}</b>" in page
    assert said in viewer.get("/permissions/?principal=User:billing").content.decode()
    assert "authorizer is" not in viewer.get("/permissions/").content.decode(), "no broker is asked without a query"
