"""The list of moves: the wait reason of a move, moves that make no progress, and the totals of finished moves from their rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.domain.move import next_steps
from controlplane.domain.move_types import PartView
from controlplane.domain.wait_reason import Wait, WaitReason
from controlplane.models import Move
from controlplane.selectors import moves as selectors
from controlplane.services import move_worker, moves
from controlplane.services.move_planning import parse_scope
from tests.unit.controlplane.domain.test_move import copying, move, observed_part, part_view
from tests.unit.controlplane.services.test_tail_moves import offsets, ready
from tests.unit.controlplane.world import World


def onto_a_dead_broker(i: int) -> PartView:
    gone = observed_part((2, 9, 1), isr=(2, 1), generation=8, adding=(9,), removing=(1,))
    return part_view(i, "copying", gone, replicas_to=(2, 9), desired_replicas=(2, 9), submitted_at=0.0)


def test_a_move_with_progress_has_no_wait_reason() -> None:
    down = onto_a_dead_broker(1)
    going = part_view(2, "copying", copying(), submitted_at=0.0)
    assert next_steps(move(down, going), now=1).waits_for == ()
    assert next_steps(move(down), now=1).waits_for == (Wait(WaitReason.TARGET_DOWN, 1),)
    assert next_steps(move(part_view(3)), now=1).waits_for == (), "it is ordered by this very look"
    assert next_steps(move(part_view(4, "done")), now=1).waits_for == ()


def test_wait_reasons_are_counted_by_frequency_with_queued_last() -> None:
    down = [onto_a_dead_broker(i) for i in (1, 2)]
    no_leader = part_view(3, "copying", replace(copying(), leader=None), submitted_at=0.0)
    view = replace(move(*down, no_leader, part_view(4), at_a_time=3), omitted={"waiting": 1000, "done": 7})
    assert next_steps(view, now=1).waits_for == (
        Wait(WaitReason.TARGET_DOWN, 2),
        Wait(WaitReason.SOURCE_DOWN, 1),
        Wait(WaitReason.QUEUED, 1001),
    )
    assert next_steps(replace(view, state="paused"), now=1).waits_for == (), "the state says it"


def test_in_sync_and_throttle_removal_are_wait_reasons() -> None:
    late = part_view(1, "verifying", observed_part((2, 3), isr=(2,), generation=9))
    assert next_steps(move(late, state="verifying"), now=0).waits_for == (Wait(WaitReason.IN_SYNC, 1),)
    ended = replace(move(state="verifying"), omitted={"done": 1}, throttle_left="topic flights")
    assert next_steps(ended, now=1).waits_for == (Wait(WaitReason.THROTTLE_REMOVAL, 0),)


@pytest.mark.django_db
def test_the_list_shows_a_wait_for_retention_without_more_queries(world: World) -> None:
    row = ready(world)
    assert selectors.move_list().rows[0].waits_for == [Wait(WaitReason.RETENTION, 1)]
    with CaptureQueriesContext(connection) as asked:
        selectors.move_list()
    assert sum("movepartition" in q["sql"] for q in asked.captured_queries) == 1, "their sums, and nothing else"
    moves.pause_move(row.pk, actor="alice")
    assert selectors.move_list().rows[0].waits_for == []
    moves.resume_move(row.pk, actor="alice")
    offsets(500, 600, 3)
    move_worker.advance_move(row.pk)
    assert (Move.objects.get().waits_for, row.parts.get().state) == ((), "submitted"), "retention has passed: it joins"


@pytest.mark.django_db
def test_the_list_computes_totals_of_a_rollback_and_not_of_ended_moves(world: World) -> None:
    world.topic("orders", (1, 2), (2, 1), size=700)
    to_3 = {"kind": "partitions", "partitions": [{"topic": "orders", "partition": 0, "replicas": [2, 3]}]}
    done = moves.plan_move(parse_scope(to_3), actor="alice")
    moves.start_move(done.pk, actor="alice")
    move_worker.advance_move(done.pk)
    world.begin_move("orders", 0, (2, 3))
    move_worker.advance_move(done.pk)
    world.end_move("orders", 0)
    while Move.objects.get(pk=done.pk).state != "done":
        move_worker.advance_move(done.pk)
    cancelled = moves.plan_move(parse_scope({"kind": "topic", "topic": "orders", "brokers": [1, 3]}), actor="alice")
    before = selectors.move_row(cancelled.pk)
    moves.cancel_move(cancelled.pk, actor="alice")
    with CaptureQueriesContext(connection) as asked:
        rows = {r.id: r for r in selectors.move_list().rows}
    assert not any("movepartition" in q["sql"] for q in asked.captured_queries)
    assert (rows[done.pk].parts, rows[done.pk].parts_ended, rows[done.pk].bytes_total) == (1, 1, 700)
    after = rows[cancelled.pk]
    assert before is not None and after.parts == before.parts > 0 == after.parts_ended
    moves.roll_back_move(done.pk, actor="alice")
    again = selectors.move_row(done.pk)
    assert again is not None and (again.parts, again.parts_ended) == (1, 0)
