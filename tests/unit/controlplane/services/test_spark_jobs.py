"""Spark jobs: rejections, one active run, schedules, deletion."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from controlplane.models import Change, SparkJob, SparkRun
from controlplane.models.spark import SparkRunState
from controlplane.selectors import spark_jobs as selectors
from controlplane.services import Rejected, spark_jobs, spark_runs
from tests.unit.controlplane.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(spark_jobs, "find_java", lambda: Path("java"))
    world = World(brokers=1)
    world.topic("orders", (1,))
    world.topic("flights", (1,))
    return world


def create(name: str = "nightly", kind: str = "profile", **more: Any) -> SparkJob:
    parameters = more.pop("parameters", {"topics": ["orders"]})
    return spark_jobs.create_spark_job(name, kind, parameters, actor="alice", **more)


def test_a_job_has_all_parameters_and_a_requested_run() -> None:
    job = create()
    assert job.parameters == {"topics": ["orders"], "records_per_partition": 100_000}
    run = SparkRun.objects.get(job=job)
    assert run.state == SparkRunState.REQUESTED and run.parameters == job.parameters
    row = selectors.job_row(job.pk)
    assert row is not None and (row.state, row.can) == ("requested", ["stop"])
    assert Change.objects.get(verb="spark_job.create").after["topics"] == ["orders"]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"kind": "x"}, "kind"),
        ({"name": " "}, "name"),
        ({"parameters": {}}, "parameters.topics"),
        ({"parameters": {"topics": ["absent"]}}, "parameters.topics"),
        ({"parameters": {"topics": ["orders"], "x": 1}}, "parameters.x"),
        ({"schedule": "x"}, "schedule"),
        ({"schedule": "0 0 30 2 *"}, "schedule"),
        ({"kind": "archive", "schedule": "* * * * *"}, "schedule"),
    ],
)
def test_an_invalid_job_is_rejected_with_its_field(values: dict[str, Any], field: str) -> None:
    with pytest.raises(Rejected) as error:
        create(**values)
    assert error.value.field == field
    assert not SparkJob.objects.exists()


def test_names_are_unique_until_a_job_is_deleted() -> None:
    job = create(start=False)
    with pytest.raises(Rejected, match="exists already"):
        create()
    spark_jobs.delete_spark_job(job.pk, actor="alice")
    create()
    assert selectors.job_row(job.pk) is None


def test_a_topic_has_one_archive() -> None:
    create("a", "archive", parameters={"topics": ["orders", "flights"]})
    with pytest.raises(Rejected, match="'orders' is archived by the job 'a'"):
        create("b", "archive")


def test_a_job_has_one_active_run_and_is_not_deleted_meanwhile() -> None:
    job = create()
    with pytest.raises(Rejected, match="active run"):
        spark_jobs.run_spark_job(job.pk, actor="alice")
    with pytest.raises(Rejected, match="active run"):
        spark_jobs.delete_spark_job(job.pk, actor="alice")
    spark_jobs.stop_spark_job(job.pk, actor="alice")
    with pytest.raises(Rejected, match="no active run"):
        spark_jobs.stop_spark_job(job.pk, actor="alice")
    assert spark_runs.advance_run(SparkRun.objects.get(job=job).pk) == SparkRunState.STOPPED
    spark_jobs.run_spark_job(job.pk, actor="alice")
    assert selectors.run_list(job.pk).total == 2


def test_a_due_schedule_requests_one_run_and_skips_the_time_of_an_active_one() -> None:
    job = create(schedule="*/5 * * * *", start=False)
    assert job.next_run_at is not None and spark_runs.request_due_runs() == 0
    SparkJob.objects.update(next_run_at=timezone.now() - timedelta(minutes=1))
    assert spark_runs.request_due_runs() == 1
    SparkJob.objects.update(next_run_at=timezone.now() - timedelta(minutes=1))
    assert spark_runs.request_due_runs() == 0
    job.refresh_from_db()
    assert job.next_run_at > timezone.now()
    assert SparkRun.objects.get(job=job).actor == spark_runs.SCHEDULER
    spark_jobs.schedule_spark_job(job.pk, "", actor="alice")
    job.refresh_from_db()
    assert job.next_run_at is None
