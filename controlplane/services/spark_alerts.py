"""Facts about the worker of Spark jobs. The worker may run on a machine of its own (queue `weir-spark`), so the polls of the other worker say nothing
about it. A cluster without Spark jobs needs no such worker: without an unfinished or overdue job there is no fact.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import Min
from django.utils import timezone

from controlplane.models import ArchiveJob, SparkJob, SparkRun
from controlplane.models.spark import ACTIVE_STATES
from controlplane.services.archives import WORKING


def spark_worker_silent_s(polled_at: datetime | None, monitored_since: datetime | None) -> float | None:
    """Seconds for which a job has needed a worker and none has polled; None if no job needs one."""
    now = timezone.now()
    needed = (
        ArchiveJob.objects.filter(state__in=WORKING).aggregate(at=Min("created_at"))["at"],
        SparkRun.objects.filter(state__in=ACTIVE_STATES).aggregate(at=Min("created_at"))["at"],
        SparkJob.objects.filter(next_run_at__lte=now, deleted_at__isnull=True).aggregate(at=Min("next_run_at"))["at"],
    )
    since = [at for at in needed if at is not None]
    if not since:
        return None
    return (now - max(at for at in (min(since), polled_at, monitored_since) if at is not None)).total_seconds()
