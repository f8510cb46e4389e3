"""How an iteration of the loop is divided, with a clock that only work advances."""

from __future__ import annotations

from collections.abc import Callable

from brokerd.net.fair_scheduler import (
    ACTIVE_S,
    ALONE_SHARE_S_MAX,
    BROKERS,
    BUSY_SHARE_S_MAX,
    ITERATION_S_MAX,
    SHARE_S_MAX,
    SHARE_S_MIN,
    FairScheduler,
)


class Clock:
    def __init__(self) -> None:
        self.s = 0.0

    def __call__(self) -> float:
        return self.s


class Requests:
    """Work of `left` steps, each of which costs `cost_s`."""

    def __init__(self, clock: Clock, name: str, left: int, cost_s: float, seen: list[str]) -> None:
        self.clock, self.name, self.left, self.cost_s, self.seen = clock, name, left, cost_s, seen
        self.then: Callable[[], None] = lambda: None

    def serve(self, until: float) -> bool:
        while self.left:
            self.left -= 1
            self.clock.s += self.cost_s
            self.seen.append(self.name)
            self.then()
            if self.clock.s >= until:
                break
        return self.left > 0


def test_each_principal_gets_its_share_of_a_turn() -> None:
    clock, seen = Clock(), []
    scheduler = FairScheduler(clock)
    scheduler.add("hostile", Requests(clock, "h", 10_000, 0.0005, seen))
    scheduler.add("quiet", Requests(clock, "q", 1, 0.0001, seen))
    scheduler.run()
    assert seen.count("q") == 1
    assert clock.s <= SHARE_S_MAX + 0.0005 + 0.0001
    assert scheduler.pending, "the rest is served in the next iteration without a new event"


def test_a_thousand_connections_of_one_principal_share_one_slice_in_order() -> None:
    clock, seen = Clock(), []
    scheduler = FairScheduler(clock)
    for i in range(1_000):
        scheduler.add("hostile", Requests(clock, str(i), 3, ALONE_SHARE_S_MAX, seen))
    scheduler.add("quiet", Requests(clock, "q", 1, 0.0001, seen))
    scheduler.run()
    assert seen == ["0", "q"]
    while scheduler.pending:
        scheduler.run()
    seen.remove("q")
    assert seen == [str(i) for _ in range(3) for i in range(1_000)], "each is served before one is served again"


def test_all_work_completes() -> None:
    clock, seen = Clock(), []
    scheduler = FairScheduler(clock)
    works = [Requests(clock, f"{o}{i}", i + 1, 0.0003, seen) for o in "abc" for i in range(20)]
    for work in works:
        scheduler.add(work.name[0], work)
    scheduler.add("a", works[0])  # a second add has no effect
    for _ in range(10_000):
        if not scheduler.pending:
            break
        scheduler.run()
    assert all(seen.count(w.name) == int(w.name[1:]) + 1 for w in works)


def test_one_long_request_delays_others_only_once() -> None:
    clock, seen = Clock(), []
    scheduler = FairScheduler(clock)
    scheduler.add("hostile", Requests(clock, "h", 5, 0.4, seen))
    scheduler.add("quiet", Requests(clock, "q", 1, 0.0001, seen))
    scheduler.run()
    assert seen == ["h", "q"]


def test_work_that_arrives_in_a_turn_is_served_in_it_within_the_share() -> None:
    clock, seen = Clock(), []
    scheduler = FairScheduler(clock)
    woken = Requests(clock, "woken", 1, 0.0001, seen)
    own = Requests(clock, "own", 1, 0.0001, seen)
    producer = Requests(clock, "producer", 1, 2 * ALONE_SHARE_S_MAX, seen)

    def wake() -> None:
        scheduler.add("reader", woken)
        scheduler.add("producer", own)

    producer.then = wake
    scheduler.add("producer", producer)
    scheduler.run()
    assert seen == ["producer", "woken"]
    scheduler.run()
    assert seen == ["producer", "woken", "own"]


def test_with_many_principals_the_slices_shrink_and_all_are_served() -> None:
    clock, seen = Clock(), []
    scheduler = FairScheduler(clock)
    for i in range(50):
        scheduler.add(i, Requests(clock, str(i), 1_000, 0.0001, seen))
    scheduler.run()
    assert {str(i) for i in range(50)} == set(seen)
    assert clock.s <= ITERATION_S_MAX + 50 * 0.0002
    for i in range(50, 2_000):
        scheduler.add(i, Requests(clock, str(i), 1, SHARE_S_MIN / 2, seen))
    scheduler.run()
    assert {str(i) for i in range(2_000)} == set(seen)


class OtherPrincipal:
    """A busy owner with endless work in steps of 0.1 ms, and a quiet one that has a short request every 10 ms."""

    def __init__(self) -> None:
        self.clock, self.seen = Clock(), list[str]()
        self.scheduler = FairScheduler(self.clock)
        self.scheduler.add("busy", Requests(self.clock, "b", 1_000_000, 0.0001, self.seen))

    def slice_s(self) -> float:
        """The length of the busy owner's next slice."""
        before = self.clock.s
        self.scheduler.run()
        return self.clock.s - before

    def add_quiet_principal(self) -> None:
        self.scheduler.add("quiet", Requests(self.clock, "q", 1, 0.0, self.seen))


def test_a_busy_principal_has_short_slices_while_others_are_active() -> None:
    other = OtherPrincipal()
    other.add_quiet_principal()
    other.slice_s()
    for _ in range(20):
        other.add_quiet_principal()
        assert other.slice_s() <= BUSY_SHARE_S_MAX + 0.0001
        other.clock.s += 0.01


def test_replication_does_not_shorten_the_slices_of_a_client() -> None:
    """Followers fetch what a slice appended, so short slices cost a fetch of each follower for a few appends."""
    other = OtherPrincipal()
    for _ in range(20):
        other.scheduler.add(BROKERS, Requests(other.clock, "f", 1, 0.0, other.seen))
        assert other.slice_s() >= ALONE_SHARE_S_MAX
    assert other.seen.count("f") == 20, "the followers are served in each iteration"
    other.add_quiet_principal()
    other.slice_s()
    other.scheduler.add(BROKERS, Requests(other.clock, "f", 1, 0.0, other.seen))
    assert other.slice_s() <= BUSY_SHARE_S_MAX + 0.0001, "another client is active"


def test_an_idle_principal_is_served_before_a_busy_one() -> None:
    """So that a request waits for the rest of the slice in which it arrives, and for no other."""
    other = OtherPrincipal()
    other.slice_s()
    for i in range(50):
        other.add_quiet_principal()
        before = len(other.seen)
        other.scheduler.run()
        assert other.seen[before] == "q" and other.seen[-1] == "b", f"iteration {i}"


def test_a_single_principal_has_long_slices_again() -> None:
    other = OtherPrincipal()
    other.add_quiet_principal()
    other.slice_s()
    assert other.slice_s() <= BUSY_SHARE_S_MAX + 0.0001
    other.clock.s += ACTIVE_S
    other.slice_s()
    assert other.slice_s() >= ALONE_SHARE_S_MAX, "short slices cost throughput"


def test_a_principal_that_finishes_its_work_is_not_busy() -> None:
    other = OtherPrincipal()
    for i in range(5):
        other.add_quiet_principal()
        other.slice_s()
        other.scheduler.add("large", Requests(other.clock, f"l{i}", 10, 0.0001, other.seen))
        other.slice_s()
        assert other.seen.count(f"l{i}") == 10, "1 ms of work fits into one slice"
