"""Typed JSON columns: a loaded value has its type, and a value of another type can be neither saved nor loaded."""

from __future__ import annotations

from dataclasses import replace
from datetime import time
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from controlplane.domain import scope as scopes
from controlplane.domain import window as windows
from controlplane.domain.compare import StoredComparison
from controlplane.domain.move_types import PlacementBefore
from controlplane.domain.progress import MoveTotals, Sample
from controlplane.domain.throttle import Adaptive, ProducerLatency, ThrottlesBefore
from controlplane.models import Move, MovePartition

MOVE = {
    "scope": scopes.DrainScope(rack="x"),
    "throttles_before": ThrottlesBefore(topics={"t": {"k": "v"}}, brokers={"1": {"k": "v"}}),
    "samples": (Sample(1.25, 10, 5), Sample(4.5, 4, 11, 9)),
    "sums": MoveTotals(parts=3, ended=1, total=7),
    "overrides": ("too few replicas",),
    "window": windows.Window(opens=time(22), stop_by=time(5, 30), days=frozenset({0, 6})),
    "adaptive": Adaptive(cap=100, floor=10, rate=12.5, baseline=None, measured_at=1.0, affected_seconds=2),
    "producer_latency": ProducerLatency(counts={"1": (1, 2)}, rows=((1.5, None), (3.0, 20.0))),
}


@pytest.mark.django_db
def test_a_typed_column_reads_the_saved_value() -> None:
    pk = Move.objects.create(actor="alice", **MOVE).pk
    row = Move.objects.get(pk=pk)
    assert {name: getattr(row, name) for name in MOVE} == MOVE
    Move.objects.filter(pk=pk).update(adaptive=replace(MOVE["adaptive"], rate=3.0), samples=(), window=None)
    row = Move.objects.get(pk=pk)
    assert (row.adaptive, row.samples, row.window) == (replace(MOVE["adaptive"], rate=3.0), (), None)
    assert list(Move.objects.filter(scope__kind="drain", scope__rack="x").values_list("scope__rack")) == [("x",)]
    assert not Move.objects.filter(scope__rack="y").exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        (name, wrong)
        for name in sorted(MOVE)
        for wrong in ({"kind": "drain"}, ["x"], 7, "drain")
        if (name, wrong) != ("overrides", ["x"])  # a list of sentences is the same JSON value as the tuple
    ],
)
def test_a_typed_column_rejects_another_type(name: str, wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)):
        Move.objects.create(actor="alice", **{name: wrong})


@pytest.mark.django_db
@pytest.mark.parametrize("name", sorted(MOVE))
def test_a_stored_value_of_another_type_is_not_loaded(name: str) -> None:
    pk = Move.objects.create(actor="alice", **MOVE).pk
    with connection.cursor() as cursor:
        cursor.execute(f'UPDATE controlplane_move SET "{name}" = %s WHERE id = %s', ['{"surprise": 1}', pk])
    with pytest.raises((TypeError, ValueError, KeyError)):
        Move.objects.get(pk=pk)


PLACEMENT = PlacementBefore((1, 2), None, (2,))
COMPARISON = StoredComparison(None, "so far", 2, 10, 40, 600, "00ff00ff")


def create_move_partition(**values: Any) -> MovePartition:
    move = Move.objects.create(actor="alice")
    return MovePartition.objects.create(
        move=move,
        topic_id=uuid4(),
        topic_name="t",
        partition=0,
        replicas_from=[1, 2],
        replicas_to=[2, 3],
        desired_replicas=[2, 3],
        read_generation=1,
        **{"before": PLACEMENT, "compared": COMPARISON, **values},
    )


@pytest.mark.django_db
def test_a_partition_of_a_move_reads_the_saved_values() -> None:
    part = MovePartition.objects.get(pk=create_move_partition().pk)
    assert (part.before, part.compared) == (PLACEMENT, COMPARISON)
    assert part.compared is not None and part.compared.to_comparison().to_stored() == replace(COMPARISON, text="")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "wrong",
    [
        {"before": {"leader": 1}},
        {"before": PlacementBefore((1, True), 1, (1,))},
        {"compared": {"equal": 1, "text": "equal"}},
        {"compared": StoredComparison("yes", "equal")},  # type: ignore[arg-type]
    ],
)
def test_a_partition_of_a_move_saves_no_other_type(wrong: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        create_move_partition(**wrong)
