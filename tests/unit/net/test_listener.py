"""One connection over a socket pair: however the bytes are split, each request is dispatched once, complete and in order."""

from __future__ import annotations

import errno
import random
import socket
import tempfile
from collections.abc import Callable, Iterator
from itertools import count, pairwise

import pytest

from brokerd.cluster.rejection_reasons import RejectionReason
from brokerd.net import buffers
from brokerd.net import connection as limits
from brokerd.net.admission import Admission
from brokerd.net.connection import Connection
from brokerd.net.listener import Listener, SocketBuffers
from brokerd.net.loop import Loop, read_clocks
from brokerd.net.rejections import Rejections
from brokerd.net.slots import Slot
from brokerd.wire.framing import FileRegion

LIMIT = 1 << 20


class ServedConnection:
    """A connection on a real loop, and the client's end."""

    def __init__(self, on_frame: Callable[[Connection, memoryview], None] | None = None, limit: int = LIMIT) -> None:
        self.loop = Loop()
        self.client, server = socket.socketpair()
        server.setblocking(False)
        self.frames: list[bytes] = []
        self.slots: list[Slot] = []
        self.forgotten = 0
        self.connection = Connection(self.loop, server, "client:1", on_frame or self.note, self.forget, limit)

    def note(self, connection: Connection, frame: memoryview) -> None:
        self.frames.append(bytes(frame))
        if len(frame):
            frame[0] = 0  # handlers write in place: the memory must be writable

    def forget(self, connection: Connection) -> None:
        self.forgotten += 1

    def run_iteration(self, times: int = 1) -> None:
        for _ in range(times):
            self.loop.call_later(0, lambda now: None)  # no iteration waits for an event that may not occur
            self.loop.run_iteration()

    def send(self, data: bytes) -> None:
        """Send all bytes while the loop runs."""
        self.client.setblocking(False)
        view = memoryview(data)
        while view and not self.connection.closed:
            try:
                view = view[self.client.send(view) :]
            except BlockingIOError:
                self.run_iteration()
        self.run_iteration(3)

    def receive_bytes(self) -> bytes:
        self.client.setblocking(False)
        out = b""
        try:
            while more := self.client.recv(1 << 20):
                out += more
        except BlockingIOError:
            pass
        return out

    def close(self) -> None:
        self.connection.close()
        self.client.close()
        self.loop.close()


@pytest.fixture
def served_connection() -> Iterator[ServedConnection]:
    one = ServedConnection()
    yield one
    one.close()


def frame_bodies(*bodies: bytes) -> bytes:
    return b"".join(len(b).to_bytes(4, "big") + b for b in bodies)


@pytest.mark.parametrize("seed", range(12))
def test_fragmented_frames_arrive_complete_and_in_order(served_connection: ServedConnection, seed: int) -> None:
    rng = random.Random(seed)
    sizes = (0, 1, 3, 4, 200, 5_000, limits.RECEIVE_BYTES - 4, limits.RECEIVE_BYTES, 300_000)
    bodies = [rng.randbytes(rng.choice(sizes)) for _ in range(rng.randrange(1, 12))]
    stream = frame_bodies(*bodies)
    cuts = sorted(rng.randrange(len(stream) + 1) for _ in range(rng.choice((0, 3, 30))))
    for start, end in pairwise((0, *cuts, len(stream))):
        served_connection.send(stream[start:end])
    served_connection.run_iteration(5)
    assert served_connection.frames == bodies


def test_frames_sent_byte_by_byte(served_connection: ServedConnection) -> None:
    bodies = [b"first", b"", b"second"]
    for i in frame_bodies(*bodies):
        served_connection.send(bytes([i]))
    assert served_connection.frames == bodies


@pytest.mark.parametrize("length", [-1, -(2**31), LIMIT + 1, 2**31 - 1])
def test_an_invalid_frame_length_closes_the_connection_after_earlier_requests(
    served_connection: ServedConnection, length: int
) -> None:
    served_connection.send(frame_bodies(b"good") + length.to_bytes(4, "big", signed=True) + b"more")
    assert served_connection.frames == [b"good"]
    assert (served_connection.connection.closed, served_connection.forgotten) == (True, 1)


