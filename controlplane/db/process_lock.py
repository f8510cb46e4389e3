"""A lock that one process of the cluster has at a time: an advisory lock of PostgreSQL, on a connection of its own.

Invariants: the server ends the lock with the connection, within about 11 s after the machine of the process has left the network. A process that has lost
the connection does not have the lock. SQLite has one machine and needs no lock. Does not contain: what the process does with it.
"""

from __future__ import annotations

import logging
from enum import IntEnum

from django.db import DatabaseError, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

log = logging.getLogger(__name__)

KEEPALIVE = "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 2; SET tcp_keepalives_count = 3"
"""Seconds, seconds, probes: the server then ends the session of a client that does not respond."""

HELD = """SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid() AND classid = 0 AND objid = %s AND granted"""
"""Checks the lock, not only the connection: a reopened connection answers as well, but does not have the lock."""


class LockName(IntEnum):
    """The number of each lock in the database. Never reused for another purpose."""

    MONITOR = 7_310_001
    SPARK_DRIVERS = 7_310_002


class ProcessLock:
    """Not thread-safe: `acquire` and `is_held` are called by one thread."""

    def __init__(self, name: LockName) -> None:
        self._name = name
        self._connection: BaseDatabaseWrapper | None = None

    @property
    def needed(self) -> bool:
        """True if several machines may have this database."""
        return bool(connection.vendor == "postgresql")

    def acquire(self) -> bool:
        """True if this process has the lock now. False if another process has it, or the database does not respond."""
        if not self.needed:
            return True
        try:
            if self._connection is None:
                self._connection = connections.create_connection("default")
            with self._connection.cursor() as cursor:
                cursor.execute(KEEPALIVE)
                cursor.execute("SELECT pg_try_advisory_lock(%s)", [self._name.value])
                return bool(cursor.fetchone()[0])
        except DatabaseError as e:
            log.warning("database unavailable, lock not acquired: lock=%s error=%s", self._name.name, e)
            self.release()
            return False

    def is_held(self) -> bool:
        """Return whether the database still has the lock for this process."""
        if not self.needed:
            return True
        if self._connection is None:
            return False
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(HELD, [self._name.value])
                return bool(cursor.fetchone()[0])
        except DatabaseError as e:
            log.warning("database unavailable, lock lost: lock=%s error=%s", self._name.name, e)
            self.release()
            return False

    def release(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
