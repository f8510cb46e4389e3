"""Spark jobs with their last run, runs with the report of their driver, and the kinds of jobs with their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db.models import Max, QuerySet

from controlplane.clients import spark_runs
from controlplane.models import SparkJob, SparkRun
from controlplane.models.spark import ACTIVE_STATES, SparkRunState
from controlplane.selectors.common import NumberFilter, RowFilter, age_s
from controlplane.selectors.paging import Page, PageStart, paginate
from weir_common.phrases import with_phrase
from weir_common.spark_jobs import ARCHIVE, KINDS, JobKind


class SparkJobVerb(StrEnum):
    """Operations on a Spark job."""

    RUN = "run"
    STOP = "stop"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class ReportTableRow:
    """A table of a run's report. `rows_total`: rows in the result, of which the report has the first ones."""

    title: str
    columns: list[str]
    rows: list[list[object]]
    rows_total: int


@dataclass(frozen=True, slots=True)
class SparkRunRow:
    """`rows`, `rows_per_second`, `behind_records`, `dead_letters`: as the driver reports them; None = not reported. `error`: why it failed."""

    id: int
    job_id: int
    job: str
    kind: str
    state: str
    phase: str
    parameters: dict[str, object]
    rows: int | None
    rows_per_second: float | None
    behind_records: int | None
    dead_letters: int | None
    batches: int | None
    report: list[ReportTableRow]
    error: str
    note: str
    actor: str
    pid: int | None
    restarts: int
    heartbeat_at: datetime | None
    heartbeat_age_s: float | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def active(self) -> bool:
        return self.state in ACTIVE_STATES

    @property
    def is_failed(self) -> bool:
        return self.state == SparkRunState.FAILED


@dataclass(frozen=True, slots=True)
class SparkJobRow:
    """`state`, `run_id`, `error`: of the last run; "never run" without one. `can`: run, stop, delete. `version`: number of changes by operators, also the entity tag."""

    id: int
    name: str
    kind: str
    title: str
    parameters: dict[str, object]
    schedule: str
    next_run_at: datetime | None
    state: str
    run_id: int | None
    rows: int | None
    rows_per_second: float | None
    behind_records: int | None
    heartbeat_at: datetime | None
    actor: str
    comment: str
    created_at: datetime
    can: list[str]
    version: int
    error: str

    @property
    def active(self) -> bool:
        return self.state in ACTIVE_STATES

    @property
    def can_run(self) -> bool:
        return SparkJobVerb.RUN in self.can

    @property
    def can_stop(self) -> bool:
        return SparkJobVerb.STOP in self.can

    @property
    def can_delete(self) -> bool:
        return SparkJobVerb.DELETE in self.can

    @property
    def is_stopping(self) -> bool:
        return self.state == SparkRunState.STOPPING


@dataclass(frozen=True, slots=True)
class SparkLog:
    """The end of a driver's log."""

    text: str


class SparkRunFilter(RowFilter):
    job_id = NumberFilter(help_text="Runs of this job.")

    class Meta:
        model = SparkRun
        fields = ("job_id", "state")


NEVER = "never run"
JOB_COLUMNS = {"id": "id", "name": "name", "kind": "kind", "created_at": "created_at"}
RUN_COLUMNS = {"id": "id", "state": "state", "created_at": "created_at"}


def archive_jobs() -> QuerySet[SparkJob]:
    """The jobs that copy topics to the lake. Their parameter `topics` has the names."""
    return SparkJob.objects.filter(kind=ARCHIVE, deleted_at__isnull=True)


def kinds() -> list[JobKind]:
    return list(KINDS.values())


def jobs() -> QuerySet[SparkJob]:
    """Jobs that are not deleted."""
    return SparkJob.objects.filter(deleted_at__isnull=True)


def job_list(*, sort: str = "-id", page: PageStart = 1, per_page: int = 50) -> Page[SparkJobRow]:
    return job_page(jobs(), sort=sort, page=page, per_page=per_page)


