"""Bulk reads and writes have the same result as the ORM."""

from __future__ import annotations

import pytest

from controlplane.db.bulk import insert_many, read_many, update_many
from controlplane.domain.move_types import PlacementBefore
from controlplane.models import Move, MovePartition, ObservedPartition
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_bulk_reads_equal_orm_reads_with_lists_as_tuples(world: World) -> None:
    world.topic("flights", (1, 2), (2, 3))
    world.topic("weather", (2, 3))
    columns = ("index", "topic_id", "replicas", "isr", "adding", "leader", "size_bytes")
    rows = ObservedPartition.objects.order_by("topic_id", "index")
    plain = [tuple(tuple(v) if isinstance(v, list) else v for v in row) for row in rows.values_list(*columns)]
    assert list(read_many(rows, columns)) == plain
    assert [type(v).__name__ for v in plain[0]] == [type(v).__name__ for v in next(read_many(rows, columns))]
    assert sorted(read_many(rows, ("index",))) == [(0,), (0,), (1,)]


def test_bulk_writes_read_back_with_defaults_for_omitted_columns(world: World) -> None:
    topic_id = world.topic("flights", (1, 2))
    move = Move.objects.create(actor="alice")
    given = [((1, 0), [1, 0]), ((True, False), [True, False]), ({"leader": None}, {"leader": None}), ((), [])]
    before = [PlacementBefore((1, 2), leader, (1,)) for leader in (None, 1, 1, 2)]
    columns = (
        "move_id",
        "topic_id",
        "topic_name",
        "partition",
        "before",
        "replicas_from",
        "replicas_to",
        "desired_replicas",
        "read_generation",
    )
    insert_many(
        MovePartition,
        columns,
        ((move.pk, topic_id, "flights", i, before[i], v, (2, 3), (2, 3), 7) for i, (v, _) in enumerate(given)),
    )
    found = list(MovePartition.objects.order_by("partition"))
    assert [p.before for p in found] == before
    assert [repr(p.replicas_from) for p in found] == [repr(v) for _, v in given], "True is not 1 in a cached list"
    assert {(p.state, p.active, p.note, p.bytes_total) for p in found} == {("waiting", True, "", None)}
    update_many(MovePartition, ["desired_replicas", "note"], [((3, 1), "so", p.pk) for p in found[:2]])
    assert [(p.desired_replicas, p.note) for p in MovePartition.objects.order_by("partition")] == [
        ([3, 1], "so"),
        ([3, 1], "so"),
        ([2, 3], ""),
        ([2, 3], ""),
    ]
