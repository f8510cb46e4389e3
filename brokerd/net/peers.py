"""A connection from this broker to another one: sends requests and receives responses in order.

Every request completes exactly once: with its response, or with None after a connection loss or a time-out. If the other broker limits the
lifetime of an authentication (KIP-368), the connection re-authenticates between two requests before it expires. Does not interpret requests.
"""

from __future__ import annotations

import errno
import logging
import random
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable

from brokerd.cluster.model import Now
from brokerd.net.buffers import SPARE_BYTES_MAX, spares
from brokerd.net.loop import HANGUP, READ, WRITE, Loop, Timer
from brokerd.net.tls import TlsSocket
from brokerd.security.sasl_client import SaslClientError, SaslClientExchange

log = logging.getLogger(__name__)

LENGTH = 4
RENEWED_FROM, RENEWED_BY = 0.85, 0.95
"""Re-authentication is at a random fraction of the lifetime between these bounds, as in Kafka's clients, so that connections do not do it together."""


class Peer:
    """A connection that is opened on demand. `send_request(request, done)` calls `done(frame | None)`; the memory of the frame is valid during the call only."""

    def __init__(
        self,
        loop: Loop,
        host: str,
        port: int,
        *,
        timeout_ms: int,
        frame_bytes_max: int,
        tls: Callable[[], ssl.SSLContext] | None = None,
        new_sasl_exchange: Callable[[], SaslClientExchange] | None = None,
        abortive: bool = False,
    ) -> None:
        """With `abortive` the connection is closed with a TCP reset, so that the kernel does not deliver buffered requests after the close. `new_sasl_exchange`
        returns the SASL exchange of a new connection. `timeout_ms` applies to each request."""
        self.loop, self.host, self.port, self._abortive = loop, host, port, abortive
        self._timeout_ms, self._frame_bytes_max = timeout_ms, frame_bytes_max
        self._tls = tls
        self._sock: socket.socket | TlsSocket | None = None
        self._secured = tls is None
        self._new_sasl_exchange = new_sasl_exchange
        self._sasl_exchange: SaslClientExchange | None = None  # set during the authentication
        self._held = bytearray()  # requests that wait for the authentication
        self._held_count = 0  # number of requests in it
        self._renew_at_ms: int | None = None
        self._draining = False  # waits for open responses before the re-authentication
        self._connected, self._secured = False, self._tls is None
        self._output = bytearray()
        self._input = bytearray()  # receive buffer, kept between frames
        self._filled = 0
        self._waiting: deque[Callable[[memoryview | None], None]] = deque()
        self._events = 0
        self._timer: Timer | None = None
        self._response_deadline_ms = 0
        """Time-out of the oldest open request. One timer checks it for all requests."""

    def send_request(self, request: bytes, done: Callable[[memoryview | None], None]) -> None:
        self._waiting.append(done)
        if self._renew_at_ms is not None and self.loop.now.mono_ms >= self._renew_at_ms:
            self._renew_at_ms, self._draining = None, True
        if (
            self._sasl_exchange is not None
            or self._draining
            or (self._sock is None and self._new_sasl_exchange is not None)
        ):
            self._held += request
            self._held_count += 1
        else:
            self._output += request
        if len(self._waiting) == 1:
            self._response_deadline_ms = self.loop.now.mono_ms + self._timeout_ms
        if self._timer is None:
            self._timer = self.loop.call_at(self._response_deadline_ms, self._overdue)
        if self._sock is None:
            self._connect()
        elif self._draining:
            self._renew()
        elif self._connected and self._secured:
            self._flush()

    def _renew(self) -> None:
        """Re-authenticate as soon as all sent requests are answered. New requests are queued until the re-authentication is complete."""
        if self._draining and self._new_sasl_exchange is not None and len(self._waiting) == self._held_count:
            self._draining = False
            self._sasl_exchange = self._new_sasl_exchange()
            self._output += self._sasl_exchange.begin()
            self._flush()

    def _overdue(self, now: Now) -> None:
        self._timer = None
        if not self._waiting:
            return
        if now.mono_ms >= self._response_deadline_ms:
            self.close()
        else:
            self._timer = self.loop.call_at(self._response_deadline_ms, self._overdue)

    def _connect(self) -> None:
        sock = socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._abortive:
            # Close with a reset: otherwise the kernel could deliver buffered requests minutes later, after a retry.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock, self._connected = sock, False
        if self._new_sasl_exchange is not None:
            self._sasl_exchange = self._new_sasl_exchange()
            self._output += self._sasl_exchange.begin()
        if self._tls is not None:
            self._sock, self._secured = TlsSocket(sock, self._tls(), server_side=False, hostname=self.host), False
        code = sock.connect_ex((self.host, self.port))
        if code not in (0, errno.EINPROGRESS):
            # Asynchronously: callers do not expect a result during `send_request`.
            self.loop.call_later(0, lambda now: self.close())
            return
        self._events = READ | WRITE
        self.loop.register(sock.fileno(), self._events, self._ready)

    def _ready(self, events: int) -> None:
        sock = self._sock
        if sock is None:
            return
        if not self._connected:
            plain = sock.sock if isinstance(sock, TlsSocket) else sock
            if plain.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0:
                self.close()
                return
            if events & WRITE:
                self._connected = True
        if events & HANGUP and not events & READ:
            self.close()
            return
        if not self._secured:
            self._handshake(sock)
            if not self._secured or self._sock is None:
                return
            self._flush()
        elif events & WRITE:
            self._flush()
        if events & READ and self._sock is not None:
            self._receive()
            while isinstance(sock, TlsSocket) and self._sock is sock and not sock.drained:
                self._receive()  # data may already be decrypted, so epoll does not report it

    def _handshake(self, sock: socket.socket | TlsSocket) -> None:
        assert isinstance(sock, TlsSocket)
        try:
            self._secured = sock.handshake()
        except OSError as e:
            log.warning("TLS handshake failed: peer=%s:%d error=%s", self.host, self.port, e)
            self.close()
            return
        if not self._secured:
            self._await(sock, READ | (WRITE if sock.unsent else 0))

    def _flush(self) -> None:
        sock = self._sock
        assert sock is not None
        try:
            while self._output:
                n = sock.send(self._output)
                del self._output[:n]
            if isinstance(sock, TlsSocket):
                sock.push()
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        waiting = self._output or (isinstance(sock, TlsSocket) and sock.unsent)
        self._await(sock, READ | (WRITE if waiting else 0))

    def _await(self, sock: socket.socket | TlsSocket, events: int) -> None:
        if events != self._events:
            self._events = events
            self.loop.modify(sock.fileno(), events)

    def _receive(self) -> None:
        sock = self._sock
        assert sock is not None
        if not self._input:
            self._input = spares.take(LENGTH)
        try:
            received = sock.recv_into(memoryview(self._input)[self._filled :])
        except BlockingIOError:
            return
        except OSError:
            received = 0
        if received == 0:
            self.close()
            return
        self._filled += received
        self._split(sock)

    def _split(self, sock: socket.socket | TlsSocket) -> None:
        """Deliver the complete frames. An incomplete frame moves to the start of the buffer."""
        data, filled = self._input, self._filled
        pos, needed = 0, LENGTH
        while filled - pos >= LENGTH:
            length = int.from_bytes(data[pos : pos + LENGTH], "big", signed=True)
            if not 0 < length <= self._frame_bytes_max or not (self._waiting or self._sasl_exchange):
                self.close()
                return
            needed = LENGTH + length
            if filled - pos < needed:
                break
            self._hand_over(memoryview(data)[pos + LENGTH : pos + needed])
            if self._sock is not sock:
                return  # closed meanwhile, perhaps connected again
            pos, needed = pos + needed, LENGTH
        left = filled - pos
        if needed > len(data) or (not left and len(data) > SPARE_BYTES_MAX):
            self._input = spares.take(needed)
            self._input[:left] = memoryview(data)[pos:filled]
            spares.give(data)
        elif pos and left:
            data[:left] = data[pos:filled]
        self._filled = left

    def _on_sasl_frame(self, frame: memoryview, sasl_exchange: SaslClientExchange) -> None:
        try:
            more = sasl_exchange.on_frame(frame)
        except SaslClientError as e:
            log.warning("SASL authentication failed: peer=%s:%d error=%s", self.host, self.port, e)
            self.close()
            return
        if more is not None:
            self._output += more
        else:
            self._sasl_exchange = None
            if sasl_exchange.lifetime_ms > 0:
                share = random.uniform(RENEWED_FROM, RENEWED_BY)
                self._renew_at_ms = self.loop.now.mono_ms + int(sasl_exchange.lifetime_ms * share)
            self._output += self._held
            self._held, self._held_count = bytearray(), 0
        self._flush()

    def _hand_over(self, frame: memoryview) -> None:
        if self._sasl_exchange is not None:
            self._on_sasl_frame(frame, self._sasl_exchange)
            return
        done = self._waiting.popleft()
        self._response_deadline_ms = self.loop.now.mono_ms + self._timeout_ms
        sock = self._sock
        done(frame)
        if self._draining and self._sock is sock:
            self._renew()

    def close(self) -> None:
        """Close the connection. Open requests complete with None. The next `send_request` connects again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._sock is not None:
            self.loop.unregister(self._sock.fileno())
            self._sock.close()
            self._sock = None
        self._connected = False
        self._output, self._held, self._sasl_exchange = bytearray(), bytearray(), None
        self._held_count, self._renew_at_ms, self._draining = 0, None, False
        # Not returned to the pool: a caller may be using a frame in it.
        self._input, self._filled = bytearray(), 0
        waiting, self._waiting = self._waiting, deque()
        for done in waiting:
            done(None)
