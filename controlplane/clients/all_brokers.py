"""One request to several brokers at the same time, with one deadline. The result of a broker that does not respond has no value, only the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from controlplane.clients.connection import Declined, KafkaConnection, NoResponse

BROKERS_AT_A_TIME = 16
"""Threads of one call. With more brokers the next request waits for a free one."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    broker_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerResponse(Generic[T]):
    """The result of one broker. `value` None: the broker did not respond; `problem` contains the reason."""

    broker_id: int
    value: T | None
    problem: str = ""


def call_brokers(brokers: Iterable[BrokerAddress], call: Callable[[KafkaConnection], T]) -> list[BrokerResponse[T]]:
    """The responses of these brokers, in their order. `call` sends requests over the connection, each with a deadline, and must not use the
    database."""

    def call_one(broker: BrokerAddress) -> BrokerResponse[T]:
        connection = KafkaConnection(broker.host, broker.port)
        try:
            return BrokerResponse(broker.broker_id, call(connection))
        except (NoResponse, Declined) as e:
            return BrokerResponse(broker.broker_id, None, str(e))
        finally:
            connection.close()

    addresses = list(brokers)
    if not addresses:
        return []
    with ThreadPoolExecutor(min(BROKERS_AT_A_TIME, len(addresses))) as pool:
        return list(pool.map(call_one, addresses))
