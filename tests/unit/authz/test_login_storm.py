"""Many clients that authenticate at the same time, over real sockets and with real threads. All succeed, and brokers do not wait for them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pytest

from brokerd.authz import login_queue
from brokerd.net import listener as listeners
from brokerd.net.loop import Loop
from brokerd.security.sasl_client import Login, SaslClientExchange
from tests.unit.net.sasl_server import KEPT, PASSWORD, USER, SaslServer

CLIENTS = 150
"""More than could be checked at the same time before the queue existed (64)."""
FEW, SLOW = 60, 40_960
"""Clients whose passwords take some 30 ms each to check (iterations)."""
TURNS_MAX = 120_000


@pytest.fixture
def server() -> Iterator[SaslServer]:
    made = SaslServer(Loop())
    yield made
    made.close()


class Clients:
    """Clients that reconnect when their connection is closed, as Kafka's do."""

    def __init__(self, server: SaslServer, mechanism: str, count: int = CLIENTS) -> None:
        self.server, self.authenticated, self.retries = server, 0, 0
        for _ in range(count):
            peer = server.peer(mechanism)
            server.send_request(peer, lambda frame, peer=peer: self._on_response(peer, frame))  # type: ignore[misc]

    def _on_response(self, peer: object, frame: memoryview | None) -> None:
        if frame is not None:
            self.authenticated += 1
            return
        self.retries += 1
        self.server.loop.call_later(
            20, lambda now: self.server.send_request(peer, lambda f: self._on_response(peer, f))
        )  # type: ignore[arg-type]


@pytest.mark.parametrize("mechanism", ["PLAIN", KEPT])
def test_many_clients_with_correct_passwords_log_in_at_the_same_time(server: SaslServer, mechanism: str) -> None:
    clients = Clients(server, mechanism)
    server.run_until(lambda: clients.authenticated == CLIENTS, TURNS_MAX, "all clients to get in")
    assert (server.authenticator.failed, clients.retries) == (0, 0), "(rejected, closed)"


def test_the_login_of_a_broker_does_not_wait_for_clients() -> None:
    server = SaslServer(Loop(), iterations=SLOW)
    clients = Clients(server, "PLAIN", FEW)
    server.run_until(lambda: server.authenticator.checks("CLIENTS").waiting > FEW // 2, TURNS_MAX, "a full queue")
    completed: list[int] = []
    server.send_request(server.peer("PLAIN", "BROKERS"), lambda frame: completed.append(clients.authenticated))
    server.run_until(lambda: bool(completed), TURNS_MAX, "the broker's login")
    assert completed[0] < FEW
    server.run_until(lambda: clients.authenticated == FEW, TURNS_MAX, "all clients to get in")
    server.close()


def test_wrong_passwords_from_one_address_do_not_delay_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong passwords fill the queue, and each rejected client retries at once. The checks are slow: the response to a wrong password is
    delayed, so 40 clients fill no queue of checks that take 3 ms."""
    server = SaslServer(Loop(), iterations=SLOW)
    monkeypatch.setattr(server.authenticator.checks("CLIENTS"), "_waiting_max", 20)
    monkeypatch.setattr(listeners, "UNAUTHENTICATED_MAX", 60)
    attackers = [UnauthenticatedClient(server, "127.0.0.2", "wrong") for _ in range(40)]

    def attack_until(until: Callable[[], bool]) -> bool:
        for attacker in attackers:
            attacker.again_if_closed()
        return until()

    server.run_until(lambda: attack_until(lambda: server.authenticator.dropped > 20), TURNS_MAX, "a queue that is full")
    clients = Clients(server, "PLAIN", 10)
    server.run_until(
        lambda: attack_until(lambda: clients.authenticated == 10), TURNS_MAX, "ten clients of another address"
    )
    assert clients.retries == 0, "a client was closed in place of the address that fills the queue"
    for attacker in attackers:
        attacker.close()
    server.close()


def test_idle_connections_of_one_address_do_not_block_others(
    server: SaslServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "UNAUTHENTICATED_MAX", 60)
    silent = [socket.create_connection(_address(server), source_address=("127.0.0.2", 0)) for _ in range(60)]
    server.run_until(lambda: connection_count(server) == 60, TURNS_MAX, "60 silent connections")
    clients = Clients(server, "PLAIN", 25)
    server.run_until(lambda: clients.authenticated == 25, TURNS_MAX, "25 clients of another address")
    assert clients.retries == 0
    for sock in silent:
        sock.close()


def test_an_idle_connection_is_closed_before_one_with_a_queued_login(
    server: SaslServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All clients have the same address. The client connected first, and its password is being checked."""
    monkeypatch.setattr(listeners, "UNAUTHENTICATED_MAX", 12)
    held: list[object] = []
    monkeypatch.setattr(server.authenticator.checks("CLIENTS")._runner, "submit", lambda *job: held.append(job))
    clients = Clients(server, "PLAIN", 1)
    server.run_until(lambda: bool(held), TURNS_MAX, "the client's check")
    silent = [socket.create_connection(_address(server)) for _ in range(40)]
    server.run_until(lambda: len(server.accepted) == 1 and connection_count(server) == 12, TURNS_MAX, "the limit")
    for _ in range(50):
        server.run_iteration()
    assert clients.retries == 0
    for sock in silent:
        sock.close()


def connection_count(server: SaslServer) -> int:
    return len(server.listeners["CLIENTS"].connections)


def _address(server: SaslServer) -> tuple[str, int]:
    return "127.0.0.1", server.listeners["CLIENTS"].port


class UnauthenticatedClient:
    """Sends a wrong PLAIN password from `address` as often as it is permitted."""

    def __init__(self, server: SaslServer, address: str, password: str) -> None:
        self._server, self._address = server, address
        sasl_exchange = SaslClientExchange("PLAIN", Login(USER, password))
        token = f"\0{USER}\0{password}".encode()
        assert password != PASSWORD
        self._frames = sasl_exchange.begin() + sasl_exchange._token(token)
        self._connect()

    def _connect(self) -> None:
        self._sock = socket.create_connection(_address(self._server), source_address=(self._address, 0))
        self._sock.setblocking(False)
        self._sock.send(self._frames)

    def again_if_closed(self) -> None:
        try:
            while self._sock.recv(4096):
                pass
        except BlockingIOError:
            return
        except OSError:
            pass
        self._sock.close()
        self._connect()

    def close(self) -> None:
        self._sock.close()


def test_the_login_queue_fits_all_connections_that_may_authenticate_at_once() -> None:
    assert login_queue.WAITING_MAX >= 2 * listeners.UNAUTHENTICATED_MAX
