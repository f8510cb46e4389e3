"""Explanations of permissions: the rule that decides, and the effective permissions of a principal."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.domain.access import AclOperation
from controlplane.domain.errors import Rejected
from controlplane.selectors.permissions import AuthorizerOptions, check_permission, operations, permission_list
from controlplane.services import acls

pytestmark = pytest.mark.django_db
READ = {"principal": "User:ann", "resource_type": "topic", "resource_name": "orders-1", "operation": "read"}


def acl(text: str) -> int:
    """The id of a new ACL: permission principal host operation resource_type name, a name with * at its end is a prefix."""
    permission, principal, host, operation, resource, name = text.split()
    prefixed = name.endswith("*") and name != "*"
    row = acls.create_acl(
        resource_type=resource,
        pattern_type="prefixed" if prefixed else "literal",
        resource_name=name.removesuffix("*") if prefixed else name,
        principal=principal,
        host=host,
        operation=operation,
        permission=permission,
        actor="op",
    )
    return int(row.pk)


def explain_permission(**changes: Any) -> tuple[bool, str, int | None]:
    check = check_permission(**{**READ, **changes})
    return check.allowed, check.reason, None if check.acl is None else check.acl.id


def test_a_deny_rule_decides_before_an_allow_rule() -> None:
    assert explain_permission() == (False, "no_acl_of_resource", None)
    allowed = acl("allow User:ann * read topic orders-*")
    assert explain_permission() == (True, "allowed_by_acl", allowed)
    assert explain_permission(operation="describe") == (True, "allowed_by_acl", allowed), "implied by read"
    assert explain_permission(operation="write") == (False, "no_matching_acl", None)
    denied = acl("deny User:* * all topic orders-1")
    assert explain_permission() == (False, "denied_by_acl", denied)
    assert explain_permission(resource_name="orders-2") == (True, "allowed_by_acl", allowed)
    check = check_permission(**READ)
    assert {a.id for a in check.acls} == {allowed, denied}


def test_the_settings_of_the_brokers_decide_where_they_are_given() -> None:
    root = AuthorizerOptions(super_users=("User:ann",))
    everyone = AuthorizerOptions(allow_if_no_acl=True)
    assert explain_permission(options=everyone) == (True, "no_acl_of_resource", None)
    acl("deny User:ann * read topic *")
    assert explain_permission(options=root) == (True, "super_user", None)
    assert explain_permission(options=everyone)[:2] == (False, "denied_by_acl")


def test_acls_for_a_host_apply_to_this_host_and_are_counted_otherwise() -> None:
    one = acl("allow User:ann 10.0.0.1 read topic orders-1")
    assert explain_permission(host="10.0.0.1") == (True, "allowed_by_acl", one)
    assert explain_permission() == (False, "no_matching_acl", None) and check_permission(**READ).other_hosts == 1
    assert check_permission(**READ, host="10.0.0.1").other_hosts == 0


def test_the_cluster_needs_no_name() -> None:
    one = acl("allow User:ann * create cluster kafka-cluster")
    assert explain_permission(resource_type="cluster", resource_name="", operation="create") == (
        True,
        "allowed_by_acl",
        one,
    )


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"principal": "ann"}, "principal"),
        ({"resource_type": "table"}, "resource_type"),
        ({"operation": "all"}, "operation"),
        ({"resource_type": "group", "operation": "write"}, "operation"),
        ({"resource_name": ""}, "resource_name"),
    ],
)
def test_input_that_no_client_can_send_is_rejected(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(Rejected) as rejection:
        check_permission(**{**READ, **changes})
    assert rejection.value.field == named


def test_the_list_has_one_row_per_pattern_with_the_decision_for_each_operation() -> None:
    prefix = acl("allow User:ann * read topic orders-*")
    denied = acl("deny User:* * describe topic orders-1")
    acl("allow User:ann * all group *")
    acl("allow User:bob * all topic secret")
    found = permission_list(principal="User:ann")
    assert [(r.resource_type, r.pattern_type, r.resource_name) for r in found.rows] == [
        ("group", "literal", "*"),
        ("topic", "prefixed", "orders-"),
        ("topic", "literal", "orders-1"),
    ]
    group, prefixed, literal = found.rows
    assert group.allowed == ["read", "delete", "describe", "describe_configs", "alter_configs"] and not group.denied
    assert (prefixed.allowed, prefixed.denied) == (["read", "describe"], [])
    assert (literal.allowed, literal.denied) == (["read"], ["describe"]), "the prefix applies, except what is denied"
    by = {o.operation: o.acl_id for o in literal.operations}
    assert by["read"] == prefix and by["describe"] == denied and by["write"] is None


def test_a_literal_rule_with_the_name_of_a_prefix_does_not_change_the_row_of_the_prefix() -> None:
    acl("allow User:ann * read topic app*")
    acl("deny User:ann * read topic app")
    rows = {r.pattern_type: r for r in permission_list(principal="User:ann").rows}
    assert (rows["prefixed"].allowed, rows["prefixed"].denied) == (["read", "describe"], [])
    assert rows["literal"].denied == ["read"]


def test_the_list_is_filtered_sorted_and_paged() -> None:
    for name in ("a1", "a2", "b1"):
        acl(f"allow User:ann * read topic {name}")
    acl("allow User:ann * read group a3")
    found = permission_list(principal="User:ann", query="A", resource_type="topic", sort="-resource_name", per_page=1)
    assert ([r.resource_name for r in found.rows], found.total, found.pages) == (["a2"], 2, 2)
    by_type = permission_list(principal="User:ann", sort="resource_type")
    assert [r.resource_type for r in by_type.rows] == ["group", "topic", "topic", "topic"]


def test_every_selectable_operation_is_valid_in_acls() -> None:
    assert set(operations()) == set(AclOperation) - {"all"}
