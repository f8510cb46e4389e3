"""A connection from this broker to another one: requests out, answers in, one at a time in order.

Law: every request is answered exactly once: by its answer, or by None when the connection is lost or too slow. Called by
`fetcher`. Must not come in: what is asked.
"""

from __future__ import annotations

import errno
import logging
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable

from brokerd.access.client import Introduction, NotIntroduced
from brokerd.cluster.model import Now
from brokerd.net.buffers import SPARE_BYTES_MAX, spares
from brokerd.net.loop import HANGUP, READ, WRITE, Loop, Timer
from brokerd.net.tls import TlsSocket

log = logging.getLogger(__name__)

LENGTH = 4


class Peer:
    """Lazily connected. `ask(request, done)`: `done(frame | None)`; the frame's memory is valid during the call only."""

    def __init__(
        self,
        loop: Loop,
        host: str,
        port: int,
        *,
        timeout_ms: int,
        frame_bytes_max: int,
        tls: Callable[[], ssl.SSLContext] | None = None,
        introduce: Callable[[], Introduction] | None = None,
        abortive: bool = False,
    ) -> None:
        """`abortive`: what was not delivered when the connection is given up is not to be delivered later either."""
        self.loop, self.host, self.port, self._abortive = loop, host, port, abortive
        self._timeout_ms, self._frame_bytes_max = timeout_ms, frame_bytes_max
        self._tls = tls
        self._sock: socket.socket | TlsSocket | None = None
        self._secured = tls is None
        self._introduce = introduce
        self._introduction: Introduction | None = None  # while it is under way
        self._held = bytearray()  # what was asked before it was over
        self._connected, self._secured = False, self._tls is None
        self._output = bytearray()
        self._input = bytearray()  # frames under way; kept between them
        self._filled = 0
        self._waiting: deque[Callable[[memoryview | None], None]] = deque()
        self._events = 0
        self._timer: Timer | None = None
        self._answer_by_ms = 0
        """When the answer that is awaited first is overdue; one timer looks, however many questions there are a second."""

    def ask(self, request: bytes, done: Callable[[memoryview | None], None]) -> None:
        self._waiting.append(done)
        if self._introduction is not None or (self._sock is None and self._introduce is not None):
            self._held += request
        else:
            self._output += request
        if len(self._waiting) == 1:
            self._answer_by_ms = self.loop.now.mono_ms + self._timeout_ms
        if self._timer is None:
            self._timer = self.loop.call_at(self._answer_by_ms, self._overdue)
        if self._sock is None:
            self._connect()
        elif self._connected and self._secured:
            self._flush()

    def _overdue(self, now: Now) -> None:
        self._timer = None
        if not self._waiting:
            return
        if now.mono_ms >= self._answer_by_ms:
            self.close()
        else:
            self._timer = self.loop.call_at(self._answer_by_ms, self._overdue)

    def _connect(self) -> None:
        sock = socket.socket(socket.AF_INET6 if ":" in self.host else socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._abortive:
            # Closed by a reset: else the kernel goes on sending what it has, for minutes, to a receiver that was asked anew since.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock, self._connected = sock, False
        if self._introduce is not None:
            self._introduction = self._introduce()
            self._output += self._introduction.begin()
        if self._tls is not None:
            self._sock, self._secured = TlsSocket(sock, self._tls(), server_side=False, hostname=self.host), False
        code = sock.connect_ex((self.host, self.port))
        if code not in (0, errno.EINPROGRESS):
            # Told later: nobody expects an answer while asking.
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
                self._receive()  # opened or not, it is here already: the poll will not speak of it

    def _handshake(self, sock: socket.socket | TlsSocket) -> None:
        assert isinstance(sock, TlsSocket)
        try:
            self._secured = sock.handshake()
        except OSError as e:
            log.warning("no TLS with %s:%d: %s", self.host, self.port, e)
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
            n = sock.recv_into(memoryview(self._input)[self._filled :])
        except BlockingIOError:
            return
        except OSError:
            n = 0
        if n == 0:
            self.close()
            return
        self._filled += n
        self._split(sock)

    def _split(self, sock: socket.socket | TlsSocket) -> None:
        """Hand over the whole frames that are here; what is left of the next moves to the front."""
        data, filled = self._input, self._filled
        pos, wanted = 0, LENGTH
        while filled - pos >= LENGTH:
            length = int.from_bytes(data[pos : pos + LENGTH], "big", signed=True)
            if not 0 < length <= self._frame_bytes_max or not (self._waiting or self._introduction):
                self.close()
                return
            wanted = LENGTH + length
            if filled - pos < wanted:
                break
            self._hand_over(memoryview(data)[pos + LENGTH : pos + wanted])
            if self._sock is not sock:
                return  # closed meanwhile, perhaps connected anew
            pos, wanted = pos + wanted, LENGTH
        left = filled - pos
        if wanted > len(data) or (not left and len(data) > SPARE_BYTES_MAX):
            self._input = spares.take(wanted)
            self._input[:left] = memoryview(data)[pos:filled]
            spares.give(data)
        elif pos and left:
            data[:left] = data[pos:filled]
        self._filled = left

    def _introduced(self, frame: memoryview, introduction: Introduction) -> None:
        try:
            more = introduction.heard(frame)
        except NotIntroduced as e:
            log.warning("%s:%d does not take us for who we are: %s", self.host, self.port, e)
            self.close()
            return
        if more is not None:
            self._output += more
        else:
            self._introduction = None
            self._output += self._held
            self._held = bytearray()
        self._flush()

    def _hand_over(self, frame: memoryview) -> None:
        if self._introduction is not None:
            self._introduced(frame, self._introduction)
            return
        done = self._waiting.popleft()
        self._answer_by_ms = self.loop.now.mono_ms + self._timeout_ms
        done(frame)

    def close(self) -> None:
        """Give up the connection; whoever waits hears None. The next `ask` connects anew."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._sock is not None:
            self.loop.unregister(self._sock.fileno())
            self._sock.close()
            self._sock = None
        self._connected = False
        self._output, self._held, self._introduction = bytearray(), bytearray(), None
        # Not given back: a frame out of it may be in somebody's hands right now.
        self._input, self._filled = bytearray(), 0
        waiting, self._waiting = self._waiting, deque()
        for done in waiting:
            done(None)
