"""Checks of the sessions of all sockets of a process.

Each socket checks its session at each heartbeat. A check alone costs a new connection to the database, so those of half a second share one. Invariant: a result was
read after its check was requested. Does not contain: what a valid session is (`controlplane.selectors.sessions`).
"""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from channels.db import database_sync_to_async

from controlplane.selectors.sessions import signed_in

COLLECT_SECONDS = 0.5
"""Time from the first request to the read. Requests that arrive in this time share it."""


def _signed_in_keys(keys: frozenset[str | None]) -> frozenset[str | None]:
    return frozenset(key for key in keys if signed_in(key))


class SessionChecks:
    """The checks of one event loop."""

    def __init__(self) -> None:
        self._keys: set[str | None] = set()
        self._round: asyncio.Task[frozenset[str | None]] | None = None

    async def is_signed_in(self, key: str | None) -> bool:
        """Return whether the session is valid. Raises DatabaseError for all requests of a failed read."""
        if self._round is None:
            self._round = asyncio.create_task(self._check_keys())
        self._keys.add(key)
        return key in await asyncio.shield(self._round)  # a socket that closes must not end the check of others

    async def _check_keys(self) -> frozenset[str | None]:
        await asyncio.sleep(COLLECT_SECONDS)
        keys, self._keys, self._round = frozenset(self._keys), set(), None
        valid: frozenset[str | None] = await database_sync_to_async(_signed_in_keys)(keys)
        return valid


_checks: WeakKeyDictionary[asyncio.AbstractEventLoop, SessionChecks] = WeakKeyDictionary()


def session_checks() -> SessionChecks:
    """The checks of the running event loop."""
    return _checks.setdefault(asyncio.get_running_loop(), SessionChecks())
