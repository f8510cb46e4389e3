"""The page that explains permissions."""

from __future__ import annotations

from typing import Any

from django.test import Client

ASKED = "/permissions/?principal=User:billing&resource_type=topic&resource_name=orders&operation="


def test_the_page_says_allowed_or_denied_and_names_the_rule(seeded: dict[str, Any], viewer: Client) -> None:
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
    assert "1–1 of 1 resource pattern" in text and "read, describe" in text
    wrong = viewer.get("/permissions/?principal=billing")
    assert wrong.status_code == 400 and "has no type" in wrong.content.decode()
