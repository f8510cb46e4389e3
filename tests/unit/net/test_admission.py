"""How many connections a broker takes: the numbers, and a listener that keeps to them."""

from __future__ import annotations

import socket

from brokerd.net.admission import Admission
from brokerd.net.listener import Listener
from brokerd.net.loop import Loop


def test_an_address_has_its_limit_and_gets_its_room_back() -> None:
    it = Admission(5, 2, {"10.0.0.9": 0, "10.0.0.8": 4}, 0)
    assert it.problem("10.0.0.1") is None
    assert it.problem("10.0.0.1") is None
    assert it.problem("10.0.0.1") == "max.connections.per.ip (2) reached"
    assert it.problem("10.0.0.9") == "max.connections.per.ip (0) reached"
    for _ in range(3):
        assert it.problem("10.0.0.8") is None
    assert it.problem("10.0.0.2") == "max.connections (5) reached"
    it.left("10.0.0.1")
    assert it.problem("10.0.0.1") is None


def test_a_rate_lets_a_seconds_worth_in_at_once_and_then_one_by_one() -> None:
    it = Admission(1 << 30, 1 << 30, {}, 10)
    now = 100_000
    assert [it.delay_ms(now) for _ in range(10)] == [0] * 10
    assert it.delay_ms(now) == 100
    assert it.delay_ms(now + 100) == 0
    assert it.delay_ms(now + 100) == 100
    assert sum(it.delay_ms(now + 100_000) == 0 for _ in range(50)) == 10, "what was not used does not pile up"


def test_a_listener_pauses_and_goes_on() -> None:
    loop = Loop()
    listener = Listener(
        loop, "127.0.0.1", 0, lambda c, f: None, frame_bytes_max=1_000, admission=Admission(1_000, 30, {}, 20)
    )
    listener.open()
    loop.every(1, lambda now: None)
    socks = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(40)]
    loop.turn()
    began = loop.now.mono_ms
    while len(listener.connections) < 30:
        loop.turn()
    assert loop.now.mono_ms - began >= 400, "ten more than a second's worth, at twenty a second"
    for sock in socks[:30]:
        sock.close()
    while listener.connections:
        loop.turn()
    listener.stop_accepting()
    loop.close()
