"""The clients that are connected to this broker, with the number of their connections. A client is identified by principal, client id, address, software and
listener.

A client has several connections, and a new port for each. Does not contain: authorization, the request (`log_dirs`).
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable

from brokerd.net.connection import Connection
from brokerd.net.fair_scheduler import BROKERS
from brokerd.security.principals import ANONYMOUS
from brokerd.wire.messages import DescribeLogDirsResponse

ConnectedClient = DescribeLogDirsResponse.ConnectedClient


def connected_clients(
    connections: Iterable[tuple[str, Connection]], now_ms: int, clients_max: int, topic: Collection[object] = ()
) -> tuple[list[ConnectedClient], int]:
    """Return the `clients_max` clients with the most traffic, and the number of all clients. `connections` are pairs with the name of the listener. A
    connection counts from its first request on. `topic`: its name and its id; then only connections that have produced to it or
    fetched from it count."""
    clients: dict[tuple[object, ...], ConnectedClient] = {}
    for listener, connection in connections:
        if not connection.traffic.requests:
            continue
        produced, fetched = connection.traffic.produced, connection.traffic.fetched
        produced_bytes = produced.total(*topic) if produced is not None else 0
        fetched_bytes = fetched.total(*topic) if fetched is not None else 0
        if topic and not produced_bytes and not fetched_bytes:
            continue
        principal = connection.session.principal if connection.session is not None else ANONYMOUS
        is_broker = connection.owner == BROKERS
        client_id, software = connection.traffic.client_id, connection.traffic.software
        key = (listener, principal, client_id, connection.address, software, is_broker)
        client = clients.get(key)
        if client is None:
            client = clients[key] = ConnectedClient(
                listener=listener,
                principal=principal,
                client_id=client_id,
                host=connection.address,
                software_name=software[0],
                software_version=software[1],
                is_broker=is_broker,
                idle_ms=now_ms - connection.last_active_ms,
            )
        rates = connection.traffic.rates(now_ms)
        client.connections += 1
        client.connected_ms = max(client.connected_ms, now_ms - connection.since_ms)
        client.idle_ms = min(client.idle_ms, now_ms - connection.last_active_ms)
        client.requests_per_second += rates.requests
        client.received_bytes_per_second += rates.received_bytes
        client.sent_bytes_per_second += rates.sent_bytes
        client.cold_bytes_per_second += rates.cold_bytes
        client.produced_bytes += produced_bytes
        client.fetched_bytes += fetched_bytes
        if produced_bytes and produced is not None:
            client.produced_bytes_per_second += produced.per_second(*topic, now_ms=now_ms)
        if fetched_bytes and fetched is not None:
            client.fetched_bytes_per_second += fetched.per_second(*topic, now_ms=now_ms)
    return heapq.nlargest(clients_max, clients.values(), key=_traffic), len(clients)


def _traffic(client: ConnectedClient) -> float:
    if client.produced_bytes or client.fetched_bytes:
        return client.produced_bytes_per_second + client.fetched_bytes_per_second
    return client.received_bytes_per_second + client.sent_bytes_per_second
