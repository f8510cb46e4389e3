"""Delayed operations: each completes, fails or expires exactly once, in any order of events."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from brokerd.net.fair_scheduler import FairScheduler
from brokerd.replication.purgatory import FORGET_FROM, WAITERS_MAX, DelayedOperation, Purgatory, WaitingFetches
from brokerd.security.principals import ANONYMOUS


class Promise:
    def __init__(self, keys: tuple[str, ...] = ("a",)) -> None:
        self.ready = False
        self.ended: list[bool] = []
        self.waiter = DelayedOperation(keys, lambda: self.ready, self.ended.append)


def test_a_completed_operation_does_not_wait() -> None:
    purgatory, promise = Purgatory(), Promise()
    promise.ready = True
    purgatory.add(promise.waiter, 100)
    assert (promise.ended, len(purgatory)) == ([False], 0)


def test_a_check_of_any_key_completes_the_operation_once() -> None:
    purgatory, promise = Purgatory(), Promise(("a", "b"))
    purgatory.add(promise.waiter, 100)
    purgatory.check("b")
    assert promise.ended == []
    promise.ready = True
    purgatory.check("other")
    assert promise.ended == []
    purgatory.check("b")
    purgatory.check("a")
    purgatory.expire(1000)
    assert (promise.ended, len(purgatory), purgatory.next_deadline()) == ([False], 0, None)


class CountingNeeds(dict[str, int]):
    """Needs that count their uses."""

    def __init__(self, **needs: int) -> None:
        super().__init__(needs)
        self.uses = 0

    def __getitem__(self, key: str) -> int:
        self.uses += 1
        return super().__getitem__(key)


def promise_with_needs(purgatory: Purgatory, value: int) -> tuple[Promise, CountingNeeds]:
    promise, needs = Promise(), CountingNeeds(a=value)
    promise.waiter.needs = needs
    purgatory.add(promise.waiter, 1_000)
    needs.uses = 0
    return promise, needs


def test_growth_below_every_needed_size_checks_no_operation() -> None:
    """A thousand connections whose fetches wait for a gigabyte must not slow the appends of others down."""
    purgatory = Purgatory()
    waiting = [promise_with_needs(purgatory, 100 + i) for i in range(50)]
    for grown in range(100):
        purgatory.check("a", grown)
    assert sum(needs.uses for _, needs in waiting) == 0
    for promise, _ in waiting:
        promise.ready = True
    purgatory.check("a", 101)
    assert [bool(p.ended) for p, _ in waiting] == [True, True] + [False] * 48
    for _, needs in waiting:
        needs.uses = 0
    purgatory.check("a", 101)
    assert sum(needs.uses for _, needs in waiting) == 0, "the next need is 102"
    late, _ = promise_with_needs(purgatory, 50)
    late.ready = True
    purgatory.check("a", 60)
    assert late.ended == [False], "a later operation may need less"
    purgatory.check("a")
    assert all(p.ended == [False] for p, _ in waiting), "another change may complete any operation"


def test_an_incomplete_check_updates_the_needed_size() -> None:
    purgatory = Purgatory()
    promise, _ = promise_with_needs(purgatory, 10)
    purgatory.check("a", 10)
    promise.waiter.needs = None
    purgatory.check("a", 11)
    promise.ready = True
    purgatory.check("a", 0)
    assert promise.ended == [False], "without a need any change is enough"


def test_an_operation_expires_once() -> None:
    purgatory, promise = Purgatory(), Promise()
    purgatory.add(promise.waiter, 100)
    purgatory.expire(99)
    assert promise.ended == []
    assert purgatory.next_deadline() == 100
    purgatory.expire(100)
    purgatory.check("a")
    assert (promise.ended, len(purgatory)) == ([True], 0)


def test_above_the_limit_an_operation_of_a_client_expires_immediately_and_one_of_a_broker_does_not() -> None:
    purgatory = Purgatory()
    purgatory._live_of_clients = WAITERS_MAX
    promise, brokers = Promise(), Promise()
    brokers.waiter.client = False
    purgatory.add(promise.waiter, 100)
    purgatory.add(brokers.waiter, 100)
    assert (promise.ended, brokers.ended) == ([True], [])
    brokers.ready = True
    purgatory.check("a")
    assert brokers.ended == [False]
    assert purgatory._live_of_clients == WAITERS_MAX


def test_growth_checks_only_operations_whose_needed_size_is_reached() -> None:
    purgatory = Purgatory()
    requested: list[str] = []
    needs = {"little": 10, "much": 1_000_000_000, "any": None}
    for name, least in needs.items():
        waiter = DelayedOperation(("a",), lambda name=name: bool(requested.append(name)), lambda expired: None)  # type: ignore[misc]
        purgatory.add(waiter, 100)
        waiter.needs = None if least is None else {"a": least}
    requested.clear()
    purgatory.check("a", grown=9)
    assert requested == ["any"]
    purgatory.check("a", grown=10)
    assert requested == ["any", "little", "any"]
    purgatory.check("a")  # not caused by an append: all operations are checked
    assert requested[3:] == ["little", "much", "any"]


def test_an_operation_with_a_principal_is_checked_once_in_the_turn_of_the_principal() -> None:
    scheduler = FairScheduler(lambda: 0.0)
    purgatory = Purgatory(scheduler)
    requested = 0

    def send_request() -> bool:
        nonlocal requested
        requested += 1
        return False

    ended: list[bool] = []
    for _ in range(100):
        purgatory.add(DelayedOperation(("a",), send_request, ended.append, owner="reader"), 500)
    brokers = Promise()
    purgatory.add(brokers.waiter, 500)
    requested, brokers.ready = 0, True
    for _ in range(50):
        purgatory.check("a")
    assert (requested, brokers.ended) == (0, [False]), "the change itself asks brokers' promises only"
    scheduler.run()
    assert requested == 100
    purgatory.check("a")
    purgatory.expire(500)
    assert ended == []
    scheduler.run()
    assert (ended, len(purgatory), requested) == ([True] * 100, 0, 100)


def test_an_abandoned_operation_ends_once_and_is_removed() -> None:
    scheduler = FairScheduler(lambda: 0.0)
    purgatory, promise = Purgatory(scheduler), Promise()
    promise.waiter.owner = "reader"
    purgatory.add(promise.waiter, 500)
    purgatory.check("a")
    purgatory.abandon(promise.waiter)
    purgatory.abandon(promise.waiter)
    scheduler.run()
    purgatory.expire(500)
    scheduler.run()
    assert (promise.ended, len(purgatory)) == ([True], 0)


def test_waiting_fetches_are_counted_by_principal_and_by_address() -> None:
    limits = {"principal": 2, "address": 3}
    waiting = WaitingFetches(lambda: limits["principal"], lambda: limits["address"])
    assert [waiting.acquire("User:a", f"10.0.0.{i}") for i in range(3)] == [True, True, False]
    assert [waiting.acquire(f"User:{i}", "10.0.0.9") for i in range(4)] == [True, True, True, False]
    assert [waiting.acquire(ANONYMOUS, f"10.0.1.{i}") for i in range(9)] == [True] * 9, "who is nobody is many"
    waiting.release("User:a", "10.0.0.0")
    assert waiting.acquire("User:a", "10.0.0.0")
    limits["principal"] = 9
    assert waiting.acquire("User:a", "10.0.0.7")
    for principal, address in [("User:a", "10.0.0.0"), ("User:a", "10.0.0.1"), ("User:a", "10.0.0.7")]:
        waiting.release(principal, address)
    assert "User:a" not in waiting.by_principal


def test_a_completed_operation_may_create_another_during_the_check() -> None:
    purgatory = Purgatory()
    second = Promise()
    first = DelayedOperation(("a",), lambda: ready[0], lambda expired: purgatory.add(second.waiter, 200))
    ready = [False]
    purgatory.add(first, 100)
    ready[0] = True
    purgatory.check("a")
    assert len(purgatory) == 1
    second.ready = True
    purgatory.check("a")
    assert second.ended == [False]


def test_completed_operations_are_released_before_their_deadlines() -> None:
    """A producer's time-out is half a minute; each operation kept its request in memory until then."""
    purgatory, late = Purgatory(), Promise()
    purgatory.add(late.waiter, 60_000)
    for n in range(5 * FORGET_FROM):
        promise = Promise(("busy",))
        purgatory.add(promise.waiter, 30_000 + n)
        promise.ready = True
        purgatory.check("busy")
        assert promise.ended == [False]
    assert len(purgatory._deadlines) <= FORGET_FROM + 4
    assert [*purgatory._by_deadline] == [60_000] == [purgatory.next_deadline()]
    purgatory.expire(60_000)
    assert late.ended == [True] and purgatory.next_deadline() is None


