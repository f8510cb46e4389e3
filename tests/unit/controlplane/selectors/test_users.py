"""The list of SCRAM users and one user with its ACLs."""

from __future__ import annotations

import pytest

from controlplane.models import AccessEntry
from controlplane.selectors import users as selectors
from controlplane.services import access, acls, users

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


def test_the_list_groups_credentials_by_user_with_filter_order_and_pages() -> None:
    for name, mechanisms in (
        ("ann", ["SCRAM-SHA-256", "SCRAM-SHA-512"]),
        ("bob", ["SCRAM-SHA-512"]),
        ("carol:ops", ["SCRAM-SHA-256"]),
    ):
        users.create_user(name, password=PASSWORD, mechanisms=mechanisms, actor="op")
    access.put("quota", "SCRAM-SHA-256:no", {"x": 1}, actor="op")
    found = selectors.user_list()
    assert [(u.name, u.principal, [c.mechanism for c in u.credentials]) for u in found.rows] == [
        ("ann", "User:ann", ["SCRAM-SHA-256", "SCRAM-SHA-512"]),
        ("bob", "User:bob", ["SCRAM-SHA-512"]),
        ("carol:ops", "User:carol:ops", ["SCRAM-SHA-256"]),
    ]
    assert [u.name for u in selectors.user_list(query="O").rows] == ["bob", "carol:ops"]
    both = selectors.user_list(mechanism="SCRAM-SHA-256")
    assert [(u.name, len(u.credentials)) for u in both.rows] == [("ann", 2), ("carol:ops", 1)]
    assert [u.name for u in selectors.user_list(sort="-name", page=2, per_page=2).rows] == ["ann"]
    assert [u.name for u in selectors.user_list(sort="-changed_at").rows] == ["carol:ops", "bob", "ann"]
    assert (selectors.user_list(per_page=2).total, selectors.user_list(per_page=2).pages) == (3, 2)


def test_the_detail_of_a_user_has_its_acls() -> None:
    users.create_user("ann", password=PASSWORD, actor="op")
    for principal in ("User:ann", "User:anna"):
        acls.create_acl(
            resource_type="topic",
            resource_name="t",
            principal=principal,
            operation="read",
            permission="allow",
            actor="op",
        )
    detail = selectors.user_detail("ann")
    assert detail is not None and detail.acl_count == 1 and [a.principal for a in detail.acls] == ["User:ann"]
    assert not detail.row.credentials[0].applied
    access.mark_applied(AccessEntry.objects.get(key="SCRAM-SHA-256:ann"), 1)
    detail = selectors.user_detail("ann")
    assert detail is not None and [c.applied for c in detail.row.credentials] == [True, False]
