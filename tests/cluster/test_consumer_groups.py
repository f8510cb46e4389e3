"""The new group protocol (KIP-848) with librdkafka's consumers: members that come, go, are killed and lose their coordinator.

The verifiers are what the members were given, when, and what they read: no partition that two of them have at one time, nothing unread,
nothing that was committed lost. Members are processes of their own where they are to die.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.local import LocalCluster, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]
PARTITIONS = 6
SESSION_MS = 3_000
SETTINGS = {
    "group.consumer.session.timeout.ms": str(SESSION_MS), "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "300", "group.consumer.min.heartbeat.interval.ms": "100",
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("kip848"), 3, SETTINGS) as running:
        yield running


class Member:
    """In a thread of its own. `log` is what it was given and gave up: (seconds, "+" or "-", partitions)."""

    def __init__(self, cluster: LocalCluster, group: str, topics: list[str], **more: Any) -> None:
        self.has: set[tuple[str, int]] = set()
        self.log: list[tuple[float, str, set[tuple[str, int]]]] = []
        self.seen: list[str] = []
        self.errors: list[str] = []
        self._stop = threading.Event()
        settings = {
            "bootstrap.servers": cluster.bootstrap, "group.id": group, "group.protocol": "consumer",
            "auto.offset.reset": "earliest", "enable.auto.commit": False, **more,
        }  # fmt: skip
        self._thread = threading.Thread(target=self._run, args=(settings, topics))
        self._thread.start()

    def _run(self, settings: dict[str, Any], topics: list[str]) -> None:
        consumer = Consumer(settings)
        consumer.subscribe(topics, on_assign=self._given, on_revoke=self._given_up, on_lost=self._given_up)
        while not self._stop.is_set():
            for message in consumer.consume(100, 0.1):
                if message.error():
                    self.errors.append(str(message.error()))
                else:
                    self.seen.append(message.value().decode())
        consumer.close()

    def _given(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        places = {(tp.topic, tp.partition) for tp in partitions}
        self.has |= places
        self.log.append((time.monotonic(), "+", places))

    def _given_up(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        places = {(tp.topic, tp.partition) for tp in partitions}
        self.has -= places
        self.log.append((time.monotonic(), "-", places))

    def leave(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


def never_shared(members: list[Member]) -> None:
    """Nobody was given what another had at that time."""
    moves = sorted((at, i, sign, places) for i, m in enumerate(members) for at, sign, places in m.log)
    owner: dict[tuple[str, int], int] = {}
    for _, i, sign, places in moves:
        for place in places:
            if sign == "-":
                assert owner.pop(place) == i
            else:
                assert place not in owner, f"{place} was given to {i} while {owner[place]} had it"
                owner[place] = i


def make_topic(cluster: LocalCluster, name: str, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 3)])[name].result(30)
    wait_for(
        lambda: (t := cluster.image.topic_named(name)) and t.ready and len(t.partitions) == partitions, "the topic"
    )


def produce(cluster: LocalCluster, topic: str, values: list[str]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for i, value in enumerate(values):
        producer.produce(topic, value, partition=i % PARTITIONS)
    assert producer.flush(30) == 0


def shared_by(members: list[Member], topic: str, partitions: int = PARTITIONS) -> None:
    everything = {(topic, i) for i in range(partitions)}

    def so() -> bool:
        held = [place for m in members for place in m.has]
        return sorted(held) == sorted(everything) and all(m.has for m in members)

    wait_for(so, f"{len(members)} members to share {topic}")


def test_members_share_a_topic_and_share_anew_when_one_comes_and_when_one_goes(cluster: LocalCluster) -> None:
    topic = group = "shared"
    make_topic(cluster, topic)
    values = [f"v{i}" for i in range(300)]
    members = [Member(cluster, group, [topic])]
    try:
        shared_by(members, topic)
        members.append(Member(cluster, group, [topic]))
        shared_by(members, topic)
        members.append(Member(cluster, group, [topic]))
        shared_by(members, topic)
        assert {len(m.has) for m in members} == {2}
        produce(cluster, topic, values)
        wait_for(lambda: len([v for m in members for v in m.seen]) >= len(values), "everything to be read")
        assert sorted(v for m in members for v in m.seen) == sorted(values), "each once: nothing moved meanwhile"
        members[1].leave()
        shared_by([members[0], members[2]], topic)
    finally:
        for member in members:
            member.leave()
    never_shared(members)
    assert [m.errors for m in members] == [[], [], []]
