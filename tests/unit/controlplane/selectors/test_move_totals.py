"""The totals of a move: sums over its partitions by an index that contains every summed column."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.domain.progress import PART_BYTES_MIN, MoveTotals
from controlplane.models import Move, MovePartition
from controlplane.models.move import MoveState, PartState
from controlplane.selectors import move_loads, move_totals
from controlplane.selectors import moves as move_pages
from controlplane.services import moves
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.selectors.test_move_loads import ALICE, brokers
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def strange_parts(world: World, count: int, seed: int = 1) -> Move:
    """A move whose partitions are in every state, of every size, and move in both directions."""
    draw = random.Random(seed)
    world.topic("flights", *[(1, 2)] * count)
    plan = [{"topic": "flights", "partition": i, "replicas": draw.choice([[2, 3], [1, 3]])} for i in range(count)]
    move = moves.plan_move(parse_scope({"kind": "partitions", "partitions": plan}), **ALICE)
    for part in move.parts.all():
        part.state, part.cause = draw.choice(list(PartState)), draw.choice(["", "", "throttle"])
        part.desired_replicas = draw.choice([part.replicas_from, part.replicas_to])
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
        "arrived": sum(p.state == "done" for p in parts),
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


@pytest.mark.parametrize(
    ("state", "totals", "ended"),
    [
        (MoveState.RUNNING, MoveTotals(parts=3, ended=2, arrived=1), 2),
        (MoveState.ROLLING_BACK, MoveTotals(parts=3, ended=2, arrived=1), 2),
        (MoveState.CANCELLING, MoveTotals(parts=117, ended=113, arrived=10), 10),
        (MoveState.CANCELLED, MoveTotals(parts=1, ended=1, arrived=0), 0),
        (MoveState.FAILED, MoveTotals(parts=3, ended=3, rejected=1, arrived=2), 2),
        (MoveState.ROLLED_BACK, MoveTotals(parts=3, ended=3, arrived=0), 0),
        (MoveState.DONE, MoveTotals(parts=3, ended=3, arrived=3), 3),
        (MoveState.CANCELLED, MoveTotals(parts=1, ended=1), 0),
        (MoveState.DONE, MoveTotals(parts=3, ended=3, weight_arrived=9), 3),
    ],
)
def test_reverted_partitions_are_not_the_progress_of_a_finished_move(
    state: str, totals: MoveTotals, ended: int
) -> None:
    """A cancelled move of one partition showed "1 of 1". The last two are rows of an older version."""
    assert move_totals.parts_ended(state, totals) == ended
