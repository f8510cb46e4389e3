"""Values of documents: their JSON form, which stored plans have, and faults of a stored value."""

from __future__ import annotations

import json

import pytest

from brokerd.cluster.typed_json import MalformedJson
from controlplane.domain.document_values import (
    AclValues,
    BrokerConfigValues,
    DocumentValues,
    QuotaValues,
    ResourceKind,
    RoleBindingValues,
    RouteValues,
    TopicValues,
    UserValues,
    from_json,
    to_json,
)

BINDINGS = [{"target": "paid", "match": {"kind": "all"}}]
STORED: list[tuple[ResourceKind, DocumentValues, str]] = [
    (
        ResourceKind.TOPIC,
        TopicValues(3, None, {"a": None}),
        '{"partitions": 3, "replication_factor": null, "configs": {"a": null}}',
    ),
    (
        ResourceKind.ACL,
        AclValues("topic", "literal", "t", "User:a", "*", "read", "allow"),
        (
            '{"resource_type": "topic", "pattern_type": "literal", "resource_name": "t", "principal": "User:a", "host": "*", '
            '"operation": "read", "permission": "allow"}'
        ),
    ),
    (
        ResourceKind.QUOTA,
        QuotaValues({"user": None}, {"x": 5.0, "y": None}),
        '{"entity": {"user": null}, "limits": {"x": 5.0, "y": null}}',
    ),
    (
        ResourceKind.ROUTE,
        RouteValues("t", "latest", True, "", "", BINDINGS),
        (
            '{"source": "t", "start": "latest", "enabled": true, "owner": "", "description": "", '
            f'"bindings": {json.dumps(BINDINGS)}}}'
        ),
    ),
    (ResourceKind.USER, UserValues(("SCRAM-SHA-256",)), '{"mechanisms": ["SCRAM-SHA-256"]}'),
    (ResourceKind.BROKER_CONFIG, BrokerConfigValues({"a": "b"}), '{"configs": {"a": "b"}}'),
    (
        ResourceKind.ROLE_BINDING,
        RoleBindingValues("a", "", "owner", "topic", "literal", "t"),
        '{"user": "a", "group": "", "role": "owner", "resource_type": "topic", "pattern_type": "literal", "resource_name": "t"}',
    ),
]


@pytest.mark.parametrize(("kind", "values", "text"), STORED)
def test_the_stored_form_of_each_kind(kind: ResourceKind, values: DocumentValues, text: str) -> None:
    assert json.dumps(to_json(values)) == text
    assert from_json(kind, json.loads(text)) == values


@pytest.mark.parametrize(
    ("kind", "stored", "fault"),
    [
        (ResourceKind.TOPIC, {"partitions": "3"}, "partitions: invalid value '3', expected a whole number"),
        (ResourceKind.QUOTA, {"entity": {"user": 3}, "limits": {}}, "entity.user: invalid value 3, expected a string"),
        (
            ResourceKind.ROUTE,
            {"source": "t", "start": "latest", "enabled": 1},
            "enabled: invalid value 1, expected true or false",
        ),
        (ResourceKind.BROKER_CONFIG, [], "invalid value .., expected an object"),
    ],
)
def test_another_value_is_rejected_with_its_path_and_the_expected_type(
    kind: ResourceKind, stored: object, fault: str
) -> None:
    with pytest.raises(MalformedJson, match=fault):
        from_json(kind, stored)


def test_a_route_of_the_metadata_log_may_lack_fields() -> None:
    found = from_json(ResourceKind.ROUTE, {"source": "t", "bindings": BINDINGS})
    assert found == RouteValues("t", "latest", True, "", "", BINDINGS)


def test_a_stored_value_is_named_in_the_error() -> None:
    with pytest.raises(MalformedJson, match=r"^route orders: source is missing$"):
        from_json(ResourceKind.ROUTE, {}, "route orders")
    with pytest.raises(MalformedJson, match=r"^route orders.source: invalid value 3, expected a string"):
        from_json(ResourceKind.ROUTE, {"source": 3}, "route orders")
