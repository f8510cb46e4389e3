"""Group members for tests of whole clusters: in a thread, or in their own process if the test kills them or changes their protocol."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from brokerd.coordinator.shard import partition_of
from tests.cluster.local import ROOT, LocalCluster, wait_for

PARTITIONS = 6


class Member:
    """A member in its own thread. `log` has its assignments and revocations: (seconds, "+" or "-", partitions)."""

    def __init__(self, cluster: LocalCluster, group: str, topics: list[str], **more: Any) -> None:
        self.owned_partitions: set[tuple[str, int]] = set()
        self.log: list[tuple[float, str, set[tuple[str, int]]]] = []
        self.seen_values: list[str] = []
        self.errors: list[str] = []
        self._stop = threading.Event()
        settings = {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **more,
        }
        self._thread = threading.Thread(target=self._run, args=(settings, topics))
        self._thread.start()

    def _run(self, settings: dict[str, Any], topics: list[str]) -> None:
        consumer = Consumer(settings)
        consumer.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke)
        while not self._stop.is_set():
            for message in consumer.consume(100, 0.1):
                if message.error():
                    self.errors.append(str(message.error()))
                else:
                    self.seen_values.append(message.value().decode())
        consumer.close()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        places = {(tp.topic, tp.partition) for tp in partitions}
        self.owned_partitions |= places
        self.log.append((time.monotonic(), "+", places))

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        places = {(tp.topic, tp.partition) for tp in partitions}
        self.owned_partitions -= places
        self.log.append((time.monotonic(), "-", places))

    def leave(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


def assert_single_owner(members: Sequence[Member | MemberProcess]) -> None:
    """No partition is assigned to two members at the same time."""
    moves = sorted((at, i, sign, places) for i, m in enumerate(members) for at, sign, places in m.log)
    owner: dict[Any, int] = {}
    for _, i, sign, places in moves:
        for place in places:
            if sign == "-":
                assert owner.pop(place) == i
            else:
                assert place not in owner, f"{place} was assigned to member {i} while member {owner[place]} owned it"
                owner[place] = i


class MemberProcess:
    """A member in its own process (`consuming`).

    `retry.backoff.ms`: librdkafka retries a commit that was in flight when its coordinator died after 100 ms by default. That retry fails on the
    connection that is being switched to the next coordinator. librdkafka then marks the new coordinator dead, looks it up again and starts over for
    as long as responses take longer than the backoff. On a busy machine that took up to 13 s without a heartbeat, and the group rightly removed the member.
    """

    def __init__(self, cluster: LocalCluster, group: str, topic: str, folder: Path, **settings: Any) -> None:
        self.out = folder / f"{time.monotonic_ns()}.json"
        settings = {"group.protocol": "consumer", "retry.backoff.ms": 1_000, **settings}
        with self.out.open("wb") as sink:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "tests.cluster.consumer_process",
                    cluster.bootstrap,
                    group,
                    topic,
                    json.dumps(settings),
                ],
                stdout=sink,
                stderr=subprocess.DEVNULL,
                cwd=ROOT,
            )
        self.died: float | None = None

    @property
    def events(self) -> list[dict[str, Any]]:
        whole, _, _ = self.out.read_text().rpartition("\n")
        return [json.loads(line) for line in whole.splitlines()]

    @property
    def owned_partitions(self) -> set[int]:
        has: set[int] = set()
        for line in self.events if self.died is None else []:
            if "sign" in line:
                has = has | set(line["places"]) if line["sign"] == "+" else has - set(line["places"])
        return has

    @property
    def seen_values(self) -> set[str]:
        return {value for line in self.events for value in line.get("read", ())}

    @property
    def log(self) -> list[tuple[float, str, set[int]]]:
        moves = [(line["at"], line["sign"], set(line["places"])) for line in self.events if "sign" in line]
        if self.died is not None:
            owned: set[int] = set()
            for _, sign, places in moves:
                owned = owned | places if sign == "+" else owned - places
            moves.append((self.died, "-", owned))
        return moves

    def end(self, how: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(how)
            self._process.wait(60)
            if how is signal.SIGKILL:
                self.died = time.monotonic()


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


def wait_until_assigned(members: list[Member], topic: str, partitions: int = PARTITIONS) -> None:
    everything = {(topic, i) for i in range(partitions)}

    def all_assigned() -> bool:
        owned = [place for m in members for place in m.owned_partitions]
        return sorted(owned) == sorted(everything) and all(m.owned_partitions for m in members)

    wait_for(all_assigned, f"{len(members)} members to own all of {topic}")


def coordinator_of(cluster: LocalCluster, group: str) -> int:
    topic = cluster.image.topic_named("__consumer_offsets")
    assert topic is not None
    return topic.partitions[partition_of(group, topic.partition_count)].leader


def confirmed_by(members: Sequence[MemberProcess]) -> dict[int, int]:
    """{partition: the highest offset whose commit was confirmed}."""
    confirmed: dict[int, int] = {}
    for member in members:
        for line in member.events:
            for partition, offset in line.get("committed", {}).items():
                confirmed[int(partition)] = max(confirmed.get(int(partition), 0), offset)
    return confirmed


def committed_offsets(cluster: LocalCluster, group: str, topic: str) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = [TopicPartition(topic, p) for p in range(PARTITIONS)]
    (offsets,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]).values()
    return {tp.partition: tp.offset for tp in offsets.result(30).topic_partitions}
