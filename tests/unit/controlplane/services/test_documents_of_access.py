"""SCRAM users, broker configs and role bindings in cluster documents."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model

from controlplane.domain.cluster_document import InvalidDocument
from controlplane.models import DocumentPlan, RoleBinding
from controlplane.selectors import cluster_documents as selectors
from controlplane.services import Rejected, broker_configs, role_bindings, users
from controlplane.services import cluster_documents as services
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
BINDING = {
    "user": "team",
    "role": "owner",
    "resource_type": "topic",
    "pattern_type": "prefixed",
    "resource_name": "payments.",
}


@pytest.fixture(autouse=True)
def cluster() -> World:
    get_user_model().objects.create_user("team")
    return World()


def apply(document: Any, *, prune: bool = False, is_administrator: bool = False) -> DocumentPlan:
    row = services.plan_document({"owner": "payments", **document}, prune=prune, actor="ada")
    done = services.apply_plan(row.pk, row.digest, actor="ada", comment="deploy", is_administrator=is_administrator)
    assert done.applied_at is not None, done.results
    return done


def actions(row: DocumentPlan) -> list[tuple[str, str, str]]:
    return [(s.kind, s.key, s.action) for s in selectors.steps_of(row)]


def rejections(document: Any) -> list[str]:
    with pytest.raises(InvalidDocument) as rejection:
        services.plan_document(document, actor="ada")
    return [f"{p.path}: {p.detail}" for p in rejection.value.problems]


def test_a_document_creates_no_user_and_changes_no_mechanism() -> None:
    (missing,) = rejections({"users": [{"name": "billing"}]})
    assert missing.startswith("users.0.name: There is no SCRAM user") and "weir users create" in missing
    users.create_user("billing", mechanisms=["SCRAM-SHA-256"], actor="ada")
    (other,) = rejections({"users": [{"name": "billing", "mechanisms": ["SCRAM-SHA-512"]}]})
    assert other.startswith("users.0.mechanisms: The user has SCRAM-SHA-256.")


def test_a_managed_user_is_deleted_by_prune_only() -> None:
    users.create_user("billing", actor="ada")
    desired = {"users": [{"name": "billing", "mechanisms": ["SCRAM-SHA-512", "SCRAM-SHA-256"]}]}
    assert actions(apply(desired)) == [("user", "billing", "manage")]
    assert actions(apply({})) == [] and users.credentials("billing")
    assert actions(apply({}, prune=True)) == [("user", "billing", "delete")]
    assert not users.credentials("billing")


def test_broker_configs_are_set_and_removed_and_others_stay() -> None:
    broker_configs.alter_configs(1, {"max.connections": "2"}, actor="bob")
    desired = [
        {"broker": 1, "configs": {"max.connections.per.ip": 4}},
        {"broker": "all", "configs": {"log.retention.ms": 3000}},
    ]
    apply({"broker_configs": desired})
    exported = selectors.export()["broker_configs"]
    assert exported == [
        {"broker": "all", "configs": {"log.retention.ms": "3000"}},
        {"broker": 1, "configs": {"max.connections": "2", "max.connections.per.ip": "4"}},
    ]
    assert actions(apply({"broker_configs": exported})) == []
    assert actions(apply({}, prune=True)) == [], "configs have no owner"
    apply({"broker_configs": [{"broker": 1, "configs": {"max.connections.per.ip": None, "max.connections": None}}]})
    assert selectors.export()["broker_configs"] == exported[:1]


def test_a_value_that_a_broker_would_reject_is_rejected_before_the_plan() -> None:
    found = rejections(
        {
            "broker_configs": [
                {"broker": 99, "configs": {"max.connections.per.ip": 4}},
                {"broker": 1, "configs": {"max.connections": "many"}},
                {"broker": 2, "configs": {"broker.id": 7}},
            ]
        }
    )
    assert [f.partition(":")[0] for f in found] == [
        "broker_configs.0.broker",
        "broker_configs.1.configs.max.connections",
        "broker_configs.2.configs.broker.id",
    ]


def test_role_bindings_are_created_and_pruned_by_administrators_only() -> None:
    with pytest.raises(Rejected, match="administrators"):
        apply({"role_bindings": [BINDING]})
    assert not RoleBinding.objects.exists()
    apply({"role_bindings": [BINDING]}, is_administrator=True)
    assert selectors.export()["role_bindings"] == [BINDING]
    assert actions(apply({"role_bindings": [BINDING]})) == []
    with pytest.raises(Rejected, match="administrators"):
        apply({}, prune=True)
    apply({}, prune=True, is_administrator=True)
    assert not RoleBinding.objects.exists()
    (unknown,) = rejections({"role_bindings": [{**BINDING, "user": "nobody"}]})
    assert unknown.startswith("role_bindings.0.user: There is no user 'nobody'")


def test_an_export_of_everything_has_no_secret_and_no_difference() -> None:
    password = users.create_user("billing", actor="ada")
    role_bindings.create_binding(**BINDING, actor="root")
    exported = selectors.export()
    assert exported["users"] == [{"name": "billing", "mechanisms": ["SCRAM-SHA-256", "SCRAM-SHA-512"]}]
    assert password is not None and password not in str(exported) and "stored_key" not in str(exported)
    assert services.compare_document(exported).steps == []
