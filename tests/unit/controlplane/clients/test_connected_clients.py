"""The request for the connected clients, and its response."""

from __future__ import annotations

from typing import Any

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from controlplane.clients.connected_clients import ConnectedClients, connected_clients

SHOP = m.DescribeLogDirsResponse.ConnectedClient(client_id="shop", connections=2)

REJECTION = m.DescribeLogDirsResponse.Rejection(host="10.0.0.1", client_id="shop", reason="throttled", count=2)


class Broker:
    def __init__(self) -> None:
        self.requests: list[Any] = []

    def call(self, api: ApiKey, version: int, body: Any, timeout_s: float) -> Any:
        self.requests.append((api, version, body.topics, body.clients, body.rejections))
        total = m.DescribeLogDirsResponse.Rejection(reason="throttled", count=9)
        return m.DescribeLogDirsResponse(clients=[SHOP], client_count=7, rejections=[total, REJECTION])


def test_the_clients_of_a_broker() -> None:
    broker = Broker()
    assert connected_clients(broker) == ConnectedClients([SHOP], 7, [REJECTION])  # type: ignore[arg-type]
    assert broker.requests == [(ApiKey.DESCRIBE_LOG_DIRS, 4, [], True, True)]
