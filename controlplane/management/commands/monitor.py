"""`manage.py monitor`: run the cluster monitor in its own process (production: several web processes, each with WEIR_MONITOR=off).

Several machines may run it: with PostgreSQL one of them monitors, and the others wait for its lock. Live updates need a channel layer between processes.
Rows are written in any case. A process that has lost its lock ends with exit code 1: its service manager starts it again, and it waits. A process whose
monitor makes no progress does not notify its service manager, which then restarts it.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from controlplane.db.process_lock import LockName, ProcessLock
from weir_common.service_manager import notify_watchdog

log = logging.getLogger(__name__)

LOCK_SECONDS = 1.0
"""Seconds between two checks of the lock, and between two attempts to get it."""


class Command(BaseCommand):
    help = "Monitor the cluster: write observed rows and publish live updates, until SIGTERM."

    def handle(self, *_args: str, **_options: object) -> None:
        from controlplane.monitoring.hub import hub, through_loop
        from controlplane.monitoring.monitor import build

        done = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: done.set())
        lock = ProcessLock(LockName.MONITOR)
        if not self._acquire(lock, done):
            return
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        hub.deliver_through(through_loop(loop))
        monitor = build(settings.WEIR.zookeeper, hub)
        monitor.start()
        has_lock, iterations = True, monitor.iterations
        while has_lock and not done.wait(LOCK_SECONDS):
            has_lock = lock.is_held()
            if monitor.iterations != iterations:
                iterations = monitor.iterations
                notify_watchdog()
        monitor.stop()
        loop.call_soon_threadsafe(loop.stop)
        lock.release()
        if not has_lock:
            raise CommandError("The lock in the database was lost; another process may monitor the cluster now.")

    @staticmethod
    def _acquire(lock: ProcessLock, done: threading.Event) -> bool:
        """Wait until this process has the lock. False if a signal ended the wait."""
        waiting = False
        while not lock.acquire():
            if not waiting:
                log.info("cluster monitor on standby: another process has the lock, or the database does not respond")
                waiting = True
            notify_watchdog()
            if done.wait(LOCK_SECONDS):
                return False
        log.info("cluster monitor active")
        return True
