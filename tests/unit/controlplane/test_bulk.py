"""Many rows at once read and write what the ORM would."""

from __future__ import annotations

import pytest

from controlplane.bulk import insert_many, read_many, update_many
from controlplane.models import Move, MovePartition, Partition
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_rows_read_at_once_are_those_of_the_orm_with_lists_as_tuples(world: World) -> None:
    world.topic("flights", (1, 2), (2, 3))
    world.topic("weather", (2, 3))
    columns = ("index", "topic_id", "replicas", "isr", "adding", "leader", "size_bytes")
    rows = Partition.objects.order_by("topic_id", "index")
    plain = [tuple(tuple(v) if isinstance(v, list) else v for v in row) for row in rows.values_list(*columns)]
    assert list(read_many(rows, columns)) == plain
    assert [type(v).__name__ for v in plain[0]] == [type(v).__name__ for v in next(read_many(rows, columns))]
    assert sorted(read_many(rows, ("index",))) == [(0,), (0,), (1,)]


def test_rows_written_at_once_read_back_as_what_was_given_with_defaults_for_the_rest(world: World) -> None:
    topic_id = world.topic("flights", (1, 2))
    move = Move.objects.create(who="alice")
    given = [((1, 0), [1, 0]), ((True, False), [True, False]), ({"leader": None}, {"leader": None}), ((), [])]
    columns = (
        "move_id",
        "topic_id",
        "topic_name",
        "partition",
        "before",
        "replicas_from",
        "replicas_to",
        "wanted",
        "read_generation",
    )
    insert_many(
        MovePartition, columns, ((move.pk, topic_id, "flights", i, v, (1, 2), (2, 3), (2, 3), 7) for i, (v, _) in enumerate(given))
    )  # fmt: skip
    found = list(MovePartition.objects.order_by("partition"))
    assert [p.before for p in found] == [v for _, v in given]
    assert [repr(p.before) for p in found] == [repr(v) for _, v in given], "True is not 1 where a list was encoded once"
    assert {(p.state, p.active, p.note, p.bytes_total) for p in found} == {("waiting", True, "", None)}
    update_many(MovePartition, ["wanted", "note"], [((3, 1), "so", p.pk) for p in found[:2]])
    assert [(p.wanted, p.note) for p in MovePartition.objects.order_by("partition")] == [
        ([3, 1], "so"), ([3, 1], "so"), ([2, 3], ""), ([2, 3], ""),
    ]  # fmt: skip
