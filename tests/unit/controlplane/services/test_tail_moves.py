"""A move without old data, as rows: its requests, its wait reasons, the records that the operator deletes, and every kind of revert."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.domain.compare import StoredComparison
from controlplane.domain.tail_move import UPLOAD_BYTES_PER_S, UPLOAD_WAIT_S
from controlplane.models import Move, ObservedPartition, RemoteSize
from controlplane.selectors import moves as selectors
from controlplane.services import Rejected, broker_configs, moves, replica_comparison, tails
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.tail_moves import (
    TO_23,
    WEEK_MS,
    advance,
    delete_old_records,
    offsets,
    orders,
    ready,
    start_tail_move,
)
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


def test_observers_become_replicas_when_retention_has_deleted_the_old_records(world: World) -> None:
    move = ready(world)
    assert orders() == []
    offsets(499, 900, 0)
    assert advance(move) == "ready"
    offsets(500, 900, 0)
    assert advance(move) == "submitted"
    (order,) = orders()
    assert (order.replicas, order.observers, order.delete_below, order.read_generation) == ((1, 2, 3), (), None, 1)
    advance_to_switch(world, move)
    move.refresh_from_db()
    assert move.state == "done"


def advance_to_comparison(world: World, move: Move) -> None:
    """All replicas are in the ISR at the same time and are compared before the old one is removed."""
    world.put("flights", 0, observers=(), tail_start=-1)
    world.begin_move("flights", 0, (1, 2, 3))
    assert advance(move) == "copying"
    world.end_move("flights", 0)
    assert advance(move) == "comparing" and orders() == []
    assert move.parts.get().pk in replica_comparison.due_partitions()


def advance_to_switch(world: World, move: Move) -> None:
    advance_to_comparison(world, move)
    move.parts.update(compared=StoredComparison(True, "Offsets 500 to 900 are equal on 3 replicas."))
    assert advance(move) == "submitted"
    (order,) = orders()
    assert (order.replicas, order.observers, order.delete_below) == ((2, 3), (), None)
    world.begin_move("flights", 0, (2, 3))
    assert advance(move) == "copying"
    world.end_move("flights", 0)
    assert advance(move) == "done"


@pytest.mark.parametrize("meanwhile", ["nothing", "an old copy is in sync again"])
def test_a_tail_move_paused_after_its_comparison_continues_from_there(world: World, meanwhile: str) -> None:
    move = ready(world)
    offsets(500, 900, 0)
    advance(move)
    advance_to_comparison(world, move)
    move.parts.update(compared=StoredComparison(True, "equal"))
    assert advance(move) == "submitted"
    moves.pause_move(move.pk, actor="alice")
    assert orders() == [] and advance(move) == "waiting"
    if meanwhile != "nothing":
        world.put("flights", 0, assignment_generation=world.state("flights", 0).assignment_generation + 1)
    moves.resume_move(move.pk, actor="alice")
    assert advance(move) == "submitted"
    (order,) = orders()
    assert (order.replicas, order.observers) == ((2, 3), ())
    assert order.read_generation == world.state("flights", 0).assignment_generation


def test_a_different_new_replica_does_not_replace_the_old_one(world: World) -> None:
    move = ready(world)
    offsets(500, 900, 0)
    advance(move)
    advance_to_comparison(world, move)
    reported = "Broker 3 and the leader 2 have different records in offsets 500 to 900."
    move.parts.update(compared=StoredComparison(False, reported))
    assert advance(move) == "rejected" and reported in move.parts.get().note
    assert orders() == [] and world.state("flights", 0).isr_ids == (1, 2, 3)
    moves.roll_back_move(move.pk, actor="alice", comment="broker 3 has wrong data")
    assert advance(move) == "submitted"
    assert orders()[0].replicas == (1, 2)


@pytest.mark.parametrize("state", ["bootstrapping", "catching_up", "ready"])
def test_a_cancel_removes_only_the_new_replicas(world: World, state: str) -> None:
    move = ready(world) if state == "ready" else start_tail_move(world)
    if state == "bootstrapping":
        # As if the result of the request had not been read yet.
        move.parts.update(state="bootstrapping", read_generation=0)
    moves.cancel_move(move.pk, actor="alice")
    (order,) = orders()
    assert (order.replicas, order.observers, order.read_generation) == ((1, 2), (), 1)
    world.put("flights", 0, observers=(), tail_start=-1, assignment_generation=2)
    assert advance(move) == "copying"
    assert advance(move) == "reverted"
    move.refresh_from_db()
    assert move.state == "cancelled"


def test_an_order_applied_during_its_withdrawal_is_reverted(world: World) -> None:
    world.topic("flights", (1, 2))
    move = moves.plan_move(parse_scope(TO_23), actor="alice", mode="tail")
    moves.start_move(move.pk, actor="alice")
    assert advance(move) == "bootstrapping"
    moves.cancel_move(move.pk, actor="alice")
    world.put("flights", 0, observers=(3,), assignment_generation=1)
    assert advance(move) == "submitted"
    (order,) = orders()
    assert (order.replicas, order.observers, order.read_generation) == ((1, 2), (), 1)


def test_a_paused_tail_move_replicates_and_does_not_change_the_replicas(world: World) -> None:
    move = ready(world)
    moves.pause_move(move.pk, actor="alice")
    offsets(500, 900, 0)
    assert advance(move) == "ready"
    moves.resume_move(move.pk, actor="alice")
    assert advance(move) == "submitted"


@pytest.mark.parametrize(
    ("configs", "comment"),
    [
        ({"cleanup.policy": "compact"}, "compacted"),
        ({"cleanup.policy": "compact,delete"}, "compacted"),
        ({"retention.ms": "-1"}, "unlimited retention"),
    ],
    ids=["compact", "both", "for ever"],
)
def test_a_topic_without_retention_cannot_move_in_mode_tail(
    world: World, configs: dict[str, str], comment: str
) -> None:
    world.topic("flights", (1, 2), configs=configs)
    assert comment in moves.preview_move(parse_scope(TO_23)).tail.problems[0]
    with pytest.raises(Rejected, match=comment):
        moves.plan_move(parse_scope(TO_23), actor="alice", mode="tail")
    assert moves.plan_move(parse_scope(TO_23), actor="alice").mode == "copy"


def test_a_tail_move_of_a_topic_without_retention_needs_a_deadline_and_a_deletion(world: World) -> None:
    world.topic("flights", (1, 2), configs={"retention.ms": "-1"})
    for hours in (0, 9_000):
        with pytest.raises(Rejected, match="1 to 8760 h"):
            moves.plan_move(parse_scope(TO_23), actor="alice", mode="tail", deadline_hours=hours)
    with pytest.raises(Rejected, match="only mode tail"):
        moves.plan_move(parse_scope(TO_23), actor="alice", deadline_hours=5)
    move = moves.plan_move(parse_scope(TO_23), actor="alice", mode="tail", deadline_hours=5)
    moves.start_move(move.pk, actor="alice")
    assert advance(move) == "bootstrapping"
    world.put("flights", 0, observers=(3,), assignment_generation=1, tail_start=500)
    offsets(0, 600, 3)
    assert advance(move) == "catching_up" and advance(move) == "ready"
    part = move.parts.get()
    assert part.cause == "" and "Waiting for retention" in part.note
    Move.objects.update(started_at=timezone.now() - timedelta(hours=5, seconds=1))
    assert advance(move) == "ready"
    part = move.parts.get()
    assert part.cause == "deadline_passed" and "Delete the old records, or cancel" in part.note
    row = selectors.move_row(move.pk)
    assert row is not None and row.deadline is not None and row.deadline < timezone.now()
    assert delete_old_records(move).state == "done"
    world.put("flights", 0, log_start_floor=500, assignment_generation=2)
    offsets(500, 600, 0)
    assert advance(move) == "ready" and advance(move) == "submitted"
    assert move.parts.get().cause == ""


def test_a_topic_whose_retention_is_removed_during_the_move_is_reported(world: World) -> None:
    move = ready(world)
    topic = world.image.topics[world.image.topic_ids["flights"]]
    topic.configs = {"cleanup.policy": "compact"}
    world.project()
    advance(move)
    part = move.parts.get()
    assert part.cause == "unfit" and "compacted" in part.note


def test_the_preview_shows_the_cost_of_both_modes(world: World) -> None:
    world.topic("flights", (1, 2), configs={"retention.ms": WEEK_MS})
    preview = moves.preview_move(parse_scope(TO_23))
    assert preview.bytes_to_copy == 1000
    assert (preview.tail.bytes_to_copy, preview.tail.ends_in_s, preview.tail.problems) == (0, 7 * 24 * 3600.0, [])
    world.topic("small", (1, 2), configs={"retention.ms": "-1", "retention.bytes": "1000"})
    small = {"kind": "partitions", "partitions": [{"topic": "small", "partition": 0, "replicas": [2, 3]}]}
    assert moves.preview_move(parse_scope(small)).tail.ends_in_s is None


def remote_size(topic: str, local_only: int) -> RemoteSize:
    return RemoteSize.objects.create(
        partition=ObservedPartition.objects.get(topic__name=topic),
        remote_bytes=9_000_000_000,
        local_only_bytes=local_only,
        copying_bytes=0,
        sampled_at=timezone.now(),
    )


def test_the_preview_of_a_tiered_topic_estimates_the_copies_to_the_store(world: World) -> None:
    world.topic("flights", (1, 2), configs={"remote.storage.enable": "true", "retention.ms": WEEK_MS})
    tail = moves.preview_move(parse_scope(TO_23)).tail
    assert (tail.remote_bytes_to_copy, tail.ends_in_s) == (None, None), "no leader has reported its sizes"
    remote_size("flights", 400_000_000)
    tail = moves.preview_move(parse_scope(TO_23)).tail
    assert (tail.bytes_to_copy, tail.remote_bytes_to_copy, tail.problems) == (0, 400_000_000, [])
    assert tail.waits_for == ["remote copies"]
    assert tail.ends_in_s == UPLOAD_WAIT_S + 400_000_000 / UPLOAD_BYTES_PER_S
    broker_configs.alter_configs(1, {tails.COPY_QUOTA: "1000000"}, actor="alice")
    assert moves.preview_move(parse_scope(TO_23)).tail.ends_in_s == UPLOAD_WAIT_S + 400
    world.topic("plain", (1, 2), configs={"retention.ms": WEEK_MS})
    placed = [{"topic": t, "partition": 0, "replicas": [2, 3]} for t in ("flights", "plain")]
    tail = moves.preview_move(parse_scope({"kind": "partitions", "partitions": placed})).tail
    assert tail.waits_for == ["retention", "remote copies"]
    assert (tail.ends_in_s, tail.remote_bytes_to_copy) == (7 * 24 * 3600.0, 400_000_000)


def test_a_change_of_the_replica_order_is_an_ordinary_reassignment(world: World) -> None:
    world.topic("flights", (1, 2))
    turned = {"kind": "partitions", "partitions": [{"topic": "flights", "partition": 0, "replicas": [2, 1]}]}
    move = moves.plan_move(parse_scope(turned), actor="alice", mode="tail")
    moves.start_move(move.pk, actor="alice")
    assert advance(move) == "submitted"


def test_a_rollback_of_a_finished_tail_move_copies_the_kept_records(world: World) -> None:
    move = ready(world)
    offsets(500, 900, 0)
    advance(move)
    advance_to_switch(world, move)
    moves.roll_back_move(move.pk, actor="alice")
    assert advance(move) == "submitted"
    (order,) = orders()
    assert (order.replicas, order.observers) == ((1, 2), ())


def test_the_row_of_a_move_has_its_mode_and_its_copied_bytes(world: World) -> None:
    move = ready(world)
    world.set_sizes("flights", 1000, b3=40)
    advance(move)
    row = selectors.move_row(move.pk)
    assert row is not None and (row.mode, row.bytes_done) == ("tail", 40)


def test_a_tiered_topic_joins_when_the_leaders_local_log_starts_where_the_new_replica_starts(world: World) -> None:
    world.topic("flights", (1, 2), configs={"remote.storage.enable": "true", "retention.ms": "-1"})
    move = moves.plan_move(parse_scope(TO_23), actor="alice", mode="tail")
    moves.start_move(move.pk, actor="alice")
    assert advance(move) == "bootstrapping"
    world.put("flights", 0, observers=(3,), assignment_generation=1, tail_start=500)
    assert advance(move) == "catching_up"
    offsets(500, 600, 3)
    assert advance(move) == "ready", "the log start over both tiers says nothing about the local log"
    sizes = RemoteSize.objects.create(
        partition=ObservedPartition.objects.get(),
        remote_bytes=9,
        local_only_bytes=9,
        copying_bytes=0,
        local_start_offset=499,
        sampled_at=timezone.now(),
    )
    assert advance(move) == "ready" and "the remote store" in move.parts.get().note
    assert tails.deletion_preview(move.pk).parts == []
    sizes.local_start_offset = 500
    sizes.save()
    assert advance(move) == "submitted"
    (order,) = orders()
    assert (order.replicas, order.hand_over_at, order.delete_below) == ((1, 2, 3), None, None)
