"""Entity tags: a text per object that differs after each change of it. The REST API compares it with `If-Match`.

`lock`: the row cannot change until the transaction ends. (SQLite locks the database when the transaction begins.)
"""

from __future__ import annotations

from typing import TypeVar

from django.db.models import Model, QuerySet

from controlplane.domain.alert_thresholds import ThresholdName
from controlplane.models import (
    AlertThresholdVersion,
    Move,
    NotificationChannel,
    ObservedTopic,
    Plan,
    SparkJob,
    Topic,
)

M = TypeVar("M", bound=Model)


def topic_tag(name: str, *, lock: bool = False) -> str | None:
    """The desired generation; that of the cluster for a topic without a row. None = there is no such topic."""
    generations = [
        _with_lock(Topic.objects.filter(name=name, deleted_at__isnull=True), lock).values_list("generation", flat=True),
        ObservedTopic.objects.filter(name=name).values_list("generation", flat=True),
    ]
    found = next((value for rows in generations for value in rows), None)
    return None if found is None else str(found)


def move_tag(move_id: int, *, lock: bool = False) -> str | None:
    """The number of writes of the move."""
    found = _with_lock(Move.objects.filter(pk=move_id), lock).values_list("version", flat=True).first()
    return None if found is None else str(found)


def plan_tag(plan_id: int, *, lock: bool = False) -> str | None:
    """The content of a plan never changes. Its approval, its move and its place in the list change, so the tag contains these."""
    columns = ("move_id", "approved_at", "dropped_at")
    found = _with_lock(Plan.objects.filter(pk=plan_id), lock).values_list(*columns).first()
    if found is None:
        return None
    move, *times = found
    return "-".join([str(move or 0), *(t.strftime("%Y%m%d%H%M%S%f") if t else "0" for t in times)])


def channel_tag(channel_id: int, *, lock: bool = False) -> str | None:
    """The number of changes by operators. Deliveries do not change it."""
    rows = _with_lock(NotificationChannel.objects.filter(pk=channel_id), lock)
    found = rows.values_list("version", flat=True).first()
    return None if found is None else str(found)


def threshold_tag(name: str, *, lock: bool = False) -> str | None:
    """The number of changes by users, for the cluster and for single objects."""
    if name not in tuple(ThresholdName):
        return None
    if lock:  # An unchanged threshold has no row to lock.
        AlertThresholdVersion.objects.get_or_create(name=name)
    rows = _with_lock(AlertThresholdVersion.objects.filter(name=name), lock)
    return str(rows.values_list("version", flat=True).first() or 0)


def spark_job_tag(job_id: int, *, lock: bool = False) -> str | None:
    """The number of changes by operators. Runs do not change it."""
    rows = _with_lock(SparkJob.objects.filter(pk=job_id, deleted_at__isnull=True), lock)
    found = rows.values_list("version", flat=True).first()
    return None if found is None else str(found)


def _with_lock(rows: QuerySet[M], lock: bool) -> QuerySet[M]:
    return rows.select_for_update() if lock else rows
