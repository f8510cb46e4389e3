"""Permissions of roles, and the names that a pattern matches."""

from __future__ import annotations

import pytest

from controlplane.domain.access import AclPattern
from controlplane.domain.errors import Rejected
from controlplane.domain.roles import (
    PERMITS,
    ROLE_FOR,
    Access,
    AccessRole,
    Grant,
    RoleResource,
    check_grant,
    denied_names,
)

TOPIC, GROUP = RoleResource.TOPIC, RoleResource.GROUP


def grant(name: str, *, role: AccessRole = AccessRole.OPERATOR, pattern: AclPattern = AclPattern.LITERAL) -> Grant:
    return Grant(role, TOPIC, pattern, name)


@pytest.mark.parametrize(
    ("pattern", "name", "asked", "matches"),
    [
        (AclPattern.LITERAL, "pay", "pay", True),
        (AclPattern.LITERAL, "pay", "pay.x", False),
        (AclPattern.LITERAL, "*", "anything", True),
        (AclPattern.PREFIXED, "pay.", "pay.x", True),
        (AclPattern.PREFIXED, "pay.", "pay", False),
        (AclPattern.PREFIXED, "pay.", "other.pay.x", False),
    ],
)
def test_a_pattern_matches_names_like_kafkas_acls(pattern: AclPattern, name: str, asked: str, matches: bool) -> None:
    assert grant(name, pattern=pattern).matches(TOPIC, asked) is matches
    assert not grant(name, pattern=pattern).matches(GROUP, asked)


def test_each_access_has_a_smallest_role_and_the_owner_has_all() -> None:
    assert PERMITS[AccessRole.OWNER] == set(Access)
    for access, role in ROLE_FOR.items():
        assert PERMITS[role] == {access, Access.VIEW}
    assert all(Access.VIEW in permitted for permitted in PERMITS.values())


def test_names_without_a_role_are_listed_in_their_order() -> None:
    grants = [grant("a"), grant("b.", pattern=AclPattern.PREFIXED), grant("c", role=AccessRole.READER)]
    assert denied_names(grants, Access.OPERATE, TOPIC, ["d", "a", "c", "b.1"]) == ["d", "c"]
    assert denied_names(grants, Access.READ_RECORDS, TOPIC, ["c", "a"]) == ["a"]
    assert denied_names([], Access.OPERATE, TOPIC, []) == []


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("chief", "topic", "literal", "a"), "role"),
        (("reader", "group", "literal", "a"), "role"),
        (("reader", "planet", "literal", "a"), "resource_type"),
        (("reader", "cluster", "literal", "kafka-cluster"), "role"),
        (("viewer", "cluster", "literal", "*"), "resource_name"),
        (("viewer", "cluster", "prefixed", "kafka-cluster"), "resource_name"),
        (("reader", "topic", "regex", "a"), "pattern_type"),
        (("reader", "topic", "literal", ""), "resource_name"),
        (("reader", "topic", "prefixed", "a*"), "resource_name"),
        (("reader", "topic", "literal", "a" * 250), "resource_name"),
    ],
)
def test_a_binding_of_other_words_is_rejected(words: tuple[str, str, str, str], field: str) -> None:
    with pytest.raises(Rejected) as rejection:
        check_grant(*words)
    assert rejection.value.field == field


def test_the_words_of_a_binding_become_a_grant() -> None:
    assert check_grant("owner", "group", "prefixed", "team-") == Grant(
        AccessRole.OWNER, GROUP, AclPattern.PREFIXED, "team-"
    )
