"""Spark jobs: create, change the schedule, delete, request a run, stop it. Invariant: a job has at most one active run.

Does not contain: the processes of runs (`controlplane.services.spark_runs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from controlplane.domain import cron
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.cron import CronError
from controlplane.domain.errors import not_one_of
from controlplane.models import ObservedTopic, SparkJob, SparkRun
from controlplane.models.spark import ACTIVE_STATES, SparkRunState
from controlplane.selectors.spark_jobs import archive_jobs
from controlplane.services.common import AlreadyExists, Rejected, audited, record
from weir_common.java import JavaMissing, find_java
from weir_common.phrases import reason_of, sentence
from weir_common.spark_jobs import ARCHIVE, KINDS, JobKind, ParameterError, ParameterType, parse

JOBS_MAX = 500
"""Maximum number of jobs that are not deleted: the page lists all of them with their last run."""

NAME_LENGTH_MAX = 100
"""Maximum number of characters, as in the column."""


@audited(AuditOperation.SPARK_JOB_CREATE, "{name}")
def create_spark_job(
    name: str,
    kind: str,
    parameters: Mapping[str, Any],
    *,
    schedule: str = "",
    start: bool = True,
    actor: str,
    comment: str = "",
) -> SparkJob:
    """Create a job. `start`: also request its first run. Raises Rejected, whose field is the parameter."""
    if kind not in KINDS:
        raise not_one_of("There is no job kind {value}. The kinds are: {allowed}.", kind, KINDS, "kind")
    if not name.strip() or len(name) > NAME_LENGTH_MAX:
        raise Rejected(sentence("The name must have 1 to {max} characters.", max=NAME_LENGTH_MAX), "name")
    values = validate_parameters(KINDS[kind], parameters)
    next_run_at = first_run(KINDS[kind], schedule)
    with transaction.atomic():
        if SparkJob.objects.filter(deleted_at__isnull=True).count() >= JOBS_MAX:
            raise Rejected(sentence("There are {max} jobs, which is the maximum; delete one first.", max=JOBS_MAX))
        if kind == ARCHIVE:
            reject_archived_topics(values["topics"])
        try:
            with transaction.atomic():
                job = SparkJob.objects.create(
                    name=name.strip(),
                    kind=kind,
                    parameters=values,
                    schedule=schedule,
                    next_run_at=next_run_at,
                    actor=actor,
                    comment=comment,
                )
        except IntegrityError:
            raise AlreadyExists(sentence("A job {name} exists already.", name=repr(name.strip())), "name") from None
        record(
            actor,
            AuditOperation.SPARK_JOB_CREATE,
            "spark_job",
            job.name,
            comment=comment,
            after={"kind": kind, **values},
            object_id=f"spark-job-{job.pk}",
        )
        if start:
            request_run(job, actor)
    return job


def validate_parameters(kind: JobKind, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of the kind with defaults. Raises Rejected."""
    try:
        values = parse(kind, parameters)
    except ParameterError as e:
        raise Rejected(reason_of(e), f"parameters.{e.name}") from None
    for parameter in kind.parameters:
        names = values[parameter.name]
        if parameter.type is not ParameterType.TOPICS or not isinstance(names, list):
            continue
        known = set(ObservedTopic.objects.filter(name__in=names).values_list("name", flat=True))
        if missing := [n for n in names if n not in known]:
            raise Rejected(
                sentence("Topic {missing} does not exist.", missing=repr(missing[0])), f"parameters.{parameter.name}"
            )
    return values


def first_run(kind: JobKind, schedule: str) -> Any:
    """The first time of a schedule; None without one. Raises Rejected."""
    if not schedule:
        return None
    if kind.is_continuous:
        raise Rejected(
            sentence("A job of the kind {name} runs until it is stopped; it has no schedule.", name=kind.name),
            "schedule",
        )
    try:
        found = cron.parse(schedule).next_after(timezone.now())
    except CronError as e:
        raise Rejected(reason_of(e), "schedule") from None
    if found is None:
        raise Rejected("The schedule has no time within the next four years.", "schedule")
    return found


