"""One group with members of both protocols: consumers are upgraded from the classic to the consumer protocol and back while records arrive.

The tests compare assignments over time, records read and commits confirmed: no partition has two owners at once or none for long, no record
is unread, no committed offset is lost.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.cluster.group_members import (
    PARTITIONS,
    Member,
    MemberProcess,
    assert_single_owner,
    committed_offsets,
    confirmed_by,
    coordinator_of,
    make_topic,
    produce,
)
from tests.cluster.local import LocalCluster, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]
SETTINGS = {
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
}
CLASSIC = {"group.protocol": "classic", "session.timeout.ms": 6000, "heartbeat.interval.ms": 300}
COOPERATIVE = CLASSIC | {"partition.assignment.strategy": "cooperative-sticky"}
UNOWNED_S_MAX = 15.0
"""A partition is without an owner between its revocation and its next assignment: seconds on a busy machine, never a session time-out."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("mixed"), 3, SETTINGS) as running:
        yield running


@pytest.fixture(autouse=True)
def at_rest(cluster: LocalCluster) -> None:
    cluster.until_at_rest()


class Stream:
    """Records produced continuously to every partition."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self.values: list[str] = []
        self._stop = threading.Event()
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 0})
        self._thread = threading.Thread(target=self._run, args=(topic,))
        self._thread.start()

    def _run(self, topic: str) -> None:
        while not self._stop.wait(0.1):
            for partition in range(PARTITIONS):
                value = f"v{len(self.values)}"
                self._producer.produce(topic, value, partition=partition)
                self.values.append(value)
            self._producer.poll(0)

    def end(self) -> list[str]:
        self._stop.set()
        self._thread.join(30)
        assert self._producer.flush(30) == 0
        return self.values


def kind_of(cluster: LocalCluster, group: str) -> str:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    return str({g.group_id: g.type.name for g in admin.list_consumer_groups().result(30).valid}.get(group))


def longest_unowned_s(members: Sequence[MemberProcess]) -> float:
    """The longest time that a partition was without an owner after its first one."""
    moves = sorted((at, sign, places) for m in members for at, sign, places in m.log)
    since: dict[Any, float] = {}
    longest = 0.0
    for at, sign, places in moves:
        for place in places:
            if sign == "-":
                since[place] = at
            elif place in since:
                longest = max(longest, at - since.pop(place))
    return longest


@pytest.mark.parametrize("classic", [CLASSIC, COOPERATIVE], ids=["eager", "cooperative"])
def test_a_rolling_upgrade_and_downgrade(
    cluster: LocalCluster, tmp_path: Path, classic: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    topic = group = f"rolled-{request.node.callspec.id}"
    make_topic(cluster, topic)
    stream = Stream(cluster, topic)
    members: list[MemberProcess] = []
    alive: list[MemberProcess] = []

    def start(settings: dict[str, Any]) -> None:
        members.append(MemberProcess(cluster, group, topic, tmp_path, **settings))
        alive.append(members[-1])

    def all_partitions_owned() -> bool:
        owned = [p for m in alive for p in m.owned_partitions]
        return sorted(owned) == list(range(PARTITIONS)) and all(m.owned_partitions for m in alive)

    kinds = []
    try:
        for _ in range(3):
            start(classic)
        wait_for(all_partitions_owned, "three classic members to own the topic")
        for step, settings in enumerate([{"group.protocol": "consumer"}] * 3 + [classic] * 3):
            start(settings)
            wait_for(all_partitions_owned, f"four members to own the topic in step {step}")
            if step == 1:
                cluster.kill(f"broker-{coordinator_of(cluster, group)}")  # the group now has members of both protocols
                wait_for(lambda: coordinator_of(cluster, group) >= 0, "another coordinator")
            alive.pop(0).end(signal.SIGTERM)
            wait_for(all_partitions_owned, f"three members to own the topic in step {step}")
            kinds.append(kind_of(cluster, group))
        values = stream.end()
        wait_for(lambda: set(values) <= set().union(*(m.seen_values for m in members)), "everything to be read")
        for member in alive:
            member.end(signal.SIGTERM)
    finally:
        stream.end()
        for member in members:
            member.end(signal.SIGKILL)
        for name in [f"broker-{i}" for i in (1, 2, 3)]:
            if name not in cluster.processes:
                cluster.start_broker(int(name[-1]))
                wait_for(lambda name=name: cluster.listening(int(name[-1])), "the killed broker to be restarted")  # type: ignore[misc]
    assert kinds == ["CONSUMER"] * 5 + ["CLASSIC"]
    assert_single_owner(members)
    assert longest_unowned_s(members) < UNOWNED_S_MAX
    confirmed = confirmed_by(members)
    assert confirmed.keys() == set(range(PARTITIONS))
    assert committed_offsets(cluster, group, topic) == confirmed


UNSTABLE_S_MAX = 15
"""After this time without a stable generation, the consumer of kafka-python is replaced."""


class KafkaPython:
    """A member in a thread; `owned_partitions` is its latest assignment.

    kafka-python 3.0.12 stops forever in a rebalance, without heartbeats, if its metadata differs when it joins and returns to the previous
    state before SyncGroup is answered (`need_rejoin` is false then, and nothing awaits the response). Its consumer is then replaced.
    """

    def __init__(self, cluster: LocalCluster, group: str, topic: str) -> None:
        self.owned_partitions: set[int] = set()
        self.seen_values: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(cluster, group, topic))
        self._thread.start()

    def _run(self, cluster: LocalCluster, group: str, topic: str) -> None:
        while not self._stop.is_set():
            self._consume(cluster, group, topic)

    def _consume(self, cluster: LocalCluster, group: str, topic: str) -> None:
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(
            bootstrap_servers=cluster.bootstrap.split(","),
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=6000,
            heartbeat_interval_ms=300,
            auto_commit_interval_ms=200,
        )
        consumer.partitions_for_topic(topic)  # see tests/cluster/test_rebalance.py
        consumer.subscribe([topic])
        stable = time.monotonic()
        while not self._stop.is_set() and time.monotonic() - stable < UNSTABLE_S_MAX:
            for found in consumer.poll(200).values():
                self.seen_values += [r.value.decode() for r in found]
            self.owned_partitions = {tp.partition for tp in consumer.assignment()}
            if consumer._coordinator.generation_if_stable() is not None:
                stable = time.monotonic()
        self.owned_partitions = set()
        consumer.close()

    def leave(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()


def test_kafka_python_with_the_classic_protocol_and_librdkafka_with_the_consumer_protocol(
    cluster: LocalCluster,
) -> None:
    topic = group = "two-clients"
    make_topic(cluster, topic)
    classic = KafkaPython(cluster, group, topic)
    new = None
    everything = set(range(PARTITIONS))
    values = [f"v{i}" for i in range(240)]
    try:
        wait_for(lambda: classic.owned_partitions == everything, "kafka-python to own all partitions")
        produce(cluster, topic, values[:80])
        wait_for(lambda: set(classic.seen_values) >= set(values[:80]), "kafka-python to read the first records")
        wait_for(
            lambda: sum(committed_offsets(cluster, group, topic).values()) == 80,
            "kafka-python to commit the first records",
        )
        new = Member(cluster, group, [topic], **{"enable.auto.commit": True, "auto.commit.interval.ms": 200})

        def all_partitions_owned() -> bool:
            theirs = {p for _, p in new.owned_partitions}
            return (
                bool(theirs and classic.owned_partitions)
                and not theirs & classic.owned_partitions
                and theirs | classic.owned_partitions == everything
            )

        wait_for(all_partitions_owned, "both to own the topic")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        described = admin.describe_consumer_groups([group])[group].result(30)
        assert (described.type.name, len(described.members)) == ("CONSUMER", 2)
        produce(cluster, topic, values[80:160])
        wait_for(
            lambda: set(classic.seen_values) | set(new.seen_values) >= set(values[:160]),
            "both to read the next records",
        )
        new.leave()
        wait_for(lambda: classic.owned_partitions == everything, "kafka-python to own all partitions again")
        assert kind_of(cluster, group) == "CLASSIC"
        produce(cluster, topic, values[160:])
        wait_for(lambda: set(classic.seen_values) >= set(values[160:]), "kafka-python to read the rest")
        assert not set(values[:80]) & set(new.seen_values), (
            "librdkafka read records again that kafka-python had committed"
        )
    finally:
        classic.leave()
        if new is not None:
            new.leave()
