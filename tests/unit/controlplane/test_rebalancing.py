"""Proposals from rows, by REST, and the move that runs them."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.services import Refused, rebalancing
from tests.unit.controlplane.world import World


@pytest.mark.django_db
def test_a_proposal_is_read_from_the_rows_and_run_by_an_ordinary_move(world: World, operator: APIClient) -> None:
    world.topic("flights", *[(1, 2)] * 6)
    told = operator.post("/api/v1/rebalance", {"goals": ["replicas"]}, format="json")
    assert told.status_code == 200, told.json()
    body = told.json()
    assert [(b["broker_id"], b["replicas"]) for b in body["before"]] == [(1, 6), (2, 6), (3, 0)]
    assert max(b["replicas"] for b in body["after"]) <= 5 and body["changes_total"] == len(body["changes"]) >= 3
    moved = operator.post(
        "/api/v1/moves", {"scope": body["scope"], "start": True, "why": "a new broker"}, format="json"
    )
    assert moved.status_code == 201 and moved.json()["parts"] == body["changes_total"]
    assert moved.json()["title"] == "Rebalance by replicas"
    assert operator.post("/api/v1/rebalance", {"goals": ["peace"]}, format="json").status_code == 400
    with pytest.raises(Refused, match="'peace' is no goal"):
        rebalancing.propose(["peace"])
