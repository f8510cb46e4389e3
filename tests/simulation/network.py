"""Connections between processes with TCP's behaviour: whole frames, in order per connection, late, or lost together with the connection.

A frame that meets a cut is retransmitted until it gets through, with TCP's doubling time-out. It arrives seconds after the cut is repaired: perhaps after
another leader was elected, perhaps after its sender has closed the connection and retried over another. That causes duplicates. Invariants: a request's
memory is overwritten after its handler has returned (a broker that keeps a reference shows a bug); a peer gets None when its connection is lost or
too slow. Does not model partial frames (the listener's own tests do that).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from brokerd.net.client_traffic import ClientTraffic
from brokerd.net.loop import Timer
from brokerd.net.slots import Slot
from brokerd.storage.disk import DiskFailed
from brokerd.wire.framing import FileRegion
from tests.simulation.world import MS, Node, World

RTO_MIN_US, RTO_MAX_US = 200 * MS, 10_000 * MS
"""TCP's retransmission time-out: Linux starts at 200 ms and doubles it (up to 120 s). The limit delivers late frames before a world ends."""
OnFrame = Callable[[Any, memoryview], None]
OnResponse = Callable[[memoryview | None], None]


@dataclass
class Network:
    world: World
    listeners: dict[tuple[str, int], tuple[Node, OnFrame]] = field(default_factory=dict)
    cut: set[tuple[str, str]] = field(default_factory=set)
    """(from, to): no frame gets through in that direction now."""

    def delay_us(self) -> int:
        if self.world.chance(0.01):
            return self.world.between(20 * MS, 400 * MS)
        return self.world.between(100, 2 * MS)

    def load_us(self) -> int:
        """Time of a read outside the page cache: normal, or with a busy disk."""
        return (
            self.world.between(1 * MS, 20 * MS) if self.world.chance(0.8) else self.world.between(50 * MS, 1_500 * MS)
        )


class Pipe:
    """One direction of a connection."""

    def __init__(self, network: Network, source: str) -> None:
        self._network, self._world, self._source = network, network.world, source
        self._frames: deque[tuple[int, str, Callable[[], None]]] = deque()
        self._last_us = 0
        self._rto_us = RTO_MIN_US

    def send(self, target: str, arrives: Callable[[], None]) -> None:
        self._last_us = max(self._last_us, self._world.moment_us + self._network.delay_us())
        self._frames.append((self._last_us, target, arrives))
        if len(self._frames) == 1:
            self._world.after(self._last_us - self._world.now_us, self._next_frame)

    def lose(self) -> None:
        self._frames.clear()

    def _next_frame(self) -> None:
        if not self._frames:
            return
        _, target, arrives = self._frames[0]
        if (self._source, target) in self._network.cut:
            self._world.reached["frame retransmitted"] += 1
            self._world.after(self._rto_us, self._next_frame)
            self._rto_us = min(2 * self._rto_us, RTO_MAX_US)
            return
        if self._rto_us > 5 * RTO_MIN_US:
            self._world.reached["frame a second late"] += 1
        self._rto_us = RTO_MIN_US
        self._frames.popleft()
        arrives()
        if self._frames:
            self._world.after(self._frames[0][0] - self._world.now_us, self._next_frame)


class SimListener:
    def __init__(self, network: Network, node: Node, host: str, port: int, on_frame: OnFrame) -> None:
        self.port, self.connections = port, {}
        self._network, self._address, self._listener = network, (host, port), (node, on_frame)
        network.listeners.pop(self._address, None)  # of a killed incarnation

    def open(self) -> None:
        self._network.listeners[self._address] = self._listener
        # The next incarnation listens when it knows the cluster; until then no connection is accepted.
        self._listener[0].on_death.append(self.stop_accepting)

    def close_idle(self, idle_ms_max: int) -> None:
        pass

    def stop_accepting(self) -> None:
        self._network.listeners.pop(self._address, None)

    def close(self) -> None:
        self.stop_accepting()


