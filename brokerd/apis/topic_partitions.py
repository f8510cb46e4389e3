"""DescribeTopicPartitions (KIP-966): topics with their eligible leader replicas, in pages, from the image.

Invariant: topics and partitions are sorted. A client that continues with its cursor gets every topic and partition that existed throughout.
"""

from __future__ import annotations

from collections.abc import Callable

from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import AuthHelper
from brokerd.cluster.image import Image
from brokerd.cluster.model import NO_LEADER, REPLACED, PartitionState, TopicState, topic_name_problem
from brokerd.net.request import Handler, Request
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse

PARTITIONS_MAX = 2_000
"""Partitions per response at most (Kafka's max.request.partition.size.limit)."""

Topic = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
Partition = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition


class TopicPartitionsApi:
    def __init__(self, image: Callable[[], Image], auth: AuthHelper) -> None:
        self._image, self._auth = image, auth

    def handlers(self) -> dict[int, Handler]:
        return {ApiKey.DESCRIBE_TOPIC_PARTITIONS: self.describe}

    def describe(self, request: Request) -> None:
        body: DescribeTopicPartitionsRequest = request.body
        image, after = self._image(), body.cursor
        named = [t.name for t in body.topics]
        requested = named or [t.name for t in image.topics.values() if t.ready]
        authorized, unauthorized = self._auth.partition_by_authorized(
            request, Operation.DESCRIBE, Resource.TOPIC, requested, lambda name: name
        )
        names = sorted(set(authorized))
        if after is not None:
            names = [n for n in names if n >= after.topic_name]
        room = max(1, min(body.response_partition_limit, PARTITIONS_MAX))
        response = DescribeTopicPartitionsResponse()
        for name in names:
            begin = after.partition_index if after is not None and after.topic_name == name else 0
            topic = image.topic_named(name)
            if topic is None or not topic.ready:
                bad = topic_name_problem(name) is not None
                error = ErrorCode.INVALID_TOPIC_EXCEPTION if bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                response.topics.append(Topic(error_code=error, name=name))
                continue
            indexes = sorted(i for i in topic.partitions if i >= begin)
            if not room and indexes:
                response.next_cursor = DescribeTopicPartitionsResponse.Cursor(
                    topic_name=name, partition_index=indexes[0]
                )
                break
            shown = _topic(image, topic, indexes[:room], request.listener)
            shown.topic_authorized_operations = self._auth.authorized_operations(request, Resource.TOPIC, name)
            response.topics.append(shown)
            if len(indexes) > room:
                left = indexes[room]
                response.next_cursor = DescribeTopicPartitionsResponse.Cursor(topic_name=name, partition_index=left)
                break
            room -= len(indexes)
        if named:
            rejected = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            response.topics += [Topic(error_code=rejected, name=name) for name in unauthorized]
            response.topics.sort(key=lambda t: t.name or "")
        request.reply(response)


def _topic(image: Image, topic: TopicState, indexes: list[int], listener: str) -> Topic:
    return Topic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=[_partition(image, i, topic.partitions[i], listener) for i in indexes],
    )


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
        last_known_elr=[b for b in state.last_isr if b != REPLACED],
        offline_replicas=[r for r in state.replicas if not image.alive(r)],
    )