def test_a_frame_that_is_too_large_is_counted(served_connection: ServedConnection) -> None:
    served_connection.connection.rejections = rejections = Rejections()
    served_connection.send(b"\x7f\xff\xff\xff")
    assert served_connection.connection.closed and rejections.counts == {RejectionReason.TOO_LARGE: 1}
    assert [client for client, _ in rejections.latest(9)] == [("client", "", "")]


def test_a_frame_of_the_maximum_size_is_accepted(served_connection: ServedConnection) -> None:
    served_connection.send(frame_bodies(b"x" * LIMIT))
    assert [len(f) for f in served_connection.frames] == [LIMIT]


def test_a_frame_length_alone_allocates_no_memory(served_connection: ServedConnection) -> None:
    served_connection.send((LIMIT).to_bytes(4, "big") + b"x" * 100)
    partial = served_connection.connection._partial
    assert partial is not None
    assert len(partial) <= buffers.FRAME_BYTES_FIRST


def test_a_thousand_pipelined_requests_are_handled_in_batches(served_connection: ServedConnection) -> None:
    bodies = [b"%04d" % i for i in range(1_000)]
    ticks = count()
    served_connection.loop.scheduler.clock = lambda: next(ticks) * 0.0001
    served_connection.client.sendall(frame_bodies(*bodies))
    served_connection.run_iteration()
    assert len(served_connection.frames) <= limits.REQUESTS_PER_ITERATION
    iterations = 1
    while len(served_connection.frames) < len(bodies):
        served_connection.run_iteration()
        iterations += 1
        assert iterations < 100
    assert served_connection.frames == bodies
    assert iterations >= len(bodies) // limits.REQUESTS_PER_ITERATION


def test_unanswered_requests_pause_the_reading_of_others() -> None:
    one = ServedConnection()

    def wait(connection: Connection, frame: memoryview) -> None:
        one.frames.append(bytes(frame))
        one.slots.append(connection.open_slot())

    one.connection._on_frame = wait
    one.send(frame_bodies(*[b"%04d" % i for i in range(1_000)]))
    one.run_iteration(50)
    assert len(one.frames) == limits.REQUESTS_IN_FLIGHT_MAX
    completed, got = 0, b""
    while len(one.slots) > completed:
        one.connection.respond(one.slots[completed], [b"%04d" % completed])
        completed += 1
        one.run_iteration()
        got += one.receive_bytes()
    assert completed == 1_000
    assert one.frames == [b"%04d" % i for i in range(1_000)]
    assert got == b"".join(b"%04d" % i for i in range(1_000))
    one.close()


def test_unread_responses_pause_the_reading_of_requests() -> None:
    one = ServedConnection()
    response = bytes(100_000)

    def reply(connection: Connection, frame: memoryview) -> None:
        one.frames.append(bytes(frame))
        connection.respond(connection.open_slot(), [response])

    one.connection._on_frame = reply
    one.client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.client.sendall(frame_bodies(*[b"?"] * 2_000))
    one.run_iteration(100)
    stuck = len(one.frames)
    assert stuck < 60, f"{stuck} responses of {len(response)} bytes are held for a client that reads none"
    got = 0
    for _ in range(20_000):
        got += len(one.receive_bytes())
        one.run_iteration()
        if got == 2_000 * len(response):
            break
    assert got == 2_000 * len(response)
    assert one.connection._response_bytes == one.connection._output_bytes == 0
    one.close()


def test_responses_queued_behind_a_pending_one_count_too() -> None:
    one = ServedConnection()

    def reply(connection: Connection, frame: memoryview) -> None:
        slot = connection.open_slot()
        one.slots.append(slot)
        if len(one.slots) > 1:
            connection.respond(slot, [bytes(100_000)])

    one.connection._on_frame = reply
    one.send(frame_bodies(*[b"?"] * 200))
    one.run_iteration(20)
    assert len(one.slots) < 30
    one.connection.respond(one.slots[0], None)  # this request has no response
    got = 0
    for _ in range(5_000):
        got += len(one.receive_bytes())
        one.run_iteration()
    assert got == 199 * 100_000
    one.close()


def test_responses_are_sent_in_the_order_of_requests(served_connection: ServedConnection) -> None:
    slots = [served_connection.connection.open_slot() for _ in range(4)]
    for i in (3, 1, 0):
        served_connection.connection.respond(slots[i], [b"%d" % i])
    served_connection.run_iteration()
    assert served_connection.receive_bytes() == b"01"
    served_connection.connection.respond(slots[2], None)
    served_connection.run_iteration()
    assert served_connection.receive_bytes() == b"3"


