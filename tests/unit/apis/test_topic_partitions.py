"""DescribeTopicPartitions: pages that join without holes, electable replicas, and who may see what."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from brokerd.apis.topicpartitions import PARTITIONS_MAX, TopicPartitionsApi
from brokerd.cluster.image import Image
from brokerd.cluster.model import NO_INCARNATION, NO_LEADER, BrokerState, PartitionState, Seat, TopicState
from brokerd.wire.messages import DescribeTopicPartitionsRequest as Asked
from brokerd.wire.messages import DescribeTopicPartitionsResponse as Told


def image(**partitions: int) -> Image:
    it = Image(cluster_id="c")
    it.brokers[1] = BrokerState(1, 11, "u", "127.0.0.1", 9092)
    for number, (name, count) in enumerate(partitions.items(), 1):
        topic = TopicState(UUID(int=number), name, 1, {}, count, ready=True)
        for i in range(count):
            topic.partitions[i] = PartitionState((1,), (Seat(1, 11),), 1, 11)
        it.topics[topic.topic_id], it.topic_ids[name] = topic, topic.topic_id
    return it


def ask(it: Image, *names: str, limit: int = 2_000, after: tuple[str, int] | None = None) -> Told:
    cursor = None if after is None else Asked.Cursor(*after)
    body = Asked([Asked.TopicRequest(n) for n in names], limit, cursor)
    told: list[Any] = []
    TopicPartitionsApi(lambda: it).describe(SimpleNamespace(body=body, listener="PLAINTEXT", reply=told.append))  # type: ignore[arg-type]
    return told[0]  # type: ignore[no-any-return]


def shown(told: Told) -> list[tuple[str | None, list[int]]]:
    return [(t.name, [p.partition_index for p in t.partitions]) for t in told.topics]


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 100])
def test_pages_join_without_hole_or_repetition(limit: int) -> None:
    it = image(c=1, a=3, b=4)
    after, found = None, []
    for _ in range(20):
        told = ask(it, limit=limit, after=after)
        page = [(name, i) for name, indexes in shown(told) for i in indexes]
        assert len(page) <= limit
        found += page
        if told.next_cursor is None:
            break
        after = (told.next_cursor.topic_name, told.next_cursor.partition_index)
    assert found == [(n, i) for n, count in (("a", 3), ("b", 4), ("c", 1)) for i in range(count)]


def test_named_topics_come_once_in_order_and_unknown_ones_say_so() -> None:
    told = ask(image(b=1, a=1), "b", "zz", "a", "b", "no such name!")
    assert [(t.name, t.error_code) for t in told.topics] == [("a", 0), ("b", 0), ("no such name!", 17), ("zz", 3)]


def test_a_topic_that_went_since_the_last_page_is_passed_over() -> None:
    assert shown(ask(image(a=1, c=2), after=("b", 7))) == [("c", [0, 1])]


def test_no_answer_is_larger_than_its_limit_whatever_was_asked() -> None:
    told = ask(image(a=PARTITIONS_MAX + 5), limit=1_000_000)
    assert len(told.topics[0].partitions) == PARTITIONS_MAX
    assert told.next_cursor == Told.Cursor("a", PARTITIONS_MAX)


def test_who_could_lead_is_told_of_a_partition_that_nobody_leads() -> None:
    it = image(a=1)
    it.topics[UUID(int=1)].partitions[0] = PartitionState(
        (2, 3, 1), (), NO_LEADER, NO_INCARNATION, 7, elr=(3,), last_isr=(2,)
    )
    (partition,) = ask(it, "a").topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (5, -1, 7)
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([3], [2])
    assert partition.offline_replicas == [2, 3]
