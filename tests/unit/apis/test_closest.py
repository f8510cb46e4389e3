"""Reading from the closest replica (KIP-392), at the leader that sends consumers there and at the follower that answers them."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.cluster.metadata import BrokerDown, BrokerUp, PartitionChanged
from brokerd.cluster.model import PartitionState, Seat
from brokerd.config import RACK_AWARE, BrokerConfig, ConfigError
from brokerd.followers import Followers
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchResponse
from tests.unit.apis.test_fetch_sessions import FOLLOWER, M
from tests.unit.apis.test_fetch_sessions import Client as Fetcher

HERE, THERE = "r1", "r2"


class Client(Fetcher):
    """`rack` is where it is; broker 1, which it asks, is in r1, broker 2 in r2."""

    def __init__(self, rack: str = THERE, **more: Any) -> None:
        super().__init__(1, followed=True, **more)
        self.rack = rack
        self.api._by_rack = True
        self.applied(BrokerUp(1, 11, "u", "h", 1, HERE), BrokerUp(2, 12, "v", "h", 2, THERE))

    def one(self, offset: int, **more: Any) -> FetchResponse.PartitionData:
        """A fetch of its own, told at once."""
        (answer,) = self.send({0: offset}, session=(0, -1), **{"wait_ms": 0, "rack": self.rack, **more})
        return answer.responses[0].partitions[0]

    def follow(self, end: int) -> None:
        """Broker 2 has all below `end`."""
        self.send({0: end}, session=(0, -1), follower=FOLLOWER, wait_ms=0)

    def follows(self, isr: tuple[Seat, ...] = (Seat(1, 11), FOLLOWER), epoch: int = 1) -> None:
        """From now on broker 2 leads, and broker 1 follows."""
        self.applied(PartitionChanged(M, 0, PartitionState((2, 1), isr, 2, 12, epoch, partition_epoch=epoch)))


def test_the_leader_names_a_replica_in_the_consumers_rack_that_has_what_is_asked_for() -> None:
    client = Client()
    client.append(0, 3)
    assert client.one(0).preferred_read_replica == -1, "nothing is known of the follower yet"
    client.follow(2)
    told = client.one(1)
    assert (told.error_code, told.preferred_read_replica, told.records, told.high_watermark) == (0, 2, b"", 2)
    assert client.one(3).preferred_read_replica == -1, "more than the follower has"
    assert client.one(0, version=10).preferred_read_replica == -1, "who does not know the field reads here"
    for rack in (HERE, "r3", ""):
        read = client.one(0, rack=rack)
        assert read.preferred_read_replica == -1 and read.records, rack
    client.api._by_rack = False
    assert client.one(0).records, "not unless replica.selector.class says so"


def test_nobody_is_sent_to_a_replica_that_is_dead_or_out_of_sync() -> None:
    client = Client()
    client.append(0)
    client.follow(1)
    assert client.one(0).preferred_read_replica == 2
    client.applied(BrokerDown(2, 12))
    assert client.one(0).preferred_read_replica == -1
    client.applied(BrokerUp(2, 13, "v", "h", 2, THERE))
    assert client.one(0).preferred_read_replica == -1, "another life than the one in the ISR"
    client = Client()
    client.append(0)
    client.follow(1)
    client.applied(PartitionChanged(M, 0, PartitionState((1, 2), (Seat(1, 11),), 1, 11, 0, partition_epoch=1)))
    assert client.one(0).preferred_read_replica == -1


def test_a_waiting_consumer_is_told_at_once_and_a_session_tells_it_each_time() -> None:
    client = Client()
    client.append(0)
    client.follow(1)
    (begun,) = client.send({0: 1}, rack=THERE, wait_ms=500)
    assert begun.responses[0].partitions[0].preferred_read_replica == 2
    (again,) = client.send({}, rack=THERE, wait_ms=500)
    assert again.responses[0].partitions[0].preferred_read_replica == 2


def test_a_follower_answers_who_was_sent_to_it_and_below_its_own_high_watermark_only() -> None:
    client = Client(HERE)
    client.append(0, 3)
    client.follows()
    replica = client.replica(0)
    replica.core.high_watermark = 0
    assert client.one(0).records == b"", "nothing that may yet be cut"
    replica.core.told_high_watermark(2, replica.log.end_offset)
    read = client.one(0)
    assert (read.error_code, read.high_watermark, read.preferred_read_replica) == (0, 2, -1)
    assert sum(r.length for r in (read.records if isinstance(read.records, list) else [read.records])) == (
        replica.log.read(0, 1 << 20, 2).regions[-1].length
    )
    assert client.one(4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert client.one(3).records == b""
    assert client.one(0, leader_epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert client.one(0, leader_epoch=2).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert client.one(0, leader_epoch=1).records
    for more in ({"rack": ""}, {"version": 10}, {"follower": FOLLOWER}):
        assert client.one(0, **more).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, more


def test_a_follower_that_is_out_of_the_isr_or_offline_answers_nobody() -> None:
    client = Client(HERE)
    client.append(0)
    client.follows()
    client.replica(0).core.told_high_watermark(1, 1)
    assert client.one(0).records
    client.follows(isr=(FOLLOWER,), epoch=2)
    assert client.one(0).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    client.follows(epoch=3)
    assert client.one(0).records
    client.house.partitions.fail(client.replica(0), OSError("gone"))
    assert client.one(0).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_who_waits_at_a_follower_goes_on_when_it_hears_of_a_higher_watermark() -> None:
    client = Client(HERE)
    client.append(0, 2)
    client.follows()
    replica = client.replica(0)
    replica.core.high_watermark = 1
    waiting = client.send({0: 1}, rack=HERE, wait_ms=500)
    assert waiting == []
    Followers(client.house.partitions).append_fetched(replica.tp, b"", 2, 0, client.house.now)
    assert waiting and waiting[0].responses[0].partitions[0].high_watermark == 2


def test_there_is_one_selector() -> None:
    told = {"broker.id": "1", "log.dirs": "/d"}
    config = BrokerConfig.parse({**told, "replica.selector.class": RACK_AWARE})
    assert config["replica.selector.class"] == RACK_AWARE
    with pytest.raises(ConfigError, match="cannot be loaded"):
        BrokerConfig.parse({**told, "replica.selector.class": "org.example.Mine"})
