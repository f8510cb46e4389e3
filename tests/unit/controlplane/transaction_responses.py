"""Brokers that answer requests about transactions from tables, for the tests of selectors, services, views and REST."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from controlplane.clients import transactions as client
from controlplane.clients.all_brokers import BrokerResponse
from controlplane.clients.connection import Declined, NoResponse
from controlplane.domain.transactions import DescribedTransaction, ListedTransaction, PartitionTransaction
from controlplane.selectors import transactions as selectors
from tests.unit.controlplane.world import World

HANGING = PartitionTransaction("orders", 1, 2, 4711, 2, 0, 1234, 1_700_000_000_000)


@dataclass
class TransactionResponses:
    """`coordinators`: transactional ids by broker. `open`: transactions by leader. `silent`: brokers that do not respond. `unclaimed`: partitions
    of __transaction_state without a coordinator that has loaded them. `on_marker`, `on_fence`: what the
    broker does instead of ending the transaction."""

    world: World
    coordinators: dict[int, list[DescribedTransaction]] = field(default_factory=dict)
    open: dict[int, list[PartitionTransaction]] = field(default_factory=dict)
    silent: set[int] = field(default_factory=set)
    requests: list[tuple[str, int]] = field(default_factory=list)
    unclaimed: set[int] = field(default_factory=set)
    on_marker: Callable[[], None] | None = None
    on_fence: Callable[[], None] | None = None

    def ask(self, brokers: Any, call: Any) -> list[BrokerResponse[Any]]:
        found: list[BrokerResponse[Any]] = []
        for b in brokers.values():
            if b.broker_id in self.silent:
                found.append(BrokerResponse(b.broker_id, None, "it is frozen"))
            else:
                found.append(BrokerResponse(b.broker_id, call(b.broker_id, b.broker_id)))
        return found

    def list(
        self, connection: Any, broker_id: int, *, states: Any = (), producer_ids: Any = (), open_longer_ms: int = -1
    ) -> list[ListedTransaction]:
        self.requests.append(("list", broker_id))
        return [
            ListedTransaction(d.transactional_id, d.producer_id, d.state, broker_id)
            for d in self.coordinators.get(broker_id, [])
            if (not states or d.state in states)
            and (not producer_ids or d.producer_id in producer_ids)
            and (open_longer_ms < 0 or d.started_ms is not None)
        ]

    def scan(self, connection: Any, broker_id: int, partitions: Any) -> client.ScannedPartitions:
        self.requests.append(("scan", broker_id))
        wanted = {(topic, i) for topic, indexes in partitions.items() for i in indexes}
        found = [t for t in self.open.get(broker_id, []) if t.partition in wanted]
        return client.ScannedPartitions(found, len(wanted))

    def describe(self, broker_id: int, ids: list[str]) -> list[DescribedTransaction]:
        self.requests.append(("describe", broker_id))
        return [d for d in self.coordinators.get(broker_id, []) if d.transactional_id in ids]

    def coordinated_partitions(self, broker_id: int) -> frozenset[int]:
        """Broker N coordinates partition N - 1."""
        return frozenset({broker_id - 1} - self.unclaimed)

    def marker(self, host: str, port: int, hanging: PartitionTransaction) -> None:
        self.requests.append(("marker", hanging.leader))
        if self.on_marker is not None:
            self.on_marker()
        self.open[hanging.leader] = [t for t in self.open[hanging.leader] if not t.same_as(hanging)]

    def fence(self, host: str, port: int, transactional_id: str, timeout_ms: int) -> tuple[int, int]:
        self.requests.append(("fence", timeout_ms))
        if self.on_fence is not None:
            self.on_fence()
        for broker_id, rows in self.coordinators.items():
            self.coordinators[broker_id] = [
                replace(d, state="Empty", producer_epoch=d.producer_epoch + 1, started_ms=None, partitions=())
                if d.transactional_id == transactional_id
                else d
                for d in rows
            ]
        return 1, 9


def patch_responses(monkeypatch: pytest.MonkeyPatch, world: World) -> TransactionResponses:
    """Three brokers, and the topic orders whose partition 1 is led by broker 2."""
    world.topic("orders", (1, 2, 3), (2, 3, 1))
    found = TransactionResponses(world)
    monkeypatch.setattr(selectors, "call_all", found.ask)
    monkeypatch.setattr(client, "list_transactions", found.list)
    monkeypatch.setattr(client, "describe_transactions", lambda c, ids: found.describe(c, ids))
    world.topic("__transaction_state", (1, 2, 3), (2, 3, 1), (3, 1, 2))
    monkeypatch.setattr(client, "coordinated_partitions", lambda c, probes: found.coordinated_partitions(c))
    monkeypatch.setattr(client, "timeout_ms_max", lambda c, b: 900_000)
    monkeypatch.setattr(client, "scan_partitions", found.scan)
    monkeypatch.setattr(client, "write_abort_marker", found.marker)
    monkeypatch.setattr(client, "fence_producer", found.fence)
    return found


def rejects() -> None:
    raise Declined("INVALID_PRODUCER_EPOCH")


def stays_silent() -> None:
    raise NoResponse("it is frozen")
