"""Connections between processes: whole frames, in order per connection, late, or lost together with the connection.

Laws: a request's memory is overwritten once its handler has returned (what a broker keeps of it is a bug that shows); a peer hears None when
its connection is lost or too slow. Called by nodes and clients. Not modelled: half frames (the listener's own tests do that).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from brokerd.net.listener import Slot
from brokerd.net.loop import Timer
from brokerd.wire.framing import FileRegion
from tests.simulation.world import MS, Node, World

OnFrame = Callable[[Any, memoryview], None]
Answer = Callable[[memoryview | None], None]


@dataclass
class Network:
    world: World
    doors: dict[tuple[str, int], tuple[Node, OnFrame]] = field(default_factory=dict)
    cut: set[tuple[str, str]] = field(default_factory=set)
    """(from, to): frames in that direction are lost."""

    def delay_us(self) -> int:
        if self.world.chance(0.01):
            return self.world.between(20 * MS, 400 * MS)
        return self.world.between(100, 2 * MS)

    def passes(self, source: Node, target: Node) -> bool:
        return (source.name, target.name) not in self.cut


class SimListener:
    def __init__(self, network: Network, node: Node, host: str, port: int, on_frame: OnFrame) -> None:
        self.port, self.connections = port, {}
        self._network, self._address = network, (host, port)
        network.doors[self._address] = (node, on_frame)

    def close_idle(self, idle_ms_max: int) -> None:
        pass

    def stop_accepting(self) -> None:
        self._network.doors.pop(self._address, None)

    def close(self) -> None:
        self.stop_accepting()


class SimConnection:
    """The server's end: answers leave in the order of the requests."""

    def __init__(self, peer: SimPeer, server: Node) -> None:
        self._peer, self._server, self._number = peer, server, peer.number
        self.peer = peer.node.name
        self.closed = False
        self._slots: deque[Slot] = deque()

    def open_slot(self) -> Slot:
        slot = Slot()
        self._slots.append(slot)
        return slot

    def answer(self, slot: Slot, parts: Sequence[Any] | None) -> None:
        slot.parts, slot.filled = parts, True
        while self._slots and self._slots[0].filled and not self.closed:
            ready = self._slots.popleft().parts
            if ready:
                data = b"".join(
                    p.file.pread(p.length, p.position) if isinstance(p, FileRegion) else bytes(p)
                    for p in ready  # type: ignore[attr-defined]
                )
                self._peer.sent_back(self._number, self._server, data)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._peer.hung_up(self._number)


class SimPeer:
    """The client's end, with the real `Peer`'s promises."""

    def __init__(self, network: Network, node: Node, host: str, port: int, timeout_ms: int) -> None:
        self.network, self.node, self.world = network, node, network.world
        self.host, self.port, self._timeout_ms = host, port, timeout_ms
        self.number = 0
        self._life = node.life
        self._connection: SimConnection | None = None
        self._server: tuple[Node, int] | None = None
        self._waiting: deque[Answer] = deque()
        self._timer: Timer | None = None
        self._last_out_us = self._last_in_us = 0

    def ask(self, request: bytes, done: Answer) -> None:
        self._waiting.append(done)
        if self._timer is None:
            self._timer = self.node.loop.call_later(self._timeout_ms, lambda now: self.close())
        number = self.number
        self._last_out_us = max(self._last_out_us, self.world.now_us + self.network.delay_us())

        def arrives() -> None:
            if number != self.number or self._dead:
                return
            door = self.network.doors.get((self.host, self.port))
            if door is None or not door[0].alive or (self._server and self._server != (door[0], door[0].life)):
                self.hung_up(number)  # refused, or reset by a new process
                return
            server, on_frame = door
            if not self.network.passes(self.node, server):
                return  # lost; the time-out tells
            if self._connection is None:
                self._connection = SimConnection(self, server)
                self._server = (server, server.life)
                server.on_death.append(lambda: self.hung_up(number))
            connection = self._connection
            frame = bytearray(request[4:])

            def handled() -> None:
                if not connection.closed:
                    on_frame(connection, memoryview(frame))
                    frame[:] = b"\xee" * len(frame)

            server.post(0, handled)

        self.world.after(self._last_out_us - self.world.now_us, arrives)

    def sent_back(self, number: int, server: Node, data: bytes) -> None:
        self._last_in_us = max(self._last_in_us, self.world.now_us + self.network.delay_us())

        def arrives() -> None:
            if number == self.number and not self._dead and self.network.passes(server, self.node):
                self.node.post(0, lambda: self._received(number, data))

        self.world.after(self._last_in_us - self.world.now_us, arrives)

    @property
    def _dead(self) -> bool:
        """Its process has ended: nothing may reach the next one through it."""
        return self._life != self.node.life

    def hung_up(self, number: int) -> None:
        if self._dead:
            return
        self.node.post(self.network.delay_us(), lambda: self.close() if number == self.number else None)

    def _received(self, number: int, data: bytes) -> None:
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
        if self._connection is not None:
            self._connection.closed = True
        self._connection = self._server = None
        waiting, self._waiting = self._waiting, deque()
        for done in waiting:
            done(None)
