from __future__ import annotations

from dataclasses import replace

from controlplane.domain.compare import StoredComparison
from controlplane.domain.move import COPIED_AHEAD, next_steps
from controlplane.domain.move_types import (
    MoveSnapshot,
    ObservedPart,
    PartView,
)
from controlplane.domain.progress import Sample

ALIVE = frozenset({1, 2, 3})


def observed_part(
    replicas: tuple[int, ...] = (1, 2), isr: tuple[int, ...] | None = None, generation: int = 7, **more: object
) -> ObservedPart:
    values: dict[str, object] = {"adding": (), "removing": (), "leader": replicas[0], "sizes": {}, **more}
    return ObservedPart(replicas, replicas if isr is None else isr, generation=generation, **values)  # type: ignore[arg-type]


def part_view(i: int = 1, state: str = "waiting", observed: ObservedPart | None = None, **more: object) -> PartView:
    values: dict[str, object] = {
        "replicas_from": (1, 2),
        "replicas_to": (2, 3),
        "desired_replicas": (2, 3),
        "read_generation": 7,
        "submitted_at": None,
        "progress_at": None,
        "bytes_done": None,
        **more,
    }
    return PartView(i, f"flights-{i}", state, observed=observed or observed_part(), **values)  # type: ignore[arg-type]


def copying(**more: object) -> ObservedPart:
    return observed_part((2, 3, 1), isr=(2, 1), generation=8, adding=(3,), removing=(1,), **more)


def move(*parts: PartView, state: str = "running", at_a_time: int = 8) -> MoveSnapshot:
    return MoveSnapshot(state, parts, at_a_time, ALIVE)


def test_the_number_of_concurrent_copies_is_limited() -> None:
    steps = next_steps(move(part_view(1), part_view(2), part_view(3), at_a_time=2), now=0)
    assert [(s.part_id, s.state) for s in steps.parts] == [(1, "submitted"), (2, "submitted")]
    assert steps.state is None


def test_the_number_of_copies_per_broker_is_limited() -> None:
    others = {"replicas_to": (2, 4), "desired_replicas": (2, 4)}
    view = replace(
        move(part_view(1), part_view(2), part_view(3), part_view(4, **others)),
        parts_per_broker_max=2,
        busy={3: 1},
        alive=frozenset({1, 2, 3, 4}),
    )
    # Broker 3 receives a copy of another move, broker 1 is read for each copy. The first copy fills 3; the fourth
    # uses the capacity that 1 has left.
    assert [s.part_id for s in next_steps(view, now=0).parts] == [1, 4]
    # A part that copies nothing uses no capacity.
    turned = {"replicas_to": (2, 1), "desired_replicas": (2, 1)}
    assert (
        len(
            next_steps(
                replace(move(part_view(1, **turned), part_view(2, **turned)), busy={1: 9}, parts_per_broker_max=1), 0
            ).parts
        )
        == 2
    )


def test_partitions_under_comparison_or_removal_do_not_use_copy_slots() -> None:
    all_beside = observed_part((1, 2, 3), isr=(1, 2, 3), generation=8)
    compared = part_view(1, "copying", all_beside, desired_replicas=(1, 2, 3), read_generation=8)
    (looked, next_one) = next_steps(move(compared, part_view(2), part_view(3), at_a_time=1), now=0).parts
    assert (looked.part_id, looked.state) == (1, "comparing") and (next_one.part_id, next_one.state) == (2, "submitted")
    lets_go = part_view(
        1, "submitted", all_beside, read_generation=8, compared=StoredComparison(True, "equal"), submitted_at=0.0
    )
    assert [
        (s.part_id, s.state) for s in next_steps(move(lets_go, part_view(2), part_view(3), at_a_time=1), now=0).parts
    ] == [(2, "submitted")]


def test_the_number_of_copied_partitions_that_wait_for_comparison_is_limited() -> None:
    beside = [
        part_view(i, "comparing", observed_part((1, 2, 3), generation=8), desired_replicas=(1, 2, 3))
        for i in range(1, COPIED_AHEAD + 1)
    ]
    ordered = [s.part_id for s in next_steps(move(*beside[:-1], part_view(8), part_view(9), at_a_time=1), now=0).parts]
    assert 8 in ordered and 9 not in ordered
    ordered = [s.part_id for s in next_steps(move(*beside, part_view(8), at_a_time=1), now=0).parts]
    assert 8 not in ordered


