"""Leaders that describe undecided half messages from a table, for the tests of selectors, services, views and REST."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.wire.messages.half_messages import HalfMessagesResponse
from controlplane.clients import half_messages as client
from controlplane.clients.all_brokers import BrokerResponse
from controlplane.clients.connection import Declined
from controlplane.models import Topic
from controlplane.selectors import front_leaders
from tests.unit.controlplane.world import World

Message = HalfMessagesResponse.Message
WRITTEN_MS = 1_790_000_000_000


def message(offset: int, half_id: bytes, checks: int = 1, *, expiring: bool = False) -> Message:
    return Message(half_id=half_id, offset=offset, appended_ms=WRITTEN_MS + offset, checks=checks, expiring=expiring)


@dataclass
class HalfResponses:
    """`messages` by partition. `rejected`: partitions whose leader rejects. `silent`: brokers that do not respond."""

    messages: dict[int, list[Message]] = field(default_factory=dict)
    rejected: set[int] = field(default_factory=set)
    silent: set[int] = field(default_factory=set)
    blocked: int = 0

    def ask(self, brokers: Any, call: Any) -> list[BrokerResponse[Any]]:
        return [
            BrokerResponse(b.broker_id, None, "it is frozen")
            if b.broker_id in self.silent
            else BrokerResponse(b.broker_id, call(SimpleNamespace(host=b.host, port=b.port)))
            for b in brokers
        ]

    def undecided(self, broker: Any, front: str, partition: int, from_offset: int, most: int) -> HalfMessagesResponse:
        if partition in self.rejected:
            raise Declined("NOT_LEADER_OR_FOLLOWER")
        found = [m for m in self.messages.get(partition, []) if m.offset >= from_offset][:most]
        return HalfMessagesResponse(
            messages=found, undecided=len(found), delivered=7, expired=1, checks_sent=20, blocked=self.blocked
        )


def patch_responses(monkeypatch: pytest.MonkeyPatch, world: World) -> HalfResponses:
    """Topic orders with half messages in two partitions; broker 1 leads partition 0, broker 2 partition 1."""
    world.topic("orders", (1, 2), (2, 3))
    world.topic("orders.half", (1, 2), (2, 3), configs={"weir.half.topic": "orders"})
    world.project()
    Topic.objects.filter(name="orders.half").update(configs={"weir.half.topic": "orders"})
    responses = HalfResponses({0: [message(3, b"a"), message(9, b"\xff", 4)], 1: [message(5, b"c", 15, expiring=True)]})
    monkeypatch.setattr(front_leaders, "call_brokers", responses.ask)
    monkeypatch.setattr(client, "fetch_undecided", responses.undecided)
    return responses
