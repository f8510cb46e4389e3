"""TLS on a non-blocking socket: the same calls as a socket's, bytes sealed and opened on the way.

Laws: nothing waits; what is sealed and not yet sent is bounded (SEAL_BYTES), so is what was received and not yet opened. Memory BIOs rather than
SSLSocket: receiving cost 0.7 to 1.0 s of CPU per GB against 1.3 (OpenSSL reads a socket twice per record of 16 KiB), sending the same 0.45
(docs/decisions/022-tls-in-the-loop.md). Called by `listener` and `peers`. Must not come in: frames, who is trusted.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Any

from brokerd.access.principals import distinguished_name
from brokerd.net.connection import GONE, RECEIVE_BYTES, SEND_BYTES_PER_TURN, SEND_PARTS_MAX, Connection
from brokerd.net.loop import HANGUP, READ, WRITE, Loop
from brokerd.wire.framing import FileRegion

log = logging.getLogger(__name__)

SEAL_BYTES = 128 * 1024
"""Plain bytes sealed at once: eight records of TLS. No more are sealed before these have left."""
GATHER_BYTES = 16 * 1024
"""Small answers are joined up to this, the size of a record of TLS."""

_shared = memoryview(bytearray(RECEIVE_BYTES))


class TlsSocket:
    """`handshake` until it says True; then `recv_into` and `send`, which raise BlockingIOError where a socket would, and OSError for what cannot go on."""

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, *, server_side: bool, hostname: str | None = None
    ) -> None:
        self.sock = sock
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._in, self._out, server_side=server_side, server_hostname=hostname)
        self._sealed = memoryview(b"")
        self._ended = False
        self.drained = True
        """Nothing that has been received can be read: only the socket may have more."""

    @property
    def unsent(self) -> bool:
        """Sealed bytes still wait for the socket."""
        return bool(self._sealed) or self._out.pending > 0

    def fileno(self) -> int:
        return self.sock.fileno()

    def close(self) -> None:
        self.sock.close()

    def handshake(self) -> bool:
        """One step further; False while the other end has to say something. Raises OSError (ssl.SSLError is one)."""
        if not self._ended and not self._fill():
            raise ConnectionResetError("closed during the handshake")
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            self.push()
            return False
        except ssl.SSLError:
            with suppress(OSError):
                self.push()  # the alert that says why
            raise
        self.push()
        self.drained = False  # the first request may have come with the last step
        return True

    def subject(self) -> str | None:
        """The name in the certificate that the other end has shown and that was verified; None without one."""
        shown: Any = self._ssl.getpeercert()
        return distinguished_name(shown["subject"]) if shown and shown.get("subject") else None

    def _fill(self) -> bool:
        """Take what the socket has. False at its end."""
        try:
            n = self.sock.recv_into(_shared)
        except BlockingIOError:
            return True
        if n == 0:
            self._ended = True
            return False
        self._in.write(_shared[:n])
        return True

    def recv_into(self, view: memoryview) -> int:
        filled, asked = 0, False
        self.drained = False
        while filled < len(view):
            try:
                n = self._ssl.read(len(view) - filled, view[filled:])  # type: ignore[arg-type]
            except ssl.SSLWantReadError:
                if asked or filled or self._ended:
                    self.drained = True
                    break
                asked = True
                self._fill()
                continue
            except ssl.SSLError:
                if filled:
                    break  # it will say so again
                raise
            if not n:
                self._ended = self.drained = True
                break
            filled += int(n)
        if self._out.pending:
            self.push()
        if not filled and not self._ended:
            raise BlockingIOError
        return filled

    def send(self, data: Any) -> int:
        """Seal and send; the number of plain bytes taken, at most SEAL_BYTES. Raises BlockingIOError while earlier ones wait."""
        if self.unsent:
            self.push()
            if self.unsent:
                raise BlockingIOError
        n = self._ssl.write(memoryview(data)[:SEAL_BYTES])
        self.push()
        return n

    def push(self) -> None:
        """Send what is sealed, as far as the socket takes it."""
        with suppress(BlockingIOError):
            while True:
                if not self._sealed:
                    if not self._out.pending:
                        return
                    self._sealed = memoryview(self._out.read())
                self._sealed = self._sealed[self.sock.send(self._sealed) :]


class TlsConnection(Connection):
    """A connection whose bytes are sealed. `on_secured(connection)` once the handshake is through."""

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        peer: str,
        on_frame: Callable[[Connection, memoryview], None],
        on_close: Callable[[Connection], None],
        frame_bytes_max: int,
        *,
        context: ssl.SSLContext,
        on_secured: Callable[[TlsConnection], None],
    ) -> None:
        self._tls = TlsSocket(sock, context, server_side=True)
        self._secured, self._on_secured = False, on_secured
        self._looking_again = False
        super().__init__(loop, self._tls, peer, on_frame, on_close, frame_bytes_max)  # type: ignore[arg-type]

    def _ready(self, events: int) -> None:
        if self._secured:
            super()._ready(events)
            return
        if events & HANGUP and not events & READ:
            self.close()
            return
        try:
            self._secured = self._tls.handshake()
        except OSError:  # strangers' mistakes, not worth a line each; the listener counts them
            self.close()
            return
        if not self._secured:
            self._want(READ | (WRITE if self._tls.unsent else 0))
            return
        self.distinguished_name = self._tls.subject()
        self._on_secured(self)
        if not self.closed:
            self._update_events()

    def _want(self, events: int) -> None:
        if events != self._events:
            self._events = events
            self.loop.modify(self.fd, events)

    def _flush(self) -> None:
        budget, output, tls = SEND_BYTES_PER_TURN, self._output, self._tls
        try:
            tls.push()
            while output and budget > 0 and not tls.unsent:
                n = tls.send(self._gathered(output))
                self._sent(n)
                budget -= n
        except BlockingIOError:
            pass
        except OSError as e:
            if not isinstance(e, ssl.SSLError) and e.errno not in GONE:
                log.warning("closed %s while answering: %s", self.peer, e)
            self.close()
            return
        self._unsent = tls.unsent
        self._update_events()

    def _gathered(self, output: deque[Any]) -> Any:
        """The next bytes to seal, in memory: a piece of a file region is read, small answers are joined."""
        first = output[0]
        if isinstance(first, FileRegion):
            size = min(first.length, SEAL_BYTES)
            data = os.pread(first.fd, size, first.position)
            if not data:
                raise OSError(errno.EIO, "a log segment is shorter than its index says")
            if len(data) < first.length:
                output[0] = first.advanced(len(data))
            else:
                output.popleft()
            output.appendleft(data)
            self._answer_bytes += len(data)
            return data
        if len(first) < GATHER_BYTES and len(output) > 1:
            parts, size = [], 0
            for part in islice(output, SEND_PARTS_MAX):
                if isinstance(part, FileRegion) or size >= GATHER_BYTES:
                    break
                parts.append(part)
                size += len(part)
            if len(parts) > 1:
                for _ in parts:
                    output.popleft()
                output.appendleft(b"".join(parts))
                return output[0]
        return first

    def _update_events(self) -> None:
        if self.closed or not self._secured:
            return
        super()._update_events()
        if self._events & READ and not self._tls.drained and not self._looking_again:
            # Opened or not, it is here already: the poll will not speak of it.
            self._looking_again = True
            self.loop.call_later(0, lambda now: self._look_again())

    def _look_again(self) -> None:
        self._looking_again = False
        if not self.closed and self._events & READ and not self._tls.drained:
            self._receive()
