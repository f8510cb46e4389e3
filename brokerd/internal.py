"""Internal topics, as their coordinators see them, and how the coordinator of a key is found and asked.

Law: a coordinator writes only in the leader epoch it was told of. Called by `broker`, which hands these to groups and transactions. Must
not come in: what stands in the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from uuid import UUID

from brokerd.apis.produce import ProduceApi
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import PartitionsGrown, Record, TopicDeleted, TopicReady
from brokerd.cluster.model import NO_LEADER, TRANSACTION_STATE_TOPIC, Now
from brokerd.coordinator.leading import SILENT_MS, partition_of
from brokerd.net.colleagues import Colleagues
from brokerd.partitions import Partitions
from brokerd.replica import Replica
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

INQUIRY_VERSION = 4
"""Of AddPartitionsToTxn between brokers."""


def coordinator_of(image: Image, topic: str, key: str) -> int:
    """The broker that leads the partition of `topic` where `key` lives; -1 while there is none."""
    state = image.topic_named(topic)
    if state is None or not state.ready:
        return NO_LEADER
    partition = state.partitions.get(partition_of(key, state.partition_count))
    return partition.leader if partition is not None else NO_LEADER


class Inquiry:
    """How the verification reaches a transaction's coordinator."""

    def __init__(self, partitions: Partitions, colleagues: Colleagues) -> None:
        self._partitions, self._colleagues = partitions, colleagues

    def ask(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partition: tuple[str, int],
        add: bool,
        done: Callable[[ErrorCode], None],
    ) -> None:
        broker_id = coordinator_of(self._partitions.image, TRANSACTION_STATE_TOPIC, transactional_id)
        body = AddPartitionsToTxnRequest(
            transactions=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
                    transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer_epoch,
                    verify_only=not add,
                    topics=[
                        AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=partition[0], partitions=[partition[1]])
                    ],
                )
            ]
        )  # fmt: skip

        def answered(answer: AddPartitionsToTxnResponse | None) -> None:
            if answer is None:
                done(ErrorCode.NETWORK_EXCEPTION)
            else:
                result = answer.results_by_transaction[0].topic_results[0].results_by_partition[0]
                done(ErrorCode(result.partition_error_code))

        self._colleagues.ask(broker_id, ApiKey.ADD_PARTITIONS_TO_TXN, INQUIRY_VERSION, body, answered)


class ImageTopics:
    """The topics that groups are subscribed to, as the metadata log has them. Whoever applies an entry says which ones `changed`."""

    def __init__(self, image: Callable[[], Image]) -> None:
        self._image = image
        self.version = 0

    def changed(self, records: Iterable[Record]) -> None:
        if any(isinstance(r, TopicReady | TopicDeleted | PartitionsGrown) for r in records):
            self.version += 1

    def renewed(self) -> None:
        """The image is another one altogether."""
        self.version += 1

    def named(self, name: str) -> tuple[UUID, int] | None:
        topic = self._image().topic_named(name)
        return (topic.topic_id, topic.partition_count) if topic is not None and topic.ready else None

    def names(self) -> Iterator[str]:
        """Internal topics are read by those who name them: no pattern means them."""
        return (t.name for t in self._image().topics.values() if t.ready and not t.internal)


class InternalLog:
    """The partitions of an internal topic, as its coordinator wants to see them."""

    APPEND_TIMEOUT_MS = 5_000

    def __init__(self, topic: str, partitions: Partitions, produce: ProduceApi, now: Callable[[], Now]) -> None:
        self._topic, self._partitions, self._produce, self._now = topic, partitions, produce, now

    def _replica(self, partition: int) -> Replica:
        replica = self._partitions.named(self._topic, partition)
        assert replica is not None, f"{self._topic}-{partition} is not here"
        return replica

    def partition_count(self) -> int | None:
        topic = self._partitions.image.topic_named(self._topic)
        return topic.partition_count if topic is not None and topic.ready else None

    def leader_epoch(self, partition: int) -> int | None:
        replica = self._partitions.named(self._topic, partition)
        return replica.core.leader_epoch if replica is not None and replica.leads else None

    def sure(self, partition: int) -> bool:
        """Whether nobody else can have led it for a while: who has just thawed, or hears neither ZooKeeper nor its followers, might
        tell of offsets and transactions as they were before."""
        partitions = self._partitions
        if partitions.frozen:
            return False
        replica = partitions.named(self._topic, partition)
        return partitions.current() or (replica is not None and not replica.core.silent(self._now(), SILENT_MS))

    def followed(self, partition: int) -> bool:
        return self._replica(partition).core.followed

    def append(self, partition: int, batch: bytes, leader_epoch: int, done: Callable[[int], None]) -> None:
        if self.leader_epoch(partition) != leader_epoch:
            done(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        self._produce.append_internal(
            self._replica(partition), batch, self.APPEND_TIMEOUT_MS, lambda outcome: done(outcome.told)
        )

    def read(self, partition: int, offset: int, max_bytes: int) -> bytes:
        replica = self._replica(partition)
        return replica.log.read(offset, max_bytes, replica.log.end_offset).bytes()

    def start_offset(self, partition: int) -> int:
        return self._replica(partition).log.start_offset

    def end_offset(self, partition: int) -> int:
        return self._replica(partition).log.end_offset

    def high_watermark(self, partition: int) -> int:
        return self._replica(partition).core.high_watermark

    def epoch_start(self, partition: int) -> int:
        return self._replica(partition).core.epoch_start