def test_partitions_outside_the_snapshot_are_counted() -> None:
    last = part_view(1, "verifying", observed_part((2, 3), generation=9))
    assert next_steps(replace(move(last), omitted={"done": 99}), now=0).state == "done"
    assert next_steps(replace(move(last), omitted={"waiting": 1}), now=0).state is None
    assert next_steps(replace(move(last), omitted={"rejected": 1}), now=0).state == "failed"


def test_a_failed_move_advises_a_rollback_only_if_a_partition_has_moved() -> None:
    last = part_view(1, "verifying", observed_part((2, 3), generation=9))
    moved = next_steps(replace(move(last), omitted={"rejected": 1}), now=0)
    assert moved.note is not None and "Roll back" in moved.note
    rejected = next_steps(move(part_view(1, "rejected")), now=0)
    assert rejected.state == "failed" and rejected.note is not None
    assert "1 of 1 partitions was rejected" in rejected.note and "nothing to roll back" in rejected.note


def test_a_move_ends_only_after_its_throttle_is_removed() -> None:
    last = part_view(1, "verifying", observed_part((2, 3), generation=9))
    steps = next_steps(replace(move(last), throttle_left="topic flights"), now=0)
    assert (steps.state, steps.parts[0].state) == ("verifying", "done")
    assert "topic flights" in (steps.note or "")
    ended = replace(move(state="verifying"), omitted={"done": 1}, throttle_left="topic flights")
    assert next_steps(ended, now=1).state is None
    assert next_steps(replace(ended, throttle_left=""), now=2).state == "done"


def part_with_samples(samples: list[tuple[float, int, int]], at: float = 60.0) -> PartView:
    total = samples[-1][1] + samples[-1][2]
    return part_view(
        state="copying",
        observed=copying(sizes={2: total, 3: samples[-1][2]}),
        samples=tuple(Sample(*s) for s in samples),
        bytes_done=samples[-1][2],
        bytes_total=total,
        progress_at=at,
    )


def test_a_copy_slower_than_the_incoming_data_names_the_needed_rate() -> None:
    losing = part_with_samples([(t, 1_000_000 + 500_000 * t, 100_000 * t) for t in range(0, 61, 5)])
    steps = next_steps(move(losing), now=60)
    assert (steps.parts[0].cause, steps.needs) == ("will_not_finish", 750_000)
    assert "750.0 kB/s" in (steps.parts[0].note or "")
    winning = part_with_samples([(t, 1_000_000 - 1_000 * t, 100_000 * t) for t in range(0, 61, 5)])
    steps = next_steps(move(winning), now=60)
    assert (steps.parts, steps.needs) == ((), None)


def test_a_throttle_below_the_incoming_rate_is_reported_early() -> None:
    young = part_with_samples([(0, 9_000_000, 0), (12, 9_600_000, 600_000)], at=12.0)  # 100 kB/s are received
    assert next_steps(replace(move(young), throttle=90_000), now=12).parts[0].cause == "will_not_finish"
    assert next_steps(replace(move(young), throttle=90_000), now=12).needs == 125_000
    assert not next_steps(replace(move(young), throttle=110_000), now=12).parts
    # Two such copies share their broker's throttle.
    both = move(young, replace(young, id=2))
    assert next_steps(replace(both, throttle=110_000), now=12).needs == 250_000


def test_a_paused_move_submits_no_order_and_tracks_running_copies() -> None:
    running = part_view(1, "submitted", copying(), submitted_at=0.0)
    steps = next_steps(move(running, part_view(2), state="paused"), now=1)
    assert [(s.part_id, s.state) for s in steps.parts] == [(1, "copying")]


def test_an_order_for_a_changed_placement_is_rejected_with_the_difference() -> None:
    moved = part_view(observed=observed_part((1, 3), generation=9))
    steps = next_steps(move(moved), now=0)
    assert steps.parts[0].state == "rejected"
    assert "generation 7, now 9" in (steps.parts[0].note or "")
    assert steps.parts[0].active is False
    assert steps.state == "failed"


def test_the_move_is_verifying_while_its_last_partitions_are() -> None:
    verifying = part_view(1, "copying", observed_part((2, 3), isr=(2,), generation=9))
    assert next_steps(move(verifying, part_view(2, "done")), now=0).state == "verifying"


def test_a_rollback_ends_when_every_partition_is_reverted() -> None:
    back = replace(
        part_view(state="verifying", desired_replicas=(1, 2), observed=observed_part((1, 2), generation=10)),
        submitted_at=0.0,
    )
    assert next_steps(move(back, state="rolling_back"), now=60).state == "rolled_back"