class SimConnection:
    """The server's end: responses leave in the order of the requests."""

    def __init__(self, peer: SimPeer, number: int, server: Node) -> None:
        self._peer, self.server, self._number = peer, server, number
        self._life = server.life
        self.traffic = ClientTraffic(0)
        self.peer = self.owner = peer.node.name
        self.closed = False
        self._blocking = 0
        self._gone: Callable[[], None] | None = None
        self._unread: deque[Callable[[], None]] = deque()
        self._slots: deque[Slot] = deque()
        self._responses: deque[list[Any]] = deque()
        self._loading = False
        self._back = Pipe(peer.network, server.name)

    def open_slot(self) -> Slot:
        slot = Slot()
        self._slots.append(slot)
        return slot

    def block(self, slot: Slot, *, needs_client: bool, gone: Callable[[], None] | None = None) -> None:
        if not slot.blocks and not slot.filled:
            slot.blocks = True
            self._blocking += 1
            self._gone = gone

    def _closed(self) -> None:
        self.closed = True
        gone, self._gone = self._gone, None
        if gone is not None:
            gone()

    def deliver(self, handle: Callable[[], None]) -> None:
        """A frame, or the end of the connection: not read while an earlier request blocks the connection."""
        if self._blocking or self._unread:
            self._unread.append(handle)
        else:
            handle()

    def _read_on(self) -> None:
        while self._unread and not self._blocking:
            self._unread.popleft()()

    def respond(self, slot: Slot, parts: Sequence[Any] | None) -> None:
        if slot.blocks:
            slot.blocks, self._gone = False, None
            self._blocking -= 1
            self.server.post(0, self._read_on)
        slot.parts, slot.filled = parts, True
        while self._slots and self._slots[0].filled and not self.closed:
            ready = self._slots.popleft().parts
            if ready:
                self._responses.append(list(ready))
        if not self._loading:
            self._send()

    def _send(self, *, loaded: bool = False) -> None:
        """In order. The world runs on while bytes are read from the disk."""
        self._loading = False
        while self._responses and not self.closed:
            parts = self._responses[0]
            regions = [p for p in parts if isinstance(p, FileRegion)]
            if not loaded and not all(r.file.resident(r.position, r.length) for r in regions):
                self._loading = True
                self._peer.world.reached["response waited for the disk"] += 1
                self.server.post(self._peer.network.load_us(), lambda: self._send(loaded=True))
                return
            loaded = False
            self._responses.popleft()
            try:
                read = [p.file.pread(p.length, p.position) if isinstance(p, FileRegion) else bytes(p) for p in parts]  # type: ignore[attr-defined]
            except DiskFailed:
                self._peer.world.reached["response from a failed directory"] += 1
                self.close()  # as the real connection when sendfile fails
                return
            if sum(map(len, read)) < sum(map(len, parts)):
                self._peer.world.reached["file truncated during a response"] += 1
                self.close()  # as the real connection when a segment is shorter than expected
                return
            data = b"".join(read)
            self._back.send(self._peer.node.name, lambda data=data: self._peer.sent_back(self._number, data))  # type: ignore[misc]

    def held_by(self, node: Node) -> bool:
        return (self.server, self._life) == (node, node.life)

    def end(self) -> None:
        """The client has closed the connection; frames that arrived before are handled first."""

        self.server.post(0, lambda: self._closed() if not self._unread else self._unread.append(self._closed))

    def close(self) -> None:
        if not self.closed:
            self._closed()
            self._peer.hung_up(self._number)


class SimPeer:
    """The client's end, with the guarantees of the real `Peer`."""

    def __init__(
        self, network: Network, node: Node, host: str, port: int, timeout_ms: int, *, abortive: bool = False
    ) -> None:
        self.network, self.node, self.world, self._abortive = network, node, network.world, abortive
        self.host, self.port, self._timeout_ms = host, port, timeout_ms
        self.number = 0
        self._broken: set[int] = set()
        """Connections that were refused or closed by the other side; this side notices a moment later."""
        self._life = node.life
        self._connection: SimConnection | None = None
        self._waiting: deque[OnResponse] = deque()
        self._timer: Timer | None = None
        self._out = Pipe(network, node.name)

    def send_request(self, request: bytes, done: OnResponse) -> None:
        self._waiting.append(done)
        if self._timer is None:
            self._timer = self.node.loop.call_later(self._timeout_ms, lambda now: self.close())
        number, out = self.number, self._out
        connection = self._connection

        def deliver_request() -> None:
            nonlocal connection
            if number in self._broken:
                return  # an earlier request of this connection was refused
            listener = self.network.listeners.get((self.host, self.port))
            if connection is None:
                connection = self._connection if number == self.number else None
            if (
                listener is None
                or not listener[0].alive
                or (connection is not None and not connection.held_by(listener[0]))
            ):
                self.hung_up(number)  # refused, or reset by a new process
                return
            server, on_frame = listener
            if connection is None:
                connection = SimConnection(self, number, server)
                if number == self.number and not self._is_dead:
                    self._connection = connection
                server.on_death.append(lambda: self.hung_up(number))
            to = connection
            if number != self.number or self._is_dead:
                self.world.reached["late request of a closed connection"] += 1
            frame = bytearray(request[4:])

            def handle_frame() -> None:
                if not to.closed:
                    self.world.spend(server.request_us(len(frame)))
                    on_frame(to, memoryview(frame))
                    frame[:] = b"\xee" * len(frame)

            server.post(0, lambda: to.deliver(handle_frame))

        out.send(self._server_name, deliver_request)

    @property
    def _server_name(self) -> str:
        listener = self.network.listeners.get((self.host, self.port))
        return listener[0].name if listener is not None else ""

    def sent_back(self, number: int, data: bytes) -> None:
        if number == self.number and not self._is_dead:
            self.node.post(0, lambda: self._on_received(number, data))

    @property
    def _is_dead(self) -> bool:
        """The process has ended: nothing may reach the next one through this peer."""
        return self._life != self.node.life

    def hung_up(self, number: int) -> None:
        if self._is_dead:
            return
        self._broken.add(number)
        self.node.post(self.network.delay_us(), lambda: self.close() if number == self.number else None)

    def _on_received(self, number: int, data: bytes) -> None:
        if number != self.number or not self._waiting:
            return
        done = self._waiting.popleft()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._waiting:
            self._timer = self.node.loop.call_later(self._timeout_ms, lambda now: self.close())
        done(memoryview(data)[4:])

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.number += 1
        connection, self._connection = self._connection, None
        out, self._out = self._out, Pipe(self.network, self.node.name)
        if self._abortive or self.world.chance(0.5):
            out.lose()  # a reset; otherwise frames in flight arrive before the end of the connection
        if connection is not None:
            out.send(connection.server.name, connection.end)
        waiting, self._waiting = self._waiting, deque()
        for done in waiting:
            done(None)
