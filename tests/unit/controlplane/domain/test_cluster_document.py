"""Cluster documents: all faults at once, each with its path and, for a misspelt word, the word that was meant."""

from __future__ import annotations

import re
from typing import Any

import pytest

from controlplane.domain.cluster_document import InvalidDocument, parse
from controlplane.domain.document_sections import DocumentFault
from controlplane.domain.document_values import AclValues, QuotaValues, ResourceKind, RouteValues, TopicValues

ACL = {
    "resource_type": "topic",
    "resource_name": "flights",
    "principal": "User:ada",
    "operation": "read",
    "permission": "allow",
}
ROUTE = {"name": "r", "source": "flights", "bindings": [{"target": "paid", "match": {"kind": "all"}}]}
DOCUMENT: dict[str, Any] = {
    "version": 1,
    "owner": "payments",
    "topics": [{"name": "flights", "partitions": 3, "configs": {"retention.ms": 1000, "cleanup.policy": None}}],
    "acls": [ACL],
    "quotas": [{"entity": {"user": "ada"}, "limits": {"producer_byte_rate": 1000}}],
    "routes": [ROUTE],
}


def faults(document: Any) -> dict[str, DocumentFault]:
    with pytest.raises(InvalidDocument) as rejection:
        parse(document)
    return {p.path: p.fault for p in rejection.value.problems}


def test_a_document_has_its_resources_with_defaults() -> None:
    found = parse(DOCUMENT)
    assert found.owner == "payments" and [r.kind for r in found.resources] == list(ResourceKind)[:4]
    topic, acl, quota, route = (r.desired for r in found.resources)
    assert topic == TopicValues(3, None, {"retention.ms": "1000", "cleanup.policy": None})
    assert acl == AclValues("topic", "literal", "flights", "User:ada", "*", "read", "allow")
    assert quota == QuotaValues({"user": "ada"}, {"producer_byte_rate": 1000})
    assert route == RouteValues("flights", "latest", True, "", "", ROUTE["bindings"], None)
    assert parse({}).resources == ()


def test_all_faults_are_reported_at_once() -> None:
    document = {
        "topicss": [],
        "version": 2,
        "owner": 3,
        "topics": [{"name": "a/b"}, {"name": "t", "partitons": 3}, {"partitions": 0}, 7, {"name": "t"}],
        "acls": [{**ACL, "operation": "raed", "principal": "ada"}, {"host": "*"}],
        "quotas": [
            {"entity": {"usr": "a"}, "limits": {}},
            {"entity": {"user": "a"}, "limits": {"producer_byte_rate": "x"}},
        ],
        "routes": [{**ROUTE, "bindings": [{"target": "x", "match": {"kind": "al"}}]}, {"name": 1}],
    }
    found = faults(document)
    assert found.keys() == {
        "topicss",
        "version",
        "owner",
        "topics.0.name",
        "topics.1.partitons",
        "topics.2.name",
        "topics.2.partitions",
        "topics.3",
        "topics.4",
        "acls.0.operation",
        "acls.0.principal",
        *(f"acls.1.{f}" for f in ("resource_type", "resource_name", "principal", "operation", "permission")),
        "quotas.0.entity",
        "quotas.1.limits.producer_byte_rate",
        "routes.0.bindings.0.match.kind",
        "routes.1.name",
        "routes.1.source",
    }
    assert found["topics.4"] is DocumentFault.REPEATED and found["topicss"] is DocumentFault.UNKNOWN_FIELD


@pytest.mark.parametrize(
    ("document", "hint"),
    [
        ({"topicss": []}, "Did you mean topics?"),
        ({"topics": [{"name": "t", "partitons": 3}]}, "Did you mean partitions?"),
        ({"acls": [{**ACL, "operation": "raed"}]}, "Did you mean read?"),
        ({"topics": [{"name": "t", "configs": {"retention.sm": 1}}]}, "retention.sm"),
        ({"topics": [{"name": "__consumer_offsets"}]}, "internal"),
        ({"topics": [{"name": 12}]}, "quotation marks"),
    ],
)
def test_a_fault_names_the_remedy(document: Any, hint: str) -> None:
    with pytest.raises(InvalidDocument) as rejection:
        parse(document)
    assert hint in str(rejection.value)


@pytest.mark.parametrize("value", [None, [], "topics", 3])
def test_a_document_is_an_object(value: Any) -> None:
    assert list(faults(value)) == [""]


@pytest.mark.parametrize(
    ("document", "detail"),
    [
        ([1], ": A document is an object, not a value of type array."),
        ({"version": 3}, "version: This server reads version 1, not 3."),
        ({"owner": 3}, "owner: A text of at most 100 characters is needed, not 3."),
        ({"topics": {"name": "t"}}, "topics: A list is needed, not a value of type object."),
        ({"topics": ["t"]}, "topics.0: An object is needed, not a value of type string."),
    ],
)
def test_a_fault_names_the_value_and_what_is_expected(document: Any, detail: str) -> None:
    with pytest.raises(InvalidDocument, match=f"^{re.escape(detail)}$"):
        parse(document)


def test_a_repeated_resource_is_a_fault_even_if_its_values_are_invalid() -> None:
    found = faults({"routes": [ROUTE, {**ROUTE, "bindings": []}], "users": [{"name": "a"}, {"name": "a"}]})
    assert found["routes.1"] is found["users.1"] is DocumentFault.REPEATED and "routes.1.bindings" in found
