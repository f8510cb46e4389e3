"""Rows of Spark jobs and runs: the report of the driver, and the possible operations."""

from __future__ import annotations

import pytest

from controlplane.models import SparkJob, SparkRun
from controlplane.selectors import spark_jobs as selectors

pytestmark = pytest.mark.django_db


def job(name: str, *states: str) -> SparkJob:
    row = SparkJob.objects.create(name=name, kind="profile", parameters={}, actor="alice")
    for state in states:
        SparkRun.objects.create(job=row, state=state, actor="alice", status={"rows": 7})
    return row


@pytest.mark.parametrize(
    ("states", "state", "can"),
    [
        ((), selectors.NEVER, ["run", "delete"]),
        (("failed", "running"), "running", ["stop"]),
        (("stopping",), "stopping", []),
        (("finished",), "finished", ["run", "delete"]),
    ],
)
def test_a_job_shows_its_last_run(states: tuple[str, ...], state: str, can: list[str]) -> None:
    row = selectors.job_row(job("a", *states).pk)
    assert row is not None and (row.state, row.can) == (state, can)
    assert row.rows == (7 if states else None)


def test_the_number_of_queries_of_a_list_is_constant(django_assert_num_queries: object) -> None:
    for n in range(5):
        job(f"job-{n}", "finished")
    with django_assert_num_queries(3):  # type: ignore[operator]
        assert len(selectors.job_list().rows) == 5


def test_a_run_without_a_report() -> None:
    row = job("a", "requested")
    run = selectors.run_list(row.pk).rows[0]
    assert (run.report, run.batches, run.error, run.kind) == ([], None, "", "profile")
    assert selectors.run_row(99) is None and selectors.job_row(99) is None
    assert [k.name for k in selectors.kinds()]
