"""DescribeTopicPartitions (KIP-966): topics with their electable replicas, a page at a time.

Law: topics in the order of their names, partitions in theirs; who asks again with the cursor it was given misses nothing that was there all the time. Read from the image.
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.cluster.image import Image
from brokerd.cluster.model import NO_LEADER, PartitionState, TopicState, topic_name_problem
from brokerd.dispatch import Handler, Request
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse

PARTITIONS_MAX = 2_000
"""Of one answer, whatever was asked for (Kafka's max.request.partition.size.limit)."""

Topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition


class TopicPartitionsApi:
    def __init__(self, image: Callable[[], Image]) -> None:
        self._image = image

    def handlers(self) -> dict[int, Handler]:
        return {ApiKey.DESCRIBE_TOPIC_PARTITIONS: self.describe}

    def describe(self, request: Request) -> None:
        body: DescribeTopicPartitionsRequest = request.body
        image, after = self._image(), body.cursor
        names = sorted({t.name for t in body.topics} or {t.name for t in image.topics.values() if t.ready})
        if after is not None:
            names = [n for n in names if n >= after.topic_name]
        room = max(1, min(body.response_partition_limit, PARTITIONS_MAX))
        answer = DescribeTopicPartitionsResponse()
        for name in names:
            begin = after.partition_index if after is not None and after.topic_name == name else 0
            topic = image.topic_named(name)
            if topic is None or not topic.ready:
                bad = topic_name_problem(name) is not None
                error = ErrorCode.INVALID_TOPIC_EXCEPTION if bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answer.topics.append(Topic(error_code=error, name=name))
                continue
            indexes = sorted(i for i in topic.partitions if i >= begin)
            if not room and indexes:
                answer.next_cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=indexes[0])
                break
            answer.topics.append(_topic(image, topic, indexes[:room], request.listener))
            if len(indexes) > room:
                left = indexes[room]
                answer.next_cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=left)
                break
            room -= len(indexes)
        request.reply(answer)


def _topic(image: Image, topic: TopicState, indexes: list[int], listener: str) -> Topic:
    return Topic(
        name=topic.name, topic_id=topic.topic_id, is_internal=topic.internal,
        partitions=[_partition(image, i, topic.partitions[i], listener) for i in indexes],
    )  # fmt: skip


def _partition(image: Image, index: int, state: PartitionState, listener: str) -> Partition:
    leader = image.brokers.get(state.leader) if state.leader != NO_LEADER else None
    led = leader is not None and leader.alive
    error = ErrorCode.NONE if led else ErrorCode.LEADER_NOT_AVAILABLE
    if leader is not None and led and leader.address(listener) is None:
        led, error = False, ErrorCode.LISTENER_NOT_FOUND
    return Partition(
        error_code=error,
        partition_index=index,
        leader_id=state.leader if led else NO_LEADER,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr_ids),
        eligible_leader_replicas=list(state.elr),
        last_known_elr=list(state.last_isr),
        offline_replicas=[r for r in state.replicas if not image.alive(r)],
    )
