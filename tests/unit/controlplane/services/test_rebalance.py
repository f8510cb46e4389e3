"""Proposals from rows and by REST, and the move that runs a proposal."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.models import Broker
from tests.unit.controlplane.world import World


@pytest.mark.django_db
def test_a_rebalance_proposal_is_computed_from_rows_and_runs_as_a_move(world: World, operator: APIClient) -> None:
    world.topic("flights", *[(1, 2)] * 6)
    reported = operator.post("/api/v1/rebalance", {"goals": ["replicas"]}, format="json")
    assert reported.status_code == 200, reported.json()
    body = reported.json()
    assert [(b["broker_id"], b["replicas"]) for b in body["before"]] == [(1, 6), (2, 6), (3, 0)]
    assert max(b["replicas"] for b in body["after"]) <= 5 and body["changes_total"] == len(body["changes"]) >= 3
    moved = operator.post(
        "/api/v1/moves", {"scope": body["scope"], "start": True, "comment": "a new broker"}, format="json"
    )
    assert moved.status_code == 201 and moved.json()["parts"] == body["changes_total"]
    assert moved.json()["title"] == "Rebalance by replicas"
    for field, value in (("goals", ["peace"]), ("tolerance", 5)):
        rejected = operator.post("/api/v1/rebalance", {field: value}, format="json")
        assert (rejected.status_code, rejected.json()["field"]) == (400, field), rejected.json()


@pytest.mark.django_db
def test_a_goal_that_is_not_reached_has_a_code_a_reason_and_advice(world: World, operator: APIClient) -> None:
    world.topic("flights", *[(1,)] * 4)
    body = operator.post("/api/v1/rebalance", {"goals": ["leaders"]}, format="json").json()
    (goal,) = body["goals"]
    assert (body["changes_total"], goal["reached"], goal["obstacle"]) == (0, False, "no_shared_replica")
    assert body["notes"] == [], "all brokers and partitions are usable"
    assert goal["reason"].endswith("lead.") and "increase the replication factor" in goal["advice"]


@pytest.mark.django_db
def test_a_note_has_a_code_its_counts_and_a_text(world: World, operator: APIClient) -> None:
    world.topic("flights", *[(1, 2)] * 6)
    Broker.objects.filter(broker_id=3).update(alive=False)
    (note,) = operator.post("/api/v1/rebalance", {}, format="json").json()["notes"]
    text = "Broker 3 is down or cordoned: it gets no replicas and keeps its own."
    assert note == {"code": "brokers_closed", "count": 1, "brokers": [3], "text": text}
