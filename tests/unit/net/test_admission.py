"""Connection limits of a broker: the counters, and a listener that enforces them."""

from __future__ import annotations

import socket

import pytest

from brokerd.net.admission import WAIT_MS_MAX, Admission, AdmissionRejection
from brokerd.net.listener import Listener
from brokerd.net.loop import Loop


def test_an_address_has_a_connection_limit_and_closed_connections_free_it() -> None:
    it = Admission(5, 2, {"10.0.0.9": 0, "10.0.0.8": 4}, 0)
    assert it.problem("10.0.0.1", 0) is None
    assert it.problem("10.0.0.1", 0) is None
    assert it.problem("10.0.0.1", 0) == AdmissionRejection("max.connections.per.ip (2) reached")
    assert it.problem("10.0.0.9", 0) == AdmissionRejection("max.connections.per.ip (0) reached")
    for _ in range(3):
        assert it.problem("10.0.0.8", 0) is None
    assert it.problem("10.0.0.2", 0) == AdmissionRejection("max.connections (5) reached")
    it.connection_closed("10.0.0.1")
    assert it.problem("10.0.0.1", 0) is None


def test_a_connection_rate_allows_a_burst_of_one_second() -> None:
    it = Admission(1 << 30, 1 << 30, {}, 10)
    now = 100_000
    assert [it.delay_ms(now) for _ in range(10)] == [0] * 10
    assert it.delay_ms(now) == 100
    assert it.delay_ms(now + 100) == 0
    assert it.delay_ms(now + 100) == 100
    assert sum(it.delay_ms(now + 100_000) == 0 for _ in range(50)) == 10, "what was not used does not pile up"


def test_an_address_has_its_own_rate_or_the_default() -> None:
    it = Admission(1 << 30, 1 << 30, {}, 0)
    it.rates = {"10.0.0.1": 2, None: 0.5}

    def admitted_connections(ip: str, *, ms: int) -> int:
        return sum(it.problem(ip, ms) is None for _ in range(5))

    assert (
        admitted_connections("10.0.0.1", ms=1_000),
        admitted_connections("10.0.0.2", ms=1_000),
        admitted_connections("10.0.0.3", ms=1_000),
    ) == (2, 1, 1)
    assert it.problem("10.0.0.2", 1_000) == AdmissionRejection("connection_creation_rate (0.5) reached", 2_000)
    assert (admitted_connections("10.0.0.1", ms=1_500), admitted_connections("10.0.0.2", ms=1_500)) == (1, 0)
    assert admitted_connections("10.0.0.2", ms=3_500) == 1
    assert admitted_connections("10.0.0.1", ms=100_000) == 2, "what was not used does not pile up"
    it.rates = {}
    assert admitted_connections("10.0.0.2", ms=100_000) == 5


def test_a_connection_above_the_rate_does_not_count_as_open() -> None:
    it = Admission(2, 1 << 30, {}, 0)
    it.rates = {None: 1}
    assert [it.problem("10.0.0.1", 0) is None for _ in range(5)] == [True] + [False] * 4
    it.rates = {}
    assert it.problem("10.0.0.1", 0) is None
    assert it.problem("10.0.0.1", 0) == AdmissionRejection("max.connections (2) reached")


def test_the_throttle_time_is_at_most_kafkas_window() -> None:
    it = Admission(1 << 30, 1 << 30, {}, 0)
    it.rates = {None: 0.01}
    assert it.problem("10.0.0.1", 0) is None
    assert it.problem("10.0.0.1", 0) == AdmissionRejection("connection_creation_rate (0.01) reached", WAIT_MS_MAX)


def test_a_connection_above_the_rate_is_delayed_and_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokerd.net.listener.WAITING_MAX", 2)
    loop = Loop()
    admission = Admission(1_000, 1_000, {}, 0)
    admission.rates = {"127.0.0.1": 2}
    received: list[bytes] = []
    listener = Listener(
        loop, "127.0.0.1", 0, lambda c, f: received.append(bytes(f)), frame_bytes_max=1_000, admission=admission
    )
    listener.open()
    loop.every(1, lambda now: None)
    socks = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(5)]
    for sock in socks:
        sock.setblocking(False)
        sock.sendall(b"\0\0\0\1x")
    began = loop.now.mono_ms

    def closed_sockets() -> list[int]:
        out = []
        for i, sock in enumerate(socks):
            try:
                if sock.recv(1) == b"":
                    out.append(i)
            except BlockingIOError:
                pass
            except ConnectionResetError:  # closed before all sent bytes were read
                out.append(i)
        return out

    while len(received) < 2:
        loop.run_iteration()
    assert len(listener.connections) == 2
    gone: set[int] = set()
    while len(gone) < 3:
        loop.run_iteration()
        gone |= set(closed_sockets())
        if loop.now.mono_ms - began < 300:
            assert gone <= {4}, "two are kept, the third finds no room to wait"
    assert gone == {2, 3, 4} and len(received) == 2, "who waits is not heard"
    assert loop.now.mono_ms - began >= 400
    for sock in socks:
        sock.close()
    listener.stop_accepting()
    listener.close()
    loop.close()


def test_the_number_of_addresses_with_a_stored_rate_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokerd.net.admission.ADDRESSES_MAX", 3)
    it = Admission(1 << 30, 1 << 30, {}, 0)
    it.rates = {None: 1}
    for n in range(50):
        it.problem(f"10.0.0.{n}", 0)
    assert len(it._buckets) == 3


def test_a_listener_pauses_and_resumes() -> None:
    loop = Loop()
    listener = Listener(
        loop, "127.0.0.1", 0, lambda c, f: None, frame_bytes_max=1_000, admission=Admission(1_000, 30, {}, 20)
    )
    listener.open()
    loop.every(1, lambda now: None)
    socks = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(40)]
    loop.run_iteration()
    began = loop.now.mono_ms
    while len(listener.connections) < 30:
        loop.run_iteration()
    assert loop.now.mono_ms - began >= 400, "ten more than a second's worth, at twenty a second"
    for sock in socks[:30]:
        sock.close()
    while listener.connections:
        loop.run_iteration()
    listener.stop_accepting()
    loop.close()
