"""Stored plans: compared, approved by digest, started exactly as reviewed or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.domain.scope import to_json
from controlplane.models import Change, Move, Plan
from controlplane.selectors import plans as selectors
from controlplane.services import Rejected, moves, plans
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
API = "/api/v1"
DRAIN = {"kind": "drain", "broker": 1}
ALICE = {"actor": "alice", "comment": "broker 1 goes"}


@pytest.fixture
def flights(world: World) -> World:
    world.topic("flights", *[(1, 2)] * 3, (2, 3))
    return world


def save(scope: dict[str, Any] = DRAIN, **more: Any) -> Plan:
    return plans.save_plan(parse_scope(scope), **{**ALICE, **more})


def test_a_plan_is_stored_and_reserves_no_partition(flights: World) -> None:
    first, second = save(name="first"), save({"kind": "fill", "broker": 3})
    assert (first.parts, first.copies, first.bytes_to_copy, first.metadata_seq) == (3, 3, 3000, flights.image.seq)
    assert [(p[1], p[2], p[3], p[4]) for p in plans.parts_of(first.pk)] == [
        ("flights", i, [1, 2], [3, 2]) for i in range(3)
    ]
    assert second.pk != first.pk and not Move.objects.exists()
    assert [(p.name, p.title) for p in selectors.plan_list().rows] == [
        ("", "Fill broker 3"),
        ("first", "Drain broker 1"),
    ]
    assert Change.objects.filter(verb="plan.save").count() == 2


def test_a_plan_requires_a_reason_and_lists_its_problems(flights: World) -> None:
    with pytest.raises(Rejected, match="Give a reason"):
        save(comment=" ")
    flights.down(3)
    with pytest.raises(Rejected, match="no other live broker"):
        save()
    assert not Plan.objects.exists()
    assert Change.objects.first().outcome == "refused"  # type: ignore[union-attr]


def test_the_digest_covers_the_planned_and_the_previous_placement(flights: World) -> None:
    first = save()
    flights.sized("flights", 2000)
    assert save().digest == first.digest, "sizes move by themselves"
    by_hand = [{"topic": "flights", "partition": i, "replicas": [3, 2]} for i in (2, 1, 0)]
    assert save({"version": 1, "partitions": by_hand}).digest == first.digest, "the same, in whatever order it was said"
    by_hand[0]["replicas"] = [2, 3]
    assert save({"version": 1, "partitions": by_hand}).digest != first.digest
    flights.begin_move("flights", 0, (2, 1))
    flights.end_move("flights", 0)
    assert save().digest != first.digest, "read from another placement"


def test_a_plan_starts_only_with_the_placement_that_it_was_made_from(flights: World) -> None:
    plan = save()
    for index in (0, 2):
        flights.begin_move("flights", index, (2, 3))
        flights.end_move("flights", index)
    with pytest.raises(Rejected) as refused:
        plans.move_of(plan.pk, plan.digest, actor="alice")
    assert refused.value.reason.startswith("2 of 3 partitions have changed since plan")
    assert "flights-0 is on [2, 3] (generation 0, now 2)" in refused.value.reason
    assert not Move.objects.exists()
    assert Change.objects.first().outcome == "refused"  # type: ignore[union-attr]
    found = selectors.difference(plan.pk, None)
    assert (found.stale, found.different, found.same) == (2, 3, 0)
    assert [r.stale for r in found.rows] == [True, False, True]


def test_a_move_of_an_approved_plan_is_approved_and_says_by_whom(flights: World) -> None:
    plan = save()
    with pytest.raises(Rejected, match="has digest"):
        plans.approve_plan(plan.pk, "0" * 64, actor="bea", comment="seen")
    plans.approve_plan(plan.pk, plan.digest, actor="bea", comment="seen")
    with pytest.raises(Rejected, match="already approved by bea"):
        plans.approve_plan(plan.pk, plan.digest, actor="carol", comment="me too")
    with pytest.raises(Rejected, match="has digest"):
        plans.move_of(plan.pk, "", actor="alice")
    move = plans.move_of(plan.pk, plan.digest, actor="alice", caps={"parts_in_flight_max": 2})
    assert (move.state, move.scope, move.parts_in_flight_max) == ("approved", parse_scope(DRAIN), 2)
    assert [(p.replicas_from, p.replicas_to, p.read_generation) for p in move.parts.all()] == [([1, 2], [3, 2], 0)] * 3
    assert Change.objects.get(verb="move.approve").actor == "bea"
    assert Plan.objects.get().move == move
    with pytest.raises(Rejected, match=f"part of move {move.pk}"):
        plans.move_of(plan.pk, plan.digest, actor="alice")
    moves.start_move(move.pk, actor="alice")


def test_a_plan_that_overrides_safety_becomes_a_move_that_two_people_start(world: World) -> None:
    world.topic("ledger", (1, 2), configs={"min.insync.replicas": "2"})
    to_3 = {"kind": "partitions", "partitions": [{"topic": "ledger", "partition": 0, "replicas": [3]}]}
    with pytest.raises(Rejected, match=r"min\.insync\.replicas"):
        save(to_3)
    plan = save(to_3, override=True)
    plans.approve_plan(plan.pk, plan.digest, actor="alice", comment="x")
    move = plans.move_of(plan.pk, plan.digest, actor="alice")
    assert move.state == "planned" and move.overrides
    with pytest.raises(Rejected, match="another operator approves"):
        moves.start_move(move.pk, actor="alice")


def test_a_plan_exported_as_kafkas_json_is_imported_unchanged(flights: World, operator: APIClient) -> None:
    made = operator.post(f"{API}/plans", {"scope": DRAIN, "comment": "x", "name": "n"}, format="json").json()
    answer = operator.get(f"{API}/plans/{made['id']}/file")
    file = json.loads(b"".join(answer.streaming_content))  # type: ignore[attr-defined]
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
    assert operator.get(f"{at}/parts?per_page=2").json()["pages"] == 2
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
    assert operator.get(f"{API}/plans?dropped=true").json()["total"] == 1
    late = operator.post(f"{at}/move", {"digest": plan["digest"]}, format="json")
    assert (late.status_code, "is archived" in late.json()["detail"]) == (409, True)


def test_a_move_of_many_listed_partitions_has_a_short_description(world: World) -> None:
    world.topic("flights", *[(1, 2)] * 250)
    named = [{"topic": "flights", "partition": i, "replicas": [2, 3]} for i in range(250)]
    move = moves.plan_move(parse_scope({"kind": "partitions", "partitions": named}), **ALICE)
    assert (move.parts.count(), len(json.dumps(to_json(move.scope))) < 200) == (250, True)
    change = Change.objects.get(verb="move.plan")
    assert len(change.after) == 201 and change.after["..."].startswith("50 more")
    from controlplane.selectors.moves import move_row

    row = move_row(move.pk)
    assert row is not None and row.title == "250 partitions, manual assignment"