def reject_archived_topics(topics: list[str]) -> None:
    """Two archives of a topic would stop each other. Raises Rejected."""
    for job in archive_jobs():
        if both := set(job.parameters["topics"]) & set(topics):
            raise Rejected(
                sentence(
                    "Topic {both} is archived by the job {name} already.", both=repr(min(both)), name=repr(job.name)
                ),
                "parameters.topics",
            )


@audited(AuditOperation.SPARK_JOB_RUN, "{job_id}")
def run_spark_job(job_id: int, *, actor: str, comment: str = "") -> SparkRun:
    """Request a run. Raises Rejected while one is active."""
    with transaction.atomic():
        job = _job(job_id)
        run = request_run(job, actor)
        record(
            actor, AuditOperation.SPARK_JOB_RUN, "spark_job", job.name, comment=comment, object_id=f"spark-run-{run.pk}"
        )
        return run


def request_run(job: SparkJob, actor: str) -> SparkRun:
    """A new run row, which the worker starts. Raises Rejected."""
    try:
        find_java()
    except JavaMissing as e:
        raise Rejected(sentence("Spark needs Java. {detail}", detail=e)) from e
    try:
        with transaction.atomic():
            return SparkRun.objects.create(job=job, parameters=job.parameters, actor=actor)
    except IntegrityError:
        raise Rejected(sentence("The job {name} has an active run; stop it first.", name=repr(job.name))) from None


@audited(AuditOperation.SPARK_JOB_STOP, "{job_id}")
def stop_spark_job(job_id: int, *, actor: str, comment: str = "") -> SparkJob:
    """Request the active run to end after its current step. Raises Rejected without one."""
    with transaction.atomic():
        job = _job(job_id)
        changed = SparkRun.objects.filter(job=job, state__in=[SparkRunState.REQUESTED, SparkRunState.RUNNING]).update(
            state=SparkRunState.STOPPING, version=F("version") + 1
        )
        if not changed:
            raise Rejected(sentence("The job {name} has no active run.", name=repr(job.name)))
        record(
            actor,
            AuditOperation.SPARK_JOB_STOP,
            "spark_job",
            job.name,
            comment=comment,
            object_id=f"spark-job-{job.pk}",
        )
        return job


@audited(AuditOperation.SPARK_JOB_SCHEDULE, "{job_id}")
def schedule_spark_job(
    job_id: int, schedule: str, *, actor: str, comment: str = "", if_version: int | None = None
) -> SparkJob:
    """Change the schedule; empty removes it. `if_version`: Rejected if the job has another version. Raises Rejected."""
    with transaction.atomic():
        job = _job(job_id)
        if if_version is not None and job.version != if_version:
            raise Rejected("The schedule was changed after this form was opened. Open it again.")
        before = job.schedule
        job.next_run_at, job.schedule = first_run(KINDS[job.kind], schedule), schedule
        job.version += 1
        job.save(update_fields=["schedule", "next_run_at", "version"])
        record(
            actor,
            AuditOperation.SPARK_JOB_SCHEDULE,
            "spark_job",
            job.name,
            comment=comment,
            before=before,
            after=schedule,
            object_id=f"spark-job-{job.pk}",
        )
        return job


@audited(AuditOperation.SPARK_JOB_DELETE, "{job_id}")
def delete_spark_job(job_id: int, *, actor: str, comment: str = "") -> SparkJob:
    """Hide a job without an active run. Tables and runs remain. Raises Rejected."""
    with transaction.atomic():
        job = _job(job_id)
        if SparkRun.objects.filter(job=job, state__in=ACTIVE_STATES).exists():
            raise Rejected(sentence("The job {name} has an active run; stop it first.", name=repr(job.name)))
        job.deleted_at, job.next_run_at = timezone.now(), None
        job.save(update_fields=["deleted_at", "next_run_at"])
        record(
            actor,
            AuditOperation.SPARK_JOB_DELETE,
            "spark_job",
            job.name,
            comment=comment,
            object_id=f"spark-job-{job.pk}",
        )
        return job


def _job(job_id: int) -> SparkJob:
    job = SparkJob.objects.select_for_update().filter(pk=job_id, deleted_at__isnull=True).first()
    if job is None:
        raise Rejected(sentence("Spark job {job_id} does not exist.", job_id=job_id))
    return job
