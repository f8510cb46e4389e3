"""Connections of kazoo to ZooKeeper servers: its threads and their time limits, TLS, SASL, the end of a session.

kazoo has no interface for these points, so its handler is replaced and methods of its connection are wrapped. Does not contain requests and their
results (`zookeeper`).
"""

from __future__ import annotations

import importlib.util
import logging
import select
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from kazoo import exceptions as ke
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import Close
from kazoo.security import CREATOR_ALL_ACL

from brokerd.cluster.protection import Protection

if TYPE_CHECKING:
    from kazoo.client import KazooClient
    from kazoo.protocol.states import Callback

SILENT_SHARE = 0.8
"""The part of `connect_seconds` after which a failed connection counts as unanswered."""
RESPONSE_SECONDS_MIN = 3.0
"""The shortest time that a server has for a response, independent of the session time-out. A machine with many processes pauses that long."""

log = logging.getLogger(__name__)


class Pollable(Protocol):
    """A socket or an object of kazoo with a file descriptor."""

    def fileno(self) -> int: ...


Sockets = Sequence[Pollable]
Selected = tuple[Sequence[Pollable], Sequence[Pollable], Sequence[Pollable]]
"""As `select.select` returns it: readable, writable, with errors."""


def response_seconds(session_timeout_ms: int) -> float:
    """Return the seconds for which a server may leave a request unanswered before the client uses another server: a third of the session, so that the
    session survives."""
    return max(RESPONSE_SECONDS_MIN, session_timeout_ms / 3000)


def connect_seconds(session_timeout_ms: int) -> float:
    """Return the seconds that a server may take to accept a connection, and again to answer its first request. Two servers that are down leave time for a
    third."""
    return max(RESPONSE_SECONDS_MIN, session_timeout_ms / 6000)


class OrderedHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads with one queue for watches and results. Both are delivered in the order of arrival, so a watch event precedes the result that
    contains the change.

    Also limits the time for a response. kazoo sends a ping only when no request was sent for a third of the session time-out. So a client that sends requests
    every second would wait for a frozen or disconnected server until the kernel closes the connection after many minutes. kazoo waits for a connection as long
    as the whole session time-out.
    """

    def __init__(self, session_timeout_ms: int) -> None:
        super().__init__()
        self._response_s, self._connect_s = response_seconds(session_timeout_ms), connect_seconds(session_timeout_ms)
        self.awaits_response: Callable[[], bool] = lambda: False
        """True if a request was sent whose response has not arrived."""
        self._received_s = 0.0
        """Time at which data arrived last, or at which no request was unanswered."""
        self.stopped_responding = False
        """True if the last connection ended because its server did not respond."""

    def dispatch_callback(self, callback: Callback) -> None:
        self.completion_queue.put(lambda: callback.func(*callback.args))

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, timeout: float | None = None, **_: object
    ) -> socket.socket:
        sock = socket.create_connection(address, self._connect_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return sock

    def select(self, read: Sockets, write: Sockets, error: Sockets, timeout: float) -> Selected:
        """Like select.select. With two sockets to read from, kazoo waits for a response or for a request to send. With one socket, kazoo waits for the response
        to a request that it has just sent."""
        if len(read) != 2:
            return self._select(read, write, error, min(timeout, self._connect_s))
        end = time.monotonic() + timeout
        while True:
            now = time.monotonic()
            if not self.awaits_response():
                self._received_s = now
            silent = self._received_s + self._response_s
            found = self._select(read, write, error, max(0.0, min(end, silent) - now))
            if read[0] in found[0]:
                self._received_s = time.monotonic()
            elif self.awaits_response() and time.monotonic() >= silent:
                self.stopped_responding = True
                raise ke.ConnectionDropped(f"no response for {self._response_s:.0f} s")
            if found[0] or time.monotonic() >= end:
                return found

    def _select(self, read: Sockets, write: Sockets, error: Sockets, timeout: float) -> Selected:
        """Like `select.select`, for any file descriptor. kazoo's own creates and closes an epoll for each call, several times per second. Its thread
        terminates for any exception that is not about the connection, for example of a socket that another thread has just closed."""
        poll, by_fd = select.poll(), {}
        for sockets, events in ((read, select.POLLIN), (write, select.POLLOUT)):
            for sock in sockets:
                fd = sock.fileno()
                if fd < 0:
                    raise ke.ConnectionDropped("the connection was closed by another thread")
                by_fd[fd] = sock
                poll.register(fd, events)
        ready = poll.poll(max(0.0, timeout) * 1000)
        if any(events & select.POLLNVAL for _, events in ready):
            raise ke.ConnectionDropped("the connection was closed by another thread")
        found = {fd for fd, _ in ready}
        return [s for s in read if s.fileno() in found], [s for s in write if s.fileno() in found], []


class TlsHandler(OrderedHandler):
    """kazoo's threads with TLS and our own SSL context. kazoo's context also trusts every CA of the operating system."""

    def __init__(self, session_timeout_ms: int, context: Callable[[], ssl.SSLContext]) -> None:
        super().__init__(session_timeout_ms)
        self._context = context

    def create_connection(
        self, address: tuple[str, int], hostname: str | None = None, timeout: float | None = None, **_: object
    ) -> socket.socket:
        plain = super().create_connection(address)
        try:
            return self._context().wrap_socket(plain, server_hostname=hostname)
        except OSError:
            plain.close()
            raise
        except Exception as e:  # unreadable files: kazoo's thread terminates for any exception other than OSError
            plain.close()
            raise OSError(str(e)) from e

    def select(self, read: Sockets, write: Sockets, error: Sockets, timeout: float) -> Selected:
        """Data that OpenSSL has already decrypted does not make the socket readable. kazoo would read it only with the next ping."""
        ready = [s for s in read if isinstance(s, ssl.SSLSocket) and s.pending()]
        return (ready, [], []) if ready else super().select(read, write, error, timeout)


class SessionEnd(Close):  # type: ignore[misc]
    """The request that ends the session, with a result. kazoo's own request has no result, so its loss would not be noticed."""

    def __bool__(self) -> bool:
        return True  # a tuple without fields would be false, and kazoo sets no result then

    @classmethod
    def deserialize(cls, data: bytes, offset: int) -> bool:
        return True


