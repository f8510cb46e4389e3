"""Wakes the worker as soon as a row that needs it is committed.

The row is the queue: a lost message costs at most the second until the worker's next poll of the rows.
"""

from __future__ import annotations

import logging
from functools import partial

from celery import current_app
from django.db import transaction
from kombu.exceptions import OperationalError

log = logging.getLogger(__name__)

EXPIRES_S = 5
"""Seconds until an undelivered message is dropped. The worker polls the rows in any case."""


def advance_on_commit(task: str, row_id: int) -> None:
    """Send `task` for this row as soon as the current transaction is committed."""
    transaction.on_commit(partial(_send, task, row_id), robust=True)


def _send(task: str, row_id: int) -> None:
    if current_app.main != "weir":  # this process has no settings of the queue; the worker's poll finds the row
        return
    try:
        current_app.send_task(task, (row_id,), expires=EXPIRES_S, retry=False)
    except (OperationalError, OSError) as e:
        log.warning("worker not notified: task=%s row=%d error=%s", task, row_id, e)
