"""ACL bindings as rows: stored once, removed with their record, rejected by field."""

from __future__ import annotations

import pytest

from controlplane.models import Change
from controlplane.services import Rejected, acls

pytestmark = pytest.mark.django_db


# -- ACLs ------------------------------------------------------------------------------------------------------------------


def test_a_binding_is_stored_once_and_removed_with_its_record(db: None) -> None:
    values = {
        "resource_type": "topic",
        "resource_name": "flights",
        "principal": "User:alice",
        "operation": "read",
        "permission": "allow",
    }
    row = acls.create_acl(**values, actor="bob")  # type: ignore[arg-type]
    with pytest.raises(Rejected, match="already"):
        acls.create_acl(**values, actor="bob")  # type: ignore[arg-type]
    acls.delete_acl(row.pk, actor="bob")
    assert Change.objects.first().before["principal"] == "User:alice"  # type: ignore[union-attr]
    with pytest.raises(Rejected, match="does not exist"):
        acls.delete_acl(row.pk, actor="bob")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("resource_type", "table"),
        ("operation", "sing"),
        ("permission", "maybe"),
        ("principal", "alice"),
        ("resource_name", ""),
        ("pattern_type", "regex"),
    ],
)
def test_values_unknown_to_kafka_are_rejected_with_their_field(db: None, field: str, value: str) -> None:
    values = {
        "resource_type": "topic",
        "resource_name": "flights",
        "principal": "User:alice",
        "operation": "read",
        "permission": "allow",
    }
    with pytest.raises(Rejected) as rejection:
        acls.create_acl(**{**values, field: value}, actor="bob")  # type: ignore[arg-type]
    assert rejection.value.field == field
