"""Cluster documents: all faults at once, each with its path and, for a misspelt word, the word that was meant."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.domain.cluster_document import DocumentFault, InvalidDocument, ResourceKind, parse

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
    assert topic["configs"] == {"retention.ms": "1000", "cleanup.policy": None}
    assert acl["host"] == "*" and acl["pattern_type"] == "literal"
    assert quota["entity"] == {"user": "ada"} and route["start"] == "latest" and route["enabled"] is True
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


@pytest.mark.parametrize("secret", ["password", "salt", "stored_key", "iterations"])
def test_a_secret_of_a_user_is_a_fault_with_a_remedy(secret: str) -> None:
    with pytest.raises(InvalidDocument) as rejection:
        parse({"users": [{"name": "billing", secret: "hunter2-hunter2"}]})
    ((fault),) = rejection.value.problems
    assert fault.path == f"users.0.{secret}" and "no secrets" in fault.detail and "weir users create" in fault.detail
    assert "hunter2" not in str(rejection.value)


def test_faults_of_users_broker_configs_and_role_bindings_are_named_with_their_path() -> None:
    document = {
        "users": [{"name": "a", "mechanisms": ["PLAIN"]}, {"name": " a"}],
        "broker_configs": [{"configs": {}}, {"broker": "one"}, {"broker": True}],
        "role_bindings": [
            {"user": "a", "group": "b", "role": "owner", "resource_type": "topic", "resource_name": "t"},
            {"user": "a", "role": "king", "resource_type": "topic", "resource_name": "t"},
            {"user": "a", "role": "owner", "resource_type": "topic"},
        ],
    }
    with pytest.raises(InvalidDocument) as rejection:
        parse(document)
    assert {p.path for p in rejection.value.problems} == {
        "users.0.mechanisms",
        "users.1.name",
        "broker_configs.0.broker",
        "broker_configs.1.broker",
        "broker_configs.2.broker",
        "role_bindings.0.user",
        "role_bindings.1.role",
        "role_bindings.2.resource_name",
    }