def test_a_file_region_is_sent_between_buffers(served_connection: ServedConnection) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"0123456789" * 10_000)
        file.flush()
        slot = served_connection.connection.open_slot()
        served_connection.connection.respond(slot, [b"<", FileRegion(file, 10, 50_000), b">"])
        got = b""
        for _ in range(200):
            got += served_connection.receive_bytes()
            served_connection.run_iteration()
        assert got == b"<" + (b"0123456789" * 5_000) + b">"


def test_a_region_longer_than_its_file_closes_the_connection_only(served_connection: ServedConnection) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"short")
        file.flush()
        served_connection.connection.respond(served_connection.connection.open_slot(), [FileRegion(file, 0, 500)])
        served_connection.run_iteration(2)
    assert served_connection.connection.closed


def test_a_response_to_a_closed_connection_is_dropped(served_connection: ServedConnection) -> None:
    slot = served_connection.connection.open_slot()
    served_connection.client.close()
    served_connection.run_iteration(2)
    assert served_connection.connection.closed
    served_connection.connection.respond(slot, [b"late"])


def test_the_port_is_bound_immediately_and_rejects_connections_until_it_is_opened() -> None:
    loop = Loop()
    one = Listener(
        loop,
        "127.0.0.1",
        0,
        lambda connection, frame: None,
        frame_bytes_max=LIMIT,
        admission=Admission(10, 1 << 30, {}, 0),
    )
    try:
        with socket.socket() as client:
            assert client.connect_ex(("127.0.0.1", one.port)) == errno.ECONNREFUSED
        one.open()
        one.open()
        with socket.socket() as client:
            assert client.connect_ex(("127.0.0.1", one.port)) == 0
            loop.run_iteration()
            assert len(one.connections) == 1
    finally:
        one.stop_accepting()
        one.close()
        loop.close()


def test_accepted_connections_have_the_socket_buffers_of_their_listener() -> None:
    kernel_sets, doubled = SocketBuffers(), SocketBuffers(send_bytes=50_000, receive_bytes=40_000)
    assert accepted_buffers(doubled) == (100_000, 80_000)
    send, receive = accepted_buffers(kernel_sets)
    assert send > 100_000 and receive > 80_000


def accepted_buffers(configured: SocketBuffers) -> tuple[int, int]:
    """(SO_SNDBUF, SO_RCVBUF) of a connection that was accepted by a listener."""
    loop, admission = Loop(), Admission(10, 1 << 30, {}, 0)
    listener = Listener(
        loop, "127.0.0.1", 0, lambda c, f: None, frame_bytes_max=LIMIT, admission=admission, buffers=configured
    )
    try:
        listener.open()
        with socket.create_connection(("127.0.0.1", listener.port)):
            loop.run_iteration()
            (connection,) = listener.connections.values()
            option = connection.sock.getsockopt
            return option(socket.SOL_SOCKET, socket.SO_SNDBUF), option(socket.SOL_SOCKET, socket.SO_RCVBUF)
    finally:
        listener.stop_accepting()
        listener.close()
        loop.close()


