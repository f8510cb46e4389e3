"""TLS on a non-blocking socket, with the interface of a socket.

Nothing blocks. The number of encrypted unsent bytes (SEAL_BYTES) and of received undecrypted bytes is bounded. It uses memory BIOs instead of
SSLSocket: receiving costs 0.7 to 1.0 s of CPU time per GB instead of 1.3 (OpenSSL reads a socket twice per TLS record of 16 KiB); sending
costs 0.45 s with both (docs/decisions/022-tls-over-memory-bios-in-event-loop.md). Does not contain frames or trust decisions.
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

from brokerd.cluster.rejection_reasons import RejectionReason
from brokerd.net.connection import GONE, RECEIVE_BYTES, SEND_BYTES_PER_ITERATION, SEND_PARTS_MAX, Connection
from brokerd.net.loop import HANGUP, READ, WRITE, Loop
from brokerd.security.principals import distinguished_name
from brokerd.wire.framing import FileRegion

log = logging.getLogger(__name__)

SEAL_BYTES = 128 * 1024
"""Plaintext bytes encrypted at a time: eight TLS records. No more are encrypted before these are sent."""
GATHER_BYTES = 16 * 1024
"""Small responses are joined up to this size, one TLS record."""

_shared = memoryview(bytearray(RECEIVE_BYTES))


class TlsSocket:
    """Call `handshake` until it returns True; then call `recv_into` and `send`. Like a socket, they raise BlockingIOError, and OSError for fatal errors."""

    def __init__(
        self, sock: socket.socket, context: ssl.SSLContext, *, server_side: bool, hostname: str | None = None
    ) -> None:
        self.sock = sock
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._in, self._out, server_side=server_side, server_hostname=hostname)
        self._sealed = memoryview(b"")
        self._ended = False
        self.drained = True
        """No decrypted data is available; only the socket may have more."""

    @property
    def unsent(self) -> bool:
        """True if encrypted bytes wait to be sent."""
        return bool(self._sealed) or self._out.pending > 0

    def fileno(self) -> int:
        return self.sock.fileno()

    def close(self) -> None:
        self.sock.close()

    def handshake(self) -> bool:
        """Continue the handshake. False while it waits for the peer. Raises OSError (including ssl.SSLError)."""
        if not self._ended and not self._fill():
            raise ConnectionResetError("closed during the handshake")
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            self.push()
            return False
        except ssl.SSLError:
            with suppress(OSError):
                self.push()  # the TLS alert
            raise
        self.push()
        self.drained = False  # the first request may have arrived together with the last handshake message
        return True

    def subject(self) -> str | None:
        """Distinguished name of the verified peer certificate. None without one."""
        shown: Any = self._ssl.getpeercert()
        return distinguished_name(shown["subject"]) if shown and shown.get("subject") else None

    def _fill(self) -> bool:
        """Receive from the socket. False at the end of the stream."""
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
        filled, read_once = 0, False
        self.drained = False
        while filled < len(view):
            try:
                received = self._ssl.read(len(view) - filled, view[filled:])  # type: ignore[arg-type]
            except ssl.SSLWantReadError:
                if read_once or filled or self._ended:
                    self.drained = True
                    break
                read_once = True
                self._fill()
                continue
            except ssl.SSLError:
                if filled:
                    break  # the next receive raises the error again
                raise
            if not received:
                self._ended = self.drained = True
                break
            filled += int(received)
        if self._out.pending:
            self.push()
        if not filled and not self._ended:
            raise BlockingIOError
        return filled

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Encrypt and send. Returns the number of plaintext bytes, at most SEAL_BYTES. Raises BlockingIOError while earlier bytes wait."""
        if self.unsent:
            self.push()
            if self.unsent:
                raise BlockingIOError
        n = self._ssl.write(memoryview(data)[:SEAL_BYTES])
        self.push()
        return n

    def push(self) -> None:
        """Send encrypted bytes as far as the socket accepts them."""
        with suppress(BlockingIOError):
            while True:
                if not self._sealed:
                    if not self._out.pending:
                        return
                    self._sealed = memoryview(self._out.read())
                self._sealed = self._sealed[self.sock.send(self._sealed) :]


class TlsConnection(Connection):
    """A TLS connection. Calls `on_secured(connection)` after the handshake."""

    _sees_peer_close = False  # the last bytes are a TLS alert, which must be read first

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
        self._read_scheduled = False
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
        except OSError:  # errors of unauthenticated clients are counted, not logged
            self.reject(RejectionReason.TLS_FAILED)
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
        budget, output, tls = SEND_BYTES_PER_ITERATION, self._output, self._tls
        try:
            tls.push()
            while output and budget > 0 and not tls.unsent:
                first, size = output[0], 0
                if isinstance(first, FileRegion):
                    size = self._in_memory(first, first.file.fileno(), min(first.length, SEAL_BYTES))
                    if not size:
                        break
                n = tls.send(self._gather(output, size))
                self._remove_sent(n)
                budget -= n
        except BlockingIOError:
            pass
        except OSError as e:
            if not isinstance(e, ssl.SSLError) and e.errno not in GONE:
                log.warning("connection closed while sending a response: peer=%s error=%s", self.peer, e)
            self.close()
            return
        self._unsent = tls.unsent
        self._update_events()

    def _gather(self, output: deque[Any], size: int) -> Any:
        """The next bytes to encrypt: `size` bytes of a file region, or joined small responses."""
        first = output[0]
        if isinstance(first, FileRegion):
            data = os.pread(first.file.fileno(), size, first.position)
            if not data:
                raise OSError(errno.EIO, "a log segment is shorter than its recorded size")
            if self.reader is not None and self.reader.active:
                self.reader.on_sent(first.file, first.position + len(data))
            if len(data) < first.length:
                output[0] = first.without_first(len(data))
            else:
                output.popleft()
            output.appendleft(data)
            self._response_bytes += len(data)
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
        if self._events & READ and not self._tls.drained and not self._read_scheduled:
            # Data may already be decrypted, so epoll does not report it.
            self._read_scheduled = True
            self.loop.call_later(0, lambda now: self._read_buffered())

    def _read_buffered(self) -> None:
        self._read_scheduled = False
        if not self.closed and self._events & READ and not self._tls.drained:
            self._due |= READ
            self.loop.scheduler.add(self.owner, self)
