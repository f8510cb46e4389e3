"""What a list says of whole moves: what one waits for, where nothing of it goes on, and the sums of those that are over, out of their rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.models import Move
from controlplane.moves import PartView, next_steps
from controlplane.selectors import moves as selectors
from controlplane.services import advancing, moves
from tests.unit.controlplane.test_moves_core import copying, move, part, seen
from tests.unit.controlplane.test_tail_moves import offsets, ready
from tests.unit.controlplane.world import World


def onto_a_dead_broker(i: int) -> PartView:
    gone = seen((2, 9, 1), isr=(2, 1), generation=8, adding=(9,), removing=(1,))
    return part(i, "copying", gone, replicas_to=(2, 9), wanted=(2, 9), ordered_at=0.0)


def test_it_says_nothing_while_any_part_goes_on() -> None:
    down = onto_a_dead_broker(1)
    going = part(2, "copying", copying(), ordered_at=0.0)
    assert next_steps(move(down, going), now=1).waits_for == ""
    assert next_steps(move(down), now=1).waits_for == "a target that is down (1)"
    assert next_steps(move(part(3)), now=1).waits_for == "", "it is ordered by this very look"
    assert next_steps(move(part(4, "done")), now=1).waits_for == ""


def test_what_waits_is_counted_the_most_first_and_whose_turn_it_is_not_last() -> None:
    down = [onto_a_dead_broker(i) for i in (1, 2)]
    no_leader = part(3, "copying", replace(copying(), leader=None), ordered_at=0.0)
    view = replace(move(*down, no_leader, part(4), at_a_time=3), rest={"waiting": 1000, "done": 7})
    assert next_steps(view, now=1).waits_for == "a target that is down (2), a leader (1), its turn (1,001)"
    assert next_steps(replace(view, state="paused"), now=1).waits_for == "", "the state says it"


def test_in_sync_and_the_throttles_end_are_waited_for_too() -> None:
    late = part(1, "verifying", seen((2, 3), isr=(2,), generation=9))
    assert next_steps(move(late, state="verifying"), now=0).waits_for == "new replicas to be in sync (1)"
    ended = replace(move(state="verifying"), rest={"done": 1}, throttle_left="topic flights")
    assert next_steps(ended, now=1).waits_for == "its throttle to be gone"


@pytest.mark.django_db
def test_the_list_says_that_a_move_waits_for_retention_without_asking_its_partitions_more(world: World) -> None:
    row = ready(world)
    assert selectors.move_list().rows[0].waits_for == "retention (1)"
    with CaptureQueriesContext(connection) as asked:
        selectors.move_list()
    assert sum("movepartition" in q["sql"] for q in asked.captured_queries) == 1, "their sums, and nothing else"
    moves.pause_move(row.pk, who="alice")
    assert selectors.move_list().rows[0].waits_for == ""
    moves.resume_move(row.pk, who="alice")
    offsets(500, 600, 3)
    advancing.advance_move(row.pk)
    assert (Move.objects.get().waits_for, row.parts.get().state) == ("", "ordered"), "retention has passed: it joins"


@pytest.mark.django_db
def test_of_moves_that_are_over_the_list_adds_nothing_up_and_of_one_that_is_rolled_back_it_does(world: World) -> None:
    world.topic("orders", (1, 2), (2, 1), size=700)
    to_3 = {"kind": "partitions", "partitions": [{"topic": "orders", "partition": 0, "replicas": [2, 3]}]}
    done = moves.plan_move(to_3, who="alice")
    moves.start_move(done.pk, who="alice")
    advancing.advance_move(done.pk)
    world.begin_move("orders", 0, (2, 3))
    advancing.advance_move(done.pk)
    world.end_move("orders", 0)
    while Move.objects.get(pk=done.pk).state != "done":
        advancing.advance_move(done.pk)
    untouched = moves.plan_move({"kind": "topic", "topic": "orders", "brokers": [1, 3]}, who="alice")
    before = selectors.move_row(untouched.pk)
    moves.cancel_move(untouched.pk, who="alice")
    with CaptureQueriesContext(connection) as asked:
        rows = {r.id: r for r in selectors.move_list().rows}
    assert not any("movepartition" in q["sql"] for q in asked.captured_queries)
    assert (rows[done.pk].parts, rows[done.pk].parts_ended, rows[done.pk].bytes_total) == (1, 1, 700)
    assert before is not None and rows[untouched.pk].parts == before.parts == rows[untouched.pk].parts_ended
    moves.roll_back_move(done.pk, who="alice")
    again = selectors.move_row(done.pk)
    assert again is not None and (again.parts, again.parts_ended) == (1, 0)
