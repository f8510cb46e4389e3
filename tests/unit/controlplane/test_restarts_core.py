"""A rolling restart's decisions, and a whole one driven through a made cluster."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.restarts import BrokerSeen, Change, Look, RestartView, StepView, look, problem


def broker(i: int, **more: object) -> BrokerSeen:
    return replace(BrokerSeen(i, True, 100 + i, 2, 0, 0), **more)  # type: ignore[arg-type]


def view(*steps: StepView, brokers: tuple[BrokerSeen, ...] | None = None, **more: object) -> RestartView:
    three = tuple(broker(i) for i in (1, 2, 3))
    return replace(RestartView("running", True, steps, brokers or three, 1.0), **more)  # type: ignore[arg-type]


def change(v: RestartView, now: float = 1000.0) -> Change:
    found = look(v, now).change
    assert found is not None
    return found


def test_leadership_goes_off_the_first_one_before_anything_else() -> None:
    first = change(view(StepView(1, 1, "waiting"), StepView(2, 2, "waiting")))
    assert (first.step_id, first.state, first.shun, first.ask, first.incarnation) == (
        1,
        "leaders_off",
        True,
        False,
        101,
    )


def test_nobody_goes_while_a_partition_cannot_do_without_it_and_the_note_says_which() -> None:
    tight = (
        broker(1, blocked=2, blockers=("t-0: 1 would stay in sync, min.insync.replicas is 2.",)),
        broker(2),
        broker(3),
    )
    c = change(view(StepView(1, 1, "waiting"), brokers=tight))
    assert (
        c.state == "waiting"
        and c.note == "Not safe yet: t-0: 1 would stay in sync, min.insync.replicas is 2. ... and 1 more."
    )
    c = change(
        view(StepView(1, 1, "leaders_off", 101), brokers=(replace(tight[0], leaders=0, shunned=True), *tight[1:]))
    )
    assert (c.state, c.ask) == ("leaders_off", False), "it became unsafe while its leaders moved"


def test_nobody_goes_while_another_is_away_or_on_old_knowledge() -> None:
    away = (broker(1), broker(2, alive=False, out_of_sync=3), broker(3))
    assert "Broker 2 is down" in change(view(StepView(1, 1, "waiting"), brokers=away)).note
    assert "older than" in change(view(StepView(1, 1, "waiting"), age_s=20.0)).note
    assert "older than" in change(view(StepView(1, 1, "waiting"), age_s=None)).note
    empty = (broker(1), broker(2, alive=False, out_of_sync=0), broker(3))
    assert change(view(StepView(1, 1, "waiting"), brokers=empty)).state == "leaders_off", "a drained one is no reason"


def test_its_process_is_asked_once_leadership_is_off_and_again_until_it_has_gone() -> None:
    seen = (broker(1, shunned=True, leaders=0), broker(2), broker(3))
    c = change(view(StepView(1, 1, "leaders_off", 101), brokers=seen))
    assert (c.state, c.ask) == ("restarting", True)
    c = change(view(StepView(1, 1, "restarting", 101, asked_at=999.0, note=c.note), brokers=seen))
    assert (c.state, c.ask) == ("restarting", True)
    gone = (broker(1, alive=False, shunned=True, leaders=0, out_of_sync=2), broker(2), broker(3))
    c = change(view(StepView(1, 1, "restarting", 101, asked_at=999.0), brokers=gone))
    assert (c.state, c.ask, c.note) == ("restarting", False, "It is away.")


def test_outside_of_a_house_the_operator_is_told_which_one_and_its_new_life_is_seen() -> None:
    seen = (broker(1, shunned=True, leaders=0), broker(2), broker(3))
    c = change(view(StepView(1, 1, "leaders_off", 101), brokers=seen, by_house=False))
    assert c.state == "restarting" and not c.ask and "Restart broker 1 now" in c.note
    tight = (replace(seen[0], blocked=1, blockers=("t-0: no.",)), *seen[1:])
    c = change(view(StepView(1, 1, "restarting", 101, asked_at=999.0), brokers=tight, by_house=False))
    assert c.note.startswith("Wait with it. Not safe yet")
    back = (broker(1, incarnation=777, shunned=True, leaders=0, out_of_sync=1), broker(2), broker(3))
    c = change(view(StepView(1, 1, "restarting", 101, asked_at=999.0), brokers=back, by_house=False))
    assert c.state == "catching_up" and "1 replica to go" in c.note


def test_a_turn_ends_when_it_has_stayed_in_sync_and_leadership_is_given_back() -> None:
    whole = (broker(1, incarnation=777, shunned=True, leaders=0), broker(2), broker(3))
    at = StepView(1, 1, "catching_up", 101, asked_at=990.0)
    c = change(view(at, brokers=whole))
    assert c.back is True and c.state == "catching_up"
    assert look(view(replace(at, back_at=999.0, note="In sync."), brokers=whole), 1000.0) == Look()
    c = change(view(replace(at, back_at=990.0, note="In sync."), brokers=whole))
    assert (c.state, c.shun) == ("done", False)
    behind = (replace(whole[0], out_of_sync=1), *whole[1:])
    assert change(view(replace(at, back_at=990.0), brokers=behind)).back is False


def test_leadership_that_somebody_else_took_off_is_not_given_back() -> None:
    shunned = (broker(1, shunned=True), broker(2), broker(3))
    assert change(view(StepView(1, 1, "waiting"), brokers=shunned)).leads_before is False
    at = StepView(1, 1, "catching_up", 101, back_at=990.0, leads_before=False)
    assert change(view(at, brokers=(broker(1, incarnation=777, shunned=True), broker(2), broker(3)))).shun is None


def test_paused_nobody_new_goes_and_who_has_gone_is_waited_for() -> None:
    assert look(view(StepView(1, 1, "waiting"), state="paused"), 1.0) == Look()
    c = change(view(StepView(1, 1, "leaders_off", 101), state="paused"))
    assert (c.state, c.shun) == ("waiting", False)
    back = (broker(1, incarnation=777), broker(2), broker(3))
    assert change(view(StepView(1, 1, "restarting", 101), brokers=back, state="paused")).state == "catching_up"


def test_a_cancelled_one_ends_once_nobody_is_under_way() -> None:
    assert look(view(StepView(1, 1, "done"), StepView(2, 2, "waiting"), state="cancelling"), 1.0).state == "cancelled"
    c = change(view(StepView(1, 1, "restarting", 101), state="cancelling", by_house=False))
    assert (c.state, c.shun) == ("waiting", False), "nobody has restarted it yet"


def test_who_cannot_be_restarted_is_said_at_once() -> None:
    seen = [broker(1), broker(2)]
    assert problem([1, 2], seen) is None
    assert "no broker 9" in (problem([1, 9], seen) or "")
    assert "named twice" in (problem([1, 1], seen) or "")
    assert "No broker" in (problem([], seen) or "")


# -- a whole one ------------------------------------------------------------------------------------------------------------
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(2, 5), st.booleans())
def test_whatever_happens_never_two_are_away_by_its_doing_and_all_had_their_turn(
    seed: int, count: int, by_house: bool
) -> None:
    """Brokers restart, lag and stumble at random times; looks come late, twice, on old figures; pauses come and go."""
    draw = random.Random(seed)
    seen = {i: broker(i) for i in range(1, count + 1)}
    steps = [StepView(i, i, "waiting") for i in seen]
    state, now, restarted = "running", 0.0, dict.fromkeys(seen, 0)
    asked: set[int] = set()
    for _ in range(3000):
        now += draw.choice([0.2, 1.0, 3.0])
        if draw.random() < 0.03 and state in ("running", "paused"):
            state = "paused" if state == "running" else "running"
        age = draw.choice([0.5, 1.0, 30.0])
        found = look(RestartView(state, by_house, tuple(steps), tuple(seen.values()), age), now)
        if found.state:
            state = found.state
            break
        if (c := found.change) is not None:
            s = steps[c.step_id - 1]
            b = seen[s.broker_id]
            if c.state == "restarting" and s.state == "leaders_off":
                assert b.alive and not b.leaders and not b.blocked and age < 6
                assert all(o.alive and not o.out_of_sync for o in seen.values() if o is not b)
                s = replace(s, asked_at=now)
            if c.ask:
                asked.add(s.broker_id)
            if c.shun is not None:
                seen[s.broker_id] = b = replace(b, shunned=c.shun)
            s = replace(s, state=c.state, note=c.note)
            if c.incarnation is not None:
                s = replace(s, incarnation=c.incarnation)
            if c.back is not None:
                s = replace(s, back_at=now if c.back else None)
            steps[c.step_id - 1] = s
        for i, b in list(seen.items()):  # the world goes on
            if b.shunned and b.leaders and draw.random() < 0.5:
                b = replace(b, leaders=0)
            if not b.shunned and b.alive and not b.out_of_sync and draw.random() < 0.5:
                b = replace(b, leaders=2)
            told = i in asked or (not by_house and any(s.broker_id == i and s.state == "restarting" for s in steps))
            if b.alive and told and draw.random() < 0.5 and restarted[i] == 0:
                restarted[i] += 1
                b = replace(b, alive=False, out_of_sync=2, leaders=0)
            elif not b.alive and draw.random() < 0.4:
                b = replace(b, alive=True, incarnation=b.incarnation + 500)
            elif b.alive and b.out_of_sync and draw.random() < 0.4:
                b = replace(b, out_of_sync=b.out_of_sync - 1)
            seen[i] = b
    assert state == "done"
    assert set(restarted.values()) == {1} and not any(b.shunned for b in seen.values())
