"""Checks of sessions share one read, and each gets its own result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from django.db import DatabaseError

from console import session_checks
from console.session_checks import SessionChecks


class Reads:
    """The reads of sessions. `valid`: keys of valid sessions, or the error of the database."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.valid: set[str | None] | DatabaseError = set()
        self.rounds: list[frozenset[str | None]] = []
        monkeypatch.setattr(session_checks, "COLLECT_SECONDS", 0.01)
        monkeypatch.setattr(session_checks, "_signed_in_keys", self.read)

    def read(self, keys: frozenset[str | None]) -> frozenset[str | None]:
        self.rounds.append(keys)
        if isinstance(self.valid, DatabaseError):
            raise self.valid
        return keys & self.valid


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


def run(scenario: Callable[[SessionChecks], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario(SessionChecks()))


def test_sockets_share_a_read_and_each_has_the_result_of_its_session(reads: Reads) -> None:
    reads.valid = {"a", "b"}

    async def scenario(checks: SessionChecks) -> None:
        keys = ["a", "b", "gone", None, "a"]
        assert await asyncio.gather(*map(checks.is_signed_in, keys)) == [True, True, False, False, True]

    run(scenario)
    assert reads.rounds == [frozenset({"a", "b", "gone", None})]


def test_a_later_check_reads_again(reads: Reads) -> None:
    async def scenario(checks: SessionChecks) -> None:
        reads.valid = {"a"}
        assert await checks.is_signed_in("a")
        reads.valid = set()
        assert not await checks.is_signed_in("a")

    run(scenario)
    assert len(reads.rounds) == 2


def test_a_failed_read_is_the_error_of_each_check_and_ends_none_of_the_next(reads: Reads) -> None:
    async def scenario(checks: SessionChecks) -> None:
        reads.valid = DatabaseError("away")
        results = await asyncio.gather(*map(checks.is_signed_in, ["a", "b"]), return_exceptions=True)
        assert [type(r) for r in results] == [DatabaseError, DatabaseError]
        reads.valid = {"a"}
        assert await checks.is_signed_in("a")

    run(scenario)


def test_a_socket_that_is_closed_meanwhile_does_not_end_the_check_of_others(reads: Reads) -> None:
    reads.valid = {"a"}

    async def scenario(checks: SessionChecks) -> None:
        closed = asyncio.create_task(checks.is_signed_in("a"))
        other = asyncio.create_task(checks.is_signed_in("a"))
        await asyncio.sleep(0)
        closed.cancel()
        assert await other

    run(scenario)
    assert reads.rounds == [frozenset({"a"})]


@pytest.mark.django_db
def test_unknown_sessions_are_not_signed_in() -> None:
    assert session_checks._signed_in_keys(frozenset({None, "unknown"})) == frozenset()
