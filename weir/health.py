"""Health checks of the web process, for load balancers and orchestrators: `/healthz` and `/readyz`.

Invariants: they need no login and no host name, and run outside of Django: a database that hangs delays neither of them. `/healthz` shows that the
event loop runs, and `/readyz` that the process can serve pages. Does not contain: the health of the cluster (`controlplane.services.health`).
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from http import HTTPStatus

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor

log = logging.getLogger(__name__)

LIVE_PATH, READY_PATH = "/healthz", "/readyz"
WAIT_SECONDS = 3.0
"""Seconds until a check of the database counts as failed: less than the time-out of common load balancers (5 s)."""
REUSE_SECONDS = 1.0
"""Seconds for which a result is used again: several load balancers cost one query."""

Send = Callable[[MutableMapping[str, object]], Awaitable[None]]


class WebReadiness(StrEnum):
    READY = "ready"
    DATABASE_UNAVAILABLE = "database_unavailable"
    MIGRATIONS_MISSING = "migrations_missing"
    """The program is newer than the tables: `manage.py migrate` has not run yet."""


def check_database() -> WebReadiness:
    """Return whether the database answers and has the tables of this program. Blocks; for one thread at a time."""
    try:
        executor = MigrationExecutor(connection)
        missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except DatabaseError as e:
        log.warning("not ready: error=%s", e)
        connection.close()
        return WebReadiness.DATABASE_UNAVAILABLE
    return WebReadiness.MIGRATIONS_MISSING if missing else WebReadiness.READY


def check_connection() -> WebReadiness:
    """Return whether the database answers. Called after `check_database` has found the migrations complete."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as e:
        log.warning("not ready: error=%s", e)
        connection.close()
        return WebReadiness.DATABASE_UNAVAILABLE
    return WebReadiness.READY


class HealthChecks:
    """`response` runs in the event loop of the web process."""

    def __init__(
        self, first: Callable[[], WebReadiness] = check_database, later: Callable[[], WebReadiness] = check_connection
    ) -> None:
        self._first, self._later = first, later
        self._was_ready = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="readiness")
        self._check: asyncio.Future[WebReadiness] | None = None
        self._checked_s = -REUSE_SECONDS
        self._result = WebReadiness.DATABASE_UNAVAILABLE

    async def respond(self, path: str, send: Send) -> bool:
        """Respond if the path is one of the health checks. False: it is another path."""
        if path == LIVE_PATH:
            await _respond(send, HTTPStatus.OK, "live")
        elif path == READY_PATH:
            found = await self.readiness()
            status = HTTPStatus.OK if found is WebReadiness.READY else HTTPStatus.SERVICE_UNAVAILABLE
            await _respond(send, status, found.value)
        else:
            return False
        return True

    async def readiness(self) -> WebReadiness:
        if time.monotonic() - self._checked_s < REUSE_SECONDS:
            return self._result
        if self._check is None or self._check.done():
            loop = asyncio.get_running_loop()
            self._check = loop.run_in_executor(self._thread, self._later if self._was_ready else self._first)
        try:
            self._result = await asyncio.wait_for(asyncio.shield(self._check), WAIT_SECONDS)
        except TimeoutError:
            self._result = WebReadiness.DATABASE_UNAVAILABLE
        self._was_ready = self._was_ready or self._result is WebReadiness.READY
        self._checked_s = time.monotonic()
        return self._result


async def _respond(send: Send, status: HTTPStatus, state: str) -> None:
    body = json.dumps({"status": state}).encode() + b"\n"
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
    ]
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": body})
