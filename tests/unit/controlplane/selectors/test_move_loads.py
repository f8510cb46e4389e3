"""The load that a move adds to each broker and removes from it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.domain.progress import PART_BYTES_MIN, MoveTotals
from controlplane.models import Move, MovePartition, Partition
from controlplane.models.move import PartState
from controlplane.selectors import move_loads, move_totals
from controlplane.selectors import moves as move_pages
from controlplane.services import move_worker, moves
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db
ALICE = {"actor": "alice"}


def brokers(move_id: int) -> list[move_loads.MoveBrokerRow]:
    return move_loads.move_brokers(move_loads.move_kinds(move_id))


def test_each_broker_shows_incoming_and_outgoing_bytes_reversed_for_a_rollback(world: World) -> None:
    world.topic("flights", (1, 2), (1, 3), size=1000)
    plan = [
        {"topic": "flights", "partition": 0, "replicas": [2, 3]},
        {"topic": "flights", "partition": 1, "replicas": [2, 3]},
    ]
    move = moves.plan_move(parse_scope({"kind": "partitions", "partitions": plan}), comment="x", **ALICE)
    assert [(b.broker_id, b.parts_in, b.bytes_in, b.parts_out, b.bytes_out) for b in brokers(move.pk)] == [
        (1, 0, 0, 2, 2000),
        (2, 1, 1000, 0, 0),
        (3, 1, 1000, 0, 0),
    ]
    moves.start_move(move.pk, **ALICE)
    move_worker.advance_move(move.pk)
    for index in (0, 1):
        world.begin_move("flights", index, (2, 3))
    move_worker.advance_move(move.pk)
    world.end_move("flights", 1)
    move_worker.advance_move(move.pk)
    MovePartition.objects.filter(partition=0).update(bytes_done=400, bytes_per_s=50.0)
    found = {b.broker_id: b for b in brokers(move.pk)}
    assert (found[3].parts_in_ended, found[3].bytes_in_done, found[3].bytes_per_s) == (0, 400, 50.0)
    assert (found[2].parts_in_ended, found[2].bytes_in_done) == (1, 1000) and found[1].parts_out_ended == 1
    moves.roll_back_move(move.pk, comment="no", **ALICE)
    back = {b.broker_id: b for b in brokers(move.pk)}
    assert (back[1].parts_in, back[1].parts_out) == (2, 0) and (back[3].parts_in, back[3].parts_out) == (0, 1)


def test_an_unknown_size_is_not_zero(world: World) -> None:
    world.topic("flights", (1, 2))
    Partition.objects.update(size_bytes=None)
    move = moves.plan_move(
        parse_scope({"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}),
        **ALICE,
    )
    assert [(b.broker_id, b.bytes_in, b.bytes_out) for b in brokers(move.pk)] == [
        (1, 0, None),
        (3, None, 0),
    ]


def test_blocked_partitions_are_counted_by_cause_and_not_as_copied(world: World) -> None:
    world.topic("flights", (1, 2), (1, 2), (1, 2))
    plan = [{"topic": "flights", "partition": i, "replicas": [2, 3]} for i in range(3)]
    move = moves.plan_move(parse_scope({"kind": "partitions", "partitions": plan}), **ALICE)
    assert move_loads.move_causes(move_loads.move_kinds(move.pk)) == []
    MovePartition.objects.filter(partition=0).update(state="rejected", active=False)
    MovePartition.objects.exclude(partition=0).update(state="copying", cause="throttle")
    assert move_loads.move_causes(move_loads.move_kinds(move.pk)) == [("throttle", 2), ("rejected", 1)]
    assert [b.parts_in_ended for b in brokers(move.pk)] == [0, 0]


def test_partitions_that_never_started_are_in_no_figure(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(
        parse_scope({"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 3]}]}),
        **ALICE,
    )
    moves.cancel_move(move.pk, **ALICE)
    assert brokers(move.pk) == []


def strange_parts(world: World, count: int, seed: int = 1) -> Move:
    """A move whose partitions are in every state, of every size, and move in both directions."""
    draw = random.Random(seed)
    world.topic("flights", *[(1, 2)] * count)
    plan = [{"topic": "flights", "partition": i, "replicas": draw.choice([[2, 3], [1, 3]])} for i in range(count)]
    move = moves.plan_move(parse_scope({"kind": "partitions", "partitions": plan}), **ALICE)
    for part in move.parts.all():
        part.state, part.cause = draw.choice(list(PartState)), draw.choice(["", "", "throttle"])
        part.wanted = draw.choice([part.replicas_from, part.replicas_to])
        part.bytes_total, part.bytes_done = draw.choice([None, 0, 1000]), draw.choice([None, 0, 400])
        part.bytes_per_s, part.active = draw.choice([None, 2.5]), False
        part.save()
    return move


def test_the_totals_of_a_move_are_the_sums_of_its_partitions(world: World) -> None:
    move = strange_parts(world, 200)
    parts = list(move.parts.all())
    ended = ("done", "skipped", "reverted", "rejected")
    wanted: dict[str, Any] = {
        "parts": 200,
        "ended": sum(p.state in ended for p in parts),
        "rejected": sum(p.state == "rejected" for p in parts),
        "unknown": sum(p.bytes_total is None for p in parts),
        "total": sum(p.bytes_total or 0 for p in parts),
        "done": sum(p.bytes_done or 0 for p in parts),
    }
    assert all(0 < wanted[name] < 200 for name in ("ended", "rejected", "unknown"))
    known = [max(p.bytes_total, PART_BYTES_MIN) for p in parts if p.bytes_total is not None]
    mean = sum(known) // len(known)

    def weight(*states: str) -> int:
        of_them = [p for p in parts if p.state in states]
        return sum(mean if p.bytes_total is None else max(p.bytes_total, PART_BYTES_MIN) for p in of_them)

    wanted |= {
        "weight": weight(*{p.state for p in parts}),
        "weight_ended": weight(*ended),
        "weight_arrived": weight("done"),
        "done_open": sum(p.bytes_done or 0 for p in parts if p.state not in ended),
    }
    kinds = move_loads.move_kinds(move.pk)
    assert move_totals.sums_of_kinds(kinds) == move_totals.sums_of([move])[move.pk] == MoveTotals(**wanted)
    assert move_pages.move_row(move.pk, kinds) == move_pages.move_row(move.pk)
    counts = move_loads.part_counts(kinds)
    assert counts == {s: n for s in sorted(PartState) if (n := sum(p.state == s for p in parts))}
    causes = dict(move_loads.move_causes(kinds))
    assert causes == {
        "throttle": sum(p.cause == "throttle" for p in parts),
        "rejected": sum(p.state == "rejected" and not p.cause for p in parts),
    }
    received = {b.broker_id: b.bytes_per_s for b in brokers(move.pk)}
    assert sum(received.values()) == sum(p.bytes_per_s or 0 for p in parts if p.state != "skipped")
    MovePartition.objects.update(bytes_total=None, bytes_done=None)
    nothing = move_totals.sums_of_kinds(move_loads.move_kinds(move.pk))
    assert (nothing.total, nothing.done, nothing.unknown) == (None, None, 200)


@pytest.mark.skipif(connection.vendor != "sqlite", reason="reads SQLite's plan of a query")
def test_the_totals_use_a_covering_index_without_a_sort(world: World) -> None:
    """For fifty thousand partitions that is a fifth of the work. Otherwise whole groups of rows are sorted with all the columns that are summed."""
    move = strange_parts(world, 20)
    with CaptureQueriesContext(connection) as asked:
        move_loads.move_kinds(move.pk)
        move_totals.sums_of([move])
    assert len(asked.captured_queries) == 2
    with connection.cursor() as cursor:
        for query in asked.captured_queries:
            cursor.execute("EXPLAIN QUERY PLAN " + query["sql"])
            said = [row[-1] for row in cursor.fetchall()]
            assert len(said) == 1 and "USING COVERING INDEX parts_as_sums" in said[0], said
