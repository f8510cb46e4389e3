"""Mode `tail`: which topics can move so, when the new replicas join, and what a deletion by an operator needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controlplane.domain import tail_move
from controlplane.domain.move_states import MoveMode, MoveState, PartState
from controlplane.domain.move_types import MoveSnapshot, ObservedPart, PartStep, PartView
from controlplane.domain.progress import StallCause

SEEN = ObservedPart(
    replicas=(1, 2),
    isr=(1, 2),
    adding=(),
    removing=(),
    leader=1,
    generation=8,
    sizes={1: 900, 2: 900, 3: 40},
    observers=(3,),
    tail_start=500,
    log_start=100,
    lags={3: 0},
)
PART = PartView(
    id=4,
    name="t-0",
    state=PartState.CATCHING_UP,
    replicas_from=(1, 2),
    replicas_to=(2, 3),
    desired_replicas=(2, 3),
    read_generation=8,
    submitted_at=100.0,
    progress_at=None,
    bytes_done=40,
    observed=SEEN,
    tail_start=500,
)
MOVE = MoveSnapshot(MoveState.RUNNING, (), 1, frozenset({1, 2, 3}), mode=MoveMode.TAIL)


def next_step(part: PartView, seen: ObservedPart, **move: Any) -> PartStep:
    found = tail_move.advance(part, seen, replace(MOVE, **move), 1_000.0)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("configs", "internal", "reason"),
    [
        ({"retention.ms": "1000"}, True, "is an internal topic"),
        ({"cleanup.policy": "compact,delete", "retention.ms": "1000"}, False, "is compacted"),
        (
            {"remote.storage.enable": "true", "remote.log.copy.disable": "true", "retention.ms": "1000"},
            False,
            "copies no segments to the remote store",
        ),
        ({"retention.ms": "-1"}, False, "has unlimited retention"),
    ],
)
def test_a_topic_whose_old_records_are_needed_or_stay_is_unfit(
    configs: dict[str, str], internal: bool, reason: str
) -> None:
    assert reason in tail_move.tail_move_problem("t", configs, internal=internal)


def test_a_retention_by_time_or_bytes_or_a_deadline_makes_a_topic_fit() -> None:
    assert tail_move.tail_move_problem("t", {"retention.ms": "1000"}, internal=False) == ""
    assert tail_move.tail_move_problem("t", {"retention.ms": "-1", "retention.bytes": "10"}, internal=False) == ""
    assert tail_move.tail_move_problem("t", {"retention.ms": "-1"}, internal=False, deadline=True) == ""
    assert (
        tail_move.tail_move_problem("t", {"retention.ms": "-1", "remote.storage.enable": "true"}, internal=False) == ""
    )


def test_a_waiting_part_orders_its_observers_unless_the_cluster_has_changed() -> None:
    waiting = replace(PART, state=PartState.WAITING)
    fresh = replace(SEEN, observers=(), tail_start=None)
    assert (tail_move.begin(waiting, fresh).state, tail_move.begin(waiting, fresh).submits) == (
        PartState.BOOTSTRAPPING,
        True,
    )
    assert tail_move.begin(waiting, SEEN).state == PartState.CATCHING_UP, "ordered before, and withdrawn too late"
    for changed in ({"generation": 9}, {"unfit": "t is compacted"}, {"archive_start": 7}):
        rejected = tail_move.begin(waiting, replace(fresh, **changed))
        assert (rejected.state, rejected.active) == (PartState.REJECTED, False)


def test_a_bootstrapping_part_follows_when_the_controller_has_named_the_observers() -> None:
    part = replace(PART, state=PartState.BOOTSTRAPPING)
    taken = next_step(part, replace(SEEN, generation=9))
    assert (taken.state, taken.read_generation) == (PartState.CATCHING_UP, 9)
    assert next_step(part, replace(SEEN, generation=9, observers=(5,))).state == PartState.REJECTED
    assert tail_move.advance(part, SEEN, MOVE, 101.0) is None
    late = next_step(part, replace(SEEN, observers=()))
    assert (late.state, late.cause) == (PartState.BOOTSTRAPPING, StallCause.CONTROLLER)


def test_a_part_in_step_waits_for_retention_and_joins_after_it() -> None:
    waits = next_step(PART, SEEN)
    assert waits.state == PartState.READY and "Waiting for retention" in (waits.note or "")
    ready = replace(PART, state=PartState.READY, note=waits.note or "")
    assert tail_move.advance(ready, SEEN, MOVE, 1_000.0) is None, "nothing new"
    joined = next_step(ready, replace(SEEN, log_start=500))
    assert (joined.state, joined.submits, joined.hand_over_at) == (PartState.SUBMITTED, True, None)
    assert next_step(ready, replace(SEEN, log_start=500), state=MoveState.PAUSED).state == PartState.READY


def test_an_early_hand_over_joins_at_once_with_its_offset() -> None:
    joined = next_step(PART, SEEN, early=True)
    assert (joined.state, joined.hand_over_at) == (PartState.SUBMITTED, 500)
    assert next_step(PART, SEEN, early=True, state=MoveState.PAUSED).state == PartState.READY


@pytest.mark.parametrize("move", [{}, {"early": True}, {"overdue": True}])
def test_a_tiered_part_waits_for_copies_and_then_joins_without_a_hand_over(move: dict[str, Any]) -> None:
    tiered = replace(SEEN, tiered=True)
    waits = next_step(PART, tiered, **move)
    assert (waits.state, waits.cause) == (PartState.READY, "")
    assert "Waiting for copies to the remote store" in (waits.note or "")
    ready = replace(PART, state=PartState.READY, note=waits.note or "", observed=tiered)
    assert tail_move.advance(ready, replace(tiered, log_start=None), MOVE, 1_000.0) is not None, "unknown, not copied"
    joined = next_step(ready, replace(tiered, log_start=500), **move)
    assert (joined.state, joined.submits, joined.hand_over_at) == (PartState.SUBMITTED, True, None)
    assert tail_move.deletable([ready]) == [], "the old records are not deleted"


@pytest.mark.parametrize(
    ("changed", "cause", "note"),
    [
        ({"unfit": "t is compacted."}, StallCause.UNFIT, "do not join the ISR until then"),
        ({"leader": None}, StallCause.SOURCE_DOWN, "no leader"),
        ({"tail_start": None}, "", "has not reported the start offset"),
        ({"lags": {}}, "", "broker 3 has not started"),
        ({"lags": {3: tail_move.IN_STEP_RECORDS + 1}}, "", f"broker 3 lacks {tail_move.IN_STEP_RECORDS + 1:,} records"),
    ],
)
def test_a_part_that_cannot_join_the_isr_has_the_reason_for_its_wait(
    changed: dict[str, Any], cause: str, note: str
) -> None:
    found = next_step(replace(PART, note="before"), replace(SEEN, **changed))
    assert (found.state, found.cause) == (PartState.CATCHING_UP, cause) and note in (found.note or "")


def test_a_dead_target_and_a_passed_deadline_need_an_operator() -> None:
    assert next_step(PART, SEEN, alive=frozenset({1, 2})).cause == StallCause.TARGET_DOWN
    late = next_step(PART, SEEN, overdue=True)
    assert (late.state, late.cause) == (PartState.READY, StallCause.DEADLINE_PASSED)
    assert next_step(PART, replace(SEEN, log_start_floor=500), overdue=True).cause == "", "the old records were deleted"


def test_a_deletion_is_done_when_the_log_start_floor_is_raised_and_is_dropped_for_another_start() -> None:
    part = replace(PART, state=PartState.TRUNCATING, delete_below=500)
    done = next_step(part, replace(SEEN, generation=9, log_start_floor=500))
    assert (done.state, done.read_generation) == (PartState.READY, 9)
    assert tail_move.advance(part, SEEN, MOVE, 101.0) is None
    moved = next_step(part, replace(SEEN, tail_start=600))
    assert moved.state == PartState.CATCHING_UP and "now start at 600, not at 500" in (moved.note or "")
    assert next_step(part, replace(SEEN, generation=9)).state == PartState.REJECTED


READY = replace(PART, state=PartState.READY)


def test_only_parts_in_step_with_old_records_and_a_leader_can_be_deleted() -> None:
    assert tail_move.deletion_problem([READY]) is None
    assert [(s.state, s.delete_below) for s in tail_move.deletion_steps([READY, PART])] == [(PartState.TRUNCATING, 500)]
    for changed in ({"leader": None}, {"log_start": 500}, {"log_start_floor": 500}, {"tail_start": None}):
        assert tail_move.deletable([replace(READY, observed=replace(SEEN, **changed))]) == []
    assert tail_move.deletable([replace(READY, observed=None)]) == []


def test_that_nothing_can_be_deleted_has_a_reason() -> None:
    assert "not in sync yet" in (tail_move.deletion_problem([PART]) or "")
    assert "there are no old records to delete" in (
        tail_move.deletion_problem([replace(PART, state=PartState.DONE)]) or ""
    )


def test_each_state_has_its_order_and_only_the_first_placement_the_hand_over() -> None:
    def order(state: PartState, desired_replicas: tuple[int, ...]) -> tail_move.Order:
        return tail_move.order(
            state,
            desired_replicas=desired_replicas,
            replicas_from=(1, 2),
            replicas_to=(2, 3),
            delete_below=500,
            hand_over_at=7,
        )

    assert order(PartState.BOOTSTRAPPING, (2, 3)) == tail_move.Order((1, 2), observers=(3,))
    assert order(PartState.TRUNCATING, (2, 3)) == tail_move.Order((1, 2), delete_below=500)
    assert order(PartState.SUBMITTED, (1, 2, 3)) == tail_move.Order((1, 2, 3), hand_over_at=7)
    assert order(PartState.SUBMITTED, (2, 3)) == tail_move.Order((2, 3))


def test_replicas_are_compared_only_if_some_are_added_and_some_removed() -> None:
    assert tail_move.first_placement((1, 2), (2, 3)) == (1, 2, 3)
    assert tail_move.first_placement((1, 2), (1, 2, 3)) == (1, 2, 3)
    assert tail_move.first_placement((1, 2, 3), (3, 1)) == (3, 1)


def test_copies_to_the_remote_store_end_with_the_slowest_leader() -> None:
    assert tail_move.uploads_end_in_s({}, {}) == tail_move.UPLOAD_WAIT_S
    speed = tail_move.UPLOAD_BYTES_PER_S
    assert tail_move.uploads_end_in_s({1: 2 * speed, 2: 3 * speed}, {}) == tail_move.UPLOAD_WAIT_S + 3
    assert tail_move.uploads_end_in_s({1: 2 * speed, 2: 3 * speed}, {1: speed // 10}) == tail_move.UPLOAD_WAIT_S + 20
    assert tail_move.uploads_end_in_s({1: 2 * speed}, {1: 1 << 62}) == tail_move.UPLOAD_WAIT_S + 2, (
        "a higher quota is no speed"
    )
