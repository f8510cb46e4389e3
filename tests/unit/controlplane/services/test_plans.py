"""Stored plans: compared, approved by digest, started exactly as reviewed or not at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

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
    flights.set_sizes("flights", 2000)
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
    with pytest.raises(Rejected) as rejection:
        plans.move_of(plan.pk, plan.digest, actor="alice")
    assert rejection.value.reason.startswith("2 of 3 partitions have changed since plan")
    assert "flights-0 is on [2, 3] (generation 0, now 2)" in rejection.value.reason
    assert not Move.objects.exists()
    assert Change.objects.first().outcome == "refused"  # type: ignore[union-attr]
    found = selectors.difference(plan.pk, None)
    assert (found.stale, found.different, found.same) == (2, 3, 0)
    assert [r.stale for r in found.rows] == [True, False, True]


def test_a_move_of_an_approved_plan_is_approved_and_names_the_approver(flights: World) -> None:
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
    with pytest.raises(Rejected, match="from another operator"):
        moves.start_move(move.pk, actor="alice")


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
