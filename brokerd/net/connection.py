"""One client's connection: cuts frames, keeps answers in order, sends bytes and file regions.

Laws: answers leave strictly in request order; a frame is bounded before anything is allocated for it; a connection that does
not read its answers is not read from; no connection keeps the loop to itself, however many requests it sends at once. Called by the loop; hands frames to `dispatch`. Must not come in: what a request means.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from brokerd.net.buffers import spares
from brokerd.net.loop import HANGUP, READ, WRITE, Loop
from brokerd.wire.framing import FileRegion

if TYPE_CHECKING:
    Part = bytes | bytearray | memoryview | FileRegion

log = logging.getLogger(__name__)

RECEIVE_BYTES = 256 * 1024
"""Bytes read from a socket at once; also the buffer a quiet connection falls back to sharing."""
REQUESTS_IN_FLIGHT_MAX = 256
"""Requests of one connection that may wait for answers; beyond it the connection is not read."""
OUTPUT_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of answers queued for one connection, most of them in files, before it is not read any more."""
ANSWER_BYTES_MAX = 1024 * 1024
"""Of these, bytes in memory, those behind an answer that is still awaited included."""
REQUESTS_PER_TURN = 64
"""Requests of one connection handled before the others have their turn: a buffer full of small questions may ask for much."""
SEND_BYTES_PER_TURN = 8 * 1024 * 1024
"""Bytes one connection may send per loop turn, so that a fast reader does not starve the others."""
SEND_PARTS_MAX = 64
"""Small answers given to the kernel in one call."""
READ_BYTES_MAX = 16 * 1024
"""A file region up to this is read and leaves with what stands before it: one copy costs less than a call of sendfile."""
MUTED_LOOK_MS = 10_000
"""A pause is waited for in pieces of this."""
SHORT = "a log segment is shorter than its index says"
LENGTH = 4
GONE = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF)
"""What a send hears when the client has left: nothing to tell of."""

_shared = bytearray(RECEIVE_BYTES)
_shared_view = memoryview(_shared)


