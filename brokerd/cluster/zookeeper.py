"""The ZooKeeper store, based on kazoo.

It uses asynchronous calls without recipes and retries. kazoo's threads only append to a deque and write to an eventfd. Each callback has
the number of its connection. Does not contain znode paths or what happens below a request (`zookeeper_connection`).
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from kazoo import exceptions as ke
from kazoo.client import KazooClient
from kazoo.hosts import collect_hosts
from kazoo.protocol.states import EventType, KazooState
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from brokerd.cluster.protection import OPEN, Protection
from brokerd.cluster.store import Check, Code, Create, Delete, Done, Operation, Result, SessionState, Set, Stat
from brokerd.cluster.zookeeper_connection import (
    SessionEnd,
    connection_options,
    retry_authentication,
    try_silent_servers_last,
)

if TYPE_CHECKING:
    from kazoo.interfaces import IAsyncResult
    from kazoo.protocol.states import WatchedEvent, ZnodeStat

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

CLOSE_SECONDS_MAX = 5.0
"""Longest wait of `close` for a server that ends the session. An election of ZooKeeper takes one or two seconds; service managers wait 30 s or more
for the end of a process."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The requirements of a server for a client that continues or ends a session."""

    zk_session: int
    password: bytes = field(repr=False)


class FormerSession(Enum):
    """Result of `end_session`."""

    ENDED = "ended"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


def servers_of(hosts: str) -> tuple[list[tuple[str, int]], str]:
    """The servers of a connection string, and its chroot path, "/" if it has none."""
    servers, chroot = collect_hosts(hosts) if hosts else ([], None)
    return [(host, int(port)) for host, port in servers], chroot or "/"


def _code(error: BaseException) -> Code:
    if isinstance(error, ke.NoAuthError):
        log.error(
            "ZooKeeper denied access to a znode: all processes of a cluster must use the same zookeeper.sasl.jaas.config"
        )
    for cls, code in _CODES:
        if isinstance(error, cls):
            return code
    return Code.OTHER


def _stat(stat: ZnodeStat) -> Stat:
    return Stat(stat.version, stat.czxid, stat.ephemeralOwner or 0, stat.ctime or 0)


class _Watch:
    """A watch callback. kazoo stores the callbacks of a path in a set until the path changes. Watches of the same connection and path compare equal, so a path
    that is read every second has one callback, not one per read."""

    __slots__ = ("_call", "_number", "_path", "_post")

    def __init__(
        self, number: int, path: str, call: Callable[[str], None], post: Callable[[int, Callable[[], None]], None]
    ) -> None:
        self._number, self._path, self._call, self._post = number, path, call, post

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Watch) and (self._number, self._path) == (other._number, other._path)

    def __hash__(self) -> int:
        return hash((self._number, self._path))

    def __call__(self, event: WatchedEvent) -> None:
        if event.type is not EventType.NONE:
            self._post(self._number, lambda: self._call(event.path))


class ZooKeeperStore:
    """Connects in the background and reports state changes with `on_session`. After a session expiry kazoo opens a new session automatically.
    A chroot in `hosts` that does not exist is created before the first session is reported, as in Kafka."""

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        protection: Protection = OPEN,
        remember: Callable[[SessionKey], None] = lambda key: None,
    ) -> None:
        """`remember` is called on the owner's thread for each connection, before the session can own an ephemeral node."""
        self.on_session: Callable[[SessionState], None] = lambda state: None
        self._remember = remember
        self._events: deque[tuple[int, Callable[[], None], Callable[[], None] | None]] = deque()
        self._eventfd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._number = 0  # connection number; callbacks of an earlier connection are stale
        self._connected = False
        self._closed = False
        self._owns_znodes = False
        """True if this process may own an ephemeral node."""
        servers, _, chroot = hosts.partition("/")
        self._chroot_to_create = f"/{chroot}".rstrip("/")
        self._client = _client_of(servers, session_timeout_ms, protection)
        self._client.handler.awaits_response = lambda: bool(self._client._pending)
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

            def on_connected() -> None:
                self._connected = True
                if (client_id := self._client.client_id) is not None:
                    self._remember(SessionKey(*client_id))
                self.on_session(SessionState.CONNECTED)

            if self._chroot_to_create:
                self._create_chroot(lambda: self._post(number, on_connected))
            else:
                self._post(number, on_connected)
            return
        expired = state == KazooState.LOST

        def on_deleted() -> None:
            self._connected = False
            self.on_session(SessionState.EXPIRED if expired else SessionState.SUSPENDED)

        self._number += 1
        self._post(self._number, on_deleted, on_deleted)

    def _create_chroot(self, then: Callable[[], None]) -> None:
        """Paths are relative to the chroot from its creation on. After a lost connection the next one tries again."""
        chroot = self._chroot_to_create

        def on_created(promise: IAsyncResult) -> None:
            error = promise.exception
            if isinstance(error, (ke.ConnectionLoss, ke.ConnectionClosedError, ke.SessionExpiredError)):
                return
            if error is not None:
                log.error("ZooKeeper chroot cannot be created: path=%s error=%s", chroot, type(error).__name__)
            self._client.chroot, self._chroot_to_create = chroot, ""
            then()

        self._client.ensure_path_async(chroot).rawlink(on_created)

    def _submit(self, call: Callable[[], IAsyncResult], done: Done, shape: Callable[[Any], Result]) -> None:
        number = self._number
        lost = Result(Code.CONNECTION_LOSS)
        try:
            promise = call()
        except ke.KazooException as e:
            code = _code(e)
            self._post(number, lambda: done(Result(code)), lambda: done(lost))
            return

        def on_completed(promise: IAsyncResult) -> None:
            error = promise.exception
            result = shape(promise.value) if error is None else Result(_code(error))
            self._post(number, lambda: done(result), lambda: done(lost))

        promise.rawlink(on_completed)

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
        self._owns_znodes |= ephemeral
        self._submit(
            lambda: self._client.create_async(path, data, ephemeral=ephemeral),
            done,
            lambda v: Result(Code.OK),
        )

    def set(self, path: str, data: bytes, version: int, done: Done) -> None:
        self._submit(
            lambda: self._client.set_async(path, data, version), done, lambda v: Result(Code.OK, stat=_stat(v))
        )

    def delete(self, path: str, version: int, done: Done) -> None:
        self._submit(lambda: self._client.delete_async(path, version), done, lambda v: Result(Code.OK))

    def multi(self, operations: Sequence[Operation], done: Done) -> None:
        self._owns_znodes |= any(isinstance(op, Create) and op.ephemeral for op in operations)

        def call() -> IAsyncResult:
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

        def shape(values: Sequence[object]) -> Result:
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
        """Run pending callbacks. Never blocks."""
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
        """End the session. Its ephemeral nodes are deleted immediately.

        Without a connection, wait at most CLOSE_SECONDS_MAX for one if the session may own znodes. A session that is not ended keeps its znodes for the
        rest of its time-out: no standby controller would be elected during this time.
        """
        self._closed = True
        if self._owns_znodes and not _end(self._client, time.monotonic() + CLOSE_SECONDS_MAX):
            log.warning("ZooKeeper session not ended, its znodes stay until it expires")
        try:
            self._client.stop()
            self._client.close()
        except ke.WriterNotClosedException as e:  # its thread waits for a server; the process ends without it
            log.warning("ZooKeeper connection not closed: %s", e)
        os.close(self._eventfd)


