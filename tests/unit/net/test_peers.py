"""One connection to another broker, over a real socket: however the responses are split, each request gets its own
response, once and in order."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Iterator

import pytest

from brokerd.net.buffers import SPARE_BYTES_MAX
from brokerd.net.loop import Loop
from brokerd.net.peers import Peer

LIMIT = 2 * SPARE_BYTES_MAX


class PeerHarness:
    """A peer on a real loop, and the other broker's end of the connection."""

    def __init__(self, *, abortive: bool = False) -> None:
        self.loop = Loop()
        self.listener = socket.create_server(("127.0.0.1", 0))
        host, port = self.listener.getsockname()
        self.peer = Peer(self.loop, host, port, timeout_ms=60_000, frame_bytes_max=LIMIT, abortive=abortive)
        self.received: list[bytes | None] = []
        self.other: socket.socket | None = None

    def send_request(self, count: int = 1, done: Callable[[memoryview | None], None] | None = None) -> None:
        for _ in range(count):
            self.peer.send_request(b"?", done or self.note)
        if self.other is None:
            self.run_iteration()
            self.other, _ = self.listener.accept()
        self.run_iteration(3)

    def note(self, frame: memoryview | None) -> None:
        self.received.append(None if frame is None else bytes(frame))

    def run_iteration(self, times: int = 1) -> None:
        for _ in range(times):
            self.loop.call_later(1, lambda now: None)  # no iteration waits for an event that may not occur
            self.loop.run_iteration()

    def respond(self, data: bytes) -> None:
        """Send all bytes while the loop runs."""
        assert self.other is not None
        self.other.setblocking(False)
        view = memoryview(data)
        while view:
            try:
                view = view[self.other.send(view) :]
            except BlockingIOError:
                self.run_iteration()
        self.run_iteration(5)

    def close(self) -> None:
        self.peer.close()
        if self.other is not None:
            self.other.close()
        self.listener.close()
        self.loop.close()


@pytest.fixture
def peer_harness() -> Iterator[PeerHarness]:
    it = PeerHarness()
    yield it
    it.close()


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def wait_for(requested: PeerHarness, count: int) -> None:
    for _ in range(10_000):
        if len(requested.received) >= count:
            return
        requested.run_iteration()
    raise AssertionError(f"{len(requested.received)} of {count} responses")


@pytest.mark.parametrize("seed", range(5))
def test_fragmented_responses_arrive_complete_and_in_order(peer_harness: PeerHarness, seed: int) -> None:
    chance = random.Random(seed)
    sizes = [1, 3, 64 * 1024 - 4, 64 * 1024 - 3, 300_000, 2, 70_000, SPARE_BYTES_MAX + 5, 9]
    chance.shuffle(sizes)
    bodies = [chance.randbytes(size) for size in sizes]
    peer_harness.send_request(len(bodies))
    data = b"".join(frame(b) for b in bodies)
    cuts = sorted(chance.sample(range(len(data)), 12))
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        peer_harness.respond(data[begin:end])
    wait_for(peer_harness, len(bodies))
    assert peer_harness.received == bodies


def test_the_buffer_of_a_large_response_is_released(peer_harness: PeerHarness) -> None:
    peer_harness.send_request(2)
    peer_harness.respond(frame(bytes(SPARE_BYTES_MAX + 1)))
    wait_for(peer_harness, 1)
    peer_harness.run_iteration(3)
    assert len(peer_harness.peer._input) <= SPARE_BYTES_MAX
    peer_harness.respond(frame(b"small"))
    wait_for(peer_harness, 2)
    assert peer_harness.received[1] == b"small"


@pytest.mark.parametrize("announced", [0, -1, LIMIT + 1])
def test_an_invalid_length_closes_the_connection_and_the_next_request_opens_another(
    peer_harness: PeerHarness, announced: int
) -> None:
    peer_harness.send_request(2)
    peer_harness.respond(announced.to_bytes(4, "big", signed=True) + b"xx")
    wait_for(peer_harness, 2)
    assert peer_harness.received == [None, None]
    peer_harness.other = None
    peer_harness.send_request()
    peer_harness.respond(frame(b"well"))
    wait_for(peer_harness, 3)
    assert peer_harness.received[2] == b"well"


def test_an_unexpected_response_closes_the_connection(peer_harness: PeerHarness) -> None:
    peer_harness.send_request()
    peer_harness.respond(frame(b"one") + frame(b"two"))
    wait_for(peer_harness, 1)
    assert peer_harness.received == [b"one"]
    assert peer_harness.peer._sock is None


def test_after_a_close_by_a_response_handler_no_further_response_is_read(peer_harness: PeerHarness) -> None:
    def close(response: memoryview | None) -> None:
        peer_harness.note(response)
        peer_harness.peer.close()

    peer_harness.send_request(1, close)
    peer_harness.send_request(1)
    peer_harness.respond(frame(b"one") + frame(b"two"))
    wait_for(peer_harness, 2)
    assert peer_harness.received == [b"one", None]
    peer_harness.other = None
    peer_harness.send_request()
    peer_harness.respond(frame(b"three"))
    wait_for(peer_harness, 3)
    assert peer_harness.received == [b"one", None, b"three"]


@pytest.mark.parametrize("abortive", [True, False])
def test_an_abortive_connection_ends_with_a_reset(abortive: bool) -> None:
    """After a reset the kernel sends no buffered bytes. After an ordinary close it continues until all are delivered."""
    requested = PeerHarness(abortive=abortive)
    requested.send_request()
    requested.peer.close()
    assert requested.other is not None
    requested.other.settimeout(10)
    assert requested.other.recv(10) == b"?"
    if abortive:
        with pytest.raises(ConnectionResetError):
            requested.other.recv(10)
    else:
        assert requested.other.recv(10) == b""
    requested.close()
