"""The connections of a broker to the other brokers."""

from __future__ import annotations

from typing import Any

from brokerd.runtime.inter_broker_clients import HISTORY_READ_TIMEOUT_MS, InterBrokerClients


class Client:
    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def build_clients(timeout_ms: int) -> tuple[InterBrokerClients, list[Any]]:
    built: list[Any] = []

    def build_client(timeout_ms: int) -> Any:
        built.append(Client(timeout_ms))
        return built[-1]

    return InterBrokerClients(build_client, timeout_ms), built


def test_each_purpose_has_a_connection_of_its_own() -> None:
    clients, built = build_clients(30_000)
    assert len({id(client) for client in vars(clients).values()}) == len(vars(clients)) == len(built)


def test_a_history_read_ends_before_the_requests_of_clients_do() -> None:
    clients, _ = build_clients(30_000)
    history: Any = clients.history
    assert history.timeout_ms == HISTORY_READ_TIMEOUT_MS
    others: list[Any] = [client for client in vars(clients).values() if client is not history]
    assert {client.timeout_ms for client in others} == {30_000}


def test_a_shorter_configured_timeout_applies_to_history_reads_too() -> None:
    clients, _ = build_clients(1_000)
    history: Any = clients.history
    assert history.timeout_ms == 1_000


def test_close_closes_every_connection_once() -> None:
    clients, built = build_clients(30_000)
    clients.close()
    assert [client.closed for client in built] == [1] * len(vars(clients))
