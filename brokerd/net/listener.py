"""Accepts connections within the limits and tracks them until they are closed.

The time and memory of unauthenticated connections (TLS, SASL) are bounded, per connection and in total. Does not contain frames or requests.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from brokerd.cluster.model import Now
from brokerd.cluster.rejection_reasons import RejectionReason
from brokerd.net.admission import Admission
from brokerd.net.concurrent_readers import ConcurrentReaders
from brokerd.net.connection import Connection
from brokerd.net.loop import READ, Loop
from brokerd.net.tls import TlsConnection
from brokerd.storage.read_ahead import ReadAhead

log = logging.getLogger(__name__)

SYSTEM_DEFAULT = -1
"""Size of a socket buffer that the kernel sets and adapts."""
UNAUTHENTICATED_MS_MAX = 30_000
"""Authentication time-out. Clients have the same time-out."""
UNAUTHENTICATED_CHECK_MS = 1_000
UNAUTHENTICATED_MAX = 1536
"""Maximum number of unauthenticated connections per listener: enough for a thousand reconnecting clients and half as many others. Above the limit, a connection
of the address with the most unauthenticated connections is closed: the oldest connection without a request, or the newest if all wait for a response. So one
address cannot block the others."""
WAITING_MAX = 512
"""Maximum number of delayed connections (connection rate per IP address). Each needs a file descriptor."""
UNAUTHENTICATED_FRAME_BYTES_MAX = 68 * 1024
"""Maximum frame size of unauthenticated connections: a SASL token (`TOKEN_BYTES_MAX`) or ApiVersions. With UNAUTHENTICATED_MAX at most 102 MiB in total."""


@dataclass(frozen=True, slots=True)
class SocketBuffers:
    """SO_SNDBUF and SO_RCVBUF of accepted connections in bytes, as in Kafka. The kernel doubles them for its own structures."""

    send_bytes: int = SYSTEM_DEFAULT
    receive_bytes: int = SYSTEM_DEFAULT

    def apply(self, listening: socket.socket) -> None:
        """Accepted sockets inherit both sizes. TCP negotiates its window when a connection is opened, so it would be too late to set the sizes on an accepted
        socket."""
        for option, size in ((socket.SO_SNDBUF, self.send_bytes), (socket.SO_RCVBUF, self.receive_bytes)):
            if size != SYSTEM_DEFAULT:
                listening.setsockopt(socket.SOL_SOCKET, option, size)


class Listener:
    """`on_frame(connection, frame)`: the memory of the frame is valid during the call only. The constructor binds the port; connections are
    rejected until `open`.

    `tls` returns the context for the next connection. `proves`: a connection is unauthenticated until `connection.mark_authenticated()` is called (SASL).
    With TLS alone it is authenticated after the handshake.
    """

    def __init__(
        self,
        loop: Loop,
        host: str,
        port: int,
        on_frame: Callable[[Connection, memoryview], None],
        *,
        frame_bytes_max: int,
        admission: Admission,
        tls: Callable[[], ssl.SSLContext] | None = None,
        proves: bool = False,
        read_ahead: ReadAhead | None = None,
        buffers: SocketBuffers = SocketBuffers(),
    ) -> None:
        self.loop, self._on_frame, self._read_ahead = loop, on_frame, read_ahead
        self._tls, self._needs_authentication = tls, proves
        self._unauthenticated: dict[int, Connection] = {}
        self._unauthenticated_per_address: Counter[str] = Counter()
        self._frame_bytes_max, self._admission = frame_bytes_max, admission
        self._pausing = self._closed = False
        self.connections: dict[int, Connection] = {}
        self._waiting: dict[int, socket.socket] = {}
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._sock = socket.socket(family, socket.SOCK_STREAM)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        buffers.apply(self._sock)
        self._concurrent_readers = ConcurrentReaders() if buffers.send_bytes == SYSTEM_DEFAULT else None
        self._sock.bind((host, port))
        self._sock.setblocking(False)
        self.port: int = self._sock.getsockname()[1]
        self._open = False
        if tls is not None or proves:
            loop.every(UNAUTHENTICATED_CHECK_MS, self.close_unauthenticated)

    def open(self) -> None:
        """Start to accept connections. Idempotent."""
        if not self._open:
            self._open = True
            self._sock.listen(1024)
            self.loop.register(self._sock.fileno(), READ, self._accept)

    def _accept(self, events: int) -> None:
        for _ in range(64):
            delay_ms = self._admission.delay_ms(self.loop.now.mono_ms)
            if delay_ms:
                self._pause(delay_ms)
                return
            try:
                sock, address = self._sock.accept()
            except BlockingIOError:
                return
            except OSError as e:
                log.warning("new connection not accepted: error=%s", e)
                return
            problem = self._admission.problem(address[0], self.loop.now.mono_ms)
            if problem is not None:
                log.warning("connection rejected: address=%s reason=%s", address[0], problem.reason)
                self._admission.rejections.add(RejectionReason.CONNECTION_LIMIT, address[0])
                self._delay(sock, problem.wait_ms)
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._begin(sock, f"{address[0]}:{address[1]}")

    def _delay(self, sock: socket.socket, ms: int) -> None:
        """Close a connection after a delay without reading it (KIP-612). Immediately if too many are delayed."""
        if not ms or len(self._waiting) >= WAITING_MAX:
            sock.close()
            return
        fd = sock.fileno()
        self._waiting[fd] = sock
        self.loop.call_later(ms, lambda now: self._waiting.pop(fd).close() if self._waiting.get(fd) is sock else None)

    def _pause(self, ms: int) -> None:
        """Stop accepting for `ms`. New connections wait in the listen queue."""
        self._pausing = True
        self.loop.unregister(self._sock.fileno())
        self.loop.call_later(ms, lambda now: self._resume())

    def _resume(self) -> None:
        if self._pausing and not self._closed:
            self._pausing = False
            self.loop.register(self._sock.fileno(), READ, self._accept)

    def _begin(self, sock: socket.socket, peer: str) -> None:
        connection: Connection
        if self._tls is None:
            connection = Connection(self.loop, sock, peer, self._on_frame, self._forget, self._frame_bytes_max)
        else:
            connection = TlsConnection(
                self.loop,
                sock,
                peer,
                self._on_frame,
                self._forget,
                self._frame_bytes_max,
                context=self._tls(),
                on_secured=self._on_secured,
            )
        connection.rejections = self._admission.rejections
        connection.concurrent_readers = self._concurrent_readers
        connection.reader = (
            self._read_ahead.reader(connection.traffic.add_cold) if self._read_ahead is not None else None
        )
        self.connections[connection.fd] = connection
        if self._tls is not None or self._needs_authentication:
            self._watch(connection)

    # -- unauthenticated connections -----------------------------------------------------------------------------------------------------
    def _watch(self, connection: Connection) -> None:
        self._unauthenticated[connection.fd] = connection
        self._unauthenticated_per_address[connection.address] += 1
        connection.frame_bytes_max = min(UNAUTHENTICATED_FRAME_BYTES_MAX, self._frame_bytes_max)
        connection.on_authenticated = self._on_authenticated
        if len(self._unauthenticated) > UNAUTHENTICATED_MAX:
            self._close_one_unauthenticated()

    def _close_one_unauthenticated(self) -> None:
        address = max(self._unauthenticated_per_address, key=lambda a: self._unauthenticated_per_address[a])
        connections = [c for c in self._unauthenticated.values() if c.address == address]
        victim = next((c for c in connections if not c.has_pending_request), connections[-1])
        log.warning(
            "connection closed, too many unauthenticated connections: peer=%s limit=%d",
            victim.peer,
            UNAUTHENTICATED_MAX,
        )
        victim.close()

    def _remove_unauthenticated(self, connection: Connection) -> None:
        """The connection is authenticated or closed."""
        if self._unauthenticated.get(connection.fd) is connection:
            del self._unauthenticated[connection.fd]
            self._unauthenticated_per_address[connection.address] -= 1
            if not self._unauthenticated_per_address[connection.address]:
                del self._unauthenticated_per_address[connection.address]

    def close_unauthenticated(self, now: Now) -> None:
        """Close connections after the authentication time-out. Called periodically. A timer per connection would keep closed connections in memory."""
        while self._unauthenticated:
            oldest = next(iter(self._unauthenticated.values()))
            if now.mono_ms - oldest.since_ms < UNAUTHENTICATED_MS_MAX:
                return
            log.info(
                "connection closed, authentication timed out: peer=%s timeout_ms=%d",
                oldest.peer,
                UNAUTHENTICATED_MS_MAX,
            )
            oldest.close()

    def _on_secured(self, connection: Connection) -> None:
        if not self._needs_authentication:
            self._on_authenticated(connection)

    def _on_authenticated(self, connection: Connection) -> None:
        if self._unauthenticated.get(connection.fd) is connection:
            self._remove_unauthenticated(connection)
            connection.frame_bytes_max = self._frame_bytes_max

    def _forget(self, connection: Connection) -> None:
        if self.connections.pop(connection.fd, None) is not None:
            self._admission.connection_closed(connection.address)
        self._remove_unauthenticated(connection)

    def close_idle(self, idle_ms_max: int) -> None:
        horizon = self.loop.now.mono_ms - idle_ms_max
        for connection in [c for c in self.connections.values() if c.last_active_ms < horizon]:
            connection.close()

    def stop_accepting(self) -> None:
        self._closed = True
        self.loop.unregister(self._sock.fileno())
        self._sock.close()

    def close(self) -> None:
        for connection in list(self.connections.values()):
            connection.close()
        for sock in self._waiting.values():
            sock.close()
        self._waiting.clear()
