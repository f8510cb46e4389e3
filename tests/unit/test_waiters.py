"""Promises: each is kept, failed or expired exactly once, whatever order things happen in."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd.waiters import FORGET_FROM, WAITERS_MAX, Waiter, Waiters


class Promise:
    def __init__(self, keys: tuple[str, ...] = ("a",)) -> None:
        self.ready = False
        self.ended: list[bool] = []
        self.waiter = Waiter(keys, lambda: self.ready, self.ended.append)


def test_what_is_complete_already_does_not_wait() -> None:
    waiters, promise = Waiters(), Promise()
    promise.ready = True
    waiters.add(promise.waiter, 100)
    assert (promise.ended, len(waiters)) == ([False], 0)


def test_a_check_of_one_of_its_keys_completes_it_once() -> None:
    waiters, promise = Waiters(), Promise(("a", "b"))
    waiters.add(promise.waiter, 100)
    waiters.check("b")
    assert promise.ended == []
    promise.ready = True
    waiters.check("other")
    assert promise.ended == []
    waiters.check("b")
    waiters.check("a")
    waiters.expire(1000)
    assert (promise.ended, len(waiters), waiters.next_deadline()) == ([False], 0, None)


def test_time_runs_out_once() -> None:
    waiters, promise = Waiters(), Promise()
    waiters.add(promise.waiter, 100)
    waiters.expire(99)
    assert promise.ended == []
    assert waiters.next_deadline() == 100
    waiters.expire(100)
    waiters.check("a")
    assert (promise.ended, len(waiters)) == ([True], 0)


def test_beyond_the_limit_a_promise_expires_at_once(monkeypatch: object) -> None:
    waiters = Waiters()
    waiters._live = WAITERS_MAX
    promise = Promise()
    waiters.add(promise.waiter, 100)
    assert promise.ended == [True]


def test_a_promise_completed_may_make_another_while_it_is_checked() -> None:
    waiters = Waiters()
    second = Promise()
    first = Waiter(("a",), lambda: ready[0], lambda expired: waiters.add(second.waiter, 200))
    ready = [False]
    waiters.add(first, 100)
    ready[0] = True
    waiters.check("a")
    assert len(waiters) == 1
    second.ready = True
    waiters.check("a")
    assert second.ended == [False]


def test_promises_that_are_kept_are_let_go_long_before_their_deadlines() -> None:
    """A producer's have half a minute; each held its request in memory until then."""
    waiters, late = Waiters(), Promise()
    waiters.add(late.waiter, 60_000)
    for _ in range(5 * FORGET_FROM):
        promise = Promise(("busy",))
        waiters.add(promise.waiter, 30_000)
        promise.ready = True
        waiters.check("busy")
        assert promise.ended == [False]
    assert len(waiters._deadlines) <= FORGET_FROM + 4
    waiters.expire(60_000)
    assert late.ended == [True]


@given(st.lists(st.tuples(st.sampled_from(["add", "ready", "check", "expire"]), st.integers(0, 5)), max_size=60))
@settings(max_examples=200, deadline=None)
def test_each_ends_exactly_once(story: list[tuple[str, int]]) -> None:
    waiters, made, now = Waiters(), [], 0
    for what, i in story:
        if what == "add":
            promise = Promise((f"k{i}", f"k{i + 1}"))
            made.append(promise)
            waiters.add(promise.waiter, now + i * 10)
        elif what == "ready" and made:
            made[i % len(made)].ready = True
        elif what == "check":
            waiters.check(f"k{i}")
        else:
            now += i * 5
            waiters.expire(now)
    waiters.expire(now + 10_000)
    assert [len(p.ended) for p in made] == [1] * len(made)
    assert len(waiters) == 0
    assert not waiters._by_key
