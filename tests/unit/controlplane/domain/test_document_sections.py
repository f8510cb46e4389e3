"""Readers of the sections of a document: typed values, and faults with the path, the value and what is expected."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.domain.cluster_document import InvalidDocument, parse
from controlplane.domain.document_sections import SECTION_READERS, DocumentFaults, json_type
from controlplane.domain.document_values import (
    CLASSES,
    BrokerConfigValues,
    ResourceKind,
    RoleBindingValues,
    RouteValues,
    UserValues,
)
from tests.unit.controlplane.domain.test_cluster_document import ACL, ROUTE


def read(kind: ResourceKind, value: dict[str, Any]) -> tuple[str | None, object, list[str]]:
    """(key, values, "path: detail" of each fault) of this object."""
    faults = DocumentFaults()
    key, values = SECTION_READERS[kind](value, "x", faults)
    return key, values, [f"{p.path}: {p.detail}" for p in faults.found]


def test_each_kind_has_a_reader_and_a_class() -> None:
    assert set(SECTION_READERS) == set(CLASSES) == set(ResourceKind)


def test_values_are_typed_and_have_defaults() -> None:
    assert read(ResourceKind.USER, {"name": "a", "mechanisms": ["SCRAM-SHA-512", "SCRAM-SHA-256"]})[1] == UserValues(
        ("SCRAM-SHA-256", "SCRAM-SHA-512")
    )
    assert read(ResourceKind.BROKER_CONFIG, {"broker": 2, "configs": {"a": True, "b": None}})[:2] == (
        "2",
        BrokerConfigValues({"a": "true", "b": None}),
    )
    grant = {"user": "a", "role": "owner", "resource_type": "topic", "resource_name": "t"}
    assert read(ResourceKind.ROLE_BINDING, grant) == (
        '["a", "", "owner", "topic", "literal", "t"]',
        RoleBindingValues("a", "", "owner", "topic", "literal", "t"),
        [],
    )


@pytest.mark.parametrize(
    ("given", "principal"), [({}, None), ({"principal": None}, ""), ({"principal": "User:a"}, "User:a")]
)
def test_a_route_without_the_field_keeps_its_principal(given: dict[str, Any], principal: str | None) -> None:
    _, values, faults = read(ResourceKind.ROUTE, {**ROUTE, **given})
    assert isinstance(values, RouteValues) and values.principal == principal and faults == []


@pytest.mark.parametrize(
    ("kind", "value", "fault"),
    [
        (ResourceKind.TOPIC, {"name": "t", "partitions": "3"}, "x.partitions: A whole number from 1 to"),
        (ResourceKind.TOPIC, {"name": "t", "configs": []}, None),
        (
            ResourceKind.TOPIC,
            {"name": "t", "configs": [1]},
            "x.configs: An object of names and values is needed, not a value of type array.",
        ),
        (ResourceKind.ACL, {**ACL, "host": 3}, "x.host: A text is needed, not 3; in YAML put it in quotation marks."),
        (
            ResourceKind.QUOTA,
            {"entity": "ada"},
            'x.entity: An object is needed, for example {"user": "alice"}, not a value of type string;',
        ),
        (ResourceKind.ROUTE, {**ROUTE, "enabled": "no"}, "x.enabled: true or false is needed, not 'no'."),
        (ResourceKind.ROUTE, {**ROUTE, "owner": ["ops"]}, "x.owner: A text is needed, not ['ops']."),
        (
            ResourceKind.USER,
            {"name": "a", "mechanisms": "PLAIN"},
            "x.mechanisms: A list of mechanisms is needed (SCRAM-SHA-256",
        ),
        (
            ResourceKind.ROLE_BINDING,
            {"group": 7, "role": "owner", "resource_type": "topic", "resource_name": "t"},
            "x.group: A text is needed, not 7.",
        ),
    ],
)
def test_a_fault_names_the_path_the_value_and_what_is_expected(
    kind: ResourceKind, value: dict[str, Any], fault: str | None
) -> None:
    found = read(kind, value)[2]
    assert found == [] if fault is None else len(found) == 1 and found[0].startswith(fault)


def test_types_of_json_have_the_names_of_json() -> None:
    values = ({}, [], "", 1, 1.5, True, None)
    assert [json_type(v) for v in values] == [
        "object",
        "array",
        "string",
        "number",
        "number",
        "boolean",
        "null",
    ]


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
