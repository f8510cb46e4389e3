"""Cluster documents against the database: exactly the plan, each step once, rejections with the difference, deletions only by prune."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from controlplane.domain.cluster_document import InvalidDocument
from controlplane.models import AccessEntry, Acl, Change, DocumentPlan, ManagedResource, Topic
from controlplane.selectors import cluster_documents as selectors
from controlplane.services import Rejected, acls, topics
from controlplane.services import cluster_documents as services
from tests.unit.controlplane.domain.test_cluster_document import ACL, DOCUMENT
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def cluster() -> World:
    return World()


def plan(document: Any = DOCUMENT, *, prune: bool = False) -> DocumentPlan:
    return services.plan_document(document, prune=prune, actor="ada")


def apply_document(document: Any = DOCUMENT, *, prune: bool = False) -> DocumentPlan:
    row = plan(document, prune=prune)
    return services.apply_plan(row.pk, row.digest, actor="ada", comment="deploy")


def results(row: DocumentPlan) -> list[tuple[str, str, str]]:
    found = selectors.plan_detail(row.pk)
    assert found is not None
    return [(s.kind, s.action, s.result) for s in found.steps]


def test_a_document_is_applied_once_and_then_there_is_no_difference() -> None:
    row = apply_document()
    assert {r for _, _, r in results(row)} == {"done"} and row.applied_at is not None
    topic = Topic.objects.get(name="flights")
    assert topic.partitions == 3 and topic.configs == {"retention.ms": "1000"}
    assert Acl.objects.get().principal == "User:ada"
    assert AccessEntry.objects.get(kind="quota").value == {"producer_byte_rate": 1000}
    assert AccessEntry.objects.filter(kind="route", value__isnull=False).count() == 1
    assert ManagedResource.objects.filter(owner="payments").count() == 4
    again = plan()
    assert again.steps == [] and again.applied_at is not None
    services.apply_plan(row.pk, row.digest, actor="ada", comment="again")
    assert topic.generation == Topic.objects.get(name="flights").generation
    change = Change.objects.get(verb="document.apply")
    assert change.after is not None and change.after["done"] == 4 and change.comment == "deploy"
    assert f"(document plan {row.pk})" in Change.objects.get(verb="topic.create").comment


def test_a_step_whose_resource_changed_since_the_plan_is_rejected_with_the_difference() -> None:
    apply_document()
    row = plan({"owner": "payments", "topics": [{"name": "flights", "partitions": 6}, {"name": "new"}]})
    topics.alter_topic("flights", partitions=4, actor="bob")
    with pytest.raises(Rejected) as rejection:
        services.apply_plan(row.pk, row.digest, actor="ada", comment="deploy")
    assert "topic flights partitions was 3, is 4" in rejection.value.reason
    assert not Topic.objects.filter(name="new").exists()
    assert Change.objects.filter(verb="document.apply", outcome="refused").count() == 1


def test_another_digest_and_a_missing_reason_are_rejected() -> None:
    row = plan()
    with pytest.raises(Rejected, match="has digest"):
        services.apply_plan(row.pk, "x", actor="ada", comment="deploy")
    with pytest.raises(Rejected, match="reason"):
        services.apply_plan(row.pk, row.digest, actor="ada", comment=" ")
    with pytest.raises(Rejected, match="does not exist"):
        services.apply_plan(row.pk + 1, row.digest, actor="ada", comment="deploy")
    assert not Topic.objects.exists()


def test_a_failed_step_is_reported_nothing_is_deleted_and_the_plan_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    apply_document()
    document = {"owner": "payments", "topics": [{"name": "new"}, {"name": "other"}]}
    row = plan(document, prune=True)
    create = topics.create_topic

    def fail_on_new_topic(name: str, **options: Any) -> Topic:
        if name == "new":
            raise Rejected("no space")
        return create(name, **options)

    monkeypatch.setattr(topics, "create_topic", fail_on_new_topic)
    row = services.apply_plan(row.pk, row.digest, actor="ada", comment="deploy")
    assert row.applied_at is None and results(row)[:2] == [("topic", "create", "failed"), ("topic", "create", "done")]
    assert {r for _, a, r in results(row) if a == "delete"} == {"skipped"}
    assert Topic.objects.filter(name="flights", deleted_at__isnull=True).exists()
    monkeypatch.undo()
    row = services.apply_plan(row.pk, row.digest, actor="ada", comment="deploy")
    assert {r for _, _, r in results(row)} == {"done"} and row.applied_at is not None
    assert set(Topic.objects.filter(deleted_at__isnull=True).values_list("name", flat=True)) == {"new", "other"}
    assert not Acl.objects.exists() and ManagedResource.objects.count() == 2


def test_prune_deletes_only_resources_of_the_owner() -> None:
    apply_document()
    topics.create_topic("by-hand", actor="bob")
    acls.create_acl(**{**ACL, "principal": "User:bob"}, actor="bob")
    apply_document({"owner": "ops", "topics": [{"name": "of-ops"}]}, prune=True)
    apply_document({**DOCUMENT, "topics": DOCUMENT["topics"], "acls": []}, prune=True)
    assert [a.principal for a in Acl.objects.all()] == ["User:bob"]
    living = Topic.objects.filter(deleted_at__isnull=True).values_list("name", flat=True)
    assert set(living) == {"flights", "by-hand", "of-ops"}


def test_a_topic_that_was_created_again_by_hand_is_not_pruned() -> None:
    apply_document()
    topics.delete_topic("flights", actor="bob")
    topics.create_topic("flights", actor="bob")
    row = plan({"owner": "payments"}, prune=True)
    assert "topic" not in {kind for kind, _, _ in results(row)}


def test_the_state_of_the_cluster_rejects_a_document_with_all_reasons() -> None:
    apply_document()
    Topic.objects.create(name="a.b", partitions=1, replication_factor=1)
    document = {
        "owner": "payments",
        "topics": [
            {"name": "flights", "partitions": 2, "replication_factor": 1},
            {"name": "a_b"},
            {"name": "c", "replication_factor": 9},
        ],
    }
    with pytest.raises(InvalidDocument) as rejection:
        plan(document)
    assert [p.path for p in rejection.value.problems] == [
        "topics.0.partitions",
        "topics.0.replication_factor",
        "topics.1.name",
        "topics.2.replication_factor",
    ]


def test_old_plans_and_documents_are_deleted_but_not_the_last_applied_one() -> None:
    first = apply_document()
    DocumentPlan.objects.update(created_at=timezone.now() - 2 * services.KEPT)
    for _ in range(services.DOCUMENTS_KEPT):
        plan({**DOCUMENT, "topics": [{"name": "new"}]})
    DocumentPlan.objects.exclude(pk=first.pk).update(created_at=timezone.now() - 2 * services.KEPT)
    assert services.drift_of(first.pk).steps == []
    last = apply_document({**DOCUMENT, "topics": [{"name": "new"}]})
    assert set(DocumentPlan.objects.values_list("pk", flat=True)) == {first.pk, last.pk}
    for _ in range(services.DOCUMENTS_KEPT + 1):
        plan({**DOCUMENT, "topics": [{"name": "newer"}]})
    kept = set(DocumentPlan.objects.filter(document__isnull=False).values_list("pk", flat=True))
    assert len(kept) == services.DOCUMENTS_KEPT + 1 and last.pk in kept
    assert not DocumentPlan.objects.filter(pk=first.pk).exists(), "it is not the last applied one any more"
