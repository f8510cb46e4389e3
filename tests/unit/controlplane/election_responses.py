"""A controller and brokers that answer elections of preferred leaders from the test cluster, for the tests of services, views, REST and commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from brokerd.wire.errors import ErrorCode
from controlplane.clients import leader_elections as client
from controlplane.clients.all_brokers import BrokerAddress
from controlplane.clients.leader_elections import PartitionName
from tests.unit.controlplane.world import World


@dataclass
class Elections:
    """`codes`: results that differ from NONE. `missing`: partitions without a result. `error`: raised by the election, `read_error` by the read-back.
    `frozen`: partitions whose leader does not change although the controller has confirmed it."""

    world: World
    codes: dict[PartitionName, ErrorCode] = field(default_factory=dict)
    missing: set[PartitionName] = field(default_factory=set)
    frozen: set[PartitionName] = field(default_factory=set)
    error: Exception | None = None
    read_error: Exception | None = None
    requests: list[list[PartitionName]] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)

    def elect(
        self, brokers: Sequence[BrokerAddress], partitions: Sequence[PartitionName]
    ) -> dict[PartitionName, ErrorCode]:
        self.requests.append(list(partitions))
        self.asked = [b.broker_id for b in brokers]
        if self.error is not None:
            raise self.error
        codes = {s: self.codes.get(s, ErrorCode.NONE) for s in partitions if s not in self.missing}
        for (topic, index), code in codes.items():
            if code is ErrorCode.NONE and (topic, index) not in self.frozen:
                leader = self.world.state(topic, index).replicas[0]
                self.world.put(topic, index, leader=leader, leader_broker_epoch=100 + leader)
        return codes

    def read_back(
        self, brokers: Sequence[BrokerAddress], expected: Mapping[PartitionName, int]
    ) -> dict[PartitionName, int | None]:
        if self.read_error is not None:
            raise self.read_error
        return {s: self.world.state(*s).leader for s in expected}


def electing(monkeypatch: pytest.MonkeyPatch, world: World) -> Elections:
    """The responses, and topic `orders`: broker 2 leads all of it. The preferred leaders of partitions 0 and 1 can be elected, that of partition 2 is not
    in the ISR, partition 3 is led by its preferred leader."""
    found = Elections(world)
    world.topic("orders", (1, 2), (3, 2), (1, 2), (2, 3))
    for index in (0, 1):
        world.put("orders", index, leader=2, leader_broker_epoch=102)
    world.put("orders", 2, leader=2, leader_broker_epoch=102, isr=(2,))
    monkeypatch.setattr(client, "elect_preferred", found.elect)
    monkeypatch.setattr(client, "read_back", found.read_back)
    return found
