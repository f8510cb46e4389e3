"""When a worker counts as hanging."""

from __future__ import annotations

import pytest
from celery import Celery

from tests.cluster.local import free_port
from weir import celery as worker
from weir.worker_watchdog import HANG_SECONDS_MAX, WorkerProgress, WorkerWatchdog

LATE = HANG_SECONDS_MAX + 1


def test_a_worker_that_completes_tasks_works() -> None:
    progress = WorkerProgress(0.0)
    progress.on_task_completed(LATE)
    assert progress.works(LATE + HANG_SECONDS_MAX - 1, lambda: pytest.fail("asked the transport"))


def test_a_worker_without_a_completed_task_hangs_until_it_completes_one(caplog: pytest.LogCaptureFixture) -> None:
    progress = WorkerProgress(0.0)
    assert progress.works(HANG_SECONDS_MAX - 1, lambda: True)
    assert not progress.works(LATE, lambda: True) and not progress.works(LATE + 10, lambda: True)
    assert caplog.text.count("worker hangs") == 1
    progress.on_task_completed(LATE + 20)
    assert progress.works(LATE + 20, lambda: True)


def test_a_time_without_the_transport_does_not_count() -> None:
    progress = WorkerProgress(0.0)
    assert progress.works(LATE, lambda: False)
    assert progress.works(LATE + HANG_SECONDS_MAX - 1, lambda: True), "the transport answers again, tasks follow"
    assert not progress.works(LATE + LATE, lambda: True)


def test_an_unreachable_transport_does_not_respond() -> None:
    app = Celery("unreachable", broker=f"redis://127.0.0.1:{free_port()}/0")
    assert not WorkerWatchdog(app)._transport_responds()


def test_the_transport_of_a_local_cluster_answers() -> None:
    assert WorkerWatchdog(worker.app)._transport_responds()


def test_a_completed_task_counts_as_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Celery("counted", broker="memory://")
    app.conf.task_always_eager = True
    counted: list[int] = []
    monkeypatch.setattr(worker.watchdog, "on_task_completed", lambda: counted.append(1))

    @app.task(name="nothing")
    def do_nothing() -> None:
        pass

    do_nothing.delay()
    assert counted == [1]
