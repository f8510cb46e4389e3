"""The decisions of a rolling restart, and a complete restart of a simulated cluster."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.domain.restart import (
    BrokerSeen,
    RestartChange,
    RestartDecision,
    RestartSnapshot,
    RestartState,
    StepState,
    StepView,
    next_step,
    problem,
)


def broker(i: int, **more: object) -> BrokerSeen:
    return replace(BrokerSeen(i, True, 100 + i, 2, 0, 0), **more)  # type: ignore[arg-type]


def view(*steps: StepView, brokers: tuple[BrokerSeen, ...] | None = None, **more: object) -> RestartSnapshot:
    three = tuple(broker(i) for i in (1, 2, 3))
    return replace(RestartSnapshot(RestartState.RUNNING, True, steps, brokers or three, 1.0), **more)  # type: ignore[arg-type]


def change(v: RestartSnapshot, now: float = 1000.0) -> RestartChange:
    found = next_step(v, now).change
    assert found is not None
    return found


def test_the_first_broker_is_demoted_before_its_restart() -> None:
    first = change(view(StepView(1, 1, StepState.WAITING), StepView(2, 2, StepState.WAITING)))
    assert (first.step_id, first.state, first.demote, first.restart_process, first.broker_epoch) == (
        1,
        "demoting",
        True,
        False,
        101,
    )


def test_no_broker_restarts_while_a_partition_needs_it_and_the_note_names_the_partition() -> None:
    tight = (
        broker(1, blocked=2, blockers=("t-0: 1 would stay in sync, min.insync.replicas is 2.",)),
        broker(2),
        broker(3),
    )
    c = change(view(StepView(1, 1, StepState.WAITING), brokers=tight))
    assert (
        c.state == "waiting"
        and c.note == "Not safe to restart yet: t-0: 1 would stay in sync, min.insync.replicas is 2. ... and 1 more."
    )
    c = change(
        view(
            StepView(1, 1, StepState.DEMOTING, 101),
            brokers=(replace(tight[0], leaders=0, leadership_disabled=True), *tight[1:]),
        )
    )
    assert (c.state, c.restart_process) == ("demoting", False), "it became unsafe while its leaders moved"


def test_no_broker_restarts_while_another_is_down_or_on_old_observations() -> None:
    away = (broker(1), broker(2, alive=False, out_of_sync=3), broker(3))
    assert "Broker 2 is down" in change(view(StepView(1, 1, StepState.WAITING), brokers=away)).note
    assert "older than" in change(view(StepView(1, 1, StepState.WAITING), age_s=20.0)).note
    assert "older than" in change(view(StepView(1, 1, StepState.WAITING), age_s=None)).note
    empty = (broker(1), broker(2, alive=False, out_of_sync=0), broker(3))
    assert change(view(StepView(1, 1, StepState.WAITING), brokers=empty)).state == "demoting", (
        "a drained one is no reason"
    )


def test_the_restart_is_requested_after_the_demotion_and_repeated_until_it_starts() -> None:
    seen = (broker(1, leadership_disabled=True, leaders=0), broker(2), broker(3))
    c = change(view(StepView(1, 1, StepState.DEMOTING, 101), brokers=seen))
    assert (c.state, c.restart_process) == ("restarting", True)
    c = change(view(StepView(1, 1, StepState.RESTARTING, 101, asked_at=999.0, note=c.note), brokers=seen))
    assert (c.state, c.restart_process) == ("restarting", True)
    gone = (broker(1, alive=False, leadership_disabled=True, leaders=0, out_of_sync=2), broker(2), broker(3))
    c = change(view(StepView(1, 1, StepState.RESTARTING, 101, asked_at=999.0), brokers=gone))
    assert (c.state, c.restart_process, c.note) == ("restarting", False, "The broker is down.")


def test_without_a_supervisor_the_operator_restarts_the_broker_and_its_new_epoch_is_detected() -> None:
    seen = (broker(1, leadership_disabled=True, leaders=0), broker(2), broker(3))
    c = change(view(StepView(1, 1, StepState.DEMOTING, 101), brokers=seen, by_supervisor=False))
    assert c.state == "restarting" and not c.restart_process and "Restart broker 1 now" in c.note
    tight = (replace(seen[0], blocked=1, blockers=("t-0: no.",)), *seen[1:])
    c = change(view(StepView(1, 1, StepState.RESTARTING, 101, asked_at=999.0), brokers=tight, by_supervisor=False))
    assert c.note.startswith("Do not restart the broker yet. Not safe to restart yet")
    back = (broker(1, broker_epoch=777, leadership_disabled=True, leaders=0, out_of_sync=1), broker(2), broker(3))
    c = change(view(StepView(1, 1, StepState.RESTARTING, 101, asked_at=999.0), brokers=back, by_supervisor=False))
    assert c.state == "catching_up" and "1 replica out of sync" in c.note


def test_a_step_ends_when_the_broker_stays_in_sync_and_its_leadership_is_restored() -> None:
    whole = (broker(1, broker_epoch=777, leadership_disabled=True, leaders=0), broker(2), broker(3))
    at = StepView(1, 1, StepState.CATCHING_UP, 101, asked_at=990.0)
    c = change(view(at, brokers=whole))
    assert c.back is True and c.state == "catching_up"
    assert next_step(view(replace(at, back_at=999.0, note="In sync."), brokers=whole), 1000.0) == RestartDecision()
    c = change(view(replace(at, back_at=990.0, note="In sync."), brokers=whole))
    assert (c.state, c.demote) == ("done", False)
    behind = (replace(whole[0], out_of_sync=1), *whole[1:])
    assert change(view(replace(at, back_at=990.0), brokers=behind)).back is False


def test_a_demotion_by_another_user_is_not_ended() -> None:
    leadership_disabled = (broker(1, leadership_disabled=True), broker(2), broker(3))
    assert change(view(StepView(1, 1, StepState.WAITING), brokers=leadership_disabled)).leads_before is False
    at = StepView(1, 1, StepState.CATCHING_UP, 101, back_at=990.0, leads_before=False)
    assert (
        change(view(at, brokers=(broker(1, broker_epoch=777, leadership_disabled=True), broker(2), broker(3)))).demote
        is None
    )


def test_a_paused_restart_starts_no_broker_and_finishes_the_current_one() -> None:
    assert next_step(view(StepView(1, 1, StepState.WAITING), state=RestartState.PAUSED), 1.0) == RestartDecision()
    c = change(view(StepView(1, 1, StepState.DEMOTING, 101), state=RestartState.PAUSED))
    assert (c.state, c.demote) == ("waiting", False)
    back = (broker(1, broker_epoch=777), broker(2), broker(3))
    assert (
        change(view(StepView(1, 1, StepState.RESTARTING, 101), brokers=back, state=RestartState.PAUSED)).state
        == "catching_up"
    )


def test_a_cancelled_restart_ends_after_the_current_broker() -> None:
    assert (
        next_step(
            view(StepView(1, 1, StepState.DONE), StepView(2, 2, StepState.WAITING), state=RestartState.CANCELLING), 1.0
        ).state
        == "cancelled"
    )
    c = change(view(StepView(1, 1, StepState.RESTARTING, 101), state=RestartState.CANCELLING, by_supervisor=False))
    assert (c.state, c.demote) == ("waiting", False), "nobody has restarted it yet"


def test_a_broker_that_cannot_restart_is_reported_immediately() -> None:
    seen = [broker(1), broker(2)]
    assert problem([1, 2], seen) is None
    assert "Broker 9 does not exist" in (problem([1, 9], seen) or "")
    assert "listed twice" in (problem([1, 1], seen) or "")
    assert "lists no broker" in (problem([], seen) or "")


# -- a whole one ------------------------------------------------------------------------------------------------------------
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 5), st.booleans())
def test_a_rolling_restart_never_stops_two_brokers_and_restarts_all(seed: int, count: int, by_supervisor: bool) -> None:
    """Brokers restart, lag and fail at random times. Samples arrive late, twice, or outdated. Pauses start and end."""
    draw = random.Random(seed)
    seen = {i: broker(i) for i in range(1, count + 1)}
    steps = [StepView(i, i, StepState.WAITING) for i in seen]
    state, now, restarted = "running", 0.0, dict.fromkeys(seen, 0)
    asked: set[int] = set()
    for _ in range(3000):
        now += draw.choice([0.2, 1.0, 3.0])
        if draw.random() < 0.03 and state in ("running", "paused"):
            state = "paused" if state == "running" else "running"
        age = draw.choice([0.5, 1.0, 30.0])
        found = next_step(RestartSnapshot(state, by_supervisor, tuple(steps), tuple(seen.values()), age), now)
        if found.state:
            state = found.state
            break
        if (c := found.change) is not None:
            s = steps[c.step_id - 1]
            b = seen[s.broker_id]
            if c.state == "restarting" and s.state == "demoting":
                assert b.alive and not b.leaders and not b.blocked and age < 6
                assert all(o.alive and not o.out_of_sync for o in seen.values() if o is not b)
                s = replace(s, asked_at=now)
            if c.restart_process:
                asked.add(s.broker_id)
            if c.demote is not None:
                seen[s.broker_id] = b = replace(b, leadership_disabled=c.demote)
            s = replace(s, state=c.state, note=c.note)
            if c.broker_epoch is not None:
                s = replace(s, broker_epoch=c.broker_epoch)
            if c.back is not None:
                s = replace(s, back_at=now if c.back else None)
            steps[c.step_id - 1] = s
        for i, b in list(seen.items()):  # the cluster changes
            if b.leadership_disabled and b.leaders and draw.random() < 0.5:
                b = replace(b, leaders=0)
            if not b.leadership_disabled and b.alive and not b.out_of_sync and draw.random() < 0.5:
                b = replace(b, leaders=2)
            reported = i in asked or (
                not by_supervisor and any(s.broker_id == i and s.state == "restarting" for s in steps)
            )
            if b.alive and reported and draw.random() < 0.5 and restarted[i] == 0:
                restarted[i] += 1
                b = replace(b, alive=False, out_of_sync=2, leaders=0)
            elif not b.alive and draw.random() < 0.4:
                b = replace(b, alive=True, broker_epoch=b.broker_epoch + 500)
            elif b.alive and b.out_of_sync and draw.random() < 0.4:
                b = replace(b, out_of_sync=b.out_of_sync - 1)
            seen[i] = b
    assert state == "done"
    assert set(restarted.values()) == {1} and not any(b.leadership_disabled for b in seen.values())
