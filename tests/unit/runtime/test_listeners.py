"""The listeners of a broker: bound together, opened together, with the security of each."""

from __future__ import annotations

from typing import Any, cast

import pytest

from brokerd.config.broker import BrokerConfig, ConfigError
from brokerd.runtime.listeners import Listeners
from tests.unit.config.test_listeners import GIVEN, FakeSockets


def test_the_single_address_for_old_programs_is_the_plaintext_endpoint() -> None:
    given = {
        **GIVEN,
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "inter.broker.listener.name": "outside",
    }
    listeners = Listeners(BrokerConfig.parse(given), lambda listener: lambda c, f: None, cast("Any", FakeSockets()))
    assert listeners.inter_broker.listener == "OUTSIDE"
    assert listeners.plaintext_endpoint.listener == "INSIDE"


class FakeListenSocket:
    def __init__(self, port: int, **options: Any) -> None:
        self.port, self.options, self.calls = port + 1, options, list[str]()
        self.connections = {7: "connection"}

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.calls.append(name)


class RecordingSockets(FakeSockets):
    def __init__(self) -> None:
        self.listening: list[FakeListenSocket] = []

    def listen(self, host: str, port: int, on_frame: Any, **options: Any) -> Any:
        self.listening.append(FakeListenSocket(port, **options))
        return self.listening[-1]


def listeners(**more: str) -> tuple[Listeners, list[FakeListenSocket]]:
    sockets = RecordingSockets()
    given = {**GIVEN, "listener.security.protocol.map": "INSIDE:SASL_PLAINTEXT,OUTSIDE:SASL_PLAINTEXT"}
    login = {"sasl.jaas.config": 'X required username="b" password="p";', "sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    config = BrokerConfig.parse({**given, **login, "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256", **more})
    return Listeners(config, lambda listener: lambda c, f: None, cast("Any", sockets)), sockets.listening


def test_all_listeners_share_the_limits_of_connections_and_are_opened_together() -> None:
    it, (inside, outside) = listeners()
    assert [e.port for e in it.endpoints] == [9092, 19092], "the advertised ports"
    assert inside.options["admission"] is outside.options["admission"] and inside.options["proves"]
    assert inside.calls == outside.calls == []
    it.open()
    it.close_idle(5)
    it.stop_accepting()
    it.close()
    assert inside.calls == outside.calls == ["open", "close_idle", "stop_accepting", "close"]
    assert list(it.connections()) == [("INSIDE", "connection"), ("OUTSIDE", "connection")]


def test_a_connection_to_another_broker_authenticates_as_the_inter_broker_listener_requires() -> None:
    it, _ = listeners()
    made: list[Any] = []
    it.connect(lambda *a, **options: made.append((a, options)), "host", 5, timeout_ms=9)
    ((arguments, options),) = made
    assert arguments == ("host", 5) and options["timeout_ms"] == 9 and "tls" not in options
    first, second = options["new_sasl_exchange"](), options["new_sasl_exchange"]()
    assert first is not second and first.begin() == second.begin()


def test_sasl_between_brokers_needs_a_login() -> None:
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config"):
        listeners(**{"sasl.jaas.config": ""})
