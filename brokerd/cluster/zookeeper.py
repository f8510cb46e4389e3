"""The store over kazoo: the only file that imports it.

Laws: raw async calls, no recipes, no retries; kazoo's threads only append to a deque and write an eventfd; each callback carries
the number of the session it belongs to. Must not come in: znode paths, meaning.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kazoo import exceptions as ke
from kazoo.client import KazooClient
from kazoo.protocol.states import EventType, KazooState
from kazoo.retry import KazooRetry

from brokerd.cluster.store import Check, Code, Create, Delete, Done, Operation, Result, SessionState, Set, Stat

_CODES: tuple[tuple[type[BaseException], Code], ...] = (
    (ke.NoNodeError, Code.NO_NODE),
    (ke.NodeExistsError, Code.NODE_EXISTS),
    (ke.BadVersionError, Code.BAD_VERSION),
    (ke.NotEmptyError, Code.NOT_EMPTY),
    (ke.RolledBackError, Code.ROLLED_BACK),
    (ke.RuntimeInconsistency, Code.ROLLED_BACK),
    (ke.ConnectionLoss, Code.CONNECTION_LOSS),
    (ke.SessionExpiredError, Code.CONNECTION_LOSS),
    (ke.ConnectionClosedError, Code.CONNECTION_LOSS),
    (ke.OperationTimeoutError, Code.CONNECTION_LOSS),
)


def _code(error: BaseException) -> Code:
    for cls, code in _CODES:
        if isinstance(error, cls):
            return code
    return Code.OTHER


def _stat(stat: Any) -> Stat:
    return Stat(stat.version, stat.czxid, stat.ephemeralOwner or 0)


class _Watch:
    """Kazoo keeps all it is given for a path until the path changes, in a set. Here one is like another of the same connection and path, or
    whoever looks at a quiet path every second is called as often as it has looked, and looks as often again, at the first change."""

    __slots__ = ("_call", "_number", "_path", "_post")

    def __init__(
        self, number: int, path: str, call: Callable[[str], None], post: Callable[[int, Callable[[], None]], None]
    ) -> None:
        self._number, self._path, self._call, self._post = number, path, call, post

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Watch) and (self._number, self._path) == (other._number, other._path)

    def __hash__(self) -> int:
        return hash((self._number, self._path))

    def __call__(self, event: Any) -> None:
        if event.type is not EventType.NONE:
            self._post(self._number, lambda: self._call(event.path))


class ZooKeeperStore:
    """Connects in the background; `on_session` tells. After an expiry kazoo opens a new session by itself."""

    def __init__(self, hosts: str, session_timeout_ms: int) -> None:
        self.on_session: Callable[[SessionState], None] = lambda state: None
        self._events: deque[tuple[int, Callable[[], None], Callable[[], None] | None]] = deque()
        self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._number = 0  # of connections: a callback of an earlier one is stale
        self._connected = False
        self._closed = False
        self._client = KazooClient(
            hosts,
            timeout=session_timeout_ms / 1000,
            connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=1.5, max_delay=1.0),
            command_retry=KazooRetry(max_tries=0),
        )
        self._client.add_listener(self._state_changed)
        self._client.start_async()

    # -- kazoo's threads -----------------------------------------------------------------------------------------------
    def _post(self, number: int, event: Callable[[], None], stale: Callable[[], None] | None = None) -> None:
        self._events.append((number, event, stale))
        if not self._closed:
            os.eventfd_write(self._eventfd, 1)

    def _state_changed(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._number += 1
            number = self._number

            def connected() -> None:
                self._connected = True
                self.on_session(SessionState.CONNECTED)

            self._post(number, connected)
            return
        expired = state == KazooState.LOST

        def gone() -> None:
            self._connected = False
            self.on_session(SessionState.EXPIRED if expired else SessionState.SUSPENDED)

        self._number += 1
        self._post(self._number, gone, gone)

    def _submit(self, call: Callable[[], Any], done: Done, shape: Callable[[Any], Result]) -> None:
        number = self._number
        lost = Result(Code.CONNECTION_LOSS)
        try:
            promise = call()
        except ke.KazooException as e:
            code = _code(e)
            self._post(number, lambda: done(Result(code)), lambda: done(lost))
            return

        def completed(promise: Any) -> None:
            error = promise.exception
            result = shape(promise.value) if error is None else Result(_code(error))
            self._post(number, lambda: done(result), lambda: done(lost))

        promise.rawlink(completed)

    def _watcher(self, path: str, watch: Callable[[str], None] | None) -> _Watch | None:
        return _Watch(self._number, path, watch, self._post) if watch is not None else None

    # -- the owner's thread ----------------------------------------------------------------------------------------------
    @property
    def zk_session(self) -> int:
        return int(self._client.client_id[0]) if self._connected and self._client.client_id else 0

    def get(self, path: str, done: Done, watch: Callable[[str], None] | None = None) -> None:
        watcher = self._watcher(path, watch)
        self._submit(
            lambda: self._client.get_async(path, watch=watcher), done, lambda v: Result(Code.OK, v[0], _stat(v[1]))
        )

    def children(self, path: str, done: Done, watch: Callable[[str], None] | None = None) -> None:
        watcher = self._watcher(path, watch)
        self._submit(
            lambda: self._client.get_children_async(path, watch=watcher),
            done,
            lambda v: Result(Code.OK, children=tuple(sorted(v))),
        )

    def exists(self, path: str, done: Done, watch: Callable[[str], None] | None = None) -> None:
        watcher = self._watcher(path, watch)
        self._submit(
            lambda: self._client.exists_async(path, watch=watcher),
            done,
            lambda v: Result(Code.NO_NODE) if v is None else Result(Code.OK, stat=_stat(v)),
        )

    def create(self, path: str, data: bytes, done: Done, *, ephemeral: bool = False) -> None:
        self._submit(
            lambda: self._client.create_async(path, data, ephemeral=ephemeral), done, lambda v: Result(Code.OK)
        )

    def set(self, path: str, data: bytes, version: int, done: Done) -> None:
        self._submit(
            lambda: self._client.set_async(path, data, version), done, lambda v: Result(Code.OK, stat=_stat(v))
        )

    def delete(self, path: str, version: int, done: Done) -> None:
        self._submit(lambda: self._client.delete_async(path, version), done, lambda v: Result(Code.OK))

    def multi(self, operations: Sequence[Operation], done: Done) -> None:
        def call() -> Any:
            transaction = self._client.transaction()
            for op in operations:
                match op:
                    case Create():
                        transaction.create(op.path, op.data, ephemeral=op.ephemeral)
                    case Set():
                        transaction.set_data(op.path, op.data, op.version)
                    case Delete():
                        transaction.delete(op.path, op.version)
                    case Check():
                        transaction.check(op.path, op.version)
            return transaction.commit_async()

        def shape(values: Sequence[Any]) -> Result:
            codes = tuple(_code(v) if isinstance(v, BaseException) else Code.OK for v in values)
            bad: list[Code] = [c for c in codes if c not in (Code.OK, Code.ROLLED_BACK)]
            if not bad and Code.ROLLED_BACK in codes:
                bad = [Code.ROLLED_BACK]
            return Result(bad[0] if bad else Code.OK, codes=codes)

        self._submit(call, done, shape)

    def sync(self, path: str, done: Done) -> None:
        self._submit(lambda: self._client.sync_async(path), done, lambda v: Result(Code.OK))

    def fileno(self) -> int:
        return self._eventfd

    def pump(self) -> None:
        """Run what has happened. Never blocks."""
        try:
            os.eventfd_read(self._eventfd)
        except BlockingIOError:
            pass
        while self._events:
            number, event, stale = self._events.popleft()
            if number == self._number:
                event()
            elif stale is not None:
                stale()

    def close(self) -> None:
        """End the session: ephemeral nodes go at once."""
        self._closed = True
        self._client.stop()
        self._client.close()
        os.close(self._eventfd)
