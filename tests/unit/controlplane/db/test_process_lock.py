"""The lock of one process: with SQLite it is free, with PostgreSQL one connection has it.

The lock is tested on a PostgreSQL server of its own, also when the other tests run on SQLite.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import DatabaseError, connection, connections
from django.db.utils import ConnectionHandler

from controlplane.db import process_lock
from controlplane.db.process_lock import LockName, ProcessLock
from tests import postgres
from weir.settings import database


@pytest.fixture
def locks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ProcessLock]]:
    """The lock as two processes see it. Advisory locks need no tables, so the server has no migrated database."""
    made = [ProcessLock(LockName.MONITOR), ProcessLock(LockName.MONITOR)]
    with postgres.server() as url:
        handler = ConnectionHandler({"default": database(url)})
        monkeypatch.setattr(process_lock, "connections", handler)
        monkeypatch.setattr(process_lock, "connection", handler["default"])
        yield made
        for lock in made:
            lock.release()


@pytest.mark.django_db
def test_with_sqlite_there_is_one_machine_and_the_lock_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "vendor", "sqlite")
    lock = ProcessLock(LockName.MONITOR)
    assert lock.acquire() and lock.is_held()


@pytest.mark.django_db
def test_one_process_has_the_lock_until_its_connection_ends(locks: list[ProcessLock]) -> None:
    first, second = locks
    assert first.acquire() and first.is_held()
    assert not second.acquire() and not second.is_held()
    assert first._connection is not None
    first._connection.close()  # the next statement would open a connection again, without the lock
    assert not first.is_held()
    assert second.acquire() and second.is_held() and not first.acquire()


class BrokenConnection:
    """A connection to a database that does not respond."""

    closed = 0

    def cursor(self) -> None:
        raise DatabaseError("no route to host")

    def close(self) -> None:
        self.closed += 1


def test_without_the_database_no_process_has_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = BrokenConnection()
    monkeypatch.setattr(connection, "vendor", "postgresql")
    monkeypatch.setattr(type(connections), "create_connection", lambda self, alias: broken)
    lock = ProcessLock(LockName.MONITOR)
    assert not lock.is_held()
    assert not lock.acquire() and broken.closed == 1
    monkeypatch.setattr(lock, "_connection", broken)
    assert not lock.is_held() and broken.closed == 2
