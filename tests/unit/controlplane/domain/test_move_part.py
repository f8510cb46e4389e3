"""The next state of one part: outdated orders, progress, causes of missing progress."""

from __future__ import annotations

from dataclasses import replace

from controlplane.domain.move import apply_step, next_steps
from controlplane.domain.move_types import (
    NO_PROGRESS_SECONDS,
    ORDER_UNAPPLIED_SECONDS,
    PartView,
)
from tests.unit.controlplane.domain.test_move import copying, move, observed_part, part_view


def test_an_observation_older_than_a_clients_cancellation_rejects_nothing() -> None:
    """The controller binds a client's request to its own metadata, which may be newer than the rows that the worker reads."""
    sent_back = part_view(
        state="submitted",
        desired_replicas=(1, 2),
        observed=observed_part((1, 2), generation=7),
        read_generation=8,
        submitted_at=100.0,
    )
    assert not next_steps(move(sent_back), now=100.2).parts
    caught_up = replace(sent_back, observed=observed_part((1, 2), generation=9))
    assert next_steps(move(caught_up), now=101).parts[0].state == "copying"
    assert next_steps(move(sent_back), now=161).parts[0].state == "rejected", (
        "the numbers of the metadata log began again"
    )


def test_a_foreign_reassignment_during_the_copy_is_not_reverted() -> None:
    steps = next_steps(move(part_view(state="copying", observed=observed_part((1, 3), generation=9))), now=0)
    assert steps.parts[0].state == "rejected"


def test_a_partition_is_done_when_exactly_the_target_replicas_are_in_sync() -> None:
    assert (
        next_steps(move(part_view(state="copying", observed=observed_part((2, 3), isr=(2,), generation=9))), 0)
        .parts[0]
        .state
        == "verifying"
    )
    done = next_steps(move(part_view(state="verifying", observed=observed_part((2, 3), generation=9))), 0)
    assert done.parts[0].state == "done"
    assert done.state == "done"


def test_the_same_replicas_in_another_order_are_not_done() -> None:
    steps = next_steps(move(part_view(state="copying", observed=observed_part((3, 2), generation=9))), now=0)
    assert steps.parts[0].state == "rejected"


def test_progress_counts_bytes_of_new_replicas_only() -> None:
    steps = next_steps(move(part_view(state="copying", observed=copying(sizes={2: 100, 1: 100, 3: 40}))), now=0)
    assert (steps.parts[0].bytes_done, steps.parts[0].bytes_total, steps.parts[0].progressed) == (40, 100, True)


def test_a_copy_without_progress_has_a_cause() -> None:
    stuck = part_view(
        state="copying", observed=copying(sizes={2: 100, 3: 40}), bytes_done=40, bytes_total=100, progress_at=0.0
    )
    assert not next_steps(move(stuck), now=NO_PROGRESS_SECONDS - 1).parts
    late = NO_PROGRESS_SECONDS + 1

    def cause(of: PartView = stuck, at: float = late, **more: object) -> str | None:
        view = replace(move(of), **more)  # type: ignore[arg-type]
        return next_steps(view, now=at).parts[0].cause

    assert cause() == "fetch_error"
    assert cause(alive=frozenset({1, 2}), at=1) == "target_down"
    assert cause(replace(stuck, observed=copying(sizes={2: 100, 3: 40}, leader=None)), at=1) == "source_down"
    gone = replace(stuck, observed=copying(sizes={2: 100, 3: 40}, leader=None))
    assert "in-sync replicas: broker 2 or 1." in (next_steps(move(gone), now=1).parts[0].note or "")
    assert cause(free={3: 59}) == "no_space"
    assert cause(free={3: 2**40}) == "fetch_error"
    assert cause(throttle=1000) == "throttle"
    assert cause(throttle=50_000_000) == "fetch_error", "three gigabytes would have come through in that minute"
    assert cause(replace(stuck, observed=copying(sizes={2: 100, 3: 40}, throttled=True))) == "throttle"
    assert cause(replace(stuck, observed=copying(sizes={2: 100, 3: 100}), bytes_done=100)) == "controller"


def test_an_order_without_a_controller_is_reported_once() -> None:
    waiting = part_view(state="submitted", submitted_at=0.0)
    gone = replace(move(waiting), alive=frozenset({1, 2}))
    assert next_steps(gone, now=ORDER_UNAPPLIED_SECONDS + 1).parts[0].cause == "target_down"
    assert not next_steps(move(waiting), now=ORDER_UNAPPLIED_SECONDS - 1).parts
    step = next_steps(move(waiting), now=ORDER_UNAPPLIED_SECONDS + 1).parts[0]
    assert "No controller" in (step.note or "")
    assert not next_steps(move(apply_step(waiting, step, 11)), now=ORDER_UNAPPLIED_SECONDS + 2).parts


def test_a_second_poll_of_the_same_state_reports_nothing() -> None:
    first = part_view(state="copying", observed=copying(sizes={2: 100, 3: 40}))
    steps = next_steps(move(first), now=0)
    assert not next_steps(move(apply_step(first, steps.parts[0], 0)), now=1).parts
