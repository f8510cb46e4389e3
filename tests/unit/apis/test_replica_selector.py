"""Fetch from the closest replica (KIP-392): at the leader that selects the replica and at the follower that serves the fetch."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.cluster.metadata import BrokerDown, BrokerUp, PartitionChanged
from brokerd.cluster.model import PartitionState, ReplicaIncarnation
from brokerd.config.broker import RACK_AWARE, BrokerConfig, ConfigError
from brokerd.remote.lineage import Chain
from brokerd.remote.view import RemoteView
from brokerd.replication.follower_log import FollowerLogs
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchResponse
from tests.unit.apis.test_fetch_sessions import FOLLOWER, M
from tests.unit.apis.test_fetch_sessions import Client as Fetcher
from tests.unit.remote.test_lineage import finished_segment

HERE, THERE = "r1", "r2"


class Client(Fetcher):
    """A consumer in `rack` that fetches from broker 1. Broker 1 is in rack r1, broker 2 in r2."""

    def __init__(self, rack: str = THERE, **more: Any) -> None:
        super().__init__(1, followed=True, **more)
        self.rack = rack
        self.api._reader._by_rack = True
        self.apply_records(BrokerUp(1, 11, "u", "h", 1, HERE), BrokerUp(2, 12, "v", "h", 2, THERE))

    def fetch_once(self, offset: int, **more: Any) -> FetchResponse.PartitionData:
        """One full fetch without a session, answered at once."""
        (response,) = self.send({0: offset}, session=(0, -1), **{"wait_ms": 0, "rack": self.rack, **more})
        return response.responses[0].partitions[0]

    def follow(self, end: int) -> None:
        """Broker 2 has all records below `end`."""
        self.send({0: end}, session=(0, -1), follower=FOLLOWER, wait_ms=0)

    def follows(
        self, isr: tuple[ReplicaIncarnation, ...] = (ReplicaIncarnation(1, 11), FOLLOWER), epoch: int = 1
    ) -> None:
        """From now on broker 2 leads and broker 1 follows."""
        self.apply_records(PartitionChanged(M, 0, PartitionState((2, 1), isr, 2, 12, epoch, partition_epoch=epoch)))


def test_the_leader_returns_a_preferred_replica_in_the_consumers_rack_that_has_the_offset() -> None:
    client = Client()
    client.append(0, 3)
    assert client.fetch_once(0).preferred_read_replica == -1, "nothing is known of the follower yet"
    client.follow(2)
    reported = client.fetch_once(1)
    assert (reported.error_code, reported.preferred_read_replica, reported.records, reported.high_watermark) == (
        0,
        2,
        b"",
        2,
    )
    assert client.fetch_once(3).preferred_read_replica == -1, "more than the follower has"
    assert client.fetch_once(0, version=10).preferred_read_replica == -1, "who does not know the field reads here"
    for rack in (HERE, "r3", ""):
        read = client.fetch_once(0, rack=rack)
        assert read.preferred_read_replica == -1 and read.records, rack
    client.api._reader._by_rack = False
    assert client.fetch_once(0).records, "not unless replica.selector.class says so"


def test_a_dead_or_out_of_sync_replica_is_never_preferred() -> None:
    client = Client()
    client.append(0)
    client.follow(1)
    assert client.fetch_once(0).preferred_read_replica == 2
    client.apply_records(BrokerDown(2, 12))
    assert client.fetch_once(0).preferred_read_replica == -1
    client.apply_records(BrokerUp(2, 13, "v", "h", 2, THERE))
    assert client.fetch_once(0).preferred_read_replica == -1, "another life than the one in the ISR"
    client = Client()
    client.append(0)
    client.follow(1)
    client.apply_records(
        PartitionChanged(M, 0, PartitionState((1, 2), (ReplicaIncarnation(1, 11),), 1, 11, 0, partition_epoch=1))
    )
    assert client.fetch_once(0).preferred_read_replica == -1


def test_a_preferred_replica_is_returned_without_waiting_and_in_each_session_response() -> None:
    client = Client()
    client.append(0)
    client.follow(1)
    (begun,) = client.send({0: 1}, rack=THERE, wait_ms=500)
    assert begun.responses[0].partitions[0].preferred_read_replica == 2
    (again,) = client.send({}, rack=THERE, wait_ms=500)
    assert again.responses[0].partitions[0].preferred_read_replica == 2


def test_a_follower_serves_consumers_up_to_its_own_high_watermark() -> None:
    client = Client(HERE)
    client.append(0, 3)
    client.follows()
    replica = client.replica(0)
    replica.core.high_watermark = 0
    assert client.fetch_once(0).records == b"", "nothing that may yet be cut"
    replica.core.update_follower_high_watermark(2, replica.log.end_offset)
    read = client.fetch_once(0)
    assert (read.error_code, read.high_watermark, read.preferred_read_replica) == (0, 2, -1)
    assert sum(r.length for r in (read.records if isinstance(read.records, list) else [read.records])) == (
        replica.log.read(0, 1 << 20, 2).regions[-1].length
    )
    assert client.fetch_once(4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert client.fetch_once(3).records == b""
    assert client.fetch_once(0, leader_epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert client.fetch_once(0, leader_epoch=2).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert client.fetch_once(0, leader_epoch=1).records
    for more in ({"rack": ""}, {"version": 10}, {"follower": FOLLOWER}):
        assert client.fetch_once(0, **more).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER, more


def test_a_follower_that_is_out_of_sync_or_offline_serves_no_consumer() -> None:
    client = Client(HERE)
    client.append(0)
    client.follows()
    client.replica(0).core.update_follower_high_watermark(1, 1)
    assert client.fetch_once(0).records
    client.follows(isr=(FOLLOWER,), epoch=2)
    assert client.fetch_once(0).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    client.follows(epoch=3)
    assert client.fetch_once(0).records
    client.harness.replica_manager.fail(client.replica(0), OSError("gone"))
    assert client.fetch_once(0).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_fetch_waiting_at_a_follower_completes_when_its_high_watermark_rises() -> None:
    client = Client(HERE)
    client.append(0, 2)
    client.follows()
    replica = client.replica(0)
    replica.core.high_watermark = 1
    waiting = client.send({0: 1}, rack=HERE, wait_ms=500)
    assert waiting == []
    FollowerLogs(client.harness.replica_manager).append_fetched(replica.tp, b"", 2, 0, client.harness.now)
    assert waiting and waiting[0].responses[0].partitions[0].high_watermark == 2


def test_there_is_one_selector() -> None:
    reported = {"broker.id": "1", "log.dirs": "/d"}
    config = BrokerConfig.parse({**reported, "replica.selector.class": RACK_AWARE})
    assert config["replica.selector.class"] == RACK_AWARE
    with pytest.raises(ConfigError, match="not supported"):
        BrokerConfig.parse({**reported, "replica.selector.class": "org.example.Mine"})


def test_a_consumer_of_remote_records_is_redirected_to_a_follower_that_has_reported_them() -> None:
    client = Client()
    replica = client.replica(0)
    client.append(0, 6)
    replica.log.raise_start(4)
    replica.remote = view = RemoteView()
    view.loaded, view.chain = True, Chain((finished_segment(0, 4),))
    client.send({0: 6}, session=(0, -1), follower=FOLLOWER, wait_ms=0, log_start=4)
    assert client.fetch_once(1).preferred_read_replica == -1, "the follower has its local log only"
    client.send({0: 6}, session=(0, -1), follower=FOLLOWER, wait_ms=0, log_start=4, remote_start=1)
    assert client.fetch_once(1).preferred_read_replica == 2
    assert client.fetch_once(0).preferred_read_replica == -1, "more than the follower has"
    view.log_start = 3
    assert client.fetch_once(2).preferred_read_replica == -1, "deleted"
