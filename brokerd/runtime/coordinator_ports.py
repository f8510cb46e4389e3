"""Adapters between coordinators and brokers: internal topics as logs, coordinator lookup by key.

Invariant: a coordinator writes only in the leader epoch for which it was elected. Does not contain: the format of its records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from uuid import UUID

from brokerd.apis.delayed_produce import ACKS_ALL
from brokerd.apis.produce import ProduceApi
from brokerd.apis.produce_results import PartitionResult
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import MetadataRecord, PartitionsGrown, TopicDeleted, TopicReady
from brokerd.cluster.model import NO_LEADER, TRANSACTION_STATE_TOPIC, Now
from brokerd.coordinator.shard import FOLLOWER_SILENCE_MS_MAX, REPLICATION_UNKNOWN, partition_of
from brokerd.net.inter_broker import InterBrokerClient
from brokerd.replication.partition_events import LogStartRaised
from brokerd.replication.replica import Replica
from brokerd.replication.replica_manager import ReplicaManager
from brokerd.storage.disk import DiskFailed
from brokerd.storage.nonblocking import NotInPageCache, blocking_reads, nonblocking_reads
from brokerd.storage.read_ahead import ReadAhead
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

VERIFICATION_VERSION = 4
"""Version of AddPartitionsToTxn between brokers."""


def coordinator_of(image: Image, topic: str, key: str) -> int:
    """The broker id of the leader of the partition of `topic` to which `key` belongs; -1 if there is none."""
    state = image.topic_named(topic)
    if state is None or not state.ready:
        return NO_LEADER
    partition = state.partitions.get(partition_of(key, state.partition_count))
    return partition.leader if partition is not None else NO_LEADER


class CoordinatorLookup:
    """Sends transaction verification to the transaction's coordinator."""

    def __init__(self, replica_manager: ReplicaManager, client: InterBrokerClient) -> None:
        self._replica_manager, self._client = replica_manager, client

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partition: tuple[str, int],
        add: bool,
        done: Callable[[ErrorCode], None],
    ) -> None:
        broker_id = coordinator_of(self._replica_manager.image, TRANSACTION_STATE_TOPIC, transactional_id)
        body = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                    transactional_id=transactional_id,
                    producer_id=producer_id,
                    producer_epoch=producer_epoch,
                    verify_only=not add,
                    topics=[
                        AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=partition[0], partitions=[partition[1]])
                    ],
                )
            ]
        )

        def on_response(response: AddPartitionsToTxnResponse | None) -> None:
            if response is None:
                done(ErrorCode.NETWORK_EXCEPTION)
            else:
                result = response.results_by_transaction[0].topic_results[0].results_by_partition[0]
                done(ErrorCode(result.partition_error_code))

        self._client.send_request(broker_id, ApiKey.ADD_PARTITIONS_TO_TXN, VERIFICATION_VERSION, body, on_response)


class ImageTopics:
    """The topics that consumer groups can subscribe to, from the image. `changed` must be called for each entry of the metadata log."""

    def __init__(self, image: Callable[[], Image]) -> None:
        self._image = image
        self.version = 0

    def apply_records(self, records: Iterable[MetadataRecord]) -> None:
        if any(isinstance(r, TopicReady | TopicDeleted | PartitionsGrown) for r in records):
            self.version += 1

    def on_reloaded(self) -> None:
        """Called when a complete new image was loaded."""
        self.version += 1

    def topic_named(self, name: str) -> tuple[UUID, int] | None:
        topic = self._image().topic_named(name)
        return (topic.topic_id, topic.partition_count) if topic is not None and topic.ready else None

    def names(self) -> Iterator[str]:
        """Names of topics that a subscription pattern can match. Internal topics are excluded."""
        return (t.name for t in self._image().topics.values() if t.ready and not t.internal)


def leadership_confirmed(replica_manager: ReplicaManager, replica: Replica | None, now: Now) -> bool:
    """Return whether this broker is certainly still the leader. After a stall, or without both ZooKeeper and followers, another broker may be the leader.
    In that case state in memory may be outdated: committed offsets, transaction states, delivery states of share groups."""
    if replica_manager.produce_suspended:
        return False
    return replica_manager.hooks.image_is_current() or (
        replica is not None and not replica.core.unresponsive_followers(now, FOLLOWER_SILENCE_MS_MAX)
    )


class InternalLog:
    """The partitions of an internal topic, for its coordinator."""

    APPEND_TIMEOUT_MS = 5_000

    def __init__(
        self,
        topic: str,
        replica_manager: ReplicaManager,
        produce: ProduceApi,
        now: Callable[[], Now],
        read_ahead: ReadAhead | None = None,
    ) -> None:
        self._topic, self._replica_manager, self._produce, self._now = topic, replica_manager, produce, now
        self._read_ahead = read_ahead
        self._missing: set[int] = set()
        """Partitions that are being read from the disk."""

    def _replica(self, partition: int) -> Replica:
        replica = self._replica_manager.find_by_name(self._topic, partition)
        assert replica is not None, f"{self._topic}-{partition} has no replica on this broker"
        return replica

    def partition_count(self) -> int | None:
        topic = self._replica_manager.image.topic_named(self._topic)
        return topic.partition_count if topic is not None and topic.ready else None

    def leader_epoch(self, partition: int) -> int | None:
        replica = self._replica_manager.find_by_name(self._topic, partition)
        return replica.core.leader_epoch if replica is not None and replica.leads else None

    def leadership_confirmed(self, partition: int) -> bool:
        replica = self._replica_manager.find_by_name(self._topic, partition)
        return leadership_confirmed(self._replica_manager, replica, self._now())

    def all_followers_caught_up_to_epoch(self, partition: int) -> bool:
        return self._replica(partition).core.all_followers_caught_up_to_epoch

    def append(self, partition: int, batch: bytes, leader_epoch: int, done: Callable[[int], None]) -> None:
        if self.leader_epoch(partition) != leader_epoch:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        outcome = self._produce.appender.append_internal(self._replica(partition), bytearray(batch))
        if isinstance(outcome, PartitionResult):
            done(outcome.error)
            return

        def on_replicated(results: list[PartitionResult]) -> None:
            done(REPLICATION_UNKNOWN if results[0].error else ErrorCode.NONE)

        self._produce.acknowledgements.wait([outcome], ACKS_ALL, self.APPEND_TIMEOUT_MS, on_replicated, client=False)

    def read(self, partition: int, offset: int, max_bytes: int) -> bytes | None:
        if partition in self._missing:
            return None
        replica, read_ahead = self._replica(partition), self._read_ahead
        try:
            with blocking_reads() if read_ahead is None or read_ahead.blind else nonblocking_reads():
                return replica.log.read(offset, max_bytes, replica.log.end_offset).bytes()
        except NotInPageCache as cold:
            assert read_ahead is not None
            self._missing.add(partition)
            read_ahead.look_up(cold, lambda: self._missing.discard(partition))
            return None

    def delete_below(self, partition: int, offset: int) -> None:
        replica = self._replica(partition)
        try:
            self._replica_manager.delete_below(replica, offset)
        except DiskFailed as e:
            self._replica_manager.fail(replica, e)
            return
        self._replica_manager.run(replica, LogStartRaised(replica.log.start_offset), self._now())

    def start_offset(self, partition: int) -> int:
        return self._replica(partition).log.start_offset

    def end_offset(self, partition: int) -> int:
        return self._replica(partition).log.end_offset

    def high_watermark(self, partition: int) -> int:
        return self._replica(partition).core.high_watermark

    def epoch_start(self, partition: int) -> int:
        return self._replica(partition).core.epoch_start
