"""Facts about the worker of Spark jobs. The worker may run on a machine of its own (queue `weir-spark`), so the polls of the other worker say nothing
about it. A cluster without Spark jobs needs no such worker: without an unfinished or overdue job there is no fact.
"""

from __future__ import annotations

from datetime import datetime

from django.utils import timezone

from controlplane.domain.alert_types import NAMES_MAX
from controlplane.models import ArchiveJob, SparkJob, SparkRun
from controlplane.models.spark import ACTIVE_STATES
from controlplane.services.archives import WORKING

Waiting = tuple[int, tuple[str | int, ...]]
"""The number of jobs, and the first ones: names of Spark jobs, ids of archives."""


def spark_worker_facts(polled_at: datetime | None, monitored_since: datetime | None) -> tuple[float | None, Waiting]:
    """Seconds for which a job has needed a worker and none has polled, None if no job needs one; and these jobs, the longest first."""
    now = timezone.now()
    since = _needed_since(now)
    if not since:
        return None, (0, ())
    began = max(at for at in (min(since.values()), polled_at, monitored_since) if at is not None)
    names = sorted(since, key=lambda name: (since[name], str(name)))
    return (now - began).total_seconds(), (len(names), tuple(names[:NAMES_MAX]))


def _needed_since(now: datetime) -> dict[str | int, datetime]:
    """Since when each unfinished or overdue job has needed a worker."""
    needed: list[tuple[str | int, datetime | None]] = [
        *ArchiveJob.objects.filter(state__in=WORKING).values_list("pk", "created_at"),
        *SparkRun.objects.filter(state__in=ACTIVE_STATES).values_list("job__name", "created_at"),
        *SparkJob.objects.filter(next_run_at__lte=now, deleted_at__isnull=True).values_list("name", "next_run_at"),
    ]
    since: dict[str | int, datetime] = {}
    for name, at in needed:
        if at is not None:
            since[name] = min(at, since.get(name, at))
    return since
