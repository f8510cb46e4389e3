"""Moves over REST: previewed, planned, started, throttled; their history and Kafka's reassignment file."""

from __future__ import annotations

import pytest
from rest_framework.test import APIClient

from controlplane.domain.progress import Sample
from controlplane.models import Move
from controlplane.services import moves
from controlplane.services.moves import parse_scope
from tests.unit.controlplane.api.test_api import API
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_a_move_is_previewed_planned_started_and_rejected_over_rest(world: World, operator: APIClient) -> None:
    world.topic("flights", (1, 2), (2, 1))
    scope = {"kind": "drain", "broker": 1}
    dry = operator.post(f"{API}/moves", {"scope": scope, "dry": True}, format="json")
    assert (dry.status_code, len(dry.json()["parts"]), dry.json()["bytes_to_copy"]) == (200, 2, 2000)
    made = operator.post(f"{API}/moves", {"scope": scope, "comment": "disk"}, format="json")
    assert (made.status_code, made.json()["title"], made.json()["can"]) == (
        201,
        "Drain broker 1",
        ["approve", "start", "throttle", "schedule", "cancel"],
    )
    move_id = made.json()["id"]
    assert operator.post(f"{API}/moves/{move_id}/approve", {}, format="json").json()["state"] == "approved"
    assert operator.post(f"{API}/moves/{move_id}/start", {}, format="json").json()["state"] == "running"
    again = operator.post(f"{API}/moves/{move_id}/start", {}, format="json")
    assert (again.status_code, "is running" in again.json()["detail"]) == (409, True)
    assert operator.post(f"{API}/moves/{move_id}/dance", {}, format="json").status_code == 404
    assert operator.get(f"{API}/moves/{move_id}/parts").json()["total"] == 2


def test_throttle_history_and_samples_of_a_move_over_rest(
    world: World, operator: APIClient, viewer_client: APIClient
) -> None:
    world.topic("flights", (1, 2))
    scope = {"kind": "topic", "topic": "flights", "brokers": [2, 3]}
    dry = operator.post(
        f"{API}/moves", {"scope": scope, "dry": True, "throttle_bytes_per_s": 10_000}, format="json"
    ).json()
    assert (dry["lasts_s"][0], [b["bytes_in"] for b in dry["brokers"]]) == (0.1, [0, 1000])
    made = operator.post(
        f"{API}/moves", {"scope": scope, "start": True, "throttle_bytes_per_s": 10_000, "comment": "x"}, format="json"
    ).json()
    assert (made["throttle_bytes_per_s"], made["parts_per_broker_max"], made["origin"]) == (10_000, 4, "operator")
    here = f"{API}/moves/{made['id']}"
    faster = operator.post(f"{here}/throttle", {"throttle_bytes_per_s": 20_000, "comment": "night"}, format="json")
    assert (faster.status_code, faster.json()["throttle_bytes_per_s"]) == (200, 20_000)
    rejected = operator.post(f"{here}/throttle", {"throttle_bytes_per_s": 1}, format="json")
    assert (rejected.status_code, rejected.json()["field"]) == (400, "throttle_bytes_per_s")
    assert operator.post(f"{here}/throttle", {}, format="json").status_code == 400  # null must be given explicitly
    assert (
        operator.post(f"{here}/throttle", {"throttle_bytes_per_s": None}, format="json").json()["throttle_bytes_per_s"]
        is None
    )
    assert [(t["state_from"], t["state_to"]) for t in operator.get(f"{here}/history").json()["rows"]] == [
        ("planned", "running")
    ]
    assert operator.get(f"{here}/samples").json()["rows"] == []
    assert viewer_client.post(f"{here}/throttle", {"throttle_bytes_per_s": None}, format="json").status_code == 403
    assert operator.get(f"{API}/moves/999/history").status_code == 404


def test_the_metrics_of_a_move_have_pages(world: World, operator: APIClient) -> None:
    world.topic("flights", (1, 2))
    scope = parse_scope({"kind": "topic", "topic": "flights", "brokers": [2, 3]})
    move = moves.plan_move(scope, actor="alice", comment="x")
    moves.start_move(move.pk, actor="alice", comment="x")
    moves.pause_move(move.pk, actor="alice", comment="x")
    samples = tuple(Sample(100.0 + n, 10 - n, n) for n in range(5))
    Move.objects.filter(pk=move.pk).update(samples=samples)
    here = f"{API}/moves/{move.pk}"
    seen, cursor = [], ""
    while cursor is not None:
        page = operator.get(f"{here}/samples", {"limit": 2, "cursor": cursor}).json()
        seen += [row["at"] for row in page["rows"]]
        cursor = page["next_cursor"]
    assert seen == [s.at for s in samples]
    assert [r["at"] for r in operator.get(f"{here}/samples?sort=-at&limit=1").json()["rows"]] == [104.0]
    first = operator.get(f"{here}/history?limit=1").json()
    second = operator.get(f"{here}/history", {"limit": 1, "cursor": first["next_cursor"]}).json()
    assert [r["state_to"] for r in [*first["rows"], *second["rows"]]] == ["running", "paused"]
    loads = operator.get(f"{here}/brokers?sort=-parts_in").json()
    assert loads["rows"][0]["broker_id"] == 3 and loads["total"] == 2
    assert operator.get(f"{here}/producer-latency").json()["rows"] == []


def test_the_plan_of_a_move_is_exported_and_imported_as_kafkas_json(world: World, operator: APIClient) -> None:
    world.topic("flights", (1, 2), (2, 1))
    file = {
        "version": 1,
        "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3], "log_dirs": ["any", "any"]}],
    }
    made = operator.post(f"{API}/moves", {"scope": file, "comment": "x"}, format="json")
    assert (made.status_code, made.json()["title"]) == (201, "flights-0")
    plans = operator.get(f"{API}/moves/{made.json()['id']}/plan").json()
    assert plans["proposed"] == {"version": 1, "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}
    assert plans["previous"]["partitions"] == [{"topic": "flights", "partition": 0, "replicas": [1, 2]}]
    file["partitions"][0]["log_dirs"] = ["/data/1", "any"]  # type: ignore[index]
    rejected = operator.post(f"{API}/moves", {"scope": file, "dry": True}, format="json")
    assert (rejected.status_code, "log_dirs" in rejected.json()["detail"]) == (400, True)
