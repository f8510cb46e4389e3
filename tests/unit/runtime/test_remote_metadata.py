"""The metadata topic: which partitions are read, each record once, and the creation of the topic."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.cluster.model import REMOTE_LOG_METADATA_TOPIC, Now
from brokerd.remote.segments import LeaderClaim, LogStart, MetadataChange, key_of, value_of
from brokerd.runtime.remote_metadata import CREATION_RETRY_MS, RETRY_MS, RemoteMetadata
from brokerd.wire import records
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchResponse
from brokerd.wire.records import Record
from tests.unit.remote.test_remote_log import TP

LEADER = 9
"""The broker that leads the metadata partitions."""
CLAIM, START = LeaderClaim(TP, 1, 2), LogStart(TP, 1, 5)


class Scene:
    def __init__(self) -> None:
        self.ms = 0
        self.topic: Any = SimpleNamespace(
            name=REMOTE_LOG_METADATA_TOPIC,
            ready=True,
            partition_count=2,
            partitions={i: SimpleNamespace(leader=LEADER) for i in range(2)},
        )
        self.image: Any = SimpleNamespace(topic_named=lambda name: self.topic, brokers={1: None, 2: None, 3: None})
        self.applied: list[tuple[int, MetadataChange]] = []
        self.restarted: list[int] = []
        self.created: list[Any] = []
        self.sent: list[tuple[int, int, Any, Any]] = []
        replica_manager: Any = SimpleNamespace(broker_id=1, image=self.image, find=lambda topic, index: None)
        client: Any = SimpleNamespace(
            send_request=lambda broker, key, version, body, done: self.sent.append((broker, key, body, done))
        )
        read_ahead: Any = SimpleNamespace(blind=True)
        self.metadata = RemoteMetadata(
            replica_manager,
            client,
            client,
            lambda: Now(self.ms, self.ms),
            read_ahead,
            lambda payload, timeout_ms, done: self.created.append(payload),
            lambda index, change: self.applied.append((index, change)),
            self.restarted.append,
            partition_count=4,
            replication_factor=3,
        )

    def respond(self, offset: int, *changes: MetadataChange, error: int = 0, log_start: int = 0) -> None:
        """Answer the last fetch of partition 0."""
        entries = [Record(i, 0, key_of(c), value_of(c)) for i, c in enumerate(changes)]
        part = FetchResponse.PartitionData(
            partition_index=0,
            error_code=error,
            high_watermark=offset + len(changes),
            log_start_offset=log_start,
            records=bytes(records.build(entries, base_offset=offset)) if entries else b"",
        )
        topic = FetchResponse.FetchableTopicResponse(topic=REMOTE_LOG_METADATA_TOPIC, partitions=[part])
        self.sent[-1][3](FetchResponse(responses=[topic]))

    def requested_offset(self) -> int:
        """The offset that the last fetch asks for."""
        return int(self.sent[-1][2].topics[0].partitions[0].fetch_offset)


@pytest.fixture
def metadata_scene() -> Scene:
    scene = Scene()
    scene.metadata.need([0])
    scene.metadata.poll()
    return scene


def test_each_record_is_applied_once_in_its_order(metadata_scene: Scene) -> None:
    metadata_scene.respond(0, CLAIM, START)
    assert (
        metadata_scene.applied == [(0, CLAIM), (0, START)]
        and metadata_scene.requested_offset() == 2
        and metadata_scene.metadata.is_current(0)
    )
    metadata_scene.respond(0, CLAIM, START, LogStart(TP, 1, 7))  # a batch that begins before the position
    assert metadata_scene.applied[2:] == [(0, LogStart(TP, 1, 7))] and metadata_scene.requested_offset() == 3


def test_one_fetch_is_in_flight_and_a_failed_one_is_repeated_later(metadata_scene: Scene) -> None:
    metadata_scene.metadata.poll()
    assert len(metadata_scene.sent) == 1
    metadata_scene.sent[-1][3](None)
    metadata_scene.metadata.poll()
    assert len(metadata_scene.sent) == 1
    metadata_scene.ms = RETRY_MS
    metadata_scene.metadata.poll()
    assert len(metadata_scene.sent) == 2


def test_a_partition_that_is_not_needed_any_more_is_forgotten(metadata_scene: Scene) -> None:
    metadata_scene.metadata.need([1])
    assert metadata_scene.restarted == [0] and list(metadata_scene.metadata.positions) == [1]
    metadata_scene.respond(0, CLAIM)
    assert metadata_scene.applied == []


def test_records_that_are_gone_are_read_from_the_log_start(metadata_scene: Scene) -> None:
    metadata_scene.respond(0, error=ErrorCode.OFFSET_OUT_OF_RANGE, log_start=40)
    assert metadata_scene.restarted == [0] and metadata_scene.requested_offset() == 40


def test_an_append_goes_to_the_leader_of_the_partition(metadata_scene: Scene) -> None:
    metadata_scene.metadata.append([CLAIM, START])
    broker, key, body, _ = metadata_scene.sent[-1]
    assert (broker, key) == (LEADER, ApiKey.PRODUCE)
    (part,) = body.topic_data[0].partition_data
    assert part.index == metadata_scene.metadata.partition_of(TP) and len(list(records.iterate(part.records))) == 2


def test_the_topic_waits_for_as_many_brokers_as_it_has_replicas(
    metadata_scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    metadata_scene.topic = None
    del metadata_scene.image.brokers[3]
    metadata_scene.metadata.create_topic()
    assert metadata_scene.created == [] and "registered_brokers=2" in caplog.text
    metadata_scene.image.brokers[3] = None
    metadata_scene.ms = CREATION_RETRY_MS
    metadata_scene.metadata.create_topic()
    assert len(metadata_scene.created) == 1


def test_the_topic_is_requested_again_after_a_pause(metadata_scene: Scene) -> None:
    metadata_scene.metadata.create_topic()
    assert metadata_scene.created == []
    metadata_scene.topic = None
    for _ in range(2):
        metadata_scene.metadata.create_topic()
    (payload,) = metadata_scene.created
    (topic,) = payload.items
    assert (topic.partitions, topic.replication_factor, topic.configs["min.insync.replicas"]) == (4, 3, "2")
    metadata_scene.ms = CREATION_RETRY_MS
    metadata_scene.metadata.create_topic()
    assert (
        len(metadata_scene.created) == 2
        and metadata_scene.metadata.led_partitions() == []
        and metadata_scene.metadata.partition_of(TP) is None
    )
