"""The blocking connection to a broker: valid responses, and every kind of invalid or missing response."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator

import pytest

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from controlplane.clients.connection import KafkaConnection, NoResponse

Reply = Callable[[bytes], bytes | None]


class Server:
    """A loopback server. `reply` makes the response to a request frame (without its length); None closes the connection."""

    def __init__(self) -> None:
        self.reply: Reply = response
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with connection, contextlib.suppress(ConnectionError):
                self._respond(connection)

    def _respond(self, connection: socket.socket) -> None:
        with connection.makefile("rb") as stream:
            while len(head := stream.read(4)) == 4:
                response = self.reply(stream.read(struct.unpack(">i", head)[0]))
                if response is None:
                    return
                connection.sendall(response)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def response(request: bytes, correlation_change: int = 0) -> bytes:
    """ListGroups 0: correlation id, error code, no groups."""
    (correlation,) = struct.unpack_from(">i", request, 4)
    body = struct.pack(">ihi", correlation + correlation_change, 0, 0)
    return struct.pack(">i", len(body)) + body


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.close()


def call(connection: KafkaConnection, timeout_s: float = 5.0) -> m.ListGroupsResponse:
    found: m.ListGroupsResponse = connection.call(ApiKey.LIST_GROUPS, 0, m.ListGroupsRequest(), timeout_s)
    return found


def test_calls_use_one_connection(server: Server) -> None:
    connection = KafkaConnection("127.0.0.1", server.port)
    assert call(connection).groups == [] and call(connection).groups == []
    assert server.connections == 1
    connection.close()


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (lambda request: response(request, 1), "correlation id"),
        (lambda request: b"HTTP/1.1 400 Bad Request\r\n\r\n", "not a Kafka broker"),
        (lambda request: struct.pack(">i", 4) + request[4:8], "does not respond"),
        (lambda request: None, "connection closed"),
    ],
)
def test_an_invalid_response_is_an_error_and_the_next_call_opens_a_new_connection(
    server: Server, reply: Reply, reason: str
) -> None:
    connection = KafkaConnection("127.0.0.1", server.port)
    server.reply = reply
    with pytest.raises(NoResponse, match=reason):
        call(connection)
    server.reply = response
    assert call(connection).groups == [] and server.connections == 2
    connection.close()


def test_a_late_response_is_an_error_at_the_deadline(server: Server) -> None:
    asked, release = threading.Event(), threading.Event()

    def respond_after_release(request: bytes) -> bytes | None:
        asked.set()
        release.wait(30)
        return None

    server.reply = respond_after_release
    connection = KafkaConnection("127.0.0.1", server.port)
    with pytest.raises(NoResponse, match=r"does not respond: timed out$"):
        call(connection, timeout_s=0.2)
    assert asked.is_set()
    release.set()


def test_a_port_without_a_listener_is_an_error() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        connection = KafkaConnection("127.0.0.1", bound.getsockname()[1])
        with pytest.raises(NoResponse, match=r"127.0.0.1:\d+ does not respond: Connection refused$"):
            call(connection)
