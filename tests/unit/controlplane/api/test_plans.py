"""Plans over REST: Kafka's reassignment file in both directions, approval by digest, and the move."""

from __future__ import annotations

import json

import pytest
from rest_framework.test import APIClient

from tests.unit.controlplane.services.test_plans import API, DRAIN
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def flights(world: World) -> World:
    world.topic("flights", *[(1, 2)] * 3, (2, 3))
    return world


def test_a_plan_exported_as_kafkas_json_is_imported_unchanged(flights: World, operator: APIClient) -> None:
    made = operator.post(f"{API}/plans", {"scope": DRAIN, "comment": "x", "name": "n"}, format="json").json()
    response = operator.get(f"{API}/plans/{made['id']}/file")
    file = json.loads(b"".join(response.streaming_content))  # type: ignore[attr-defined]
    assert file["version"] == 1 and len(file["partitions"]) == 3
    again = operator.post(f"{API}/plans", {"scope": file, "comment": "x"}, format="json").json()
    assert again["digest"] == made["digest"]
    before = operator.get(f"{API}/plans/{made['id']}/file?previous=true")
    parts = json.loads(b"".join(before.streaming_content))["partitions"]  # type: ignore[attr-defined]
    assert parts[0] == {"topic": "flights", "partition": 0, "replicas": [1, 2]}


def test_a_plan_is_saved_approved_and_started_over_rest(flights: World, operator: APIClient) -> None:
    plan = operator.post(f"{API}/plans", {"scope": DRAIN, "comment": "x"}, format="json").json()
    at = f"{API}/plans/{plan['id']}"
    assert operator.get(f"{API}/plans").json()["total"] == 1
    parts = operator.get(f"{at}/parts?limit=2").json()
    rest = operator.get(f"{at}/parts?limit=2&cursor={parts['next_cursor']}").json()
    assert (len(parts["rows"]), len(rest["rows"]), rest["next_cursor"]) == (2, 1, None)
    assert operator.get(f"{at}/difference").json()["different"] == 3
    assert operator.get(f"{at}/difference?other=99").status_code == 404
    assert operator.post(f"{at}/approve", {"digest": plan["digest"]}, format="json").json()["field"] == "comment"
    approved = operator.post(f"{at}/approve", {"digest": plan["digest"], "comment": "ok"}, format="json").json()
    assert approved["approved_by"] == "alice"
    body = {"digest": plan["digest"], "window": {"opens": "22:00", "stop_by": "21:59"}, "throttle_bytes_per_s": 5_000}
    move = operator.post(f"{at}/move", body, format="json").json()
    assert (move["window_text"], move["title"]) == ("22:00 to 21:59 UTC every day", "Drain broker 1")
    bad = operator.post(f"{at}/move", {**body, "window": {"opens": "x"}}, format="json")
    assert (bad.status_code, bad.json()["field"]) == (400, "window")
    gone = operator.post(f"{API}/moves/{move['id']}/schedule", {"window": None, "comment": "x"}, format="json").json()
    assert gone["window"] is None
    assert operator.delete(at, {"comment": "over"}, format="json").status_code == 204
    assert operator.get(f"{API}/plans").json()["total"] == 0
    assert operator.get(f"{API}/plans?state=archived").json()["total"] == 1
    late = operator.post(f"{at}/move", {"digest": plan["digest"]}, format="json")
    assert (late.status_code, "is archived" in late.json()["detail"]) == (409, True)
