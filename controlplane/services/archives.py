"""Archive jobs: Spark runs that copy topics to Parquet in the lake. Law: the row is the queue; a run is started, watched and restarted by
`advance_archive` in the worker; what was written is read back from the pipeline's own manifest, never guessed.

Called by the API, the console and the worker. Processes and files are `controlplane.spark`'s.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from controlplane import spark
from controlplane.models import ArchiveBatch, ArchiveJob, Change, ObservedTopic
from controlplane.models.change import Outcome
from controlplane.models.job import ArchiveState
from controlplane.services.common import Refused, record, record_refusal

TOPICS_MAX = 100
"""Topics of one job: one Spark query reads them all, and each partition is a task in every micro-batch."""

JOBS_RUNNING_MAX = 2
"""Spark drivers at a time on this machine: each takes about 1 GB and a core."""

RESTARTS_MAX = 5
"""Starts in a row without a committed batch in between; past it the job fails and says why."""

RESTART_SECONDS = 5
"""Seconds before the first restart; doubled with each further one."""

WORKING = (ArchiveState.ASKED, ArchiveState.RUNNING, ArchiveState.STOPPING)


def start_archive(topics: Sequence[str], *, who: str, why: str = "") -> ArchiveJob:
    """Ask for a job that archives `topics` from their earliest record on. Raises Refused."""
    names = sorted(set(topics))
    label = ", ".join(names)[:255]
    try:
        if not names:
            raise Refused("No topic is named.", "topics")
        if len(names) > TOPICS_MAX:
            raise Refused(f"{len(names)} topics; one job takes at most {TOPICS_MAX}.", "topics")
        known = set(ObservedTopic.objects.filter(name__in=names).values_list("name", flat=True))
        if missing := [n for n in names if n not in known]:
            raise Refused(f"There is no topic {missing[0]!r}.", "topics")
        if shutil.which("java") is None and not spark.java_home():
            raise Refused(
                "Spark needs Java 17 or later and none is on the path; install one (Debian: openjdk-17-jre-headless)."
            )
        with transaction.atomic():
            running = ArchiveJob.objects.filter(state__in=WORKING)
            if running.count() >= JOBS_RUNNING_MAX:
                raise Refused(f"{JOBS_RUNNING_MAX} jobs run already; stop one first.")
            for job in running:
                if both := set(job.topics) & set(names):
                    raise Refused(f"Topic {sorted(both)[0]!r} is archived by job {job.pk} already.", "topics")
            job = ArchiveJob.objects.create(topics=names, who=who, why=why)
            job.folder = str(spark.folder_of(job.pk))
            job.save(update_fields=["folder"])
            record(
                who, "archive.start", "archive", label,
                why=why, after={"topics": names, "folder": job.folder}, object_id=f"archive-{job.pk}",
            )  # fmt: skip
            return job
    except Refused as refused:
        record_refusal(who, "archive.start", "archive", label, refused, why=why)
        raise


def stop_archive(job_id: int, *, who: str, why: str = "") -> ArchiveJob:
    """Ask a job to end after its current micro-batch. Raises Refused when it does not run."""
    try:
        with transaction.atomic():
            changed = ArchiveJob.objects.filter(pk=job_id, state__in=[ArchiveState.ASKED, ArchiveState.RUNNING]).update(
                state=ArchiveState.STOPPING, version=F("version") + 1
            )
            job = ArchiveJob.objects.filter(pk=job_id).first()
            if job is None:
                raise Refused(f"There is no archive job {job_id}.")
            if not changed:
                raise Refused(f"Archive job {job_id} is {job.state}; only a running one can be stopped.")
            record(who, "archive.stop", "archive", str(job_id), why=why, object_id=f"archive-{job_id}")
            return job
    except Refused as refused:
        record_refusal(who, "archive.stop", "archive", str(job_id), refused, why=why)
        raise


def resume_archive(job_id: int, *, who: str, why: str = "") -> ArchiveJob:
    """Start a stopped or failed job again where it ended. Raises Refused."""
    try:
        with transaction.atomic():
            changed = ArchiveJob.objects.filter(pk=job_id, state__in=[ArchiveState.STOPPED, ArchiveState.FAILED]).update(
                state=ArchiveState.ASKED, restarts_in_a_row=0, next_start_at=None, finished_at=None, note="",
                version=F("version") + 1,
            )  # fmt: skip
            job = ArchiveJob.objects.filter(pk=job_id).first()
            if job is None:
                raise Refused(f"There is no archive job {job_id}.")
            if not changed:
                raise Refused(f"Archive job {job_id} is {job.state}; only a stopped or failed one can be resumed.")
            record(who, "archive.resume", "archive", str(job_id), why=why, object_id=f"archive-{job_id}")
            return job
    except Refused as refused:
        record_refusal(who, "archive.resume", "archive", str(job_id), refused, why=why)
        raise


def working_archives() -> list[int]:
    """Ids of jobs that want a look."""
    return list(ArchiveJob.objects.filter(state__in=WORKING).order_by("id").values_list("id", flat=True))


def advance_archive(job_id: int) -> str | None:
    """One look at a job: start or restart its process, read its status and manifest, note its end. Returns the state, None when
    another worker was faster."""
    job = ArchiveJob.objects.filter(pk=job_id).first()
    if job is None:
        return None
    read_manifest(job)
    job.refresh_from_db()
    alive = spark.alive(job.pid, job.pid_started_at)
    now = timezone.now()
    if job.state == ArchiveState.STOPPING:
        if alive and job.pid is not None:
            spark.stop(job.pid)
            _note_status(job)
            return str(job.state)
        return _end(job, ArchiveState.STOPPED, "", Outcome.CONFIRMED)
    if job.state not in (ArchiveState.ASKED, ArchiveState.RUNNING):
        return str(job.state)
    if alive:
        _note_status(job)
        return str(job.state)
    if job.state == ArchiveState.RUNNING:
        if job.restarts_in_a_row >= RESTARTS_MAX:
            tail = spark.log_tail(job.pk)
            return _end(
                job,
                ArchiveState.FAILED,
                f"It ended {RESTARTS_MAX} times without a committed batch. {tail}",
                Outcome.UNKNOWN,
            )
        if job.next_start_at is None:
            wait = RESTART_SECONDS * 2**job.restarts_in_a_row if job.restarts_in_a_row else 0
            _change(
                job,
                next_start_at=now + timedelta(seconds=wait),
                note=f"Its process ended; it starts again. {spark.log_tail(job.pk)}".strip()[:2000],
            )
            return str(job.state)
        if now < job.next_start_at:
            return str(job.state)
    return _start(job)


def _start(job: ArchiveJob) -> str | None:
    again = job.state == ArchiveState.RUNNING
    values: dict[str, object] = {"state": ArchiveState.RUNNING, "next_start_at": None, "started_at": timezone.now()}
    if again:
        values |= {"restarts": F("restarts") + 1, "restarts_in_a_row": F("restarts_in_a_row") + 1}
    # The claim comes before the process: two workers never start two.
    if not _change(job, **values):
        return None
    process = spark.start(job.pk, job.topics, settings.HOUSE.bootstrap)
    ArchiveJob.objects.filter(pk=job.pk).update(pid=process.pid, pid_started_at=process.started_at)
    if not again:
        Change.objects.filter(object_id=f"archive-{job.pk}", outcome=Outcome.PENDING).update(
            outcome=Outcome.CONFIRMED, detail=f"process {process.pid}", finished_at=timezone.now()
        )
    return ArchiveState.RUNNING


def read_manifest(job: ArchiveJob) -> int:
    """Take over what the pipeline has published since the last look; returns the number of new lines. Idempotent."""
    lines, upto = spark.read_manifest(job.pk, job.manifest_bytes_read)
    if not lines:
        return 0
    with transaction.atomic():
        if not ArchiveJob.objects.filter(pk=job.pk, manifest_bytes_read=job.manifest_bytes_read).update(
            manifest_bytes_read=upto, restarts_in_a_row=0
        ):
            return 0
        ArchiveBatch.objects.bulk_create(
            [
                ArchiveBatch(
                    job=job, batch=line.batch, topic=line.topic, partition=line.partition,
                    first_offset=line.first_offset, next_offset=line.next_offset, rows=line.rows,
                )
                for line in lines
            ],
            ignore_conflicts=True,
        )  # fmt: skip
        ArchiveJob.objects.filter(pk=job.pk).update(
            rows=F("rows") + sum(line.rows for line in lines),
            batches=F("batches") + len({line.batch for line in lines}),
        )
    return len(lines)


def _note_status(job: ArchiveJob) -> None:
    status = spark.read_status(job.pk)
    if status is not None and status.values != job.status:
        ArchiveJob.objects.filter(pk=job.pk).update(status=status.values, heartbeat_at=status.at)


def _change(job: ArchiveJob, **values: object) -> bool:
    return bool(
        ArchiveJob.objects.filter(pk=job.pk, state=job.state, version=job.version).update(
            version=F("version") + 1, **values
        )
    )


def _end(job: ArchiveJob, state: ArchiveState, note: str, outcome: Outcome) -> str | None:
    if not _change(job, state=state, note=note[:2000], pid=None, finished_at=timezone.now()):
        return None
    Change.objects.filter(object_id=f"archive-{job.pk}", outcome=Outcome.PENDING).update(
        outcome=outcome, detail=note[:2000], finished_at=timezone.now()
    )
    return state
