"""Archive jobs, and the records of each in the lake, according to its manifest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Max, Min, QuerySet, Sum

from controlplane.models import ArchiveBatch, ArchiveJob, ObservedPartition
from controlplane.models.job import ArchiveState
from controlplane.selectors.common import RowFilter, StateFilter, age_s, in_states
from controlplane.selectors.paging import Page, PageStart, paginate
from weir_common.phrases import with_phrase

ACTIVE_STATES = frozenset({ArchiveState.REQUESTED, ArchiveState.RUNNING, ArchiveState.STOPPING})
"""States of an archive that has a driver, or gets one."""


@dataclass(frozen=True, slots=True)
class ArchiveRow:
    """`heartbeat_at` is when the Spark driver last wrote its status file. `can`: stop, resume."""

    id: int
    topics: list[str]
    state: str
    folder: str
    pid: int | None
    rows: int
    batches: int
    restarts: int
    status: dict[str, object]
    heartbeat_at: datetime | None
    heartbeat_age_s: float | None
    actor: str
    comment: str
    note: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    can: list[str]

    @property
    def active(self) -> bool:
        return self.state in ACTIVE_STATES

    @property
    def is_failed(self) -> bool:
        return self.state == ArchiveState.FAILED


@dataclass(frozen=True, slots=True)
class WrittenRow:
    """Records of one partition in the lake: [first_offset, next_offset). `gap` True = the ranges are not contiguous. `left_records`: records of the
    topic that are not archived yet, None = not known."""

    topic: str
    partition: int
    first_offset: int
    next_offset: int
    rows: int
    batches: int
    gap: bool
    left_records: int | None


@dataclass(frozen=True, slots=True)
class BatchRow:
    """The offsets [first_offset, next_offset) of one partition that a micro-batch has archived. `batch`: number of the micro-batch."""

    batch: int
    topic: str
    partition: int
    first_offset: int
    next_offset: int
    rows: int
    read_at: datetime


ARCHIVE_COLUMNS = {"id": "id", "state": "state", "rows": "rows", "created_at": "created_at"}


class ArchiveFilter(RowFilter):
    state = StateFilter(in_states(ArchiveState))


def archive_list(*, sort: str = "-id", page: PageStart = 1, per_page: int = 50) -> Page[ArchiveRow]:
    return archive_page(ArchiveJob.objects.all(), sort=sort, page=page, per_page=per_page)


def archive_page(
    rows: QuerySet[ArchiveJob], *, sort: str, page: PageStart, per_page: int, query: str = ""
) -> Page[ArchiveRow]:
    return paginate(
        rows,
        lambda found: [_row(j) for j in found],
        page=page,
        per_page=per_page,
        sort=sort,
        columns=ARCHIVE_COLUMNS,
        tie="-id",
    )


def archive_row(job_id: int) -> ArchiveRow | None:
    job = ArchiveJob.objects.filter(pk=job_id).first()
    return None if job is None else _row(job)


def archive_written(job_id: int) -> list[WrittenRow]:
    """Written records per partition, summed over the batches of the job."""
    ends = {
        (t, i): end
        for t, i, end in ObservedPartition.objects.filter(
            topic__name__in=ArchiveBatch.objects.filter(job_id=job_id).values("topic")
        ).values_list("topic__name", "index", "end_offset")
    }
    rows = (
        ArchiveBatch.objects.filter(job_id=job_id)
        .order_by()
        .values("topic", "partition")
        .annotate(first=Min("first_offset"), next=Max("next_offset"), total=Sum("rows"), n=Count("pk"))
        .annotate(covered=Sum("next_offset") - Sum("first_offset"))
        .order_by("topic", "partition")
    )
    out = []
    for row in rows:
        end = ends.get((row["topic"], row["partition"]))
        out.append(
            WrittenRow(
                topic=row["topic"],
                partition=row["partition"],
                first_offset=row["first"],
                next_offset=row["next"],
                rows=row["total"],
                batches=row["n"],
                gap=row["covered"] != row["next"] - row["first"],
                left_records=None if end is None else max(0, end - row["next"]),
            )
        )
    return out


def archive_batches(job_id: int, *, page: PageStart = 1, per_page: int = 50) -> Page[BatchRow]:
    """The newest batches first."""
    return batch_page(batches_of(job_id), page=page, per_page=per_page)


def batches_of(job_id: int) -> QuerySet[ArchiveBatch]:
    return ArchiveBatch.objects.filter(job_id=job_id)


def batch_page(
    rows: QuerySet[ArchiveBatch], *, sort: str = "-batch", page: PageStart, per_page: int, query: str = ""
) -> Page[BatchRow]:
    return paginate(
        rows,
        lambda found: [
            BatchRow(b.batch, b.topic, b.partition, b.first_offset, b.next_offset, b.rows, b.read_at) for b in found
        ],
        page=page,
        per_page=per_page,
        sort="-batch",
        columns={"batch": "batch"},
        tie="partition",
    )


def _row(job: ArchiveJob) -> ArchiveRow:
    can = {"requested": ["stop"], "running": ["stop"], "stopped": ["resume"], "failed": ["resume"]}.get(job.state, [])
    return ArchiveRow(
        id=job.pk,
        topics=job.topics,
        state=job.state,
        folder=job.folder,
        pid=job.pid,
        rows=job.rows,
        batches=job.batches,
        restarts=job.restarts,
        status=job.status,
        heartbeat_at=job.heartbeat_at,
        heartbeat_age_s=age_s(job.heartbeat_at),
        actor=job.actor,
        comment=job.comment,
        note=with_phrase(job.note, job.note_phrase),
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        can=can,
    )
