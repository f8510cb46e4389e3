"""The clients that are connected to a broker, as it counts them."""

from __future__ import annotations

from dataclasses import dataclass, field

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from controlplane.clients.connection import KafkaConnection

CONNECTED_CLIENTS_SECONDS = 2.0
"""Deadline of one broker. A page waits for it."""


@dataclass(frozen=True, slots=True)
class ConnectedClients:
    """`clients`: those with the most traffic, at most 1,000. `count`: of all. `rejections`: by client and reason, of the
    at most 100 clients with the latest ones. `failed_logins`: the latest ones of these clients."""

    clients: list[m.DescribeLogDirsResponse.ConnectedClient]
    count: int
    rejections: list[m.DescribeLogDirsResponse.Rejection]
    failed_logins: list[m.DescribeLogDirsResponse.FailedLogin] = field(default_factory=list)


def connected_clients(connection: KafkaConnection, topic: str = "") -> ConnectedClients:
    """Return the connected clients of one broker, and its rejections by client. `topic`: only clients that have produced to it or read from
    it. Raises NoResponse."""
    body = m.DescribeLogDirsRequest(topics=[], clients=True, rejections=True, clients_of=topic)
    response = connection.call(ApiKey.DESCRIBE_LOG_DIRS, 4, body, CONNECTED_CLIENTS_SECONDS)
    rejected = [r for r in response.rejections if r.host]
    return ConnectedClients(response.clients, response.client_count, rejected, response.failed_logins)
