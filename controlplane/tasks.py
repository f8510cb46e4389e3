"""What the worker does. Law: a task carries ids only, does one short step through one service and returns; what it did not do, the next look
finds in the rows. So a lost task costs a second, and a task that comes twice does nothing twice."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from celery import shared_task
from django.db import DatabaseError, close_old_connections

log = logging.getLogger(__name__)

QUIET_SECONDS = 60.0
"""Seconds between sweeps of what needs no step each second."""

_swept = 0.0


def _step(what: str, advance: Callable[[int], str | None], row_id: int) -> None:
    try:
        state = advance(row_id)
        log.debug("%s %s: %s", what, row_id, state)
    except DatabaseError as e:
        # Locked or away: the row waits, the next look comes in a second.
        log.warning("%s %s waits for the database: %s", what, row_id, e)
        close_old_connections()


@shared_task(name="controlplane.advance_move")
def advance_move(move_id: int) -> None:
    from controlplane.services import advancing

    _step("move", advancing.advance_move, move_id)


@shared_task(name="controlplane.compare_copies")
def compare_copies(part_id: int) -> None:
    from controlplane.services import comparing

    _step("copies of part", comparing.compare_part, part_id)


@shared_task(name="controlplane.pace_move")
def pace_move(move_id: int) -> None:
    from controlplane.services import speeds

    _step("speed of move", lambda i: str(speeds.mind(i)), move_id)


@shared_task(name="controlplane.advance_recovery")
def advance_recovery(recovery_id: int) -> None:
    from controlplane.services import recovery

    _step("recovery", recovery.advance_recovery, recovery_id)


@shared_task(name="controlplane.advance_restart")
def advance_restart(restart_id: int) -> None:
    from controlplane.services import restarting

    _step("rolling restart", restarting.advance_restart, restart_id)


@shared_task(name="controlplane.advance_archive")
def advance_archive(job_id: int) -> None:
    from controlplane.services import archives

    _step("archive job", archives.advance_archive, job_id)


@shared_task(name="controlplane.advance_all")
def advance_all() -> None:
    """The look of each second: every unfinished row gets its task. Moves come first: of a worker that has just begun the other services are not
    imported yet, which takes as long as all of its start."""
    global _swept
    from controlplane.services import advancing

    try:
        for move_id in advancing.working_moves():
            advance_move.apply_async((move_id,), expires=5)
    except DatabaseError as e:
        log.warning("the look at moves waits for the database: %s", e)
        close_old_connections()
        return
    from controlplane.services import (
        archives,
        audit,
        changes,
        comparing,
        proposals,
        recovery,
        restarting,
        schedules,
        speeds,
    )

    try:
        for move_id in schedules.due():
            schedules.mind(move_id)
        for move_id in speeds.due():
            pace_move.apply_async((move_id,), expires=2)
        for part_id in comparing.due():
            compare_copies.apply_async((part_id,), expires=5)
        for recovery_id in recovery.working_recoveries():
            advance_recovery.apply_async((recovery_id,), expires=5)
        for restart_id in restarting.working_restarts():
            advance_restart.apply_async((restart_id,), expires=5)
        for job_id in archives.working_archives():
            advance_archive.apply_async((job_id,), expires=5)
        recovery.mend_findings()
        now = time.monotonic()
        if now - _swept >= QUIET_SECONDS:
            _swept = now
            changes.settle_overdue_changes()
            proposals.sweep()
        audit.seal()
    except DatabaseError as e:
        log.warning("the look waits for the database: %s", e)
        close_old_connections()
