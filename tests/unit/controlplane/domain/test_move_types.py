"""Values that a part of a move derives from its rows and from the observed cluster."""

from __future__ import annotations

from dataclasses import replace

from controlplane.domain.move_states import PartState
from controlplane.domain.move_types import (
    ORDER_UNAPPLIED_SECONDS,
    ObservedPart,
    PartView,
    difference,
    no_leader,
    step_for_unapplied_order,
    with_old_replicas,
)
from controlplane.domain.progress import StallCause

SEEN = ObservedPart(
    replicas=(1, 2, 3), isr=(1, 2), adding=(3,), removing=(1,), leader=1, generation=9, sizes={1: 10, 2: 10}
)
PART = PartView(
    id=4,
    name="t-0",
    state=PartState.SUBMITTED,
    replicas_from=(1, 2),
    replicas_to=(2, 3),
    desired_replicas=(2, 3),
    read_generation=8,
    submitted_at=100.0,
    progress_at=None,
    bytes_done=None,
    observed=SEEN,
)
ALIVE = frozenset({1, 2, 3})
LATE = 100.0 + ORDER_UNAPPLIED_SECONDS + 1


def test_old_and_new_replicas_together_begin_with_the_old_ones() -> None:
    assert with_old_replicas((1, 2), (3, 2, 4)) == (1, 2, 3, 4)
    assert with_old_replicas((1, 2), (2, 1)) == (1, 2)
    assert PART.forward == ((2, 3), (1, 2, 3))


def test_the_target_of_a_reassignment_omits_the_removed_replicas() -> None:
    assert SEEN.target == (2, 3) and SEEN.reassigning
    assert not replace(SEEN, adding=(), removing=()).reassigning
    assert replace(SEEN, adding=()).reassigning and replace(SEEN, removing=()).reassigning


def test_a_part_copies_to_brokers_that_are_new_in_its_direction() -> None:
    assert PART.copies_to == (3,) and not PART.going_back
    assert replace(PART, desired_replicas=(1, 2, 3)).copies_to == (3,)
    back = replace(PART, desired_replicas=(1, 2))
    assert back.going_back and back.copies_to == (1,)
    assert back.tail_copies == (3,)


def test_a_copy_occupies_its_targets_and_the_leader() -> None:
    assert PART.burdens == {1, 3}
    assert replace(PART, observed=None).burdens == {3}
    assert replace(PART, observed=replace(SEEN, leader=None)).burdens == {3}
    assert replace(PART, replicas_to=(2, 1), desired_replicas=(2, 1)).burdens == frozenset()


def test_a_changed_assignment_is_described_with_both_generations() -> None:
    assert "(generation 8, now 9; replicas now [1, 2, 3], adding [3], removing [1])" in difference(PART, SEEN)


def test_a_partition_without_a_leader_names_the_replicas_to_start() -> None:
    assert no_leader(SEEN).endswith("Start one of its in-sync replicas: broker 1 or 2.")
    assert no_leader(replace(SEEN, isr=())).endswith("in-sync replicas.")


def test_an_order_is_reported_only_after_the_time_that_a_failover_takes() -> None:
    assert step_for_unapplied_order(PART, SEEN, ALIVE, 100.0 + ORDER_UNAPPLIED_SECONDS) is None
    assert step_for_unapplied_order(replace(PART, submitted_at=None), SEEN, ALIVE, LATE) is None
    step = step_for_unapplied_order(PART, SEEN, ALIVE, LATE)
    assert step is not None and (step.part_id, step.cause) == (4, StallCause.CONTROLLER)
    assert step_for_unapplied_order(replace(PART, note=step.note or ""), SEEN, ALIVE, LATE) is None, (
        "the same reason is not stored again"
    )


def test_a_target_that_is_down_explains_an_order_that_is_not_taken() -> None:
    before = replace(SEEN, replicas=(1, 2))
    step = step_for_unapplied_order(PART, before, frozenset({1, 2}), LATE)
    assert step is not None and step.cause == StallCause.TARGET_DOWN and "broker 3 is not alive" in (step.note or "")
    started = step_for_unapplied_order(PART, SEEN, frozenset({1, 2}), LATE)
    assert started is not None and started.cause == StallCause.CONTROLLER


def test_the_reason_of_a_controller_is_kept_unless_a_target_is_down() -> None:
    rejected = replace(PART, cause=StallCause.REJECTED, note="no")
    assert step_for_unapplied_order(rejected, SEEN, ALIVE, LATE) is None
    step = step_for_unapplied_order(rejected, replace(SEEN, replicas=(1, 2)), frozenset({1, 2}), LATE)
    assert step is not None and step.cause == StallCause.TARGET_DOWN
