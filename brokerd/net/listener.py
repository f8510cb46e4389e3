"""The door: accepts connections, as many as may be, and knows them until they close.

Laws: whoever has not yet proved who it is (TLS, SASL) costs a bounded time and a bounded memory, and so do all of them together. Called by the loop.
Must not come in: frames, what a request means.
"""

from __future__ import annotations

import logging
import socket
import ssl
from collections.abc import Callable

from brokerd.cluster.model import Now
from brokerd.net.admission import Admission
from brokerd.net.connection import Connection
from brokerd.net.loop import READ, Loop
from brokerd.net.tls import TlsConnection

log = logging.getLogger(__name__)

UNPROVEN_MS_MAX = 30_000
"""A connection that has not proved who it is by then is closed: as long as clients themselves wait."""
STRANGERS_LOOK_MS = 1_000
UNPROVEN_MAX = 512
"""Such connections at once, per listener. One more closes the oldest: a crowd of silent ones must not keep the others out."""
WAITING_MAX = 512
"""Connections kept waiting because their address comes too often: a descriptor each."""
UNPROVEN_FRAME_BYTES_MAX = 128 * 1024
"""Their largest frame: a token of SASL, or ApiVersions. Times UNPROVEN_MAX, 64 MiB is the most that strangers may fill."""


class Listener:
    """`on_frame(connection, frame)`: the frame's memory is valid during the call only. The port is taken at once, and refuses until `open`.

    `tls` gives the context for the next connection. `proves`: a connection is a stranger's until somebody calls `connection.proved()` (SASL);
    with TLS alone the handshake is proof enough.
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
    ) -> None:
        self.loop, self._on_frame = loop, on_frame
        self._tls, self._proves = tls, proves
        self._unproven: dict[int, Connection] = {}
        self._frame_bytes_max, self._admission = frame_bytes_max, admission
        self._pausing = self._closed = False
        self.connections: dict[int, Connection] = {}
        self._waiting: dict[int, socket.socket] = {}
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._sock = socket.socket(family, socket.SOCK_STREAM)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._sock.bind((host, port))
        self._sock.setblocking(False)
        self.port: int = self._sock.getsockname()[1]
        self._open = False
        if tls is not None or proves:
            loop.every(STRANGERS_LOOK_MS, self.close_strangers)

    def open(self) -> None:
        """Let clients in. Once is enough."""
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
                log.warning("cannot accept: %s", e)
                return
            problem = self._admission.problem(address[0], self.loop.now.mono_ms)
            if problem is not None:
                log.warning("refused %s: %s", address[0], problem.why)
                self._keep_waiting(sock, problem.wait_ms)
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._begin(sock, f"{address[0]}:{address[1]}")

    def _keep_waiting(self, sock: socket.socket, ms: int) -> None:
        """Neither read nor answered, and closed when its time is over (KIP-612); at once where too many wait already."""
        if not ms or len(self._waiting) >= WAITING_MAX:
            sock.close()
            return
        fd = sock.fileno()
        self._waiting[fd] = sock
        self.loop.call_later(ms, lambda now: self._waiting.pop(fd).close() if self._waiting.get(fd) is sock else None)

    def _pause(self, ms: int) -> None:
        """Who knocks waits in the system's queue."""
        self._pausing = True
        self.loop.unregister(self._sock.fileno())
        self.loop.call_later(ms, lambda now: self._go_on())

    def _go_on(self) -> None:
        if self._pausing and not self._closed:
            self._pausing = False
            self.loop.register(self._sock.fileno(), READ, self._accept)

    def _begin(self, sock: socket.socket, peer: str) -> None:
        connection: Connection
        if self._tls is None:
            connection = Connection(self.loop, sock, peer, self._on_frame, self._forget, self._frame_bytes_max)
        else:
            connection = TlsConnection(
                self.loop, sock, peer, self._on_frame, self._forget, self._frame_bytes_max,
                context=self._tls(), on_secured=self._secured,
            )  # fmt: skip
        self.connections[connection.fd] = connection
        if self._tls is not None or self._proves:
            self._watch(connection)

    # -- strangers -----------------------------------------------------------------------------------------------------
    def _watch(self, connection: Connection) -> None:
        if len(self._unproven) >= UNPROVEN_MAX:
            next(iter(self._unproven.values())).close()
        self._unproven[connection.fd] = connection
        connection.frame_bytes_max = min(UNPROVEN_FRAME_BYTES_MAX, self._frame_bytes_max)
        connection.on_proved = self._proved

    def close_strangers(self, now: Now) -> None:
        """Those who have had their time. One look for all: a timer of each would keep the closed ones alive."""
        while self._unproven:
            oldest = next(iter(self._unproven.values()))
            if now.mono_ms - oldest.since_ms < UNPROVEN_MS_MAX:
                return
            log.info("closed %s: it has not proved who it is within %d ms", oldest.peer, UNPROVEN_MS_MAX)
            oldest.close()

    def _secured(self, connection: Connection) -> None:
        if not self._proves:
            self._proved(connection)

    def _proved(self, connection: Connection) -> None:
        if self._unproven.get(connection.fd) is connection:
            del self._unproven[connection.fd]
            connection.frame_bytes_max = self._frame_bytes_max

    def _forget(self, connection: Connection) -> None:
        if self.connections.pop(connection.fd, None) is not None:
            self._admission.left(connection.peer.rpartition(":")[0])
        self._unproven.pop(connection.fd, None)

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