class Connection:
    """One client. `on_frame(connection, frame, slot)` must call `answer(slot, parts)` exactly once, now or later."""

    session: Any = None
    """Who is at the other end, for those who handle its frames."""
    distinguished_name: str | None = None
    """The name in its certificate, where it showed one that was verified."""
    _unsent = False  # bytes that have left the output wait for the socket all the same

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        peer: str,
        on_frame: Callable[[Connection, memoryview], None],
        on_close: Callable[[Connection], None],
        frame_bytes_max: int,
    ) -> None:
        self.loop, self.sock, self.peer = loop, sock, peer
        self.fd = sock.fileno()
        self._on_frame, self._on_close = on_frame, on_close
        self.frame_bytes_max = frame_bytes_max
        self._partial: bytearray | None = None  # a frame under way, its length in front
        self._filled = self._wanted = 0  # bytes of it that are here, that it takes with its length
        self._corked = False
        self._slots: deque[Slot] = deque()
        self._output: deque[Part] = deque()
        self._output_bytes = self._answer_bytes = 0
        self._events = READ
        self._backlog: memoryview | None = None  # received and not looked at yet
        self._resuming = False
        self._muted = False  # by a quota: its answers go, its requests wait
        self._muted_until_ms = 0
        self.closed = False
        self.on_proved: Callable[[Connection], None] | None = None
        self.since_ms = self.last_active_ms = loop.now.mono_ms
        loop.register(self.fd, READ, self._ready)

    def proved(self) -> None:
        """It has been proved who is at the other end: the listener lifts its limits for strangers."""
        if self.on_proved is not None:
            self.on_proved(self)

    # -- reading ---------------------------------------------------------------------------------------------------
    def _ready(self, events: int) -> None:
        if events & HANGUP and not events & READ:
            self.close()
            return
        if events & WRITE:
            self._flush()
        if events & READ and not self.closed:
            self._receive()

    def _receive(self) -> None:
        self.last_active_ms = self.loop.now.mono_ms
        partial = self._partial
        try:
            if partial is not None:
                n = self.sock.recv_into(memoryview(partial)[self._filled : self._wanted])
            else:
                n = self.sock.recv_into(_shared_view)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if n == 0:
            self.close()
            return
        self._corked = True  # what is answered at once leaves at once, in one call
        if partial is None:
            self._split(_shared_view[:n])
        else:
            self._filled += n
            if self._filled == self._wanted:
                self._partial = None
                whole = memoryview(partial)[: self._wanted]
                if self._wanted == LENGTH:
                    self._split(whole)  # only the length was cut off
                else:
                    self._on_frame(self, whole[LENGTH:])
                spares.give(partial)
            elif self._filled == len(partial):
                self._partial = spares.take(min(2 * len(partial), self._wanted))
                self._partial[: self._filled] = partial
                spares.give(partial)
        self._corked = False
        if self._output and not self.closed:
            self._flush()
        else:
            self._update_events()

    def _split(self, data: memoryview, *, own: bool = False) -> None:
        """Hand over the whole frames in `data`; keep the rest. `own`: its memory is this connection's alone."""
        pos, end = 0, len(data)
        handled = 0
        while not self.closed:
            left = end - pos
            if left < LENGTH:
                if left:
                    self._keep(data[pos:end], LENGTH)
                return
            length = int.from_bytes(data[pos : pos + LENGTH], "big", signed=True)
            if length < 0 or length > self.frame_bytes_max:
                log.warning("closed %s: a request of %d bytes (socket.request.max.bytes is %d)",
                            self.peer, length, self.frame_bytes_max)  # fmt: skip
                self.close()
                return
            if left < LENGTH + length:
                self._keep(data[pos:end], LENGTH + length)
                return
            if handled == REQUESTS_PER_TURN or not self._has_room():
                self._backlog = data[pos:end] if own else memoryview(bytearray(data[pos:end]))
                return
            self._on_frame(self, data[pos + LENGTH : pos + LENGTH + length])
            handled += 1
            pos += LENGTH + length

    def _has_room(self) -> bool:
        """Whether another request may be handled before answers have left."""
        return (
            not self._muted
            and len(self._slots) < REQUESTS_IN_FLIGHT_MAX
            and self._output_bytes < OUTPUT_BYTES_MAX
            and self._answer_bytes < ANSWER_BYTES_MAX
        )

    def _resume(self) -> None:
        """Go on with what was left for a later turn."""
        self._resuming = False
        data, self._backlog = self._backlog, None
        if data is None or self.closed:
            return
        self._corked = True
        self._split(data, own=True)
        self._corked = False
        if self._output and not self.closed:
            self._flush()
        else:
            self._update_events()

    def _keep(self, beginning: memoryview, wanted: int) -> None:
        have = len(beginning)
        self._partial, self._filled, self._wanted = spares.take(min(4 * have, wanted)), have, wanted
        self._partial[:have] = beginning

    # -- answering -------------------------------------------------------------------------------------------------
    def open_slot(self) -> Slot:
        slot = Slot()
        self._slots.append(slot)
        return slot

    def answer(self, slot: Slot, parts: Sequence[Part] | None) -> None:
        """Fill `slot`. None says that this request gets no answer (acks=0)."""
        slot.parts = parts
        slot.filled = True
        if self.closed:
            return
        self._answer_bytes += sum(len(p) for p in parts or () if not isinstance(p, FileRegion))
        moved = False
        while self._slots and self._slots[0].filled:
            ready = self._slots.popleft().parts
            if ready:
                for part in ready:
                    if len(part):
                        self._output.append(part)
                        self._output_bytes += len(part)
                moved = True
        if moved and not self._corked:
            self._flush()
        elif not self._corked:
            self._update_events()

    def _flush(self) -> None:
        budget = SEND_BYTES_PER_TURN
        output = self._output
        try:
            while output and budget > 0:
                part = output[0]
                if isinstance(part, FileRegion):
                    n = os.sendfile(self.fd, part.fd, part.position, min(part.length, budget))
                    if n == 0:
                        raise OSError(errno.EIO, SHORT)
                    self._sent(n)
                elif len(output) == 1:
                    n = self.sock.send(part)
                    self._sent(n)
                else:
                    parts = self._together()
                    # A header before a file region is held back until it can leave with the first data.
                    n = self.sock.sendmsg(parts, (), socket.MSG_MORE if len(output) > len(parts) else 0)
                    self._sent(n)
                budget -= n
        except BlockingIOError:
            pass
        except OSError as e:
            if e.errno not in GONE:
                log.warning("closed %s while answering: %s", self.peer, e)
            self.close()
            return
        self._update_events()

    def _together(self) -> list[Any]:
        """What may leave in one call: parts in memory, and with them file regions so small that to read them costs less than a sendfile of their own."""
        output, parts = self._output, []
        for i in range(min(len(output), SEND_PARTS_MAX)):
            part = output[i]
            if isinstance(part, FileRegion):
                if part.length > READ_BYTES_MAX:
                    break
                data = os.pread(part.fd, part.length, part.position)
                if len(data) < part.length:
                    raise OSError(errno.EIO, SHORT)
                part = output[i] = data
                self._answer_bytes += len(data)
            parts.append(part)
        return parts

    def _sent(self, n: int) -> None:
        """`n` bytes of the output have left."""
        output = self._output
        self._output_bytes -= n
        while n:
            part = output[0]
            size = len(part)
            if n >= size:
                n -= size
                output.popleft()
                if not isinstance(part, FileRegion):
                    self._answer_bytes -= size
            elif isinstance(part, FileRegion):
                output[0], n = part.advanced(n), 0
            else:
                output[0] = memoryview(part)[n:]
                self._answer_bytes -= n
                n = 0

    def mute(self, ms: int) -> None:
        """Read nothing for so long, and for as long as any pause that was told before: what is here already waits too."""
        self._muted_until_ms = max(self._muted_until_ms, self.loop.now.mono_ms + ms)
        if not self._muted and not self.closed:
            self._muted = True
            self._unmute()

    def _unmute(self) -> None:
        left_ms = self._muted_until_ms - self.loop.now.mono_ms
        if left_ms > 0 and not self.closed:
            # In pieces: a timer holds the connection, and who goes away in a long pause must not be remembered to its end.
            self.loop.call_later(min(left_ms, MUTED_LOOK_MS), lambda now: self._unmute())
            return
        self._muted = False
        self._update_events()

    def _update_events(self) -> None:
        if self.closed:
            return
        room = self._has_room()
        if room and self._backlog is not None and not self._resuming:
            self._resuming = True
            self.loop.call_later(0, lambda now: self._resume())
        sending = self._output or self._unsent
        events = (READ if room and self._backlog is None else 0) | (WRITE if sending else 0)
        if events != self._events:
            self._events = events
            self.loop.modify(self.fd, events)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self.loop.unregister(self.fd)
        self.sock.close()
        self._slots.clear()
        self._output.clear()
        self._partial = self._backlog = None
        self._on_close(self)


class Slot:
    """A place in the order of answers."""

    __slots__ = ("filled", "parts")

    def __init__(self) -> None:
        self.filled = False
        self.parts: Sequence[Part] | None = None
