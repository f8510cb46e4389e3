"""Cluster documents over REST."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.models import Change, DocumentPlan, Topic
from controlplane.services import topics
from tests.unit.controlplane.domain.test_cluster_document import DOCUMENT
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
PLANS = "/api/v1/document-plans"
DIFF = "/api/v1/cluster-document/diff"


@pytest.fixture(autouse=True)
def cluster() -> World:
    return World()


def test_a_document_is_compared_applied_and_exported(operator: APIClient, viewer_client: APIClient) -> None:
    made = operator.post(PLANS, {"document": DOCUMENT}, format="json")
    assert made.status_code == 201, made.content
    plan = made.json()
    assert plan["creates"] == 4 and plan["steps"][0]["changes"][0] == {
        "field": "partitions",
        "before": None,
        "after": 3,
    }
    assert not Topic.objects.exists()
    assert viewer_client.get(f"{PLANS}/{plan['id']}").json()["digest"] == plan["digest"]
    body = {"digest": plan["digest"], "comment": "deploy"}
    assert viewer_client.post(f"{PLANS}/{plan['id']}/apply", body, format="json").status_code == 403
    assert operator.post(f"{PLANS}/{plan['id']}/apply", {**body, "digest": "x"}, format="json").status_code == 400
    done = operator.post(f"{PLANS}/{plan['id']}/apply", body, format="json").json()
    assert done["done"] == 4 and done["applied_at"] and {s["result"] for s in done["steps"]} == {"done"}
    exported = viewer_client.get("/api/v1/cluster-document", {"owner": "payments"}).json()
    assert operator.post(PLANS, {"document": exported}, format="json").json()["steps"] == []
    assert operator.get(PLANS, {"query": "pay"}).json()["total"] == 2
    assert operator.post(f"{PLANS}/99/apply", body, format="json").status_code == 404


def test_all_faults_of_a_document_are_in_one_problem(operator: APIClient) -> None:
    document = {"topics": [{"name": "t", "partitons": 3}], "acls": 3}
    response = operator.post(PLANS, {"document": document}, format="json")
    assert response.status_code == 400
    errors = {e["field"]: (e["code"], e["detail"]) for e in response.json()["errors"]}
    assert errors.keys() == {"document.topics.0.partitons", "document.acls"}
    code, detail = errors["document.topics.0.partitons"]
    assert code == "unknown_field" and "Did you mean partitions?" in detail


def test_the_same_idempotency_key_makes_one_plan(operator: APIClient) -> None:
    for _ in range(2):
        made = operator.post(PLANS, {"document": DOCUMENT}, format="json", HTTP_IDEMPOTENCY_KEY="k")
        assert made.status_code == 201
    assert operator.get(PLANS).json()["total"] == 1


def test_a_comparison_stores_nothing_and_needs_no_right_to_change(
    operator: APIClient, viewer_client: APIClient, settings: Any
) -> None:
    settings.WEIR = replace(settings.WEIR, read_only=True)
    found = viewer_client.post(DIFF, {"document": DOCUMENT}, format="json")
    assert found.status_code == 200, found.content
    assert found.json()["creates"] == 4 and found.json()["refusals"] == []
    assert not DocumentPlan.objects.exists() and not Change.objects.exists()
    assert APIClient().post(DIFF, {"document": DOCUMENT}, format="json").status_code == 401
    settings.WEIR = replace(settings.WEIR, read_only=False)
    plan = operator.post(PLANS, {"document": DOCUMENT}, format="json").json()
    assert plan["digest"] == found.json()["digest"]


def test_a_comparison_has_the_rejections_beside_the_steps(viewer_client: APIClient) -> None:
    topics.create_topic("flights", partitions=6, replication_factor=3, actor="ada")
    document = {"topics": [{"name": "flights", "partitions": 3, "replication_factor": 3}, {"name": "new"}]}
    found = viewer_client.post(DIFF, {"document": document}, format="json").json()
    assert [(s["name"], s["action"]) for s in found["steps"]] == [("new", "create")]
    ((rejection),) = found["refusals"]
    assert rejection["path"] == "topics.0.partitions" and "cannot be reduced" in rejection["detail"]
    assert viewer_client.post(DIFF, {"document": {"topcs": []}}, format="json").status_code == 400


def test_drift_has_the_changes_that_another_apply_would_make(operator: APIClient, viewer_client: APIClient) -> None:
    plan = operator.post(PLANS, {"document": DOCUMENT}, format="json").json()
    address = f"{PLANS}/{plan['id']}"
    assert viewer_client.get(f"{address}/drift").status_code == 409, "it is not applied"
    operator.post(f"{address}/apply", {"digest": plan["digest"], "comment": "deploy"}, format="json")
    assert viewer_client.get(f"{address}/drift").json()["steps"] == []
    topics.alter_topic("flights", set_configs={"retention.ms": "5"}, actor="bob")
    (step,) = viewer_client.get(f"{address}/drift").json()["steps"]
    assert step["changes"] == [{"field": "configs.retention.ms", "before": "5", "after": "1000"}]
    assert DocumentPlan.objects.count() == 1
