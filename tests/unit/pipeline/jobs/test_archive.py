"""A Python worker that connects slowly restarts the query, not the driver. Any other failure ends the query."""

from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException

from pipeline.jobs.archive import SLOW_WORKER, STARTS_MAX, run_with_retries

SLOW = StreamingQueryException(f"[STREAM_FAILED] Query terminated with exception: {SLOW_WORKER}.")


class Query:
    def __init__(self, *fails: Exception) -> None:
        self.fails, self.starts = list(fails), 0

    def __call__(self) -> None:
        self.starts += 1
        if self.fails:
            raise self.fails.pop(0)


def test_the_job_is_retried_while_its_python_worker_is_slow() -> None:
    query = Query(SLOW, SLOW)
    run_with_retries(query, lambda: False)
    assert query.starts == 3


def test_the_retries_are_bounded_and_end_at_a_stop_request() -> None:
    for stopping, starts in ((False, STARTS_MAX), (True, 1)):
        query = Query(*[SLOW] * (STARTS_MAX + 1))
        with pytest.raises(StreamingQueryException, match=SLOW_WORKER):
            run_with_retries(query, lambda stopping=stopping: stopping)  # type: ignore[misc]
        assert query.starts == starts


def test_another_failure_ends_the_job() -> None:
    query = Query(StreamingQueryException("records were lost"))
    with pytest.raises(StreamingQueryException, match="lost"):
        run_with_retries(query, lambda: False)
    assert query.starts == 1