def job_page(
    rows: QuerySet[SparkJob], *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[SparkJobRow]:
    return paginate(rows, _job_rows, page=page, per_page=per_page, sort=sort, columns=JOB_COLUMNS, tie="-id")


def job_row(job_id: int) -> SparkJobRow | None:
    found = _job_rows(list(jobs().filter(pk=job_id)))
    return found[0] if found else None


def run_list(job_id: int, *, page: PageStart = 1, per_page: int = 50) -> Page[SparkRunRow]:
    """Runs of a job, the newest first."""
    return run_page(SparkRun.objects.filter(job_id=job_id), sort="-id", page=page, per_page=per_page)


def run_page(
    rows: QuerySet[SparkRun], *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[SparkRunRow]:
    return paginate(
        rows.select_related("job"),
        lambda found: [_run_row(r) for r in found],
        page=page,
        per_page=per_page,
        sort=sort,
        columns=RUN_COLUMNS,
        tie="-id",
    )


def run_row(run_id: int) -> SparkRunRow | None:
    run = SparkRun.objects.select_related("job").filter(pk=run_id).first()
    return None if run is None else _run_row(run)


def run_log(run_id: int) -> SparkLog:
    return SparkLog(spark_runs.log_tail(run_id))


def _job_rows(jobs: Sequence[SparkJob]) -> list[SparkJobRow]:
    last = SparkRun.objects.filter(job__in=[j.pk for j in jobs]).values("job").annotate(last=Max("id")).values("last")
    runs = {r.job_id: r for r in SparkRun.objects.filter(pk__in=last)}
    return [_job_row(j, runs.get(j.pk)) for j in jobs]


def _job_row(job: SparkJob, run: SparkRun | None) -> SparkJobRow:
    active = run is not None and run.state in ACTIVE_STATES
    stopping = run is not None and run.state == SparkRunState.STOPPING
    status = run.status if run is not None else {}
    return SparkJobRow(
        id=job.pk,
        name=job.name,
        kind=job.kind,
        title=KINDS[job.kind].title if job.kind in KINDS else job.kind,
        parameters=job.parameters,
        schedule=job.schedule,
        next_run_at=job.next_run_at,
        state=run.state if run is not None else NEVER,
        run_id=run.pk if run is not None else None,
        rows=status.get("rows"),
        rows_per_second=status.get("rows_per_second"),
        behind_records=status.get("behind_records"),
        heartbeat_at=run.heartbeat_at if run is not None else None,
        actor=job.actor,
        comment=job.comment,
        created_at=job.created_at,
        can=[] if stopping else [SparkJobVerb.STOP] if active else [SparkJobVerb.RUN, SparkJobVerb.DELETE],
        version=job.version,
        error=str(status.get("error", "")) if run is not None and run.state == SparkRunState.FAILED else "",
    )


def _run_row(run: SparkRun) -> SparkRunRow:
    status = run.status
    return SparkRunRow(
        id=run.pk,
        job_id=run.job_id,
        job=run.job.name,
        kind=run.job.kind,
        state=run.state,
        phase=str(status.get("phase", "")),
        parameters=run.parameters,
        rows=status.get("rows"),
        rows_per_second=status.get("rows_per_second"),
        behind_records=status.get("behind_records"),
        dead_letters=status.get("dead_letters"),
        batches=status.get("batches"),
        report=[ReportTableRow(t["title"], t["columns"], t["rows"], t["rows_total"]) for t in status.get("report", [])],
        error=str(status.get("error", "")),
        note=with_phrase(run.note, run.note_phrase),
        actor=run.actor,
        pid=run.pid,
        restarts=run.restarts,
        heartbeat_at=run.heartbeat_at,
        heartbeat_age_s=age_s(run.heartbeat_at),
        created_at=run.created_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
    )
