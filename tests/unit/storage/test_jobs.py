"""Work on another thread: outcomes come back where they belong, and nothing is lost or waited for too long."""

from __future__ import annotations

import select
import threading

import pytest

from brokerd.storage.jobs import Jobs


def pumped(jobs: Jobs, until: list[object], count: int) -> None:
    while len(until) < count:
        assert select.select([jobs.fileno()], [], [], 10)[0], "a finished job never made itself heard"
        jobs.pump()


def test_outcomes_come_back_in_order_on_the_callers_thread() -> None:
    jobs = Jobs()
    told: list[object] = []
    here = threading.get_ident()
    ran: list[int] = []

    def done(error: BaseException | None) -> None:
        assert threading.get_ident() == here
        told.append(error)

    for i in range(5):
        jobs.submit(lambda i=i: ran.append(i), done)
    pumped(jobs, told, 5)
    assert ran == [0, 1, 2, 3, 4] and told == [None] * 5
    jobs.close()


def test_a_failure_is_an_outcome(caplog: pytest.LogCaptureFixture) -> None:
    jobs = Jobs()
    told: list[object] = []

    def fail() -> None:
        raise OSError("disk on fire")

    jobs.background(fail)
    jobs.submit(fail, told.append)
    pumped(jobs, told, 1)
    assert isinstance(told[0], OSError)
    assert "disk on fire" in caplog.text
    jobs.close()


def test_closing_waits_for_the_job_under_way_and_drops_the_rest() -> None:
    jobs = Jobs()
    started, go = threading.Event(), threading.Event()
    ran: list[str] = []

    def first() -> None:
        started.set()
        go.wait(10)
        ran.append("first")

    jobs.submit(first, lambda error: None)
    for name in ("second", "third"):
        jobs.submit(lambda name=name: ran.append(name), lambda error: None)
    assert started.wait(10)
    closer = threading.Thread(target=jobs.close)
    closer.start()
    while jobs.waiting:  # close has dropped the others
        threading.Event().wait(0.001)
    go.set()
    closer.join(10)
    assert ran == ["first"]


def test_what_somebody_waits_for_does_not_stand_behind_what_takes_long() -> None:
    jobs = Jobs()
    go, told = threading.Event(), []
    jobs.submit(lambda: go.wait(60), lambda error: told.append("compacted"))
    for _ in range(8):
        jobs.submit(lambda: None, lambda error: told.append("flushed"), urgent=True)
    pumped(jobs, told, 8)
    assert told == ["flushed"] * 8
    go.set()
    pumped(jobs, told, 9)
    jobs.close()


def test_a_pool_that_was_never_used_closes() -> None:
    Jobs().close()
