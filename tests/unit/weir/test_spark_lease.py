"""The lease of Spark drivers: its holder, its end, and the drivers that its loss ends. Time is a counter of this file."""

from __future__ import annotations

import threading
from collections.abc import Callable

from weir.spark_lease import EXIT_STATUS, LEASE_SECONDS, TAKEOVER_SECONDS, SparkLease


class FakeLock:
    """`free`: the next attempts acquire the lock. `had`: whether this process has it."""

    needed = True

    def __init__(self, clock: FakeClock, *, free: bool = True) -> None:
        self.free, self.had, self._clock = free, False, clock
        self.response_seconds = 0.0

    def acquire(self) -> bool:
        self.had = self.free
        return self.had

    def is_held(self) -> bool:
        self._clock.now += self.response_seconds
        return self.had


class FakeClock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now


class RecordedEnds:
    def __init__(self) -> None:
        self.done: list[object] = []

    def lease(self, lock: FakeLock, clock: FakeClock, sleep: Callable[[float], object] = lambda s: None) -> SparkLease:
        return SparkLease(
            lock,
            lambda: self.done.append("drivers"),
            exit_process=self.done.append,
            monotonic=clock.monotonic,
            sleep=sleep,
        )


def test_the_loss_of_the_lease_ends_drivers_and_worker_before_another_worker_starts_them() -> None:
    clock, ends = FakeClock(), RecordedEnds()
    lock = FakeLock(clock)
    lease = ends.lease(lock, clock)
    assert lease.renew() and not lease.end_if_expired()
    lock.had = lock.free = False  # another worker got it in this moment
    clock.now += LEASE_SECONDS - 1
    assert not lease.renew() and not lease.end_if_expired()
    clock.now += 1
    assert lease.end_if_expired() and ends.done == ["drivers", EXIT_STATUS]
    assert LEASE_SECONDS < TAKEOVER_SECONDS


def test_a_lock_that_was_lost_with_its_connection_and_is_free_is_acquired_again() -> None:
    clock, ends = FakeClock(), RecordedEnds()
    lock = FakeLock(clock)
    lease = ends.lease(lock, clock)
    assert lease.renew()
    lock.had = False  # the database was restarted
    clock.now += LEASE_SECONDS - 1
    assert lease.renew()
    clock.now += LEASE_SECONDS - 1
    assert not lease.end_if_expired() and ends.done == []


def test_the_lease_counts_from_the_question_and_not_from_the_response() -> None:
    """The server may have given the lock away a moment after it has sent the response."""
    clock, ends = FakeClock(), RecordedEnds()
    lock = FakeLock(clock)
    lease = ends.lease(lock, clock)
    lock.had, lock.response_seconds = True, LEASE_SECONDS
    assert lease.renew() and lease.end_if_expired()


def test_a_worker_on_the_only_machine_does_not_wait_for_the_lease() -> None:
    clock, ends = FakeClock(), RecordedEnds()
    lock = FakeLock(clock, free=False)
    lock.needed = False
    ends.lease(lock, clock).wait(lambda: None)


def test_a_worker_on_standby_waits_for_the_lease_and_then_for_the_drivers_of_the_former_holder() -> None:
    clock, ends = FakeClock(), RecordedEnds()
    lock = FakeLock(clock, free=False)
    on_standby, main = threading.Event(), threading.current_thread()
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        if threading.current_thread() is main:
            slept.append(seconds)
        elif lock.had:
            threading.Event().wait()  # the threads of the lease have nothing more to do in this test
        else:
            on_standby.set()
            lock_is_free.wait(60)

    lock_is_free = threading.Event()
    waits: list[int] = []

    def wait_for_lease() -> None:
        waits.append(1)
        on_standby.wait(60)
        lock.free = True
        lock_is_free.set()

    ends.lease(lock, clock, sleep).wait(wait_for_lease)
    assert sum(slept) == TAKEOVER_SECONDS and len(waits) > len(slept) and ends.done == []
