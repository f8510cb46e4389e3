"""The drift of applied documents as alerts: one per owner, ended by another apply, with who changed the topic."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controlplane.models import Alert, DocumentPlan
from controlplane.selectors import alerts as selectors
from controlplane.selectors.next_steps import next_steps
from controlplane.services import alerts, document_drift, incidents, topics
from controlplane.services import cluster_documents as documents
from tests.unit.controlplane.domain.test_cluster_document import DOCUMENT
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def cluster() -> World:
    return World()


def apply_document(**changes: Any) -> DocumentPlan:
    row = documents.plan_document({**copy.deepcopy(DOCUMENT), **changes}, actor="ada")
    return documents.apply_plan(row.pk, row.digest, actor="ada", comment="deploy")


def drift_alerts() -> list[tuple[str, str]]:
    document_drift.measure()
    alerts.evaluate()
    rows = Alert.objects.filter(ended_at__isnull=True, kind="document_drift")
    return [(a.subject, a.text) for a in rows]


def alter_topic() -> None:
    topics.alter_topic("flights", set_configs={"retention.ms": "5000"}, actor="bob")


def test_a_change_of_a_managed_topic_is_an_alert_until_the_document_is_applied_again() -> None:
    row = apply_document()
    assert drift_alerts() == []
    alter_topic()
    ((owner, text),) = drift_alerts()
    assert owner == "payments" and text == (
        f"1 resource (topic flights) differs from the document of payments (plan {row.pk}). Last changed by bob."
    )
    (found,) = [a for a in selectors.alert_list().rows if a.kind == "document_drift"]
    assert [(s.kind, s.target) for s in next_steps(found)] == [("open_document_drift", [str(row.pk), "payments"])]
    incidents.silence("document_drift", "payments", minutes=60, actor="ada", comment="planned")
    assert drift_alerts() == [(owner, text)], "a silence changes no alert"
    apply_document()
    assert drift_alerts() == []
    assert not DocumentPlan.objects.filter(drift_count__gt=0).exists()


def test_a_document_without_an_owner_has_no_drift() -> None:
    document = copy.deepcopy(DOCUMENT)
    del document["owner"]
    row = documents.plan_document(document, actor="ada")
    documents.apply_plan(row.pk, row.digest, actor="ada", comment="once")
    alter_topic()
    assert drift_alerts() == []


def test_a_document_that_cannot_be_compared_has_an_unknown_drift() -> None:
    row = apply_document()
    alter_topic()
    assert len(drift_alerts()) == 1
    for document in (None, {"version": 99}):
        DocumentPlan.objects.filter(pk=row.pk).update(document=document)
        assert drift_alerts() == []
        row.refresh_from_db()
        assert (row.drift_count, row.drift_names) == (None, [])


def test_an_unchanged_drift_is_not_written_again() -> None:
    apply_document()
    alter_topic()
    document_drift.measure()
    before = DocumentPlan.objects.get(drift_count=1).drift_at
    document_drift.measure()
    assert DocumentPlan.objects.get(drift_count=1).drift_at == before
