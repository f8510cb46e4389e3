"""DescribeTopicPartitions: pages without gaps, eligible leader replicas, and authorisation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from brokerd.apis.topic_partitions import PARTITIONS_MAX, TopicPartitionsApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.cluster.image import Image
from brokerd.cluster.model import (
    NO_BROKER_EPOCH,
    NO_LEADER,
    BrokerState,
    PartitionState,
    ReplicaIncarnation,
    TopicState,
)
from brokerd.wire.messages import DescribeTopicPartitionsRequest as ControllerStub
from brokerd.wire.messages import DescribeTopicPartitionsResponse as Response


def image(**partitions: int) -> Image:
    it = Image(cluster_id="c")
    it.brokers[1] = BrokerState(1, 11, "u", "127.0.0.1", 9092)
    for number, (name, count) in enumerate(partitions.items(), 1):
        topic = TopicState(UUID(int=number), name, 1, {}, count, ready=True)
        for i in range(count):
            topic.partitions[i] = PartitionState((1,), (ReplicaIncarnation(1, 11),), 1, 11)
        it.topics[topic.topic_id], it.topic_ids[name] = topic, topic.topic_id
    return it


def send_request(it: Image, *names: str, limit: int = 2_000, after: tuple[str, int] | None = None) -> Response:
    cursor = None if after is None else ControllerStub.Cursor(*after)
    body = ControllerStub([ControllerStub.TopicRequest(n) for n in names], limit, cursor)
    reported: list[Any] = []
    TopicPartitionsApi(lambda: it, ALLOW_ALL).describe(
        SimpleNamespace(body=body, listener="PLAINTEXT", reply=reported.append)
    )  # type: ignore[arg-type]
    return reported[0]  # type: ignore[no-any-return]


def topics_with_partitions(reported: Response) -> list[tuple[str | None, list[int]]]:
    return [(t.name, [p.partition_index for p in t.partitions]) for t in reported.topics]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 100])
def test_pages_are_contiguous_without_repetition(limit: int) -> None:
    it = image(c=1, a=3, b=4)
    after, found = None, []
    for _ in range(20):
        reported = send_request(it, limit=limit, after=after)
        page = [(name, i) for name, indexes in topics_with_partitions(reported) for i in indexes]
        assert len(page) <= limit
        found += page
        if reported.next_cursor is None:
            break
        after = (reported.next_cursor.topic_name, reported.next_cursor.partition_index)
    assert found == [(n, i) for n, count in (("a", 3), ("b", 4), ("c", 1)) for i in range(count)]


def test_requested_topics_are_returned_once_in_order_and_unknown_ones_have_an_error() -> None:
    reported = send_request(image(b=1, a=1), "b", "zz", "a", "b", "no such name!")
    assert [(t.name, t.error_code) for t in reported.topics] == [("a", 0), ("b", 0), ("no such name!", 17), ("zz", 3)]


def test_a_topic_deleted_since_the_last_page_is_skipped() -> None:
    assert topics_with_partitions(send_request(image(a=1, c=2), after=("b", 7))) == [("c", [0, 1])]


def test_no_response_exceeds_the_partition_limit() -> None:
    reported = send_request(image(a=PARTITIONS_MAX + 5), limit=1_000_000)
    assert len(reported.topics[0].partitions) == PARTITIONS_MAX
    assert reported.next_cursor == Response.Cursor("a", PARTITIONS_MAX)


def test_a_partition_without_a_leader_has_its_eligible_replicas() -> None:
    it = image(a=1)
    it.topics[UUID(int=1)].partitions[0] = PartitionState(
        (2, 3, 1), (), NO_LEADER, NO_BROKER_EPOCH, 7, elr=(3,), last_isr=(2,)
    )
    (partition,) = send_request(it, "a").topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (5, -1, 7)
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([3], [2])
    assert partition.offline_replicas == [2, 3]
