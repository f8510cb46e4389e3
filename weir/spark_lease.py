"""The lease of Spark drivers: of all workers that read only the queue of Spark jobs, one starts drivers and watches them. The others wait.

Invariants: the holder has the lock SPARK_DRIVERS of the database and requests it every second. LEASE_SECONDS after the last successful request it ends
its drivers and itself. Another worker that gets the lock waits longer than that before it starts a driver. So a driver never runs on two machines, even
if a process, the network or the database fails, unless a machine stalls for seconds and then continues. With SQLite there is one machine and no lock.
Does not contain: the lock (`controlplane.db.process_lock`), rows of jobs.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger(__name__)

CHECK_SECONDS = 1.0
LEASE_SECONDS = 8.0
"""Less than the time after which PostgreSQL gives the lock of a lost machine to another one, 11 s (`process_lock`)."""
TAKEOVER_SECONDS = 12.0
"""A new holder waits: the former one ends its drivers within LEASE_SECONDS, and the kernel needs a moment."""
EXIT_STATUS = 75
"""The process ends because it has lost the lease. Its service manager starts it again, and it waits."""


class Lock(Protocol):
    """`ProcessLock`. All calls are made by one thread."""

    @property
    def needed(self) -> bool: ...

    def acquire(self) -> bool: ...

    def is_held(self) -> bool: ...


class SparkLease:
    """`end_drivers` kills the drivers of this machine. Both time functions are those of `time`."""

    def __init__(
        self,
        lock: Lock,
        end_drivers: Callable[[], object],
        *,
        exit_process: Callable[[int], object] = os._exit,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._lock, self._end_drivers, self._exit = lock, end_drivers, exit_process
        self._monotonic, self._sleep = monotonic, sleep
        self._valid_s: float | None = None
        """Time at which the last successful request was sent."""
        self.acquired = threading.Event()

    def wait(self, waiting: Callable[[], object]) -> None:
        """Return when this worker may start drivers. `waiting` is called each second."""
        if not self._lock.needed:
            return
        threading.Thread(target=self._keep, name="spark-lease", daemon=True).start()
        while not self.acquired.wait(CHECK_SECONDS):
            waiting()
        for _ in range(int(TAKEOVER_SECONDS / CHECK_SECONDS)):
            waiting()
            self._sleep(CHECK_SECONDS)
        log.info("lease of Spark drivers acquired")

    def _keep(self) -> None:
        """Request the lock every second. A request to the database may block, so `_guard` runs on a separate thread."""
        waiting = False
        while not self.renew():
            if not waiting:
                log.info("Spark worker on standby: another worker has the lease, or the database does not respond")
                waiting = True
            self._sleep(CHECK_SECONDS)
        threading.Thread(target=self._guard, name="spark-lease-guard", daemon=True).start()
        self.acquired.set()
        while True:
            self._sleep(CHECK_SECONDS)
            self.renew()

    def renew(self) -> bool:
        """Return whether the database has the lock for this process now. A lock that was lost with its connection is acquired again if no other process has it."""
        sent_s = self._monotonic()
        if not (self._lock.is_held() or self._lock.acquire()):
            return False
        self._valid_s = sent_s
        return True

    def _guard(self) -> None:
        while not self.end_if_expired():
            self._sleep(CHECK_SECONDS / 4)

    def end_if_expired(self) -> bool:
        """End the drivers and the process if the lease is over."""
        assert self._valid_s is not None, "the guard starts after the first good response"
        if self._monotonic() - self._valid_s < LEASE_SECONDS:
            return False
        log.critical("lease of Spark drivers lost, drivers and worker end: seconds=%.0f", LEASE_SECONDS)
        self._end_drivers()
        self._exit(EXIT_STATUS)
        return True