def _client_of(servers: str, session_timeout_ms: int, protection: Protection, **more: object) -> KazooClient:
    client = KazooClient(
        servers,
        timeout=session_timeout_ms / 1000,
        connection_retry=KazooRetry(max_tries=-1, delay=0.05, backoff=1.5, max_delay=1.0),
        command_retry=KazooRetry(max_tries=0),
        **connection_options(protection, session_timeout_ms),
        **more,
    )
    retry_authentication(client, protection.user)
    try_silent_servers_last(client, session_timeout_ms)
    return client


def _end(client: KazooClient, deadline: float) -> bool:
    """Send the end of the session until a server answers. Blocks until `deadline`, of time.monotonic()."""
    while (left := deadline - time.monotonic()) > 0:
        if not client._live.wait(left):
            return False
        promise = client.handler.async_result()
        client._call(SessionEnd(), promise)
        try:
            promise.get(timeout=left)
        except (ke.ConnectionLoss, ke.OperationTimeoutError, client.handler.timeout_exception):
            continue  # the connection was lost: kazoo connects again
        except ke.KazooException:
            return True  # expired or ended
        return True
    return False


def end_session(hosts: str, key: SessionKey, session_timeout_ms: int, protection: Protection = OPEN) -> FormerSession:
    """End the session of a process that has died, so that its ephemeral nodes are deleted immediately.

    To every other process this looks like the expiry of the session, only earlier. Blocks for at most the session time-out: after that the ensemble
    has expired the session, unless the ensemble itself did not serve.
    """
    quiet = logging.getLogger(f"{__name__}.former")
    quiet.setLevel(logging.ERROR)  # an expired session is an expected result here, a warning of kazoo
    deadline = time.monotonic() + session_timeout_ms / 1000
    servers, _, _ = hosts.partition("/")
    client = _client_of(servers, session_timeout_ms, protection, client_id=(key.zk_session, key.password), logger=quiet)
    try:
        client.start_async()
        if not client._live.wait(session_timeout_ms / 1000):
            return FormerSession.UNKNOWN
        client_id = client.client_id
        if client_id is not None and client_id[0] != key.zk_session:
            return FormerSession.EXPIRED
        return FormerSession.ENDED if _end(client, deadline) else FormerSession.UNKNOWN
    finally:
        try:
            client.stop()
            client.close()
        except ke.WriterNotClosedException:
            pass  # its thread waits for a server, and does not keep the process alive


def hand_over(hosts: str, protection: Protection, roots: Iterable[str], *, owned: bool) -> int:
    """Set the ACL of all znodes below `roots`: access for this user only (`owned`), or for all users. Returns the number of znodes. Blocks; for
    management commands. Raises PermissionError."""
    client = KazooClient(hosts, timeout=10, **connection_options(protection, 10_000))
    client.start(20)
    count, waiting = 0, list(roots)
    try:
        while waiting:
            path = waiting.pop()
            try:
                client.set_acls(path, CREATOR_ALL_ACL if owned else OPEN_ACL_UNSAFE)
                waiting += [f"{path}/{name}" for name in client.get_children(path)]
                count += 1
            except ke.NoNodeError:
                continue
            except (ke.NoAuthError, ke.InvalidACLError) as e:
                raise PermissionError(f"user {protection.user or 'anonymous'} may not change the ACL of {path}") from e
    finally:
        client.stop()
        client.close()
    return count
