from __future__ import annotations

from dataclasses import replace

from controlplane.moves import (
    COPIED_AHEAD,
    NO_PROGRESS_SECONDS,
    ORDER_UNTAKEN_SECONDS,
    MoveView,
    ObservedPart,
    PartView,
    after,
    cancel_problem,
    cancel_steps,
    next_steps,
    roll_back_steps,
)
from controlplane.pace import Sample

ALIVE = frozenset({1, 2, 3})


def seen(
    replicas: tuple[int, ...] = (1, 2), isr: tuple[int, ...] | None = None, generation: int = 7, **more: object
) -> ObservedPart:
    values: dict[str, object] = {"adding": (), "removing": (), "leader": replicas[0], "sizes": {}, **more}
    return ObservedPart(replicas, replicas if isr is None else isr, generation=generation, **values)  # type: ignore[arg-type]


def part(i: int = 1, state: str = "waiting", observed: ObservedPart | None = None, **more: object) -> PartView:
    values: dict[str, object] = {
        "replicas_from": (1, 2), "replicas_to": (2, 3), "wanted": (2, 3), "read_generation": 7, "ordered_at": None,
        "progress_at": None, "bytes_done": None, **more,
    }  # fmt: skip
    return PartView(i, f"flights-{i}", state, observed=observed or seen(), **values)  # type: ignore[arg-type]


def copying(**more: object) -> ObservedPart:
    return seen((2, 3, 1), isr=(2, 1), generation=8, adding=(3,), removing=(1,), **more)


def move(*parts: PartView, state: str = "running", at_a_time: int = 8) -> MoveView:
    return MoveView(state, parts, at_a_time, ALIVE)


def test_only_so_many_copies_run_at_a_time() -> None:
    steps = next_steps(move(part(1), part(2), part(3), at_a_time=2), now=0)
    assert [(s.part_id, s.state) for s in steps.parts] == [(1, "ordered"), (2, "ordered")]
    assert steps.state is None


def test_no_broker_bears_more_copies_than_it_may() -> None:
    others = {"replicas_to": (2, 4), "wanted": (2, 4)}
    view = replace(
        move(part(1), part(2), part(3), part(4, **others)), parts_per_broker_max=2, busy={3: 1}, alive=frozenset({1, 2, 3, 4})
    )  # fmt: skip
    # Broker 3 has a copy of another move, broker 1 reads for each: the first fills 3, the fourth takes the place that 1 has left.
    assert [s.part_id for s in next_steps(view, now=0).parts] == [1, 4]
    # What copies nothing burdens nobody.
    turned = {"replicas_to": (2, 1), "wanted": (2, 1)}
    assert (
        len(
            next_steps(
                replace(move(part(1, **turned), part(2, **turned)), busy={1: 9}, parts_per_broker_max=1), 0
            ).parts
        )
        == 2
    )


def test_who_is_being_compared_or_lets_its_old_copies_go_keeps_nobody_from_being_copied() -> None:
    all_beside = seen((1, 2, 3), isr=(1, 2, 3), generation=8)
    compared = part(1, "copying", all_beside, wanted=(1, 2, 3), read_generation=8)
    (looked, next_one) = next_steps(move(compared, part(2), part(3), at_a_time=1), now=0).parts
    assert (looked.part_id, looked.state) == (1, "verifying") and (next_one.part_id, next_one.state) == (2, "ordered")
    lets_go = part(1, "ordered", all_beside, read_generation=8, compared=(True, "equal"), ordered_at=0.0)
    assert [(s.part_id, s.state) for s in next_steps(move(lets_go, part(2), part(3), at_a_time=1), now=0).parts] == [
        (2, "ordered")
    ]


def test_no_more_are_copied_ahead_of_their_comparison_than_a_look_can_bear() -> None:
    beside = [part(i, "verifying", seen((1, 2, 3), generation=8), wanted=(1, 2, 3)) for i in range(1, COPIED_AHEAD + 1)]
    ordered = [s.part_id for s in next_steps(move(*beside[:-1], part(8), part(9), at_a_time=1), now=0).parts]
    assert 8 in ordered and 9 not in ordered
    ordered = [s.part_id for s in next_steps(move(*beside, part(8), at_a_time=1), now=0).parts]
    assert 8 not in ordered


