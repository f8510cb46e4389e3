"""The proxy before an S3 server: late responses, errors that the store of a broker understands, and silence."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from bench.store_proxy import Mode, StoreProxy

GREETING = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Bench:
    """A server that answers every request with GREETING, behind the proxy, on a loop in a thread."""

    def __init__(self) -> None:
        self.mode, self.port = Mode(), 0
        self.proxy = StoreProxy(0, self.mode)
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,))
        self._thread.start()
        assert ready.wait(30)

    def _run(self, ready: threading.Event) -> None:
        async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(65_536):
                writer.write(GREETING)
                await writer.drain()

        async def start() -> None:
            server = await asyncio.start_server(respond, "127.0.0.1", 0)
            self.proxy = StoreProxy(server.sockets[0].getsockname()[1], self.mode)
            front = await asyncio.start_server(self.proxy.serve, "127.0.0.1", 0)
            self.port = front.sockets[0].getsockname()[1]
            ready.set()

        self._loop.run_until_complete(start())
        self._loop.run_forever()

    def send_request(self, timeout_s: float = 30) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout_s) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            return client.recv(4_096)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    running = Bench()
    yield running
    running.close()


def test_answers_pass_late_or_as_errors(bench: Bench) -> None:
    assert bench.send_request() == GREETING
    assert bench.proxy.response_bytes == len(GREETING)
    bench.mode.set("slow 0.3")
    begun = time.monotonic()
    assert bench.send_request() == GREETING and time.monotonic() - begun >= 0.3
    bench.mode.set(f"slow 0 {len(GREETING) / 0.3}")
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", bench.port), 30) as client:
        for _ in range(3):
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert client.recv(4_096) == GREETING
    assert time.monotonic() - begun >= 0.6
    bench.mode.set("error\n")
    assert bench.send_request().startswith(b"HTTP/1.1 503 ")
    bench.mode.set("pass")
    assert bench.send_request() == GREETING


def test_a_silent_store_accepts_requests_and_answers_nothing(bench: Bench) -> None:
    bench.mode.set("silent")
    with pytest.raises(TimeoutError):
        bench.send_request(0.3)


def test_an_unknown_mode_is_rejected() -> None:
    with pytest.raises(ValueError, match="unknown mode 'broken'"):
        Mode().set("broken")
