"""Reports to the service manager that the Celery worker makes progress, so that a hanging worker is restarted.

A worker works while it completes tasks: beat sends one each second, so both the loop that receives messages and a free thread are needed. A time without
the transport (Redis) does not count, because no task arrives then. A process that is stopped sends nothing at all. Does not contain: the protocol
(`weir_common.service_manager`), the limit of a unit (`WatchdogSec` in deploy/systemd).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from celery import Celery
from kombu.exceptions import OperationalError

from weir_common.service_manager import notify_watchdog

log = logging.getLogger(__name__)

HANG_SECONDS_MAX = 300.0
"""Seconds without a completed task, while the transport answers, after which no more messages are sent. A step has time limits of less than a minute for
each of its calls."""
CHECK_SECONDS = 10.0
"""Seconds between two messages: several fit into WatchdogSec, so that one lost message has no effect."""
TRANSPORT_SECONDS = 3


@dataclass(slots=True)
class WorkerProgress:
    """`since_s`: the last completed task, or the last moment without the transport, in seconds of a monotonic clock."""

    since_s: float
    reported: bool = False

    def on_task_completed(self, now_s: float) -> None:
        self.since_s, self.reported = now_s, False

    def works(self, now_s: float, transport_responds: Callable[[], bool]) -> bool:
        """False after HANG_SECONDS_MAX without progress. The transport is checked only then."""
        if now_s - self.since_s < HANG_SECONDS_MAX:
            return True
        if not transport_responds():
            self.since_s = now_s
            return True
        if not self.reported:
            self.reported = True
            log.critical("worker hangs, the service manager is not notified: seconds=%.0f", now_s - self.since_s)
        return False


class WorkerWatchdog:
    """A thread that sends the messages. `completed` is called by the threads of tasks."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._progress = WorkerProgress(time.monotonic())

    def start(self) -> None:
        threading.Thread(target=self._run_checks, name="service-watchdog", daemon=True).start()

    def on_task_completed(self) -> None:
        self._progress.on_task_completed(time.monotonic())

    def _run_checks(self) -> None:
        while True:
            if self._progress.works(time.monotonic(), self._transport_responds):
                notify_watchdog()
            time.sleep(CHECK_SECONDS)

    def _transport_responds(self) -> bool:
        try:
            with self._app.connection_for_write() as connection:
                connection.ensure_connection(max_retries=1, interval_start=0, timeout=TRANSPORT_SECONDS)
        except (OSError, OperationalError):
            return False
        return True