def connection_options(protection: Protection, session_timeout_ms: int) -> dict[str, object]:
    """Arguments of KazooClient for a protection. SASL requires the optional package pure-sasl."""
    context = protection.context
    out: dict[str, object] = {
        "default_acl": CREATOR_ALL_ACL if protection.owned else None,
        "handler": TlsHandler(session_timeout_ms, context) if context else OrderedHandler(session_timeout_ms),
    }
    if protection.user is not None:
        if importlib.util.find_spec("puresasl") is None:
            raise ValueError(
                "zookeeper.sasl.jaas.config requires the package pure-sasl: pip install 'weir[zookeeper-sasl]'"
            )
        out["sasl_options"] = {
            "mechanism": "DIGEST-MD5",
            "username": protection.user,
            "password": protection.password,
        }
    return out


def retry_authentication(client: KazooClient, user: str | None) -> None:
    """Treat a failed SASL authentication as a lost connection. It is retried with backoff in the same session. kazoo alone terminates its thread,
    both for a wrong password and for a server that stops during the authentication."""
    connection = client._connection
    authenticate = connection._authenticate_with_sasl

    def authenticate_or_reconnect(host: str, timeout: float) -> None:
        try:
            authenticate(host, timeout)
        except Exception as e:
            log.error("ZooKeeper SASL authentication failed: host=%s user=%s error=%s", host, user, type(e).__name__)
            raise ke.ConnectionDropped("SASL authentication failed") from e

    connection._authenticate_with_sasl = authenticate_or_reconnect


def try_silent_servers_last(client: KazooClient, session_timeout_ms: int) -> None:
    """Connect to servers that did not respond only after all others. kazoo tries all servers in a random order, and then all of them in another one: it waited
    two consecutive times for a server that was frozen, while the others elected a leader and refused connections immediately."""
    connection, handler, silent = client._connection, client.handler, set[tuple[str, int]]()
    expand, connect = connection._expand_client_hosts, connection._connect
    used: tuple[str, int] | None = None

    def expand_in_order() -> list[tuple[str, str, int]]:
        # kazoo has shuffled the servers: the order of the other servers stays random
        return sorted(expand(), key=lambda found: found[1:] in silent)

    def connect_and_note(host: str, address: str, port: int) -> object:
        nonlocal used
        if handler.stopped_responding and used is not None:
            silent.add(used)
        handler.stopped_responding, used = False, (address, port)
        began = time.monotonic()
        try:
            limits = connect(host, address, port)
        except Exception:
            # The elapsed time decides, because errors of the kernel, of TLS and of kazoo have different types. A server that refuses or closes a connection
            # does so immediately.
            if time.monotonic() - began >= SILENT_SHARE * connect_seconds(session_timeout_ms):
                silent.add((address, port))
            else:
                silent.discard((address, port))
            raise
        silent.discard((address, port))
        return limits

    connection._expand_client_hosts, connection._connect = expand_in_order, connect_and_note
