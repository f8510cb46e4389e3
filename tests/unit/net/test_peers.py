"""One connection to another broker, over a real socket: however the responses are split, each request gets its own
response, one time and in order."""

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

    def ask(self, count: int = 1, done: Callable[[memoryview | None], None] | None = None) -> None:
        for _ in range(count):
            self.peer.ask(b"?", done or self.note)
        if self.other is None:
            self.turn()
            self.other, _ = self.listener.accept()
        self.turn(3)

    def note(self, frame: memoryview | None) -> None:
        self.received.append(None if frame is None else bytes(frame))

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.loop.call_later(1, lambda now: None)  # no iteration waits for an event that may not occur
            self.loop.turn()

    def answer(self, data: bytes) -> None:
        """Send all bytes while the loop runs."""
        assert self.other is not None
        self.other.setblocking(False)
        view = memoryview(data)
        while view:
            try:
                view = view[self.other.send(view) :]
            except BlockingIOError:
                self.turn()
        self.turn(5)

    def close(self) -> None:
        self.peer.close()
        if self.other is not None:
            self.other.close()
        self.listener.close()
        self.loop.close()


@pytest.fixture
def asked() -> Iterator[PeerHarness]:
    it = PeerHarness()
    yield it
    it.close()


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def wait_for(asked: PeerHarness, count: int) -> None:
    for _ in range(10_000):
        if len(asked.received) >= count:
            return
        asked.turn()
    raise AssertionError(f"{len(asked.received)} of {count} answers")


@pytest.mark.parametrize("seed", range(5))
def test_fragmented_responses_arrive_complete_and_in_order(asked: PeerHarness, seed: int) -> None:
    chance = random.Random(seed)
    sizes = [1, 3, 64 * 1024 - 4, 64 * 1024 - 3, 300_000, 2, 70_000, SPARE_BYTES_MAX + 5, 9]
    chance.shuffle(sizes)
    bodies = [chance.randbytes(size) for size in sizes]
    asked.ask(len(bodies))
    data = b"".join(frame(b) for b in bodies)
    cuts = sorted(chance.sample(range(len(data)), 12))
    for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        asked.answer(data[begin:end])
    wait_for(asked, len(bodies))
    assert asked.received == bodies


def test_the_buffer_of_a_large_response_is_released(asked: PeerHarness) -> None:
    asked.ask(2)
    asked.answer(frame(bytes(SPARE_BYTES_MAX + 1)))
    wait_for(asked, 1)
    asked.turn(3)
    assert len(asked.peer._input) <= SPARE_BYTES_MAX
    asked.answer(frame(b"small"))
    wait_for(asked, 2)
    assert asked.received[1] == b"small"


@pytest.mark.parametrize("announced", [0, -1, LIMIT + 1])
def test_an_invalid_length_closes_the_connection_and_the_next_request_opens_another(
    asked: PeerHarness, announced: int
) -> None:
    asked.ask(2)
    asked.answer(announced.to_bytes(4, "big", signed=True) + b"xx")
    wait_for(asked, 2)
    assert asked.received == [None, None]
    asked.other = None
    asked.ask()
    asked.answer(frame(b"well"))
    wait_for(asked, 3)
    assert asked.received[2] == b"well"


def test_an_unexpected_response_closes_the_connection(asked: PeerHarness) -> None:
    asked.ask()
    asked.answer(frame(b"one") + frame(b"two"))
    wait_for(asked, 1)
    assert asked.received == [b"one"]
    assert asked.peer._sock is None


def test_after_a_close_by_a_response_handler_no_further_response_is_read(asked: PeerHarness) -> None:
    def close(answer: memoryview | None) -> None:
        asked.note(answer)
        asked.peer.close()

    asked.ask(1, close)
    asked.ask(1)
    asked.answer(frame(b"one") + frame(b"two"))
    wait_for(asked, 2)
    assert asked.received == [b"one", None]
    asked.other = None
    asked.ask()
    asked.answer(frame(b"three"))
    wait_for(asked, 3)
    assert asked.received == [b"one", None, b"three"]


@pytest.mark.parametrize("abortive", [True, False])
def test_an_abortive_connection_ends_with_a_reset(abortive: bool) -> None:
    """After a reset the kernel sends no buffered bytes. After an ordinary close it continues until all are delivered."""
    asked = PeerHarness(abortive=abortive)
    asked.ask()
    asked.peer.close()
    assert asked.other is not None
    asked.other.settimeout(10)
    assert asked.other.recv(10) == b"?"
    if abortive:
        with pytest.raises(ConnectionResetError):
            asked.other.recv(10)
    else:
        assert asked.other.recv(10) == b""
    asked.close()
