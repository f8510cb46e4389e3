"""Cancel and roll back: when they are rejected, and what they change."""

from __future__ import annotations

from dataclasses import replace

from controlplane.domain.move import apply_step, next_steps
from controlplane.domain.move_revert import cancel_problem, cancel_steps, roll_back_steps
from tests.unit.controlplane.domain.test_move import ALIVE, copying, move, observed_part, part_view


def test_cancel_is_rejected_without_a_live_in_sync_old_replica() -> None:
    risky = part_view(
        state="copying", observed=observed_part((2, 3, 1), isr=(3,), generation=8, adding=(), removing=(1,))
    )
    assert "would leave it without a leader" in (cancel_problem([risky], ALIVE) or "")
    safe = part_view(state="copying", observed=copying())
    assert cancel_problem([safe], ALIVE) is None
    assert cancel_problem([safe], frozenset({3})) is not None


def test_cancel_reverts_partitions_in_flight_only() -> None:
    steps = cancel_steps([part_view(1), part_view(2, "copying", copying()), part_view(3, "done")])
    assert [(s.part_id, s.state, s.desired_replicas) for s in steps] == [
        (1, "skipped", (1, 2)),
        (2, "submitted", (1, 2)),
    ]
    assert steps[1].read_generation == 8


def test_a_reverted_partition_waits_for_its_order_even_without_a_change() -> None:
    back = part_view(
        state="submitted", desired_replicas=(1, 2), observed=observed_part((1, 2), generation=7), submitted_at=0.0
    )
    assert not next_steps(move(back, state="cancelling"), now=9).parts
    taken = replace(back, observed=observed_part((1, 2), generation=8))
    step = next_steps(move(taken, state="cancelling"), now=9).parts[0]
    assert (step.state, step.read_generation) == ("copying", 8)
    steps = next_steps(move(apply_step(taken, step, 9), state="cancelling"), now=10)
    assert (steps.parts[0].state, steps.state) == ("reverted", "cancelled")


def test_cancelling_a_withdrawn_order_submits_the_old_placement_again() -> None:
    withdrawn = part_view(state="waiting", submitted_at=1.0)
    assert [s.state for s in cancel_steps([withdrawn])] == ["submitted"]
    assert [s.state for s in roll_back_steps([withdrawn])] == ["submitted"]


def test_an_order_applied_after_the_cancel_updates_the_generation_of_the_revert() -> None:
    late = part_view(state="submitted", desired_replicas=(1, 2), observed=copying(), submitted_at=0.0)
    step = next_steps(move(late, state="cancelling"), now=1).parts[0]
    assert (step.state, step.read_generation) == ("submitted", 8)


def test_rolling_back_reverts_every_submitted_partition() -> None:
    steps = roll_back_steps(
        [
            part_view(1),
            part_view(2, "copying", copying()),
            part_view(3, "done", observed_part((2, 3), generation=9)),
            part_view(4, "skipped"),
        ]
    )
    assert [(s.part_id, s.state) for s in steps] == [(1, "skipped"), (2, "submitted"), (3, "waiting")]
    assert steps[2].active is True
    assert steps[2].read_generation == 9
    back = apply_step(part_view(3, "done", observed_part((2, 3), generation=9)), steps[2], 0)
    assert next_steps(move(back, state="rolling_back"), now=0).parts[0].state == "submitted"


def test_a_revert_of_replicas_that_stayed_in_sync_copies_nothing() -> None:
    """After a cancel the page said that the old broker had received the whole partition: "Copied 102 MB of 102 MB"."""
    sizes = {1: 1000, 2: 1000, 3: 400}
    active = part_view(state="copying", bytes_total=1000, bytes_done=400, observed=replace(copying(), sizes=sizes))
    back = apply_step(active, cancel_steps([active])[0], 0)
    assert (back.bytes_total, back.bytes_done) == (0, 0)
    back = replace(back, state="copying", observed=replace(observed_part((1, 2), generation=9), sizes=sizes))
    step = next_steps(move(back, state="cancelling"), now=10).parts[0]
    assert (step.state, step.bytes_total, step.bytes_done) == ("reverted", 0, 0)


def test_a_roll_back_of_a_finished_partition_counts_the_copy_to_the_old_replica() -> None:
    sizes = {1: 1000, 2: 1000, 3: 1000}
    done = part_view(state="done", bytes_total=1000, bytes_done=1000, observed=observed_part((2, 3), generation=9))
    back = apply_step(done, roll_back_steps([done])[0], 0)
    assert (back.bytes_total, back.bytes_done) == (1000, 0)
    back = replace(back, state="copying", observed=replace(observed_part((1, 2), generation=10), sizes=sizes))
    step = next_steps(move(back, state="rolling_back"), now=10).parts[0]
    assert (step.state, step.bytes_total, step.bytes_done) == ("reverted", 1000, 1000)
