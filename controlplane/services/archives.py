"""Archive jobs: Spark runs that copy topics to Parquet in the lake. The row is the queue: `advance_archive` in the worker starts, watches and
restarts the run. Invariant: progress is read from the pipeline's own manifest, never estimated.

Does not contain the handling of processes and files (`controlplane.clients.spark`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from controlplane.clients import spark
from controlplane.domain import driver_restarts
from controlplane.domain.audit_operation import AuditOperation
from controlplane.models import ArchiveBatch, ArchiveJob, ObservedTopic
from controlplane.models.change import Outcome
from controlplane.models.job import ArchiveState
from controlplane.models.phrase_field import note_columns
from controlplane.services.common import Rejected, audited, finish_changes, record
from weir_common.java import JavaMissing, find_java
from weir_common.phrases import sentence

TOPICS_MAX = 100
"""Maximum number of topics of one job: one Spark query reads all of them, and each partition is a task in every micro-batch."""

JOBS_RUNNING_MAX = 2
"""Maximum number of Spark drivers at a time on this machine: each needs about 1 GB of memory and a core."""

WORKING = (ArchiveState.REQUESTED, ArchiveState.RUNNING, ArchiveState.STOPPING)


@audited(AuditOperation.ARCHIVE_START, lambda a: ", ".join(sorted(set(a["topics"]))))
def start_archive(topics: Sequence[str], *, actor: str, comment: str = "") -> ArchiveJob:
    """Request a job that archives `topics` from their earliest record on. Raises Rejected."""
    names = sorted(set(topics))
    label = ", ".join(names)[:255]
    if not names:
        raise Rejected("The request lists no topic.", "topics")
    if len(names) > TOPICS_MAX:
        raise Rejected(
            sentence("{count} topics; the maximum for one job is {max}.", count=len(names), max=TOPICS_MAX), "topics"
        )
    known = set(ObservedTopic.objects.filter(name__in=names).values_list("name", flat=True))
    if missing := [n for n in names if n not in known]:
        raise Rejected(sentence("Topic {missing} does not exist.", missing=repr(missing[0])), "topics")
    try:
        find_java()
    except JavaMissing as e:
        raise Rejected(sentence("Spark needs Java. {detail}", detail=e)) from e
    with transaction.atomic():
        running = ArchiveJob.objects.filter(state__in=WORKING)
        if running.count() >= JOBS_RUNNING_MAX:
            raise Rejected(
                sentence("{max} jobs are running, which is the maximum; stop one first.", max=JOBS_RUNNING_MAX)
            )
        for job in running:
            if both := set(job.topics) & set(names):
                raise Rejected(
                    sentence("Topic {both} is archived by job {id} already.", both=repr(min(both)), id=job.pk), "topics"
                )
        job = ArchiveJob.objects.create(topics=names, actor=actor, comment=comment)
        job.folder = str(spark.folder_of(job.pk))
        job.save(update_fields=["folder"])
        record(
            actor,
            AuditOperation.ARCHIVE_START,
            "archive",
            label,
            comment=comment,
            after={"topics": names, "folder": job.folder},
            object_id=f"archive-{job.pk}",
        )
        return job


@audited(AuditOperation.ARCHIVE_STOP, "{job_id}")
def stop_archive(job_id: int, *, actor: str, comment: str = "") -> ArchiveJob:
    """Request the job to end after its current micro-batch. Raises Rejected when the job does not run."""
    with transaction.atomic():
        changed = ArchiveJob.objects.filter(pk=job_id, state__in=[ArchiveState.REQUESTED, ArchiveState.RUNNING]).update(
            state=ArchiveState.STOPPING, version=F("version") + 1
        )
        job = ArchiveJob.objects.filter(pk=job_id).first()
        if job is None:
            raise Rejected(sentence("Archive job {job_id} does not exist.", job_id=job_id))
        if not changed:
            raise Rejected(
                sentence(
                    "Archive job {job_id} is {state}; only a running one can be stopped.",
                    job_id=job_id,
                    state=job.state,
                )
            )
        record(
            actor, AuditOperation.ARCHIVE_STOP, "archive", str(job_id), comment=comment, object_id=f"archive-{job_id}"
        )
        return job


@audited(AuditOperation.ARCHIVE_RESUME, "{job_id}")
def resume_archive(job_id: int, *, actor: str, comment: str = "") -> ArchiveJob:
    """Start a stopped or failed job again at its last position. Raises Rejected."""
    with transaction.atomic():
        changed = ArchiveJob.objects.filter(pk=job_id, state__in=[ArchiveState.STOPPED, ArchiveState.FAILED]).update(
            state=ArchiveState.REQUESTED,
            restarts_in_a_row=0,
            next_start_at=None,
            finished_at=None,
            version=F("version") + 1,
            **note_columns(""),
        )
        job = ArchiveJob.objects.filter(pk=job_id).first()
        if job is None:
            raise Rejected(sentence("Archive job {job_id} does not exist.", job_id=job_id))
        if not changed:
            raise Rejected(
                sentence(
                    "Archive job {job_id} is {state}; only a stopped or failed one can be resumed.",
                    job_id=job_id,
                    state=job.state,
                )
            )
        record(
            actor, AuditOperation.ARCHIVE_RESUME, "archive", str(job_id), comment=comment, object_id=f"archive-{job_id}"
        )
        return job


def working_archives() -> list[int]:
    """Ids of jobs that the worker advances."""
    return list(ArchiveJob.objects.filter(state__in=WORKING).order_by("id").values_list("id", flat=True))


def advance_archive(job_id: int) -> str | None:
    """One step of a job: start or restart its process, read its status and manifest, record its end. Returns the state, None when another worker
    was faster."""
    job = ArchiveJob.objects.filter(pk=job_id).first()
    if job is None:
        return None
    read_manifest(job)
    job.refresh_from_db()
    alive = spark.is_alive(job.pid, job.pid_started_at) or _adopt_live_driver(job)
    now = timezone.now()
    if job.state == ArchiveState.STOPPING:
        if spark.has_ended(job.pid if alive else None, spark.command(job.pk, job.topics, settings.WEIR.bootstrap)):
            return _end(job, ArchiveState.STOPPED, "", Outcome.CONFIRMED)
        if alive:
            _note_status(job)
        return str(job.state)
    if job.state not in (ArchiveState.REQUESTED, ArchiveState.RUNNING):
        return str(job.state)
    if alive:
        _note_status(job)
        return str(job.state)
    if job.state == ArchiveState.RUNNING:
        if driver_restarts.is_given_up(job.restarts_in_a_row):
            tail = spark.log_tail(job.pk)
            return _end(
                job,
                ArchiveState.FAILED,
                driver_restarts.failure_note(tail),
                Outcome.UNKNOWN,
            )
        if job.next_start_at is None:
            wait = driver_restarts.restart_delay_s(job.restarts_in_a_row)
            note = driver_restarts.restart_note(spark.log_tail(job.pk))
            _change(job, next_start_at=now + timedelta(seconds=wait), **note_columns(note))
            return str(job.state)
        if now < job.next_start_at:
            return str(job.state)
    return _start(job)


def _start(job: ArchiveJob) -> str | None:
    again = job.state == ArchiveState.RUNNING
    values: dict[str, object] = {"state": ArchiveState.RUNNING, "next_start_at": None, "started_at": timezone.now()}
    if again:
        values |= {"restarts": F("restarts") + 1, "restarts_in_a_row": F("restarts_in_a_row") + 1}
    # The row is claimed before the process starts, so that two workers never start two processes.
    if not _change(job, **values):
        return None
    process = spark.start(job.pk, job.topics, settings.WEIR.bootstrap)
    ArchiveJob.objects.filter(pk=job.pk).update(pid=process.pid, pid_started_at=process.started_at)
    if not again:
        detail = sentence("process {pid}", pid=process.pid)
        finish_changes(f"archive-{job.pk}", None, Outcome.CONFIRMED, detail)
    return ArchiveState.RUNNING


def _adopt_live_driver(job: ArchiveJob) -> bool:
    """Take over a live driver whose process id is not in the row, because the worker that started it ended before it could write the row."""
    command = spark.command(job.pk, job.topics, settings.WEIR.bootstrap)
    process = spark.find_running_driver(spark.folder_of(job.pk), command)
    if process is None:
        return False
    ArchiveJob.objects.filter(pk=job.pk).update(pid=process.pid, pid_started_at=process.started_at, next_start_at=None)
    job.pid, job.pid_started_at = process.pid, process.started_at
    return True


def read_manifest(job: ArchiveJob) -> int:
    """Store the manifest lines published since the last poll. Returns the number of new lines. Idempotent."""
    lines, upto = spark.read_manifest(job.pk, job.manifest_bytes_read)
    if not lines:
        return 0
    values: dict[str, object] = {"manifest_bytes_read": upto, "restarts_in_a_row": 0}
    if job.state == ArchiveState.RUNNING:
        # The cause of the last restart has ended.
        values |= note_columns("")
    with transaction.atomic():
        if not ArchiveJob.objects.filter(pk=job.pk, manifest_bytes_read=job.manifest_bytes_read).update(**values):
            return 0
        ArchiveBatch.objects.bulk_create(
            [
                ArchiveBatch(
                    job=job,
                    batch=line.batch,
                    topic=line.topic,
                    partition=line.partition,
                    first_offset=line.first_offset,
                    next_offset=line.next_offset,
                    rows=line.rows,
                )
                for line in lines
            ],
            ignore_conflicts=True,
        )
        ArchiveJob.objects.filter(pk=job.pk).update(
            rows=F("rows") + sum(line.rows for line in lines),
            batches=F("batches") + len({line.batch for line in lines}),
        )
    return len(lines)


def _note_status(job: ArchiveJob) -> None:
    status = spark.read_status(job.pk)
    if status is None:
        return
    if status.values != job.status:
        ArchiveJob.objects.filter(pk=job.pk).update(status=status.values, heartbeat_at=status.at)
    if job.note and job.started_at is not None and status.at > job.started_at:
        # The running process has reported. The cause of the previous process's end is in that process's log.
        _change(job, **note_columns(""))


def _change(job: ArchiveJob, **values: object) -> bool:
    return bool(
        ArchiveJob.objects.filter(pk=job.pk, state=job.state, version=job.version).update(
            version=F("version") + 1, **values
        )
    )


def _end(job: ArchiveJob, state: ArchiveState, note: str, outcome: Outcome) -> str | None:
    if not _change(job, state=state, **note_columns(note), pid=None, finished_at=timezone.now()):
        return None
    finish_changes(f"archive-{job.pk}", None, outcome, note)
    return state
