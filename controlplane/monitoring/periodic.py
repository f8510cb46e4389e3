"""Work of the monitor that reads many rows: health checks every 30 s, anomalies every minute. One thread of the pool, one job at a time.

Invariant: a job that fails is logged and runs again. Does not contain: the work (`controlplane.services`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field

from django.db import DatabaseError, connection

log = logging.getLogger(__name__)


@dataclass(slots=True)
class PeriodicJob:
    """`every_ms` passes between two starts, and before the first one."""

    name: str
    work: Callable[[], object]
    every_ms: int
    due_ms: int
    running: bool = field(default=False, init=False)

    def poll(self, pool: Executor, now_ms: int) -> None:
        """Start the work on a thread of the pool if it is due and does not run."""
        if not self.running and now_ms >= self.due_ms:
            self.running, self.due_ms = True, now_ms + self.every_ms
            pool.submit(self.run)

    def run(self) -> None:
        try:
            self.work()
        except DatabaseError as e:
            log.warning("database unavailable, retrying later: job=%s error=%s", self.name, e)
        except Exception:  # A bug must not end the job permanently.
            log.exception("job of the monitor failed, retrying: job=%s", self.name)
        finally:
            connection.close()
            self.running = False
