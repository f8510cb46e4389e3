"""Health checks of the web process: liveness without the database, readiness with it, and a database that hangs."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from django.db import DatabaseError, connection

from weir import health
from weir.health import HealthChecks, WebReadiness


def run(steps: Callable[[], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        return await steps()

    return asyncio.run(main())


def responses(checks: HealthChecks, *paths: str) -> list[tuple[int, str] | None]:
    """Status and state of each path; None: not answered."""

    async def request_paths() -> list[tuple[int, str] | None]:
        found: list[tuple[int, str] | None] = []
        for path in paths:
            sent: list[Any] = []

            async def send(message: Any, sent: list[Any] = sent) -> None:
                sent.append(message)

            responded = await checks.respond(path, send)
            found.append((sent[0]["status"], json.loads(sent[1]["body"])["status"]) if responded else None)
        return found

    return list(run(request_paths))


def test_liveness_does_not_depend_on_the_database() -> None:
    def fail_if_called() -> WebReadiness:
        raise AssertionError

    assert responses(HealthChecks(fail_if_called, fail_if_called), "/healthz", "/", "/healthz/x") == [
        (200, "live"),
        None,
        None,
    ]


def test_migrations_are_compared_until_they_are_complete_and_then_the_database_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(health, "REUSE_SECONDS", 0.0)
    first = [WebReadiness.DATABASE_UNAVAILABLE, WebReadiness.MIGRATIONS_MISSING, WebReadiness.READY]
    later = [WebReadiness.READY, WebReadiness.DATABASE_UNAVAILABLE]
    checks = HealthChecks(lambda: first.pop(0), lambda: later.pop(0))
    assert responses(checks, *["/readyz"] * 5) == [
        (503, "database_unavailable"),
        (503, "migrations_missing"),
        (200, "ready"),
        (200, "ready"),
        (503, "database_unavailable"),
    ]


def test_a_result_is_used_again_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "REUSE_SECONDS", 3_600.0)
    results = [WebReadiness.READY]
    assert responses(HealthChecks(results.pop, results.pop), "/readyz", "/readyz") == [(200, "ready")] * 2


def test_a_database_that_hangs_is_not_ready_and_is_asked_one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "REUSE_SECONDS", 0.0)
    monkeypatch.setattr(health, "WAIT_SECONDS", 0.01)
    release, asked = threading.Event(), []

    def wait_for_release() -> WebReadiness:
        asked.append(1)
        release.wait(60)
        return WebReadiness.READY

    checks = HealthChecks(wait_for_release, wait_for_release)

    async def check_readiness() -> None:
        assert [await checks.readiness(), await checks.readiness()] == [WebReadiness.DATABASE_UNAVAILABLE] * 2
        assert len(asked) == 1
        release.set()
        monkeypatch.setattr(health, "WAIT_SECONDS", 60)
        assert await checks.readiness() is WebReadiness.READY

    run(check_readiness)


@pytest.mark.django_db
def test_the_database_of_the_tests_is_ready() -> None:
    assert health.check_database() is WebReadiness.READY
    assert health.check_connection() is WebReadiness.READY


@pytest.mark.django_db
def test_tables_of_an_earlier_program_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health.MigrationExecutor, "migration_plan", lambda *a: ["0027"])
    assert health.check_database() is WebReadiness.MIGRATIONS_MISSING


def test_a_database_error_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def reject(*arguments: object) -> None:
        raise DatabaseError("no route to host")

    closed: list[int] = []
    monkeypatch.setattr(health, "MigrationExecutor", reject)
    monkeypatch.setattr(connection, "cursor", reject)
    monkeypatch.setattr(connection, "close", lambda: closed.append(1))
    assert health.check_database() is health.check_connection() is WebReadiness.DATABASE_UNAVAILABLE
    assert closed == [1, 1]
