"""What a move brings to each broker and takes from it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.models import Move, MovePartition, Partition
from controlplane.models.move import PartState
from controlplane.selectors import move_loads
from controlplane.selectors import moves as move_pages
from controlplane.services import advancing, moves, sums
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
ALICE = {"who": "alice"}


def brokers(move_id: int) -> list[move_loads.MoveBrokerRow]:
    return move_loads.move_brokers(move_loads.move_kinds(move_id))


def test_each_broker_is_told_what_comes_and_what_goes_and_the_other_way_round_on_the_way_back(world: World) -> None:
    world.topic("flights", (1, 2), (1, 3), size=1000)
    plan = [
        {"topic": "flights", "partition": 0, "replicas": [2, 3]},
        {"topic": "flights", "partition": 1, "replicas": [2, 3]},
    ]
    move = moves.plan_move({"kind": "partitions", "partitions": plan}, why="x", **ALICE)
    assert [(b.broker_id, b.parts_in, b.bytes_in, b.parts_out, b.bytes_out) for b in brokers(move.pk)] == [
        (1, 0, 0, 2, 2000), (2, 1, 1000, 0, 0), (3, 1, 1000, 0, 0),
    ]  # fmt: skip
    moves.start_move(move.pk, **ALICE)
    advancing.advance_move(move.pk)
    for index in (0, 1):
        world.begin_move("flights", index, (2, 3))
    advancing.advance_move(move.pk)
    world.end_move("flights", 1)
    advancing.advance_move(move.pk)
    MovePartition.objects.filter(partition=0).update(bytes_done=400, bytes_per_s=50.0)
    found = {b.broker_id: b for b in brokers(move.pk)}
    assert (found[3].parts_in_ended, found[3].bytes_in_done, found[3].bytes_per_s) == (0, 400, 50.0)
    assert (found[2].parts_in_ended, found[2].bytes_in_done) == (1, 1000) and found[1].parts_out_ended == 1
    moves.roll_back_move(move.pk, why="no", **ALICE)
    back = {b.broker_id: b for b in brokers(move.pk)}
    assert (back[1].parts_in, back[1].parts_out) == (2, 0) and (back[3].parts_in, back[3].parts_out) == (0, 1)


def test_a_size_that_nobody_told_is_not_nothing(world: World) -> None:
    world.topic("flights", (1, 2))
    Partition.objects.update(size_bytes=None)
    move = moves.plan_move(
        {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}, **ALICE
    )
    assert [(b.broker_id, b.bytes_in, b.bytes_out) for b in brokers(move.pk)] == [
        (1, 0, None),
        (3, None, 0),
    ]


def test_what_does_not_go_on_by_itself_is_counted_by_its_cause_and_has_not_arrived(world: World) -> None:
    world.topic("flights", (1, 2), (1, 2), (1, 2))
    plan = [{"topic": "flights", "partition": i, "replicas": [2, 3]} for i in range(3)]
    move = moves.plan_move({"kind": "partitions", "partitions": plan}, **ALICE)
    assert move_loads.move_causes(move_loads.move_kinds(move.pk)) == []
    MovePartition.objects.filter(partition=0).update(state="stuck", active=False)
    MovePartition.objects.exclude(partition=0).update(state="copying", cause="throttle")
    assert move_loads.move_causes(move_loads.move_kinds(move.pk)) == [("throttle", 2), ("stuck", 1)]
    assert [b.parts_in_ended for b in brokers(move.pk)] == [0, 0]


def test_what_was_never_touched_is_in_nobodys_figures(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(
        {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}, **ALICE
    )
    moves.cancel_move(move.pk, **ALICE)
    assert brokers(move.pk) == []


def strange_parts(world: World, count: int, seed: int = 1) -> Move:
    """A move whose partitions are in every state, of every size, and go both ways."""
    draw = random.Random(seed)
    world.topic("flights", *[(1, 2)] * count)
    plan = [{"topic": "flights", "partition": i, "replicas": draw.choice([[2, 3], [1, 3]])} for i in range(count)]
    move = moves.plan_move({"kind": "partitions", "partitions": plan}, **ALICE)
    for part in move.parts.all():
        part.state, part.cause = draw.choice(PartState.values), draw.choice(["", "", "throttle"])
        part.wanted = draw.choice([part.replicas_from, part.replicas_to])
        part.bytes_total, part.bytes_done = draw.choice([None, 0, 1000]), draw.choice([None, 0, 400])
        part.bytes_per_s, part.active = draw.choice([None, 2.5]), False
        part.save()
    return move


def test_what_a_move_adds_up_to_is_what_its_partitions_say_one_by_one(world: World) -> None:
    move = strange_parts(world, 200)
    parts = list(move.parts.all())
    ended = ("done", "untouched", "put_back", "stuck")
    wanted: dict[str, Any] = {
        "parts": 200,
        "ended": sum(p.state in ended for p in parts),
        "stuck": sum(p.state == "stuck" for p in parts),
        "unknown": sum(p.bytes_total is None for p in parts),
        "sizeless": sum(p.state not in ended and not p.bytes_total for p in parts),
        "total": sum(p.bytes_total or 0 for p in parts),
        "done": sum(p.bytes_done or 0 for p in parts),
    }
    assert all(0 < wanted[name] < 200 for name in ("ended", "stuck", "unknown", "sizeless"))
    kinds = move_loads.move_kinds(move.pk)
    assert sums.sums_of_kinds(kinds) == sums.sums_of([move])[move.pk] == wanted
    assert move_pages.move_row(move.pk, kinds) == move_pages.move_row(move.pk)
    counts = move_loads.part_counts(kinds)
    assert counts == {s: n for s in sorted(PartState.values) if (n := sum(p.state == s for p in parts))}
    causes = dict(move_loads.move_causes(kinds))
    assert causes == {
        "throttle": sum(p.cause == "throttle" for p in parts), "stuck": sum(p.state == "stuck" and not p.cause for p in parts)
    }  # fmt: skip
    received = {b.broker_id: b.bytes_per_s for b in brokers(move.pk)}
    assert sum(received.values()) == sum(p.bytes_per_s or 0 for p in parts if p.state != "untouched")
    MovePartition.objects.update(bytes_total=None, bytes_done=None)
    nothing = sums.sums_of_kinds(move_loads.move_kinds(move.pk))
    assert (nothing["total"], nothing["done"], nothing["unknown"]) == (None, None, 200)


@pytest.mark.skipif(connection.vendor != "sqlite", reason="reads SQLite's plan of a query")
def test_the_sums_read_an_index_alone_and_sort_nothing(world: World) -> None:
    """Of fifty thousand partitions that is a fifth of the work: a group of rows is sorted with all that it adds up."""
    move = strange_parts(world, 20)
    with CaptureQueriesContext(connection) as asked:
        move_loads.move_kinds(move.pk)
        sums.sums_of([move])
    assert len(asked.captured_queries) == 2
    with connection.cursor() as cursor:
        for query in asked.captured_queries:
            cursor.execute("EXPLAIN QUERY PLAN " + query["sql"])
            said = [row[-1] for row in cursor.fetchall()]
            assert len(said) == 1 and "USING COVERING INDEX parts_as_sums" in said[0], said
