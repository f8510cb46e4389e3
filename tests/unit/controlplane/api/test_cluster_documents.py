"""Cluster documents over REST."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.models import Topic
from tests.unit.controlplane.domain.test_cluster_document import DOCUMENT
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
PLANS = "/api/v1/document-plans"


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
    answer = operator.post(PLANS, {"document": document}, format="json")
    assert answer.status_code == 400
    errors = {e["field"]: (e["code"], e["detail"]) for e in answer.json()["errors"]}
    assert errors.keys() == {"document.topics.0.partitons", "document.acls"}
    code, detail = errors["document.topics.0.partitons"]
    assert code == "unknown_field" and "Did you mean partitions?" in detail


def test_the_same_idempotency_key_makes_one_plan(operator: APIClient) -> None:
    for _ in range(2):
        made = operator.post(PLANS, {"document": DOCUMENT}, format="json", HTTP_IDEMPOTENCY_KEY="k")
        assert made.status_code == 201
    assert operator.get(PLANS).json()["total"] == 1
