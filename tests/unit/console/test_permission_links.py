"""Links from a rejected operation to the page with the rule that rejected it."""

from __future__ import annotations

from dataclasses import dataclass

from console.permission_links import permission_check


@dataclass(frozen=True, slots=True)
class Rejected:
    principal: str = "User:alice"
    host: str = "10.0.0.1"
    operation: str = ""
    resource_type: str = ""
    resource_name: str = ""


def test_the_link_has_the_rejected_operation() -> None:
    found = permission_check(Rejected(operation="WRITE", resource_type="TOPIC", resource_name="a&b"))
    assert "principal=User%3Aalice" in found and "operation=WRITE" in found and "resource_name=a%26b" in found


def test_without_an_operation_it_leads_to_all_permissions_of_the_principal() -> None:
    found = permission_check(Rejected())
    assert "principal=User%3Aalice" in found and "operation" not in found and "resource" not in found
