"""Requests to other brokers: each completes once, with a response or None, and never within the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from brokerd.net.inter_broker import InterBrokerClient, LoopbackRequest
from brokerd.wire import framing
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey


class Loop:
    def __init__(self) -> None:
        self.later: list[Callable[[Any], None]] = []

    def call_later(self, ms: int, callback: Callable[[Any], None]) -> None:
        self.later.append(callback)

    def run_iteration(self) -> None:
        later, self.later = self.later, []
        for callback in later:
            callback(None)


class Peer:
    def __init__(self, host: str, port: int, **limits: Any) -> None:
        self.address, self.limits, self.closed = (host, port), limits, False
        self.requests: list[Callable[[memoryview | None], None]] = []

    def send_request(self, frame: Any, done: Callable[[memoryview | None], None]) -> None:
        self.requests.append(done)

    def close(self) -> None:
        self.closed = True


class Scene:
    def __init__(self) -> None:
        self.loop: Any = Loop()
        self.addresses = {2: ("b", 9092)}
        self.peers: list[Peer] = []
        self.served: list[LoopbackRequest] = []
        self.responses: list[Any] = []
        connect: Any = self.connect
        self.client = InterBrokerClient(
            self.loop,
            1,
            lambda key, request: self.served.append(request),
            self.addresses.get,
            connect,
            timeout_ms=5,
            frame_bytes_max=9,
        )

    def connect(self, host: str, port: int, **limits: Any) -> Peer:
        self.peers.append(Peer(host, port, **limits))
        return self.peers[-1]

    def send(self, broker: int) -> None:
        body = m.HeartbeatRequest(group_id="g", member_id="m")
        self.client.send_request(broker, ApiKey.HEARTBEAT, 3, body, self.responses.append)


@pytest.fixture
def client_and_peers() -> Scene:
    return Scene()


def test_a_request_to_this_broker_uses_its_handlers_without_a_socket(client_and_peers: Scene) -> None:
    client_and_peers.send(1)
    assert not client_and_peers.served, "not within the call"
    client_and_peers.loop.run_iteration()
    (request,) = client_and_peers.served
    assert (request.body.group_id, request.client_id, request.from_privileged_listener) == ("g", "broker-1", True)
    request.reply("response")
    assert not client_and_peers.responses
    client_and_peers.loop.run_iteration()
    assert client_and_peers.responses == ["response"] and not client_and_peers.peers


def test_a_broker_without_an_address_gives_no_response(client_and_peers: Scene) -> None:
    client_and_peers.send(9)
    assert not client_and_peers.responses
    client_and_peers.loop.run_iteration()
    assert client_and_peers.responses == [None]


def test_one_connection_per_broker_follows_its_address(client_and_peers: Scene) -> None:
    client_and_peers.send(2)
    client_and_peers.send(2)
    (first,) = client_and_peers.peers
    assert first.limits == {"timeout_ms": 5, "frame_bytes_max": 9, "abortive": True}
    client_and_peers.addresses[2] = ("b", 9093)
    client_and_peers.send(2)
    assert first.closed and client_and_peers.peers[1].address == ("b", 9093)
    client_and_peers.client.close()
    assert client_and_peers.peers[1].closed


def test_a_response_is_decoded_and_a_malformed_one_is_none(
    client_and_peers: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        client_and_peers.send(2)
    lost, malformed, fine = client_and_peers.peers[0].requests
    parts = framing.encode_response(ApiKey.HEARTBEAT, 3, 0, m.HeartbeatResponse(error_code=27))
    lost(None)
    malformed(memoryview(b"\0"))
    fine(memoryview(b"".join(map(bytes, parts)))[4:])
    assert client_and_peers.responses[:2] == [None, None] and client_and_peers.responses[2].error_code == 27
    assert "malformed response: broker=2" in caplog.text
