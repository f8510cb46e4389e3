"""The connections of a broker to the other brokers, one client per purpose.

The purposes have separate connections because brokers respond to the requests of one connection in order: the responses to markers and to deliveries may
wait for replication, and a producer's first batch must not wait for it.
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.net.inter_broker import InterBrokerClient

HISTORY_READ_TIMEOUT_MS = 3_000
"""Time-out of a request to a history replica. It is shorter than the time-out of clients, so that another history replica can be tried."""


class InterBrokerClients:
    """`build_client` returns a client with a time-out in milliseconds. `timeout_ms` is that of all clients but the client of history reads."""

    def __init__(self, build_client: Callable[[int], InterBrokerClient], timeout_ms: int) -> None:
        self.coordinator = build_client(timeout_ms)
        self.leader = build_client(timeout_ms)
        self.delivery = build_client(timeout_ms)
        self.route = build_client(timeout_ms)
        self.share = build_client(timeout_ms)
        self.remote_reads = build_client(timeout_ms)
        self.remote_appends = build_client(timeout_ms)
        self.history = build_client(min(timeout_ms, HISTORY_READ_TIMEOUT_MS))

    def close(self) -> None:
        clients = (self.coordinator, self.leader, self.delivery, self.route, self.share)
        for client in (*clients, self.remote_reads, self.remote_appends, self.history):
            client.close()
