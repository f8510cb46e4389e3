"""Connections that send file data at the same time get a smaller send buffer, a connection that is alone keeps the kernel's."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator

import pytest

from brokerd.net.admission import Admission
from brokerd.net.concurrent_readers import CONCURRENT_MS, SEND_BUFFER_BYTES, ConcurrentReaders
from brokerd.net.connection import READ_BYTES_MAX, Connection
from brokerd.net.fair_scheduler import BROKERS
from brokerd.net.listener import Listener, SocketBuffers
from brokerd.net.loop import Loop
from brokerd.wire.framing import FileRegion

LIMITED = 2 * SEND_BUFFER_BYTES
"""The kernel doubles the size that is set."""


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    found = [socket.socket() for _ in range(3)]
    yield found
    for s in found:
        s.close()


def send_buffer(sock: socket.socket) -> int:
    return sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


def test_two_readers_are_limited_as_soon_as_they_alternate(sockets: list[socket.socket]) -> None:
    readers = ConcurrentReaders()
    first, second, _ = sockets
    assert not readers.limit(first, 0)
    assert readers.limit(second, CONCURRENT_MS - 1)
    assert readers.limit(first, CONCURRENT_MS)
    assert send_buffer(first) == send_buffer(second) == LIMITED


def test_readers_one_after_the_other_are_not_limited(sockets: list[socket.socket]) -> None:
    readers = ConcurrentReaders()
    before = [send_buffer(s) for s in sockets]
    now_ms = 0
    for reader in sockets:
        for _ in range(3):
            assert not readers.limit(reader, now_ms)
            now_ms += 1
        now_ms += CONCURRENT_MS
    assert [send_buffer(s) for s in sockets] == before


class ReadingClients:
    """Clients of a real listener that all receive one file region."""

    def __init__(self, count: int, buffers: SocketBuffers) -> None:
        self.loop = Loop()
        self.listener = Listener(
            self.loop,
            "127.0.0.1",
            0,
            lambda c, f: None,
            frame_bytes_max=1 << 20,
            admission=Admission(10, 1 << 30, {}, 0),
            buffers=buffers,
        )
        self.listener.open()
        self.clients = [socket.create_connection(("127.0.0.1", self.listener.port)) for _ in range(count)]
        while len(self.listener.connections) < count:
            self.loop.run_iteration()
        self.connections: list[Connection] = list(self.listener.connections.values())

    def send(self) -> None:
        with tempfile.TemporaryFile() as file:
            file.write(os.urandom(READ_BYTES_MAX + 1))
            file.flush()
            for connection in self.connections:
                region = FileRegion(file, 0, READ_BYTES_MAX + 1)
                connection.respond(connection.open_slot(), [region])

    def close(self) -> None:
        for client in self.clients:
            client.close()
        self.listener.stop_accepting()
        self.listener.close()
        self.loop.close()


@pytest.mark.parametrize(
    ("count", "buffers", "owner", "limited"),
    [
        (1, SocketBuffers(), "consumer", 0),
        (2, SocketBuffers(), "consumer", 1),
        (2, SocketBuffers(), BROKERS, 0),
        (2, SocketBuffers(send_bytes=150_000), "consumer", 0),
    ],
    ids=["alone", "two consumers", "followers", "configured size"],
)
def test_the_second_of_two_consumers_is_limited(count: int, buffers: SocketBuffers, owner: str, limited: int) -> None:
    reading = ReadingClients(count, buffers)
    try:
        for connection in reading.connections:
            connection.owner = owner
        reading.send()
        assert [send_buffer(c.sock) == LIMITED for c in reading.connections].count(True) == limited
    finally:
        reading.close()
