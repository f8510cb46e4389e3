"""Rows of ACLs: searched by resource and principal, sorted by a column."""

from __future__ import annotations

import pytest

from controlplane.selectors import acls
from controlplane.services import acls as services

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def three_acls() -> None:
    for name, principal in (("orders", "User:ann"), ("payments", "User:bob"), ("orders-eu", "User:payments-reader")):
        services.create_acl(
            resource_type="topic",
            resource_name=name,
            principal=principal,
            operation="read",
            permission="allow",
            actor="alice",
        )


@pytest.mark.parametrize(
    ("query", "found"), [("", 3), ("orders", 2), ("PAYMENTS", 2), ("ann", 1), ("none", 0)], ids=lambda v: str(v)
)
def test_a_search_finds_names_of_resources_and_of_principals(query: str, found: int) -> None:
    assert acls.acl_list(query=query).total == found


def test_rows_are_sorted_by_a_known_column() -> None:
    def names(sort: str) -> list[str]:
        return [r.resource_name for r in acls.acl_list(sort=sort).rows]

    assert names("resource_name") == ["orders", "orders-eu", "payments"]
    assert names("-principal") == ["orders-eu", "payments", "orders"]
    assert names("no such column") == names("resource_name")


def test_a_row_has_all_fields_of_its_acl_and_a_missing_one_is_none() -> None:
    row = acls.acl_list().rows[0]
    assert acls.acl_row(row.id) == row
    assert (row.principal, row.host, row.pattern_type, row.created_by) == ("User:ann", "*", "literal", "alice")
    assert acls.acl_row(999) is None
