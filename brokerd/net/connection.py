"""A client connection: splits frames, orders responses, sends bytes and file regions.

Responses are sent in request order. The size of a frame is checked before memory is allocated. While a client does not read its responses, the
broker does not read its requests. A connection cannot monopolise the loop. Does not interpret requests.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from brokerd.cluster.rejection_reasons import RejectionReason
from brokerd.net.buffers import spares
from brokerd.net.cached_regions import CachedRegions
from brokerd.net.client_traffic import ClientTraffic
from brokerd.net.concurrent_readers import ConcurrentReaders
from brokerd.net.fair_scheduler import BROKERS
from brokerd.net.loop import HANGUP, PEER_CLOSED, READ, WRITE, Loop
from brokerd.net.slots import Slot
from brokerd.wire.framing import FileRegion

if TYPE_CHECKING:
    from brokerd.net.rejections import Rejections
    from brokerd.storage.read_ahead import ConnectionReadAhead
    from brokerd.wire.framing import Part

log = logging.getLogger(__name__)

RECEIVE_BYTES = 256 * 1024
"""Bytes per read from a socket, and size of the buffer that idle connections share."""
REQUESTS_IN_FLIGHT_MAX = 256
"""Maximum number of unanswered requests of one connection. Above it the connection is not read."""
OUTPUT_BYTES_MAX = 64 * 1024 * 1024
"""Maximum number of queued response bytes of one connection, including file regions. Above it the connection is not read."""
RESPONSE_BYTES_MAX = 1024 * 1024
"""Maximum number of queued response bytes in memory, including responses that wait for an earlier one."""
REQUESTS_PER_ITERATION = 64
"""Maximum number of requests of one connection that are handled before other connections of the owner. See also `fair_scheduler`."""
SEND_BYTES_PER_ITERATION = 8 * 1024 * 1024
"""Maximum number of bytes that one connection sends per loop iteration, so that a fast consumer does not starve others."""
SEND_PARTS_MAX = 64
"""Maximum number of response parts per system call."""
READ_BYTES_MAX = 16 * 1024
"""File regions up to this size are read and sent with the preceding bytes, because a copy is cheaper than a sendfile call."""
MUTED_CHECK_MS = 10_000
"""Maximum timer of a throttled connection. Longer pauses use several timers."""
TOO_LARGE = "connection closed, request too large: peer=%s bytes=%d socket.request.max.bytes=%d"
SHORT = "a log segment is shorter than its recorded size"
LENGTH = 4
GONE = (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.EBADF)
"""Errors of a send to a client that has disconnected. They are not logged."""

_shared = bytearray(RECEIVE_BYTES)
_shared_view = memoryview(_shared)


class Connection:
    """One client connection. The handler of a frame must call `respond(slot, parts)` exactly once, now or later."""

    session: Any = None
    """The session of the client, set by the frame handler."""
    distinguished_name: str | None = None
    """Distinguished name in the verified client certificate, if any."""
    ended: Callable[[], None] | None = None
    """Called once when the connection is closed, to release state that belongs to the connection (share sessions)."""
    reader: ConnectionReadAhead | None = None
    """Loads file data into the page cache. None: sends may block on the disk."""
    rejections: Rejections | None = None  # counters of rejected connections
    concurrent_readers: ConcurrentReaders | None = None
    """Limits the send buffer while other connections read too. None if the buffer has a fixed size or is already limited."""
    _unsent = False  # bytes are removed from the output but not sent yet
    _sees_peer_close = True  # whether a close by the client is detected without reading

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
        self._partial: bytearray | None = None  # an incomplete frame with its length prefix
        self._filled = self._needed = 0  # received bytes and total bytes of the frame, with its length prefix
        self._corked = False
        self._slots: deque[Slot] = deque()
        self._output: deque[Part] = deque()
        self._output_bytes = self._response_bytes = 0
        self._cached = CachedRegions(self._on_loaded)
        self._events = READ
        self._backlog: memoryview | None = None  # received and not handled yet
        self.owner: Hashable = peer.rpartition(":")[0]
        """Owner of the loop time that this connection uses: the IP address until the principal is known."""
        self._due = 0  # events that wait for the owner's time slice
        self._blocking = 0  # waiting requests that block later ones
        self._needs_client = False
        self._gone: Callable[[], None] | None = None
        self._muted = False  # throttled by a quota: responses are sent, requests wait
        self._muted_until_ms = 0
        self.closed = False
        self.on_authenticated: Callable[[Connection], None] | None = None
        self.since_ms = self.last_active_ms = loop.now.mono_ms
        self.traffic = ClientTraffic(self.since_ms)
        loop.register(self.fd, READ, self._ready)

    @property
    def address(self) -> str:
        return self.peer.rpartition(":")[0]

    @property
    def has_pending_request(self) -> bool:
        """True if a request is not answered yet."""
        return bool(self._slots)

    def mark_authenticated(self) -> None:
        """The client is authenticated: the listener removes the limits of unauthenticated connections."""
        if self.on_authenticated is not None:
            self.on_authenticated(self)

    # -- reading ---------------------------------------------------------------------------------------------------
    def _ready(self, events: int) -> None:
        if events & HANGUP and not events & READ:
            self.close()
            return
        if events & PEER_CLOSED and not events & READ:
            self._peer_closed()
        self._due |= events & (READ | WRITE)
        if self._due:
            self.loop.scheduler.add(self.owner, self)

    def serve(self, until: float) -> bool:
        """Send queued bytes, then handle requests until time `until`. Returns whether more work is left."""
        events, self._due = self._due, 0
        if self.closed:
            return False
        if events & WRITE:
            self._flush()
        if self._backlog is not None:
            if not self.closed and self._has_room():
                self._resume(until)
        elif events & READ and not self.closed and self._has_room():
            self._receive(until)
        return not self.closed and self._backlog is not None and self._has_room()

    def _peer_closed(self) -> None:
        """The client has closed its side while a request waits. Close the connection unless received bytes are still unread."""
        try:
            left = self._backlog is not None or bool(self.sock.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            left = True
        except OSError:
            left = False
        if left:
            # The event is handled in the time slice of the connection. If it stayed registered, epoll would report it again and again.
            self._sees_peer_close = False
            self._update_events()
        else:
            self.close()

    def _receive(self, until: float) -> None:
        self.last_active_ms = self.loop.now.mono_ms
        partial = self._partial
        try:
            if partial is not None:
                received = self.sock.recv_into(memoryview(partial)[self._filled : self._needed])
            else:
                received = self.sock.recv_into(_shared_view)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        if received == 0:
            self.close()
            return
        self._corked = True  # immediate responses are sent in one call
        if partial is None:
            self._split(_shared_view[:received], until)
        else:
            self._filled += received
            if self._filled == self._needed:
                self._partial = None
                whole = memoryview(partial)[: self._needed]
                if self._needed == LENGTH:
                    self._split(whole, until)  # only the length prefix was incomplete
                else:
                    self._on_frame(self, whole[LENGTH:])
                spares.give(partial)
            elif self._filled == len(partial):
                self._partial = spares.take(min(2 * len(partial), self._needed))
                self._partial[: self._filled] = partial
                spares.give(partial)
        self._corked = False
        if self._output and not self.closed:
            self._flush()
        else:
            self._update_events()

    def _split(self, data: memoryview, until: float, *, own: bool = False) -> None:
        """Handle the complete frames in `data` until time `until`, at least one. Keep the rest. `own`: the memory belongs to this connection only."""
        pos, end, clock = 0, len(data), self.loop.scheduler.clock
        handled = 0
        while not self.closed:
            left = end - pos
            if left < LENGTH:
                if left:
                    self._keep(data[pos:end], LENGTH)
                return
            length = int.from_bytes(data[pos : pos + LENGTH], "big", signed=True)
            if length < 0 or length > self.frame_bytes_max:
                log.warning(TOO_LARGE, self.peer, length, self.frame_bytes_max)
                self.reject(RejectionReason.TOO_LARGE)
                return
            if left < LENGTH + length:
                self._keep(data[pos:end], LENGTH + length)
                return
            if handled and (handled == REQUESTS_PER_ITERATION or not self._has_room() or clock() >= until):
                self._backlog = data[pos:end] if own else memoryview(bytearray(data[pos:end]))
                return
            self._on_frame(self, data[pos + LENGTH : pos + LENGTH + length])
            handled += 1
            pos += LENGTH + length

    def _has_room(self) -> bool:
        """Return whether another request may be handled before queued responses are sent."""
        return (
            not self._muted
            and not self._blocking
            and len(self._slots) < REQUESTS_IN_FLIGHT_MAX
            and self._output_bytes < OUTPUT_BYTES_MAX
            and self._response_bytes < RESPONSE_BYTES_MAX
        )

    def _resume(self, until: float) -> None:
        """Continue with bytes that were left for a later iteration."""
        data, self._backlog = self._backlog, None
        assert data is not None
        self._corked = True
        self._split(data, until, own=True)
        self._corked = False
        if self._output and not self.closed:
            self._flush()
        else:
            self._update_events()

    def _keep(self, beginning: memoryview, needed: int) -> None:
        have = len(beginning)
        self._partial, self._filled, self._needed = spares.take(min(4 * have, needed)), have, needed
        self._partial[:have] = beginning

    # -- responses -------------------------------------------------------------------------------------------------
    def open_slot(self) -> Slot:
        slot = Slot()
        self._slots.append(slot)
        return slot

    def block(self, slot: Slot, *, needs_client: bool, gone: Callable[[], None] | None = None) -> None:
        """Handle no further request before `slot` is answered, as in Kafka. Later requests stay in the socket and need no memory. With `needs_client`, a
        disconnect of the client closes the connection and calls `gone`. Otherwise the request is completed first."""
        if not slot.blocks and not slot.filled:
            slot.blocks = True
            self._blocking += 1
            self._needs_client, self._gone = needs_client, gone

    def respond(self, slot: Slot, parts: Sequence[Part] | None) -> None:
        """Set the response of `slot`. None: the request has no response (acks=0)."""
        if slot.blocks:
            slot.blocks, self._gone = False, None
            self._blocking -= 1
        slot.parts = parts
        slot.filled = True
        if self.closed:
            return
        for part in parts or ():
            if not isinstance(part, FileRegion):
                self._response_bytes += len(part)
        moved = False
        while self._slots and self._slots[0].filled:
            ready = self._slots.popleft().parts
            if ready:
                for part in ready:
                    size = len(part)
                    if size:
                        self._output.append(part)
                        self._output_bytes += size
                moved = True
        if moved and not self._corked:
            self._flush()
        elif not self._corked:
            self._update_events()

    def _flush(self) -> None:
        budget = SEND_BYTES_PER_ITERATION
        output = self._output
        try:
            while output and budget > 0:
                part = output[0]
                if isinstance(part, FileRegion):
                    fd = part.file.fileno()
                    size = self._in_memory(part, fd, min(part.length, budget))
                    if not size:
                        break
                    readers = self.concurrent_readers
                    if (
                        readers is not None
                        and self.owner != BROKERS
                        and readers.limit(self.sock, self.loop.now.mono_ms)
                    ):
                        self.concurrent_readers = None
                    sent = os.sendfile(self.fd, fd, part.position, size)
                    if sent == 0:
                        raise OSError(errno.EIO, SHORT)
                    self._remove_sent(sent)
                    if self.reader is not None and self.reader.active:
                        self.reader.on_sent(part.file, part.position + sent)
                elif len(output) == 1:
                    size = len(part)
                    sent = self.sock.send(part)
                    self._remove_sent(sent)
                else:
                    parts = self._together()
                    size = sum(map(len, parts))
                    # MSG_MORE: a header before a file region is sent together with the first data.
                    sent = self.sock.sendmsg(parts, (), socket.MSG_MORE if len(output) > len(parts) else 0)
                    self._remove_sent(sent)
                if sent < size:
                    break  # the socket buffer is full: another call would fail
                budget -= sent
        except BlockingIOError:
            pass
        except OSError as e:
            if e.errno not in GONE:
                log.warning("connection closed while sending a response: peer=%s error=%s", self.peer, e)
            self.close()
            return
        self._update_events()

    def _in_memory(self, region: FileRegion, fd: int, size: int) -> int:
        """Return how many of the first `size` bytes of `region` can be sent without blocking. 0: they are being loaded and sent later."""
        reader = self.reader
        if reader is None or reader.read_ahead.blind:
            return size
        return self._cached.ready(reader, region, fd, size, self.loop.now.mono_ms)

    def _on_loaded(self) -> None:
        if not self.closed:
            self._due |= WRITE
            self.loop.scheduler.add(self.owner, self)

    def _together(self) -> list[Any]:
        """The parts for one system call: parts in memory and small file regions."""
        output, parts = self._output, []
        for i in range(min(len(output), SEND_PARTS_MAX)):
            part = output[i]
            if isinstance(part, FileRegion):
                if part.length > READ_BYTES_MAX:
                    break
                fd = part.file.fileno()
                if self._in_memory(part, fd, part.length) < part.length:
                    break
                data = os.pread(fd, part.length, part.position)
                if len(data) < part.length:
                    raise OSError(errno.EIO, SHORT)
                part = output[i] = data
                self._response_bytes += len(data)
            parts.append(part)
        return parts

    def _remove_sent(self, sent: int) -> None:
        """Remove `sent` bytes from the output."""
        output = self._output
        self._output_bytes -= sent
        self.traffic.sent_bytes += sent
        while sent:
            part = output[0]
            size = len(part)
            if sent >= size:
                sent -= size
                output.popleft()
                if not isinstance(part, FileRegion):
                    self._response_bytes -= size
            elif isinstance(part, FileRegion):
                output[0], sent = part.without_first(sent), 0
            else:
                output[0] = memoryview(part)[sent:]
                self._response_bytes -= sent
                sent = 0

    def mute(self, ms: int) -> None:
        """Throttle the client: read and handle no requests for `ms` milliseconds. Of several calls the latest end time applies."""
        self._muted_until_ms = max(self._muted_until_ms, self.loop.now.mono_ms + ms)
        if not self._muted and not self.closed:
            self._muted = True
            self._unmute()

    def _unmute(self) -> None:
        left_ms = self._muted_until_ms - self.loop.now.mono_ms
        if left_ms > 0 and not self.closed:
            # Short timers: a timer references the connection, and a closed connection must be freed before a long pause ends.
            self.loop.call_later(min(left_ms, MUTED_CHECK_MS), lambda now: self._unmute())
            return
        self._muted = False
        self._update_events()

    def _update_events(self) -> None:
        if self.closed:
            return
        room = self._has_room()
        if room and self._backlog is not None:
            self.loop.scheduler.add(self.owner, self)
        sending = (self._output and not self._cached.loading) or self._unsent
        events = (READ if room and self._backlog is None else 0) | (WRITE if sending else 0)
        if self._blocking and self._needs_client and self._sees_peer_close:
            events |= PEER_CLOSED
        if events != self._events:
            self._events = events
            self.loop.modify(self.fd, events)

    def reject(self, reason: RejectionReason) -> None:
        if self.rejections is not None and not self.closed:
            principal = self.session.proven_principal if self.session is not None else ""
            self.rejections.add(reason, self.address, self.traffic.client_id, principal)
        self.close()

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self.loop.unregister(self.fd)
        self.sock.close()
        self._slots.clear()
        self._output.clear()
        self._partial = self._backlog = None
        if self.reader is not None:
            self.reader.close()
        gone, self._gone = self._gone, None
        if gone is not None:
            gone()
        self._on_close(self)
        if self.ended is not None:
            self.ended()
