"""Jobs on another thread: results return to their owner, no result is lost, and waits are bounded."""

from __future__ import annotations

import select
import threading

import pytest

from brokerd.storage.jobs import URGENT_THREADS, Jobs


def pump_until_count(jobs: Jobs, until: list[object], count: int) -> None:
    while len(until) < count:
        assert select.select([jobs.fileno()], [], [], 10)[0], "a finished job never made itself heard"
        jobs.pump()


def test_results_return_in_order_on_the_callers_thread() -> None:
    jobs = Jobs()
    reported: list[object] = []
    here = threading.get_ident()
    ran: list[int] = []

    def on_done(error: BaseException | None) -> None:
        assert threading.get_ident() == here
        reported.append(error)

    for i in range(5):
        jobs.submit(lambda i=i: ran.append(i), on_done)
    pump_until_count(jobs, reported, 5)
    assert ran == [0, 1, 2, 3, 4] and reported == [None] * 5
    jobs.close()


def test_a_failure_is_a_result(caplog: pytest.LogCaptureFixture) -> None:
    jobs = Jobs()
    reported: list[object] = []

    def fail() -> None:
        raise OSError("disk on fire")

    jobs.background(fail)
    jobs.submit(fail, reported.append)
    pump_until_count(jobs, reported, 1)
    assert isinstance(reported[0], OSError)
    assert "disk on fire" in caplog.text
    jobs.close()


def test_closing_waits_for_the_running_job_and_drops_the_others() -> None:
    jobs = Jobs()
    started, go = threading.Event(), threading.Event()
    ran: list[str] = []

    def run_first() -> None:
        started.set()
        go.wait(10)
        ran.append("first")

    jobs.submit(run_first, lambda error: None)
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


def test_urgent_jobs_do_not_wait_behind_long_ones() -> None:
    jobs = Jobs()
    go, reported = threading.Event(), []
    jobs.submit(lambda: go.wait(60), lambda error: reported.append("compacted"))
    for _ in range(8):
        jobs.submit(lambda: None, lambda error: reported.append("flushed"), urgent=True)
    pump_until_count(jobs, reported, 8)
    assert reported == ["flushed"] * 8
    go.set()
    pump_until_count(jobs, reported, 9)
    jobs.close()


def test_an_unused_pool_closes() -> None:
    Jobs().close()


def test_threads_that_wait_for_a_hung_disk_are_replaced() -> None:
    jobs = Jobs()
    probes = jobs.lane("probes", 1, replaceable=False)
    go, started, reported = threading.Event(), threading.Semaphore(0), []

    def wait_for_release() -> None:
        started.release()
        go.wait(60)

    for _ in range(URGENT_THREADS):
        jobs.submit(wait_for_release, lambda error: reported.append("hung"), urgent=True)
    probes.submit(wait_for_release, lambda error: reported.append("probe"))
    for _ in range(URGENT_THREADS + 1):
        assert started.acquire(timeout=10)
    jobs.submit(lambda: None, lambda error: reported.append("flushed"), urgent=True)
    assert jobs.replace_stuck(3600) == 0, "they have not run for long"
    assert jobs.replace_stuck(0) == URGENT_THREADS
    pump_until_count(jobs, reported, 1)
    assert reported == ["flushed"]
    go.set()
    pump_until_count(jobs, reported, URGENT_THREADS + 2)
    assert sorted(reported) == ["flushed", *["hung"] * URGENT_THREADS, "probe"]
    jobs.close()