def test_operations_with_the_same_deadline_expire_together() -> None:
    purgatory = Purgatory()
    first, second, later = Promise(), Promise(), Promise()
    for promise, deadline in ((first, 5), (second, 5), (later, 6)):
        purgatory.add(promise.waiter, deadline)
    first.ready = True
    purgatory.check("a")
    again = Promise()
    purgatory.add(again.waiter, 5)
    purgatory.expire(5)
    assert [p.ended for p in (first, second, later, again)] == [[False], [True], [], [True]]
    assert len(purgatory) == 1 and purgatory.next_deadline() == 6


@given(st.lists(st.tuples(st.sampled_from(["add", "ready", "check", "expire"]), st.integers(0, 5)), max_size=60))
@settings(max_examples=200, deadline=None)
def test_each_operation_ends_exactly_once(story: list[tuple[str, int]]) -> None:
    purgatory, made, now = Purgatory(), [], 0
    for what, i in story:
        if what == "add":
            promise = Promise((f"k{i}", f"k{i + 1}"))
            made.append(promise)
            purgatory.add(promise.waiter, now + i * 10)
        elif what == "ready" and made:
            made[i % len(made)].ready = True
        elif what == "check":
            purgatory.check(f"k{i}")
        else:
            now += i * 5
            purgatory.expire(now)
    purgatory.expire(now + 10_000)
    assert [len(p.ended) for p in made] == [1] * len(made)
    assert len(purgatory) == 0
    assert not purgatory._by_key
