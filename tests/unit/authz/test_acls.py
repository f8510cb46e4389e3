"""The cases of docs/acl-cases.md, keys and filters of ACLs, and which ACLs are valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from brokerd.apis.security import _acl_problem
from brokerd.authz.acls import AclEntry, Acls, DecisionReason, Filter, Operation, PatternType, Permission, Resource
from brokerd.cluster.access_values import InvalidAccessValue
from brokerd.wire import messages as m
from controlplane.services.access import acl_key
from tests.unit.authz.scene import parse

TABLE = Path(__file__).resolve().parents[3] / "docs" / "acl-cases.md"
CASES = [
    tuple(cell.strip() for cell in line.strip("|\n").split("|"))
    for line in TABLE.read_text().splitlines()
    if line.startswith("|") and not line.startswith(("| ACLs", "|---"))
]


@pytest.mark.parametrize(
    ("acls", "requested", "result", "because"), CASES, ids=[f"{a or 'nothing'} / {q}" for a, q, _, _ in CASES]
)
def test_a_case_of_the_document(acls: str, requested: str, result: str, because: str) -> None:
    found = re.fullmatch(r"(\w+) (?:any (\w+)|(\w+) (\S+))(?: as (\S+))?( if no ACL is found)?", requested)
    assert found is not None
    all_of_them = Acls([parse(a) for a in acls.split(";") if a.strip()], ["User:root"], bool(found[6]))
    who, operation = found[5] or "User:alice", Operation[found[1].upper()]
    if found[2]:
        reported = all_of_them.allowed_anywhere(who, "10.0.0.1", operation, Resource[found[2].upper()])
    else:
        reported = all_of_them.allowed(who, "10.0.0.1", operation, Resource[found[3].upper()], found[4])
    assert result in ("allowed", "denied")
    assert reported == (result == "allowed"), because


def test_an_acl_has_one_key_in_broker_and_controller_and_reads_back() -> None:
    acl = parse("deny User:a|b 10.0.0.1 read topic t-*")
    assert acl_key(acl.to_json()) == acl.key
    assert AclEntry.from_json(acl.to_json()) == acl


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"operation": "fly"}, "operation: invalid value 'fly', expected one of unknown, any, all, read, write"),
        ({"permission": 3}, "permission: invalid value 3, expected a string"),
        ({"host": None}, "host: invalid value None, expected a string"),
    ],
)
def test_an_invalid_acl_names_the_field_and_what_is_expected(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidAccessValue, match=f"^{message}"):
        AclEntry.from_json({**parse("allow User:a * read topic t").to_json(), **changes})


@pytest.mark.parametrize(
    ("pattern", "name", "acl", "fits"),
    [
        (PatternType.ANY, "t", "allow User:a * read topic t", True),
        (PatternType.ANY, "tx", "allow User:a * read topic t*", False),
        (PatternType.MATCH, "tx", "allow User:a * read topic t*", True),
        (PatternType.MATCH, "tx", "allow User:a * read topic *", True),
        (PatternType.LITERAL, "tx", "allow User:a * read topic *", False),
        (PatternType.PREFIXED, "t", "allow User:a * read topic t*", True),
        (PatternType.PREFIXED, "t", "allow User:a * read topic t", False),
        (PatternType.ANY, None, "allow User:a * read topic t*", True),
    ],
)
def test_a_filter_matches_as_in_kafka(pattern: PatternType, name: str | None, acl: str, fits: bool) -> None:
    assert Filter(Resource.TOPIC, pattern, name, None, None, Operation.ANY, Permission.ANY).fits(parse(acl)) == fits


@pytest.mark.parametrize(
    ("resource", "operation", "fine"), [(7, 13, True), (7, 14, True), (7, 3, False), (6, 8, True), (6, 13, False)]
)
def test_acls_on_users_and_tokens_have_their_own_operations(resource: int, operation: int, fine: bool) -> None:
    acl = m.CreateAclsRequest.AclCreation(
        resource_type=resource,
        resource_name="User:bob",
        resource_pattern_type=3,
        principal="User:alice",
        host="*",
        operation=operation,
        permission_type=3,
    )
    assert (_acl_problem(acl) is None) is fine


def test_a_decision_has_its_reason_and_the_matching_acl() -> None:
    allow, deny = parse("allow User:alice * read topic t*"), parse("deny User:* 10.0.0.9 all topic t")
    acls = Acls([allow, deny], ["User:root"])

    def explain_describe(who: str, host: str, name: str) -> tuple[bool, DecisionReason, AclEntry | None]:
        return acls.explain(who, host, Operation.DESCRIBE, Resource.TOPIC, name)

    assert explain_describe("User:root", "10.0.0.9", "t") == (True, DecisionReason.SUPER_USER, None)
    assert explain_describe("User:alice", "10.0.0.9", "t") == (False, DecisionReason.DENIED_BY_ACL, deny)
    assert explain_describe("User:alice", "10.0.0.1", "t") == (True, DecisionReason.ALLOWED_BY_ACL, allow)
    assert explain_describe("User:bob", "10.0.0.1", "t") == (False, DecisionReason.NO_MATCHING_ACL, None)
    assert explain_describe("User:alice", "10.0.0.1", "x") == (False, DecisionReason.NO_ACL_OF_RESOURCE, None)
