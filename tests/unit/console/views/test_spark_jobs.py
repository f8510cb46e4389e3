"""Pages of Spark jobs: the form of each kind, errors next to the field, operations, viewers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from controlplane.models import SparkJob, SparkRun
from controlplane.services import spark_jobs
from weir_common.spark_jobs import KINDS

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_jobs, "find_java", lambda: Path("java"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_form_of_a_kind_has_its_parameters(seeded_cluster: dict[str, Any], operator: Client, kind: str) -> None:
    page = operator.get(f"/spark-jobs/new/{kind}/").content.decode()
    assert all(f'name="{p.name}"' in page for p in KINDS[kind].parameters)
    assert ('name="schedule"' in page) is not KINDS[kind].is_continuous


def test_a_job_is_created_with_typed_parameters(seeded_cluster: dict[str, Any], operator: Client) -> None:
    body = {"name": "p", "topics": "flights, orders", "records_per_partition": "500", "schedule": "0 1 * * *"}
    response = operator.post("/spark-jobs/new/profile/", body)
    job = SparkJob.objects.get(name="p")
    assert response.headers["Location"] == f"/spark-jobs/{job.pk}/"
    assert job.parameters == {"topics": ["flights", "orders"], "records_per_partition": 500}
    assert job.schedule == "0 1 * * *" and job.runs.count() == 1


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"name": "p", "topics": "absent"}, "Topic &#x27;absent&#x27; does not exist."),
        ({"name": "p", "topics": "orders", "records_per_partition": "5"}, "must be from 100"),
        ({"name": "p", "topics": "orders", "schedule": "x"}, "five fields"),
        ({"name": "nightly profile", "topics": "orders"}, "exists already"),
    ],
)
def test_an_error_is_next_to_its_field(
    seeded_cluster: dict[str, Any], operator: Client, body: dict[str, str], text: str
) -> None:
    response = operator.post("/spark-jobs/new/profile/", body)
    assert response.status_code == 400 and text in response.content.decode()


def test_run_stop_schedule_and_delete(seeded_cluster: dict[str, Any], operator: Client) -> None:
    job = SparkJob.objects.get(name="nightly profile")
    page = operator.post(f"/spark-jobs/{job.pk}/run/", follow=True).content.decode()
    assert job.runs.count() == 2 and "A run of job nightly profile is requested." in page
    page = operator.post(f"/spark-jobs/{job.pk}/stop/", follow=True).content.decode()
    assert "Job nightly profile stops after its current step." in page
    assert "The run ends after its current step." in operator.get(f"/spark-jobs/{job.pk}/").content.decode()
    assert SparkRun.objects.filter(job=job, state="stopping").count() == 1
    rejected = operator.post(f"/spark-jobs/{job.pk}/delete/", {"comment": "unused"})
    assert rejected.status_code == 400 and "has an active run; stop it first" in rejected.content.decode()
    SparkRun.objects.filter(job=job).update(state="stopped")
    page = operator.get(f"/spark-jobs/{job.pk}/delete/").content.decode()
    assert "Its tables remain" in page and "Its schedule 0 3 * * * ends." in page
    assert SparkJob.objects.get(pk=job.pk).deleted_at is None, "a visit deletes nothing"
    assert operator.post(f"/spark-jobs/{job.pk}/schedule/", {"schedule": ""}).status_code == 302
    deleted = operator.post(f"/spark-jobs/{job.pk}/delete/", {"comment": "unused"})
    assert deleted.headers["Location"] == "/spark-jobs/"
    assert operator.get("/spark-jobs/99/delete/").status_code == 404
    assert operator.get(f"/spark-jobs/{job.pk}/").status_code == 404


def test_a_report_and_an_error_are_shown(seeded_cluster: dict[str, Any], operator: Client) -> None:
    running = SparkJob.objects.get(kind="archive")
    page = operator.get(f"/spark-jobs/{running.pk}/").content.decode()
    assert "Archived offsets" in page and '<td class="num">4,000</td>' in page
    failed = SparkRun.objects.get(state="failed")
    page = operator.get(f"/spark-runs/{failed.pk}/").content.decode()
    assert "did not respond" in page and f'action="/spark-jobs/{failed.job_id}/run/"' in page and "Run again" in page
    SparkRun.objects.filter(pk=failed.pk).update(status={"error": "No such table."})
    assert "No such table." in operator.get("/spark-jobs/").content.decode()


def test_unknown_kinds_jobs_runs_and_operations(seeded_cluster: dict[str, Any], operator: Client) -> None:
    for address in ("/spark-jobs/new/x/", "/spark-jobs/99/", "/spark-runs/99/", "/spark-jobs/99/schedule/"):
        assert operator.get(address).status_code == 404
    assert operator.post("/spark-jobs/1/x/").status_code == 404


def test_an_active_run_is_reloaded_until_it_ends(seeded_cluster: dict[str, Any], operator: Client) -> None:
    """The state and the button of the last action stayed until a reload of the page, and the page of a run was never updated."""
    run = SparkRun.objects.get(state="running")
    for address, panels in ((f"/spark-jobs/{run.job_id}/", 4), (f"/spark-runs/{run.pk}/", 1), ("/spark-jobs/", 1)):
        SparkRun.objects.filter(pk=run.pk).update(state="stopping")
        active = operator.get(address).content.decode()
        assert active.count("data-unsettled") == active.count('data-refresh="changes"') == panels, address
        assert "hx-trigger" not in active.split("<main")[1].split("</main")[0]
        SparkRun.objects.filter(pk=run.pk).update(state="stopped")
        assert "data-unsettled" not in operator.get(address).content.decode()


def test_a_schedule_that_another_operator_changed_is_not_overwritten(
    seeded_cluster: dict[str, Any], operator: Client
) -> None:
    job = SparkJob.objects.get(name="nightly profile")
    page = f"/spark-jobs/{job.pk}/schedule/"
    assert '<input type="hidden" name="version" value="1"' in operator.get(page).content.decode()
    spark_jobs.schedule_spark_job(job.pk, "0 4 * * *", actor="bob")
    stale = operator.post(page, {"schedule": "0 5 * * *", "version": "1"})
    assert stale.status_code == 400 and "was changed after this form was opened" in stale.content.decode()
    assert SparkJob.objects.get(pk=job.pk).schedule == "0 4 * * *"
    assert operator.post(page, {"schedule": "0 5 * * *", "version": "2"}).status_code == 302
    assert SparkJob.objects.get(pk=job.pk).schedule == "0 5 * * *"
