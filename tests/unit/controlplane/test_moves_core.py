from __future__ import annotations

from dataclasses import replace

from controlplane.moves import (
    NO_PROGRESS_SECONDS,
    ORDER_UNTAKEN_SECONDS,
    SETTLE_SECONDS,
    MoveView,
    ObservedPart,
    PartView,
    after,
    cancel_problem,
    cancel_steps,
    next_steps,
    roll_back_steps,
)

ALIVE = frozenset({1, 2, 3})


def seen(
    replicas: tuple[int, ...] = (1, 2), isr: tuple[int, ...] | None = None, generation: int = 7, **more: object
) -> ObservedPart:
    values: dict[str, object] = {"adding": (), "removing": (), "leader": replicas[0], "sizes": {}, "lags": {}, **more}
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
    assert "No byte copied" in (next_steps(move(stuck), now=NO_PROGRESS_SECONDS + 1).parts[0].note or "")
    dead = MoveView("running", (stuck,), 8, frozenset({1, 2}))
    assert "Target down: broker 3" in (next_steps(dead, now=1).parts[0].note or "")


def test_an_order_no_controller_takes_is_shown_as_such_once() -> None:
    waiting = part(state="ordered", ordered_at=0.0)
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


def test_a_part_sent_back_is_put_back_when_it_is_as_before_and_the_order_has_settled() -> None:
    back = part(state="copying", wanted=(1, 2), observed=seen((1, 2), generation=9), ordered_at=0.0)
    assert not next_steps(move(back, state="cancelling"), now=SETTLE_SECONDS - 1).parts
    steps = next_steps(move(back, state="cancelling"), now=SETTLE_SECONDS)
    assert steps.parts[0].state == "put_back"
    assert steps.state == "cancelled"


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