def test_a_muted_connection_is_read_after_the_longest_throttle_time(
    served_connection: ServedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MUTED_CHECK_MS", 20)
    began = served_connection.loop.now.mono_ms
    served_connection.connection.mute(150)
    served_connection.connection.mute(10)
    served_connection.client.sendall(frame_bodies(b"late"))
    while not served_connection.frames:
        served_connection.run_iteration()
    assert served_connection.frames == [b"late"]
    assert served_connection.loop.now.mono_ms - began >= 150


def test_a_disconnect_of_a_muted_connection_is_detected_at_the_next_check(
    served_connection: ServedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MUTED_CHECK_MS", 20)
    served_connection.connection.mute(10**9)
    served_connection.connection.close()
    until = read_clocks().mono_ms + 60_000
    while served_connection.loop._timers and read_clocks().mono_ms < until:
        served_connection.loop.run_iteration()
    assert not served_connection.loop._timers, "nothing holds the connection"


def test_pipelined_slow_requests_take_several_turns() -> None:
    """Each request of the first connection costs more than a time slice. The second connection is served after one of them, not after all."""
    one = ServedConnection()
    two_client, two_server = socket.socketpair()
    two_server.setblocking(False)
    order: list[str] = []
    clock_s = [0.0]
    one.loop.scheduler.clock = lambda: clock_s[0]

    def receive_slowly(connection: Connection, frame: memoryview) -> None:
        order.append("slow")
        clock_s[0] += 1.0
        connection.respond(connection.open_slot(), [b"x"])

    def receive_quickly(connection: Connection, frame: memoryview) -> None:
        order.append("quick")
        connection.respond(connection.open_slot(), [b"y"])

    one.connection._on_frame = receive_slowly
    one.connection.owner = "hostile"
    two = Connection(one.loop, two_server, "quiet:1", receive_quickly, lambda c: None, LIMIT)
    one.client.sendall(frame_bodies(*[b"?"] * 6))
    two_client.sendall(frame_bodies(b"?"))
    one.run_iteration()
    assert order.count("quick") == 1
    assert order.count("slow") == 1
    one.run_iteration(5)
    assert order.count("slow") == 6, "buffered requests are served without new bytes"
    assert one.receive_bytes() == b"x" * 6
    two.close()
    two_client.close()
    one.close()


def test_connections_of_one_principal_are_served_in_turn() -> None:
    one = ServedConnection()
    pairs = [socket.socketpair() for _ in range(5)]
    order: list[str] = []
    clock_s = [0.0]
    one.loop.scheduler.clock = lambda: clock_s[0]

    def receive_slowly(connection: Connection, frame: memoryview) -> None:
        order.append(connection.peer)
        clock_s[0] += 1.0
        connection.respond(connection.open_slot(), None)

    connections = []
    for i, (client, server) in enumerate(pairs):
        server.setblocking(False)
        connections.append(Connection(one.loop, server, f"{i}", receive_slowly, lambda c: None, LIMIT))
        connections[-1].owner = "hostile"
        client.sendall(frame_bodies(*[b"?"] * 3))
    one.run_iteration(20)
    assert [sorted(order[i : i + 5]) for i in range(0, 15, 5)] == [["0", "1", "2", "3", "4"]] * 3
    for connection, (client, _) in zip(connections, pairs, strict=True):
        connection.close()
        client.close()
    one.close()


def test_a_blocking_request_delays_later_ones_and_keeps_their_order() -> None:
    one = ServedConnection()

    def note(connection: Connection, frame: memoryview) -> None:
        one.frames.append(bytes(frame))
        slot = connection.open_slot()
        one.slots.append(slot)
        if frame[0:1] == b"w":
            connection.block(slot, needs_client=True)
        else:
            connection.respond(slot, [bytes(frame)])

    one.connection._on_frame = note
    one.send(frame_bodies(b"a", b"w1", b"b", b"w2", b"c"))
    one.run_iteration(3)
    assert one.frames == [b"a", b"w1"]
    one.send(frame_bodies(b"d"))
    assert one.frames == [b"a", b"w1"]
    one.connection.respond(one.slots[1], [b"w1"])
    one.run_iteration(3)
    assert one.frames == [b"a", b"w1", b"b", b"w2"]
    one.connection.respond(one.slots[3], [b"w2"])
    one.run_iteration(3)
    assert one.receive_bytes() == b"aw1bw2cd"
    one.close()


def test_a_disconnect_during_a_blocking_request_is_detected() -> None:
    one = ServedConnection()
    one.connection._on_frame = lambda connection, frame: connection.block(connection.open_slot(), needs_client=True)
    one.send(frame_bodies(b"w"))
    one.client.close()
    one.run_iteration(3)
    assert one.connection.closed


def test_requests_received_before_a_disconnect_are_handled() -> None:
    one = ServedConnection()

    def note(connection: Connection, frame: memoryview) -> None:
        one.frames.append(bytes(frame))
        one.slots.append(connection.open_slot())
        if frame[0:1] == b"w":
            connection.block(one.slots[-1], needs_client=True)
        else:
            connection.respond(one.slots[-1], None)

    one.connection._on_frame = note
    one.send(frame_bodies(b"w"))
    one.client.sendall(frame_bodies(b"last words"))
    one.client.shutdown(socket.SHUT_WR)
    one.run_iteration(5)
    assert (one.frames, one.connection.closed) == ([b"w"], False)
    one.connection.respond(one.slots[0], [b"w"])
    one.run_iteration(5)
    assert (one.frames, one.connection.closed) == ([b"w", b"last words"], True)
    one.close()
