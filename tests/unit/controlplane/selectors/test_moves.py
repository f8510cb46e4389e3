"""Rows of moves: titles, possible acts, filters, samples, and Kafka's reassignment files."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.domain.progress import Sample
from controlplane.domain.scope import parse
from controlplane.models import Move
from controlplane.selectors import moves as selectors
from controlplane.services import moves
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def part_payload(replicas: list[int], index: int = 0, topic: str = "flights") -> dict[str, Any]:
    return {"topic": topic, "partition": index, "replicas": replicas}


@pytest.mark.parametrize(
    ("scope", "title"),
    [
        ({"kind": "drain", "broker": 3}, "Drain broker 3"),
        ({"kind": "fill", "rack": "r1"}, "Fill rack r1"),
        ({"kind": "topic", "topic": "t", "brokers": [1, 2]}, "Topic t to brokers 1, 2"),
        ({"kind": "replication_factor", "topic": "t", "replication_factor": 2}, "Topic t to replication factor 2"),
        ({"kind": "rebalance", "goals": ["disk", "leaders"]}, "Rebalance by disk, leaders"),
        ({"kind": "partitions", "partitions": [part_payload([1])]}, "flights-0"),
        (
            {"kind": "partitions", "partitions": [part_payload([1]), part_payload([1], 1)]},
            "2 partitions, manual assignment",
        ),
    ],
)
def test_the_title_names_the_scope(scope: dict[str, Any], title: str) -> None:
    assert selectors.title_of(parse(scope)) == title


def plan(world: World, actor: str = "alice", topic: str = "flights", **more: Any) -> Move:
    world.topic(topic, (1, 2))
    return moves.plan_move(
        parse({"kind": "partitions", "partitions": [part_payload([2, 3], topic=topic)]}), actor=actor, **more
    )


def row(move: Move) -> selectors.MoveRow:
    found = selectors.move_row(move.pk)
    assert found is not None
    return found


def test_the_possible_acts_follow_the_state(world: World) -> None:
    move = plan(world)
    assert row(move).can == ["approve", "start", "throttle", "schedule", "cancel"]
    moves.start_move(move.pk, actor="alice")
    assert row(move).can == ["pause", "throttle", "schedule", "cancel", "roll_back"]
    Move.objects.update(mode="tail")
    assert row(move).can == ["pause", "throttle", "schedule", "delete_records", "cancel", "roll_back"]
    Move.objects.update(state="done")
    assert row(move).can == ["roll_back"]
    Move.objects.update(state="planned", overrides=["below min.insync.replicas"])
    assert row(move).can == ["propose", "throttle", "schedule", "cancel"]


def test_moves_are_found_by_topic_author_reason_and_progress(world: World) -> None:
    first, second = plan(world), plan(world, "bob", "payments", comment="Disk is full")
    moves.cancel_move(second.pk, actor="bob")

    def move_ids(**options: Any) -> list[int]:
        return [m.id for m in selectors.move_list(**options).rows]

    assert move_ids() == [second.pk, first.pk]
    assert (move_ids(query="FLIG"), move_ids(query="bob"), move_ids(query="full")) == (
        [first.pk],
        [second.pk],
        [second.pk],
    )
    assert (move_ids(state="unfinished"), move_ids(state="finished")) == ([first.pk], [second.pk])


def test_the_duration_is_known_after_the_end(world: World) -> None:
    move = plan(world)
    assert row(move).took_s is None
    at = datetime(2026, 1, 1, tzinfo=UTC)
    Move.objects.update(started_at=at, finished_at=at.replace(minute=5), ends_in_s_min=3.0)
    assert (row(move).took_s, row(move).eta_s) == (300.0, None), "an ETA has two bounds"


def test_rates_between_samples_are_never_negative(world: World) -> None:
    move = plan(world)
    Move.objects.update(samples=[Sample(10, 9, 0), Sample(12, 5, 4), Sample(12, 5, 4), Sample(14, 7, 2)])
    assert [s.bytes_per_s for s in selectors.move_samples(move.pk)] == [None, 2.0, None, 0.0]
    assert selectors.move_samples(999) == []


def test_the_files_for_kafka_have_the_planned_and_the_previous_placement(world: World) -> None:
    files = selectors.kafka_plans(plan(world).pk)
    assert files["proposed"] == {"version": 1, "partitions": [part_payload([2, 3])]}
    assert files["previous"] == {"version": 1, "partitions": [part_payload([1, 2])]}