def test_parts_that_are_not_in_view_are_counted() -> None:
    last = part(1, "verifying", seen((2, 3), generation=9))
    assert next_steps(replace(move(last), rest={"done": 99}), now=0).state == "done"
    assert next_steps(replace(move(last), rest={"waiting": 1}), now=0).state is None
    assert next_steps(replace(move(last), rest={"stuck": 1}), now=0).state == "failed"


def test_a_move_does_not_end_before_its_throttle_is_gone() -> None:
    last = part(1, "verifying", seen((2, 3), generation=9))
    steps = next_steps(replace(move(last), throttle_left="topic flights"), now=0)
    assert (steps.state, steps.parts[0].state) == ("verifying", "done")
    assert "topic flights" in (steps.note or "")
    ended = replace(move(state="verifying"), rest={"done": 1}, throttle_left="topic flights")
    assert next_steps(ended, now=1).state is None
    assert next_steps(replace(ended, throttle_left=""), now=2).state == "done"


def grown(samples: list[tuple[float, int, int]], at: float = 60.0) -> PartView:
    total = samples[-1][1] + samples[-1][2]
    return part(
        state="copying", observed=copying(sizes={2: total, 3: samples[-1][2]}), samples=tuple(Sample(*s) for s in samples),
        bytes_done=samples[-1][2], bytes_total=total, progress_at=at,
    )  # fmt: skip


def test_a_copy_that_is_outrun_says_what_it_would_need() -> None:
    losing = grown([(t, 1_000_000 + 500_000 * t, 100_000 * t) for t in range(0, 61, 5)])
    steps = next_steps(move(losing), now=60)
    assert (steps.parts[0].cause, steps.needs) == ("will_not_finish", 750_000)
    assert "750.0 kB/s" in (steps.parts[0].note or "")
    winning = grown([(t, 1_000_000 - 1_000 * t, 100_000 * t) for t in range(0, 61, 5)])
    steps = next_steps(move(winning), now=60)
    assert (steps.parts, steps.needs) == ((), None)


def test_a_throttle_below_what_comes_in_is_foretold() -> None:
    young = grown([(0, 9_000_000, 0), (12, 9_600_000, 600_000)], at=12.0)  # 100 kB/s come in
    assert next_steps(replace(move(young), throttle=90_000), now=12).parts[0].cause == "will_not_finish"
    assert next_steps(replace(move(young), throttle=90_000), now=12).needs == 125_000
    assert not next_steps(replace(move(young), throttle=110_000), now=12).parts
    # Two such copies share their broker's throttle.
    both = move(young, replace(young, id=2))
    assert next_steps(replace(both, throttle=110_000), now=12).needs == 250_000


def test_a_paused_move_orders_nothing_but_follows_what_runs() -> None:
    running = part(1, "ordered", copying(), ordered_at=0.0)
    steps = next_steps(move(running, part(2), state="paused"), now=1)
    assert [(s.part_id, s.state) for s in steps.parts] == [(1, "copying")]


def test_an_order_is_refused_with_the_difference_when_the_placement_changed() -> None:
    moved = part(observed=seen((1, 3), generation=9))
    steps = next_steps(move(moved), now=0)
    assert steps.parts[0].state == "stuck"
    assert "generation 7, now 9" in (steps.parts[0].note or "")
    assert steps.parts[0].active is False
    assert steps.state == "failed"


def test_somebody_elses_placement_in_mid_copy_is_not_fought() -> None:
    steps = next_steps(move(part(state="copying", observed=seen((1, 3), generation=9))), now=0)
    assert steps.parts[0].state == "stuck"


def test_a_part_is_done_when_its_replicas_are_exactly_the_wanted_ones_and_all_in_sync() -> None:
    assert (
        next_steps(move(part(state="copying", observed=seen((2, 3), isr=(2,), generation=9))), 0).parts[0].state
        == "verifying"
    )
    done = next_steps(move(part(state="verifying", observed=seen((2, 3), generation=9))), 0)
    assert done.parts[0].state == "done"
    assert done.state == "done"


def test_another_order_of_the_same_replicas_is_not_done() -> None:
    steps = next_steps(move(part(state="copying", observed=seen((3, 2), generation=9))), now=0)
    assert steps.parts[0].state == "stuck"


def test_the_move_verifies_while_its_last_parts_do() -> None:
    verifying = part(1, "copying", seen((2, 3), isr=(2,), generation=9))
    assert next_steps(move(verifying, part(2, "done")), now=0).state == "verifying"


