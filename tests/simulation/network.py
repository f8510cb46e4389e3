"""Connections between processes, as TCP has them: whole frames, in order per connection, late, or lost together with the connection.

A frame that meets a cut is sent again until it gets through: it may arrive seconds late, and after its sender has given the connection up and asked
again over another. That is where duplicates come from. Laws: a request's memory is overwritten once its handler has returned (what a broker keeps of it is a bug that shows); a peer hears None when
its connection is lost or too slow. Called by nodes and clients. Not modelled: half frames (the listener's own tests do that).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from brokerd.net.connection import Slot
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
    """(from, to): no frame gets through in that direction at present."""

    def delay_us(self) -> int:
        if self.world.chance(0.01):
            return self.world.between(20 * MS, 400 * MS)
        return self.world.between(100, 2 * MS)


class Pipe:
    """One direction of one connection."""

    def __init__(self, network: Network, source: str) -> None:
        self._network, self._world, self._source = network, network.world, source
        self._frames: deque[tuple[int, str, Callable[[], None]]] = deque()
        self._last_us = 0

    def send(self, target: str, arrives: Callable[[], None]) -> None:
        self._last_us = max(self._last_us, self._world.now_us + self._network.delay_us())
        self._frames.append((self._last_us, target, arrives))
        if len(self._frames) == 1:
            self._world.after(self._last_us - self._world.now_us, self._first)

    def lose(self) -> None:
        self._frames.clear()

    def _first(self) -> None:
        if not self._frames:
            return
        _, target, arrives = self._frames[0]
        if (self._source, target) in self._network.cut:
            self._world.reached["frame sent again"] += 1
            self._world.after(self._world.between(20 * MS, 300 * MS), self._first)
            return
        self._frames.popleft()
        arrives()
        if self._frames:
            self._world.after(self._frames[0][0] - self._world.now_us, self._first)


class SimListener:
    def __init__(self, network: Network, node: Node, host: str, port: int, on_frame: OnFrame) -> None:
        self.port, self.connections = port, {}
        self._network, self._address, self._door = network, (host, port), (node, on_frame)
        network.doors.pop(self._address, None)  # of an earlier life, which was killed

    def open(self) -> None:
        self._network.doors[self._address] = self._door
        # The next life opens when it knows the cluster; until then nobody is in, least of all the dead.
        self._door[0].on_death.append(self.stop_accepting)

    def close_idle(self, idle_ms_max: int) -> None:
        pass

    def stop_accepting(self) -> None:
        self._network.doors.pop(self._address, None)

    def close(self) -> None:
        self.stop_accepting()


class SimConnection:
    """The server's end: answers leave in the order of the requests."""

    def __init__(self, peer: SimPeer, number: int, server: Node) -> None:
        self._peer, self.server, self._number = peer, server, number
        self._life = server.life
        self.peer = peer.node.name
        self.closed = False
        self._slots: deque[Slot] = deque()
        self._back = Pipe(peer.network, server.name)

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
                self._back.send(self._peer.node.name, lambda data=data: self._peer.sent_back(self._number, data))  # type: ignore[misc]

    def held_by(self, node: Node) -> bool:
        return (self.server, self._life) == (node, node.life)

    def end(self) -> None:
        """The client has closed it; what arrived before is met before."""

        def ended() -> None:
            self.closed = True

        self.server.post(0, ended)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._peer.hung_up(self._number)


class SimPeer:
    """The client's end, with the real `Peer`'s promises."""

    def __init__(
        self, network: Network, node: Node, host: str, port: int, timeout_ms: int, *, abortive: bool = False
    ) -> None:
        self.network, self.node, self.world, self._abortive = network, node, network.world, abortive
        self.host, self.port, self._timeout_ms = host, port, timeout_ms
        self.number = 0
        self._broken = -1
        """The connection that was refused or ended at the other side; this side hears of it in a moment."""
        self._life = node.life
        self._connection: SimConnection | None = None
        self._waiting: deque[Answer] = deque()
        self._timer: Timer | None = None
        self._out = Pipe(network, node.name)

    def ask(self, request: bytes, done: Answer) -> None:
        self._waiting.append(done)
        if self._timer is None:
            self._timer = self.node.loop.call_later(self._timeout_ms, lambda now: self.close())
        number, out = self.number, self._out
        connection = self._connection

        def arrives() -> None:
            nonlocal connection
            if number == self._broken:
                return  # what was sent before it over this connection was refused
            door = self.network.doors.get((self.host, self.port))
            if connection is None:
                connection = self._connection if number == self.number else None
            if door is None or not door[0].alive or (connection is not None and not connection.held_by(door[0])):
                self.hung_up(number)  # refused, or reset by a new process
                return
            server, on_frame = door
            if connection is None:
                connection = SimConnection(self, number, server)
                if number == self.number and not self._dead:
                    self._connection = connection
                server.on_death.append(lambda: self.hung_up(number))
            to = connection
            if number != self.number or self._dead:
                self.world.reached["late request of a connection given up"] += 1
            frame = bytearray(request[4:])

            def handled() -> None:
                if not to.closed:
                    on_frame(to, memoryview(frame))
                    frame[:] = b"\xee" * len(frame)

            server.post(0, handled)

        out.send(self._door_name, arrives)

    @property
    def _door_name(self) -> str:
        door = self.network.doors.get((self.host, self.port))
        return door[0].name if door is not None else ""

    def sent_back(self, number: int, data: bytes) -> None:
        if number == self.number and not self._dead:
            self.node.post(0, lambda: self._received(number, data))

    @property
    def _dead(self) -> bool:
        """Its process has ended: nothing may reach the next one through it."""
        return self._life != self.node.life

    def hung_up(self, number: int) -> None:
        if self._dead:
            return
        self._broken = number
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
        connection, self._connection = self._connection, None
        out, self._out = self._out, Pipe(self.network, self.node.name)
        if self._abortive or self.world.chance(0.5):
            out.lose()  # reset; else what is under way arrives, and then the end of the connection
        if connection is not None:
            out.send(connection.server.name, connection.end)
        waiting, self._waiting = self._waiting, deque()
        for done in waiting:
            done(None)
