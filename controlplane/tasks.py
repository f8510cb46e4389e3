"""Tasks of the worker. A task has only ids as arguments and does one short step through one service. The next poll finds remaining work in
the rows, so a lost task costs a second, and a duplicate task has no effect."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from celery import shared_task
from django.db import DatabaseError, close_old_connections
from django.utils import timezone

log = logging.getLogger(__name__)

POLLED_SECONDS = 10.0
"""Seconds between writes of the time of the last poll, which tells the cluster monitor that a worker runs."""
QUIET_SECONDS = 60.0
"""Seconds between sweeps of rows that need no step each second."""

_swept = 0.0
_polled = -POLLED_SECONDS
_spark_polled = -POLLED_SECONDS


def _step(kind: str, advance: Callable[[int], str | None], row_id: int) -> None:
    try:
        state = advance(row_id)
        log.debug("task step: kind=%s id=%s state=%s", kind, row_id, state)
    except DatabaseError as e:
        # Locked or unavailable: the next poll, a second later, tries again.
        log.warning("database unavailable, task is retried: kind=%s id=%s error=%s", kind, row_id, e)
        close_old_connections()


@shared_task(name="controlplane.advance_move")
def advance_move(move_id: int) -> None:
    from controlplane.services import move_worker

    _step("move", move_worker.advance_move, move_id)


@shared_task(name="controlplane.compare_replicas")
def compare_replicas(part_id: int) -> None:
    from controlplane.services import replica_comparison

    _step("comparison", replica_comparison.compare_part, part_id)


@shared_task(name="controlplane.adapt_throttle")
def adapt_throttle(move_id: int) -> None:
    from controlplane.services import adaptive_throttle

    _step("adaptive throttle", lambda i: str(adaptive_throttle.update_adaptive_throttle(i)), move_id)


@shared_task(name="controlplane.advance_recovery")
def advance_recovery(recovery_id: int) -> None:
    from controlplane.services import recovery

    _step("recovery", recovery.advance_recovery, recovery_id)


@shared_task(name="controlplane.advance_restart")
def advance_restart(restart_id: int) -> None:
    from controlplane.services import rolling_restart

    _step("rolling restart", rolling_restart.advance_restart, restart_id)


@shared_task(name="controlplane.advance_reset")
def advance_reset(reset_id: int) -> None:
    from controlplane.services import offset_reset_worker

    _step("offset reset", offset_reset_worker.advance_reset, reset_id)


@shared_task(name="controlplane.advance_archive")
def advance_archive(job_id: int) -> None:
    from controlplane.services import archives

    _step("archive job", archives.advance_archive, job_id)


@shared_task(name="controlplane.advance_spark_run")
def advance_spark_run(run_id: int) -> None:
    from controlplane.services import spark_runs

    _step("Spark run", spark_runs.advance_run, run_id)


@shared_task(name="controlplane.deliver_notification")
def deliver_notification(delivery_id: int) -> None:
    from controlplane.services import notifications

    _step("notification", notifications.deliver, delivery_id)


@shared_task(name="controlplane.advance_all")
def advance_all() -> None:
    """The poll of each second: every unfinished row gets its task, except Spark jobs (`advance_spark`). Moves come first: a new worker must still import
    the other services, which takes as long as the rest of its start."""
    global _swept, _polled
    from controlplane.services import move_worker

    try:
        for move_id in move_worker.working_moves():
            advance_move(move_id)  # Run here, without a message: a message would wait for the next poll of the queue.
    except DatabaseError as e:
        log.warning("database unavailable, move poll is retried: error=%s", e)
        close_old_connections()
        return
    from controlplane.models import Cluster
    from controlplane.services import (
        adaptive_throttle,
        audit,
        changes,
        healing,
        notifications,
        offset_reset_worker,
        proposals,
        recovery,
        replica_comparison,
        rolling_restart,
        schedules,
    )

    try:
        for move_id in schedules.due_moves():
            schedules.apply_schedule(move_id)
        for move_id in adaptive_throttle.due_moves():
            adapt_throttle.apply_async((move_id,), expires=2)
        for part_id in replica_comparison.due_partitions():
            compare_replicas.apply_async((part_id,), expires=5)
        for recovery_id in recovery.working_recoveries():
            advance_recovery.apply_async((recovery_id,), expires=5)
        for restart_id in rolling_restart.working_restarts():
            advance_restart.apply_async((restart_id,), expires=5)
        for reset_id in offset_reset_worker.working_resets():
            advance_reset.apply_async((reset_id,), expires=5)
        notifications.plan()
        for delivery_id in notifications.due_deliveries():
            deliver_notification.apply_async((delivery_id,), expires=5)
        recovery.repair_damaged_replicas()
        now = time.monotonic()
        if now - _swept >= QUIET_SECONDS:
            _swept = now
            changes.settle_overdue_changes()
            notifications.sweep()
            proposals.sweep()
            offset_reset_worker.sweep()
            healing.heal()
        audit.seal()
        if now - _polled >= POLLED_SECONDS:
            _polled = now
            Cluster.objects.filter(pk=1).update(worker_polled_at=timezone.now())
    except DatabaseError as e:
        log.warning("database unavailable, poll is retried: error=%s", e)
        close_old_connections()


@shared_task(name="controlplane.advance_spark")
def advance_spark() -> None:
    """The poll of each second for Spark jobs, in the worker whose machine runs the drivers (`weir.celery`)."""
    global _spark_polled
    from controlplane.models import Cluster
    from controlplane.services import archives, spark_runs

    try:
        spark_runs.request_due_runs()
        for job_id in archives.working_archives():
            advance_archive.apply_async((job_id,), expires=5)
        for run_id in spark_runs.working_runs():
            advance_spark_run.apply_async((run_id,), expires=5)
        now = time.monotonic()
        if now - _spark_polled >= POLLED_SECONDS:
            _spark_polled = now
            Cluster.objects.filter(pk=1).update(spark_worker_polled_at=timezone.now())
    except DatabaseError as e:
        log.warning("database unavailable, poll of Spark jobs is retried: error=%s", e)
        close_old_connections()
