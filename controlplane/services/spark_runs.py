"""Runs of Spark jobs in the worker: start and restart of the driver, its status, its end, and runs that are due by a schedule.

Invariants: a row is claimed by compare-and-set before its process starts, so two workers never start two drivers. A live driver is found by its row or by
the lock of its folder, so a worker that is killed leaves none behind. The end of a run comes from the phase in the driver's status, never from its log.
"""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from controlplane.clients import spark, spark_runs
from controlplane.domain import cron, driver_restarts
from controlplane.models import SparkJob, SparkRun
from controlplane.models.change import Outcome
from controlplane.models.phrase_field import note_columns
from controlplane.models.spark import ACTIVE_STATES, SparkRunState
from controlplane.services.common import Rejected, finish_changes
from controlplane.services.spark_jobs import request_run
from weir_common.spark_runs import Phase

RUNS_ACTIVE_MAX = 4
"""Maximum number of drivers at a time on this machine: each needs about 1 GB of memory. Further runs wait in the state requested."""

SCHEDULER = "schedule"
"""The actor of runs that a schedule requests."""


def working_runs() -> list[int]:
    """Ids of the runs that the worker advances, the oldest first; requested ones only while there is room."""
    rows = list(SparkRun.objects.filter(state__in=ACTIVE_STATES).order_by("id").values_list("id", "state"))
    started = [pk for pk, state in rows if state != SparkRunState.REQUESTED]
    waiting = [pk for pk, state in rows if state == SparkRunState.REQUESTED]
    return started + waiting[: max(0, RUNS_ACTIVE_MAX - len(started))]


def advance_run(run_id: int) -> str | None:
    """One step of a run. Returns the state, None when another worker was faster."""
    run = SparkRun.objects.select_related("job").filter(pk=run_id).first()
    if run is None or run.state not in ACTIVE_STATES:
        return None if run is None else str(run.state)
    phase = _note_status(run)
    alive = spark.is_alive(run.pid, run.pid_started_at) or _adopt_live_driver(run)
    if run.state == SparkRunState.STOPPING:
        if spark.has_ended(run.pid if alive else None, spark_runs.command(run.pk)):
            return _end(run, SparkRunState.STOPPED, "")
        return str(run.state)
    if alive:
        return str(run.state)
    if run.state == SparkRunState.REQUESTED:
        return _start(run)
    if phase is Phase.ENDED:
        return _end(run, SparkRunState.FINISHED, "")
    error = str(run.status.get("error", ""))
    if run.status.get("is_final") or driver_restarts.is_given_up(run.restarts_in_a_row):
        return _end(run, SparkRunState.FAILED, error or spark_runs.log_tail(run.pk, driver_restarts.NOTE_CHARS_MAX))
    if run.next_start_at is None:
        wait = driver_restarts.restart_delay_s(run.restarts_in_a_row)
        note = driver_restarts.restart_note(error)
        _change(run, next_start_at=timezone.now() + timedelta(seconds=wait), **note_columns(note))
        return str(run.state)
    return str(run.state) if timezone.now() < run.next_start_at else _start(run)


def _start(run: SparkRun) -> str | None:
    values: dict[str, object] = {"state": SparkRunState.RUNNING, "next_start_at": None, "started_at": timezone.now()}
    if run.state == SparkRunState.RUNNING:
        values |= {"restarts": F("restarts") + 1, "restarts_in_a_row": F("restarts_in_a_row") + 1}
    if not _change(run, **values):
        return None
    process = spark_runs.start(run.pk, run.job.kind, run.parameters)
    SparkRun.objects.filter(pk=run.pk).update(pid=process.pid, pid_started_at=process.started_at)
    return SparkRunState.RUNNING


def _adopt_live_driver(run: SparkRun) -> bool:
    """Take over a live driver whose process id is not in the row, because the worker that started it ended before it could write the row. A second
    driver would be rejected by the lock, and a run that fails or stops would leave the first one behind."""
    process = spark_runs.find_running_driver(run.pk)
    if process is None:
        return False
    SparkRun.objects.filter(pk=run.pk).update(pid=process.pid, pid_started_at=process.started_at, next_start_at=None)
    run.pid, run.pid_started_at = process.pid, process.started_at
    return True


def _note_status(run: SparkRun) -> Phase | None:
    """Store the driver's status, if it is of this start. Returns its phase."""
    status = spark_runs.read_status(run.pk)
    if status is None or run.started_at is None or status.at < run.started_at:
        return None
    if status.values != run.status:
        progress = int(status.values.get("batches") or 0)
        values: dict[str, object] = {"status": status.values, "heartbeat_at": status.at, "progress": progress}
        if progress > run.progress:
            # The cause of the last restart has ended.
            values |= {"restarts_in_a_row": 0, **note_columns("")}
        SparkRun.objects.filter(pk=run.pk).update(**values)
        run.status, run.progress = status.values, progress
    phase = status.values.get("phase")
    return Phase(phase) if phase in list(Phase) else None


def _change(run: SparkRun, **values: object) -> bool:
    return bool(
        SparkRun.objects.filter(pk=run.pk, state=run.state, version=run.version).update(
            version=F("version") + 1, **values
        )
    )


def _end(run: SparkRun, state: SparkRunState, note: str) -> str | None:
    note = note[: driver_restarts.NOTE_CHARS_MAX]
    if not _change(run, state=state, **note_columns(note), pid=None, finished_at=timezone.now()):
        return None
    outcome = Outcome.UNKNOWN if state == SparkRunState.FAILED else Outcome.CONFIRMED
    for object_id in (f"spark-run-{run.pk}", f"spark-job-{run.job_id}"):
        finish_changes(object_id, None, outcome, note)
    return state


def request_due_runs() -> int:
    """Request the runs that are due. A scheduled time that passes while a run is active is skipped. Returns the number of requested runs."""
    now, requested = timezone.now(), 0
    for job in SparkJob.objects.filter(next_run_at__lte=now, deleted_at__isnull=True):
        following = cron.parse(job.schedule).next_after(now)
        with transaction.atomic():
            # Claimed by its time, so that two workers request one run.
            if not SparkJob.objects.filter(pk=job.pk, next_run_at=job.next_run_at).update(next_run_at=following):
                continue
            try:
                request_run(job, SCHEDULER)
                requested += 1
            except Rejected:
                continue
    return requested
