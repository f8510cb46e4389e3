"""The alert about Spark jobs whose worker does not poll, and the record of its polls."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from controlplane import tasks
from controlplane.models import ArchiveJob, Cluster, SparkJob, SparkRun
from controlplane.selectors import alerts as selectors
from controlplane.selectors.overview import overview
from controlplane.services import alerts
from tests.unit.controlplane.world import World


@pytest.mark.django_db
def test_unfinished_spark_jobs_whose_worker_does_not_poll_are_an_alert(world: World) -> None:
    now = timezone.now()

    def time_ago(seconds: float) -> datetime:
        return now - timedelta(seconds=seconds)

    def alert_kinds(polled_s: float | None, monitored_s: float = 1_000) -> list[str]:
        Cluster.objects.update(spark_worker_polled_at=None if polled_s is None else time_ago(polled_s))
        alerts.evaluate(monitored_since=time_ago(monitored_s))
        return [a.kind for a in selectors.open_alerts()]

    job = SparkJob.objects.create(name="nightly", kind="compact", actor="ann")
    assert alert_kinds(None) == alert_kinds(3_600) == [], "no job needs a worker"
    SparkJob.objects.update(next_run_at=now + timedelta(minutes=5))
    assert alert_kinds(3_600) == [], "the next run is not due"
    SparkJob.objects.update(next_run_at=time_ago(100))
    assert alert_kinds(3_600) == [], "the run has waited for less than two minutes"
    SparkJob.objects.update(next_run_at=time_ago(130))
    assert alert_kinds(3_600) == alert_kinds(None) == ["spark_worker_silent"], (
        "the worker that requests the run does not run"
    )
    assert (overview().health.word, overview().health.reason) == ("degraded", "No worker of Spark jobs is running.")
    assert alert_kinds(3_600, monitored_s=5) == [], "the whole cluster was stopped for an hour"
    assert alert_kinds(5) == []

    SparkJob.objects.update(next_run_at=None)
    run = SparkRun.objects.create(job=job, actor="ann")
    assert alert_kinds(3_600) == []
    SparkRun.objects.update(created_at=time_ago(500))
    assert alert_kinds(3_600) == ["spark_worker_silent"] and alert_kinds(100) == []
    SparkRun.objects.filter(pk=run.pk).update(state="finished")
    assert alert_kinds(3_600) == []

    archive = ArchiveJob.objects.create(topics=["orders"], actor="ann")
    ArchiveJob.objects.filter(pk=archive.pk).update(created_at=time_ago(500))
    assert alert_kinds(3_600) == ["spark_worker_silent"]
    ArchiveJob.objects.filter(pk=archive.pk).update(state="stopped")
    assert alert_kinds(3_600) == []


@pytest.mark.django_db
def test_the_alert_names_the_jobs_that_wait_longest(world: World) -> None:
    now = timezone.now()
    archive = ArchiveJob.objects.create(topics=["orders"], actor="ann")
    ArchiveJob.objects.filter(pk=archive.pk).update(created_at=now - timedelta(seconds=500))
    for number in range(4):
        due = now - timedelta(seconds=600 - 10 * number)
        job = SparkJob.objects.create(name=f"job-{number}", kind="compact", actor="ann", next_run_at=due)
        SparkRun.objects.create(job=job, actor="ann")
    SparkJob.objects.create(name="later", kind="compact", actor="ann", next_run_at=now + timedelta(hours=1))
    alerts.evaluate(monitored_since=now - timedelta(hours=1))
    (alert,) = selectors.open_alerts()
    assert alert.text == (
        "No worker of Spark jobs is running: nothing starts, restarts or finishes 5 jobs (job-0, job-1, job-2 and 2 more)."
    )
    SparkRun.objects.all().delete()
    SparkJob.objects.update(next_run_at=None)
    alerts.evaluate(monitored_since=now - timedelta(hours=1))
    (alert,) = selectors.open_alerts()
    assert alert.text.endswith(f"finishes 1 job (archive {archive.pk}).")


@pytest.mark.django_db
def test_a_poll_of_spark_jobs_is_recorded_apart_from_that_of_the_other_rows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "_spark_polled", -tasks.POLLED_SECONDS)
    tasks.advance_spark()
    cluster = Cluster.objects.get()
    assert cluster.spark_worker_polled_at is not None and cluster.worker_polled_at is None
    tasks.advance_spark()
    assert Cluster.objects.get().spark_worker_polled_at == cluster.spark_worker_polled_at, "no write in each second"
