"""Requests to several brokers at the same time."""

from __future__ import annotations

import threading

from controlplane.clients.all_brokers import BrokerAddress, call_brokers
from controlplane.clients.connection import Declined, KafkaConnection, NoResponse


def test_brokers_are_asked_at_the_same_time_and_answer_in_order() -> None:
    together = threading.Barrier(3, timeout=60)

    def call(connection: KafkaConnection) -> int:
        together.wait()
        if connection.port == 2:
            raise NoResponse("it is down")
        if connection.port == 3:
            raise Declined("NOT_CONTROLLER")
        return connection.port * 10

    found = call_brokers([BrokerAddress(n, "127.0.0.1", n) for n in (1, 2, 3)], call)
    assert [(a.broker_id, a.value, a.problem) for a in found] == [
        (1, 10, ""),
        (2, None, "it is down"),
        (3, None, "NOT_CONTROLLER"),
    ]


def test_without_brokers_there_is_no_response() -> None:
    assert call_brokers([], lambda connection: 1) == []
