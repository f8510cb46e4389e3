"""Jobs of the monitor."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import Any

import pytest
from django.db import DatabaseError

from controlplane.monitoring import periodic
from controlplane.monitoring.periodic import PeriodicJob


class ManualExecutor(Executor):
    def __init__(self) -> None:
        self.submitted: list[Any] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submitted.append(fn)
        return Future()


@pytest.mark.parametrize("error", [None, DatabaseError("locked"), ValueError("defect")])
def test_a_job_runs_when_due_one_at_a_time_also_after_errors(
    error: Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(periodic.connection, "close", lambda: None)
    pool, runs = ManualExecutor(), []

    def run_and_fail() -> None:
        runs.append(1)
        if error is not None:
            raise error

    job = PeriodicJob("test", run_and_fail, 1000, 500)
    for now in (0, 499, 500, 600, 1600):
        job.poll(pool, now)
    assert len(pool.submitted) == 1, "the first run is not over"
    pool.submitted[0]()
    job.poll(pool, 1600)
    assert len(pool.submitted) == 2 and len(runs) == 1
