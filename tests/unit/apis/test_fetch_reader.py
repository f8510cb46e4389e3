"""The records that a fetch may read, and the log size from which a waiting fetch is checked again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.apis.fetch_reader import READ_COMMITTED, FetchReader
from brokerd.apis.fetch_sessions import PartitionRequest
from brokerd.apis.history_reads import HistoryReader
from brokerd.cluster.model import ReplicaIncarnation
from brokerd.net.client_traffic import ClientTraffic
from brokerd.replication.throttles import Throttles
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest
from tests.simulation.disk import SimDisk
from tests.unit.replication.test_relocations import TP, Harness


class Scene:
    def __init__(self) -> None:
        self.harness = Harness(SimDisk())
        replica_manager, loop = self.harness.replica_manager, SimpleNamespace(now=self.harness.now)
        self.reader = FetchReader(
            loop,  # type: ignore[arg-type]
            replica_manager,
            HistoryReader(replica_manager, None, 1 << 20),
            bytes_max=1 << 20,
            throttles=Throttles(1, lambda name: 0),
            by_rack=False,
            read_ahead=None,
        )
        self.partition_request = PartitionRequest(
            "t",
            TP.topic_id,
            FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20),
            self.harness.replica,
            ErrorCode.NONE,
            self.harness.replica.core.leader_epoch,
        )

    def body(self, **fields: Any) -> FetchRequest:
        return FetchRequest(**{"min_bytes": 1, "max_bytes": 1 << 20, "replica_id": -1, **fields})

    def has_enough(self, body: FetchRequest) -> bool:
        return self.reader.enough(body, [self.partition_request], None)


def test_a_fetch_has_enough_when_min_bytes_are_below_the_high_watermark() -> None:
    scene = Scene()
    assert not scene.has_enough(scene.body())
    scene.harness.append()
    size = scene.harness.replica.log.size_bytes
    assert scene.has_enough(scene.body()) and scene.has_enough(scene.body(min_bytes=size))
    assert not scene.has_enough(scene.body(min_bytes=size + 1))


def test_a_changed_leader_epoch_is_answered_at_once() -> None:
    scene = Scene()
    scene.partition_request.epoch -= 1
    assert scene.has_enough(scene.body())


@pytest.mark.parametrize("state", ["empty", "records", "leader epoch", "error", "out of range", "no replica"])
def test_the_first_read_suffices_exactly_if_a_delayed_fetch_would_complete(state: str) -> None:
    scene = Scene()
    request = scene.partition_request
    if state == "records":
        scene.harness.append()
    elif state == "leader epoch":
        request.epoch -= 1
    elif state == "error":
        request.error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif state == "out of range":
        request.requested.fetch_offset = 7
    elif state == "no replica":
        request.replica = None
    for min_bytes in (1, 10_000):
        body = scene.body(min_bytes=min_bytes)
        enough = scene.has_enough(body)
        read = scene.reader.read(body, {("t", 0): request}, None, 13, lambda n: None, 0)
        assert read is not None
        assert scene.reader.suffices(body, read) == enough
        if state != "leader epoch":  # it is the current one after the first read
            assert enough == (state != "empty" and (state != "records" or min_bytes == 1))


def test_the_needed_log_size_is_the_written_size_plus_the_bytes_missing_to_min_bytes() -> None:
    scene = Scene()
    scene.harness.append()
    log = scene.harness.replica.log
    needs = scene.reader.needs(scene.body(min_bytes=log.size_bytes + 100), [scene.partition_request])
    assert needs == {scene.harness.replica.hw_key(): log.written_bytes + 100}
    assert scene.reader.needs(scene.body(), [scene.partition_request]) is None
    assert scene.reader.needs(scene.body(min_bytes=log.size_bytes), [scene.partition_request]) is None


def test_followers_read_to_the_log_end_and_consumers_to_the_high_watermark_or_stable_offset() -> None:
    scene = Scene()
    replica: Any = SimpleNamespace(
        log=SimpleNamespace(end_offset=9), core=SimpleNamespace(high_watermark=7), last_stable=lambda: 5
    )
    limit = scene.reader._limit
    assert limit(scene.body(), ReplicaIncarnation(2, 12))(replica) == 9
    assert limit(scene.body(), None)(replica) == 7
    committed = limit(scene.body(isolation_level=READ_COMMITTED), None)
    assert committed(scene.harness.replica) == scene.harness.replica.last_stable()


def test_bytes_are_counted_for_consumers_and_followers_apart() -> None:
    scene = Scene()
    scene.harness.append(3)
    replica = scene.harness.replica
    size = replica.log.size_bytes
    requests: Any = {0: scene.partition_request}
    traffic = ClientTraffic(0)

    def read(follower: ReplicaIncarnation | None) -> None:
        found = scene.reader.read(scene.body(), requests, follower, 13, lambda n: None, 0)
        assert found is not None
        scene.reader.count_sent(found, follower, traffic if follower is None else None, 5)

    assert (replica.bytes_in, replica.bytes_out, replica.replication_bytes_out) == (size, 0, 0)
    read(None)
    read(None)
    assert (replica.bytes_in, replica.bytes_out, replica.replication_bytes_out) == (size, 2 * size, 0)
    read(ReplicaIncarnation(1, 11))
    assert (replica.bytes_out, replica.replication_bytes_out, replica.replication_bytes_in) == (2 * size, size, 0)
    assert traffic.fetched is not None
    assert traffic.fetched.bytes == {scene.partition_request.topic_name: 2 * size}


def test_bytes_of_a_consumer_are_counted_by_topic() -> None:
    def read(topic: str, served: int, known: bool = True) -> Any:
        replica = SimpleNamespace(sent_bytes=[0, 0]) if known else None
        return SimpleNamespace(served=served, partition_request=SimpleNamespace(topic_name=topic, replica=replica))

    found = [read("a", 5), read("a", 0), read("a", 7), read("b", 3), read("c", 9, known=False), read("a", 1)]
    traffic = ClientTraffic(0)
    FetchReader.count_sent(found, None, traffic, 5)
    assert traffic.fetched is not None and traffic.fetched.bytes == {"a": 13, "b": 3}
    nothing = ClientTraffic(0)
    FetchReader.count_sent([read("a", 0)], None, nothing, 5)
    assert nothing.fetched is None