def test_progress_counts_bytes_of_new_replicas_only() -> None:
    steps = next_steps(move(part(state="copying", observed=copying(sizes={2: 100, 1: 100, 3: 40}))), now=0)
    assert (steps.parts[0].bytes_done, steps.parts[0].bytes_total, steps.parts[0].progressed) == (40, 100, True)


def test_a_copy_without_progress_says_why() -> None:
    stuck = part(
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


def test_an_order_no_controller_takes_is_shown_as_such_once() -> None:
    waiting = part(state="ordered", ordered_at=0.0)
    gone = replace(move(waiting), alive=frozenset({1, 2}))
    assert next_steps(gone, now=ORDER_UNTAKEN_SECONDS + 1).parts[0].cause == "target_down"
    assert not next_steps(move(waiting), now=ORDER_UNTAKEN_SECONDS - 1).parts
    step = next_steps(move(waiting), now=ORDER_UNTAKEN_SECONDS + 1).parts[0]
    assert "No controller" in (step.note or "")
    assert not next_steps(move(after(waiting, step, 11)), now=ORDER_UNTAKEN_SECONDS + 2).parts


def test_looking_twice_at_the_same_world_says_nothing_twice() -> None:
    first = part(state="copying", observed=copying(sizes={2: 100, 3: 40}))
    steps = next_steps(move(first), now=0)
    assert not next_steps(move(after(first, steps.parts[0], 0)), now=1).parts


def test_cancel_is_refused_where_no_old_replica_is_alive_and_in_sync() -> None:
    risky = part(state="copying", observed=seen((2, 3, 1), isr=(3,), generation=8, adding=(), removing=(1,)))
    assert "would leave it without a leader" in (cancel_problem([risky], ALIVE) or "")
    safe = part(state="copying", observed=copying())
    assert cancel_problem([safe], ALIVE) is None
    assert cancel_problem([safe], frozenset({3})) is not None


def test_cancel_sends_back_what_is_in_flight_and_leaves_the_rest() -> None:
    steps = cancel_steps([part(1), part(2, "copying", copying()), part(3, "done")])
    assert [(s.part_id, s.state, s.wanted) for s in steps] == [(1, "untouched", (1, 2)), (2, "ordered", (1, 2))]
    assert steps[1].read_generation == 8


def test_a_part_sent_back_waits_for_its_own_order_even_where_nothing_has_moved() -> None:
    back = part(state="ordered", wanted=(1, 2), observed=seen((1, 2), generation=7), ordered_at=0.0)
    assert not next_steps(move(back, state="cancelling"), now=9).parts
    taken = replace(back, observed=seen((1, 2), generation=8))
    step = next_steps(move(taken, state="cancelling"), now=9).parts[0]
    assert (step.state, step.read_generation) == ("copying", 8)
    steps = next_steps(move(after(taken, step, 9), state="cancelling"), now=10)
    assert (steps.parts[0].state, steps.state) == ("put_back", "cancelled")


def test_cancelling_a_withdrawn_order_fences_it_off() -> None:
    withdrawn = part(state="waiting", ordered_at=1.0)
    assert [s.state for s in cancel_steps([withdrawn])] == ["ordered"]
    assert [s.state for s in roll_back_steps([withdrawn])] == ["ordered"]


def test_a_forward_order_taken_too_late_binds_the_way_back_anew() -> None:
    late = part(state="ordered", wanted=(1, 2), observed=copying(), ordered_at=0.0)
    step = next_steps(move(late, state="cancelling"), now=1).parts[0]
    assert (step.state, step.read_generation) == ("ordered", 8)


def test_rolling_back_returns_everything_that_was_touched() -> None:
    steps = roll_back_steps(
        [part(1), part(2, "copying", copying()), part(3, "done", seen((2, 3), generation=9)), part(4, "untouched")]
    )
    assert [(s.part_id, s.state) for s in steps] == [(1, "untouched"), (2, "ordered"), (3, "waiting")]
    assert steps[2].active is True
    assert steps[2].read_generation == 9
    back = after(part(3, "done", seen((2, 3), generation=9)), steps[2], 0)
    assert next_steps(move(back, state="rolling_back"), now=0).parts[0].state == "ordered"


def test_a_move_ends_rolled_back_when_all_is_back() -> None:
    back = replace(part(state="verifying", wanted=(1, 2), observed=seen((1, 2), generation=10)), ordered_at=0.0)
    assert next_steps(move(back, state="rolling_back"), now=60).state == "rolled_back"
