"""Archive jobs and what each has written to the lake, as its manifest says."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Max, Min, Sum

from controlplane.models import ArchiveBatch, ArchiveJob, Partition
from controlplane.selectors.common import Page, age_s, paged


@dataclass(frozen=True, slots=True)
class ArchiveRow:
    """`heartbeat_age_s` is the age of the driver's own status file. `can`: stop, resume."""

    id: int
    topics: list[str]
    state: str
    folder: str
    pid: int | None
    rows: int
    batches: int
    restarts: int
    status: dict[str, Any]
    heartbeat_age_s: float | None
    who: str
    why: str
    note: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    can: list[str]


@dataclass(frozen=True, slots=True)
class WrittenRow:
    """What the lake holds of one partition: [first_offset, next_offset). `gap` True = the ranges do not join up. `left_records` is what the
    topic has beyond it, None = not known."""

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
    batch: int
    topic: str
    partition: int
    first_offset: int
    next_offset: int
    rows: int
    read_at: datetime


ARCHIVE_COLUMNS = {"id": "id", "state": "state", "rows": "rows", "created_at": "created_at"}


def archive_list(*, sort: str = "-id", page: int = 1, per_page: int = 50) -> Page[ArchiveRow]:
    return paged(
        ArchiveJob.objects.all(), lambda found: [_row(j) for j in found],
        page=page, per_page=per_page, sort=sort, columns=ARCHIVE_COLUMNS, tie="-id",
    )  # fmt: skip


def archive_row(job_id: int) -> ArchiveRow | None:
    job = ArchiveJob.objects.filter(pk=job_id).first()
    return None if job is None else _row(job)


def archive_written(job_id: int) -> list[WrittenRow]:
    """Per partition what the job has written, summed over its batches."""
    ends = {
        (t, i): end
        for t, i, end in Partition.objects.filter(
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
    for r in rows:
        end = ends.get((r["topic"], r["partition"]))
        out.append(
            WrittenRow(
                topic=r["topic"], partition=r["partition"], first_offset=r["first"], next_offset=r["next"],
                rows=r["total"], batches=r["n"], gap=r["covered"] != r["next"] - r["first"],
                left_records=None if end is None else max(0, end - r["next"]),
            )
        )  # fmt: skip
    return out


def archive_batches(job_id: int, *, page: int = 1, per_page: int = 50) -> Page[BatchRow]:
    """The newest batches first."""
    return paged(
        ArchiveBatch.objects.filter(job_id=job_id),
        lambda found: [
            BatchRow(b.batch, b.topic, b.partition, b.first_offset, b.next_offset, b.rows, b.read_at) for b in found
        ],
        page=page, per_page=per_page, sort="-batch", columns={"batch": "batch"}, tie="partition",
    )  # fmt: skip


def _row(j: ArchiveJob) -> ArchiveRow:
    can = {"asked": ["stop"], "running": ["stop"], "stopped": ["resume"], "failed": ["resume"]}.get(j.state, [])
    return ArchiveRow(
        id=j.pk, topics=j.topics, state=j.state, folder=j.folder, pid=j.pid, rows=j.rows, batches=j.batches,
        restarts=j.restarts, status=j.status, heartbeat_age_s=age_s(j.heartbeat_at), who=j.who, why=j.why, note=j.note,
        created_at=j.created_at, started_at=j.started_at, finished_at=j.finished_at, can=can,
    )  # fmt: skip
