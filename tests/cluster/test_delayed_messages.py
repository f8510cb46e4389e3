"""Delayed messages on real processes: never early, each once, cancelled by tombstones, while leaders of both topics are killed."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from brokerd.wire.messages.delayed_messages import DelayedMessagesRequest, DelayedMessagesResponse
from controlplane.clients.connection import Declined, KafkaConnection, NoResponse
from controlplane.clients.delayed_messages import fetch_pending
from tests.cluster.local import LocalCluster, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]
PARTITIONS = 3
UP_S, DOWN_S = 2.0, 5.0
"""Time before a kill, and until the broker starts again."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("delays"), 3) as running:
        yield running


def create_topics(cluster: LocalCluster, **front: str) -> str:
    """A topic and its front topic, which has these configs too."""
    name = f"t{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    configs = {"min.insync.replicas": "2"}
    topics = [
        NewTopic(name, PARTITIONS, 3, config=configs),
        NewTopic(f"{name}.delay", PARTITIONS, 3, config={**configs, "weir.delay.topic": name, **front}),
    ]
    for future in admin.create_topics(topics).values():
        future.result(60)
    return name


class ProducedRecords:
    """The produced records: {value: delivery time in ms}. A record without a position was not acknowledged."""

    def __init__(self, cluster: LocalCluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        self.producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "acks": "all", "log_level": 0}
        )
        self.times: dict[str, int] = {}
        self.positions: dict[str, tuple[int, int]] = {}

    def add(self, value: str, at_ms: int, partition: int, key: str | None = None) -> None:
        self.times[value] = at_ms

        def on_delivery(error: object, message: Message) -> None:
            assert error is None, error
            self.positions[value] = (message.partition(), message.offset())

        self.producer.produce(
            f"{self.name}.delay",
            value,
            key=key,
            partition=partition,
            headers={"x-deliver-at-ms": str(at_ms)},
            on_delivery=on_delivery,
        )
        self.producer.poll(0)

    def cancel(self, key: str, partition: int) -> None:
        self.producer.produce(f"{self.name}.delay", None, key=key, partition=partition)
        self.flush()

    def flush(self) -> None:
        assert self.producer.flush(120) == 0


class ContinuousReader:
    """Reads the topic continuously."""

    def __init__(self, cluster: LocalCluster, name: str) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": uuid4().hex,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                "enable.auto.commit": False,
            }
        )
        self.consumer.assign([TopicPartition(name, p, 0) for p in range(PARTITIONS)])
        self.values: list[str] = []
        self.partitions: dict[str, int] = {}
        self.early: list[tuple[str, int]] = []

    def poll(self, scheduled: ProducedRecords) -> None:
        message = self.consumer.poll(0.2)
        if message is None or message.error():
            return
        value = message.value().decode()
        early = scheduled.times[value] - time.time_ns() // 1_000_000
        if early > 0:
            self.early.append((value, early))
        self.values.append(value)
        self.partitions[value] = message.partition()

    def poll_for(self, seconds: float, scheduled: ProducedRecords) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.poll(scheduled)

    def wait(self, scheduled: ProducedRecords, expected: set[str]) -> None:
        def all_here() -> bool:
            self.poll(scheduled)
            return expected <= set(self.values)

        wait_for(all_here, f"{len(expected)} delayed records", 200)
        self.poll_for(3, scheduled)  # none may follow
        assert Counter(self.values) == Counter(expected)
        assert not self.early


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def check_order(scheduled: ProducedRecords, received: ContinuousReader) -> None:
    for partition in range(PARTITIONS):
        values = [v for v in received.values if received.partitions[v] == partition]
        assert all(scheduled.positions[v][0] == partition for v in values)
        for at in {scheduled.times[v] for v in values}:
            equal = [scheduled.positions[v][1] for v in values if scheduled.times[v] == at]
            assert equal == sorted(equal)


def leader(cluster: LocalCluster, topic: str, partition: int) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def leader_id() -> Any:
        state = admin.list_topics(topic, timeout=10).topics[topic].partitions[partition]
        return state.leader if state.leader > 0 else None

    return int(wait_for(leader_id, "a leader"))


def test_records_arrive_at_their_time_in_order_and_cancelled_ones_never(cluster: LocalCluster) -> None:
    name = create_topics(cluster)
    scheduled, received = ProducedRecords(cluster, name), ContinuousReader(cluster, name)
    start = now_ms()
    for i in range(300):
        scheduled.add(f"v{i}", start + 3_000 + 1_000 * (i % 4), i % PARTITIONS, key=f"k{i}")
    scheduled.flush()
    for i in (3, 10, 200):
        scheduled.cancel(f"k{i}", i % PARTITIONS)
    received.wait(scheduled, {f"v{i}" for i in range(300)} - {"v3", "v10", "v200"})
    check_order(scheduled, received)


def test_a_record_without_a_time_is_rejected_with_its_reason(cluster: LocalCluster) -> None:
    name = create_topics(cluster)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    errors: list[Any] = []
    producer.produce(f"{name}.delay", "v", partition=0, on_delivery=lambda error, message: errors.append(error))
    producer.produce(
        f"{name}.delay",
        "v",
        partition=1,
        headers={"x-delay-ms": "soon"},
        on_delivery=lambda error, message: errors.append(error),
    )
    assert producer.flush(60) == 0
    assert [e.name() for e in errors] == ["INVALID_RECORD", "INVALID_RECORD"]


def test_aborted_delayed_records_are_never_delivered(cluster: LocalCluster) -> None:
    name = create_topics(cluster)
    received = ContinuousReader(cluster, name)
    scheduled = ProducedRecords(cluster, name)
    made = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": name, "log_level": 0})
    made.init_transactions(60)
    at = now_ms() + 2_000
    for value, commits in (("a", False), ("b", True)):
        scheduled.times[value] = at
        made.begin_transaction()
        made.produce(f"{name}.delay", value, partition=0, headers={"x-deliver-at-ms": str(at)})
        made.flush(60)
        (made.commit_transaction if commits else made.abort_transaction)(60)
    received.wait(scheduled, {"b"})


def check_kills(cluster: LocalCluster, records: int, kills: int) -> None:
    """Each record arrives once while the leaders of the front topic and of the topic are killed in turn. Segments are small, so that new leaders read delay
    indexes. The last record is due 4 s and 20 ms per record after the start; a kill takes DOWN_S and UP_S."""
    name = create_topics(cluster, **{"segment.bytes": "8192"})
    scheduled, received = ProducedRecords(cluster, name), ContinuousReader(cluster, name)
    start = now_ms()
    expected = set()
    for i in range(records):
        value = f"v{i}"
        expected.add(value)
        scheduled.add(value, start + 4_000 + 20 * i, i % PARTITIONS)
        if i % 100 == 99:
            scheduled.flush()  # a batch has at most the size of a segment
    scheduled.flush()
    wait_for(
        lambda: len(list(cluster.folder.glob(f"**/{name}.delay-*/*.delayindex"))) >= 3 * PARTITIONS,
        "a delay index of each replica",
    )
    for kill in range(kills):
        received.poll_for(UP_S, scheduled)
        broker = leader(cluster, (f"{name}.delay", name)[kill % 2], kill % PARTITIONS)
        cluster.kill(f"broker-{broker}")
        received.poll_for(DOWN_S, scheduled)
        cluster.start_broker(broker)
    received.wait(scheduled, expected)


def test_each_record_arrives_once_while_leaders_are_killed(cluster: LocalCluster) -> None:
    check_kills(cluster, 1_000, 2)


def test_delivered_records_leave_the_front_topic(cluster: LocalCluster) -> None:
    name = create_topics(cluster)
    scheduled, received = ProducedRecords(cluster, name), ContinuousReader(cluster, name)
    for i in range(50):
        scheduled.add(f"v{i}", now_ms(), 0)
    scheduled.flush()
    received.wait(scheduled, {f"v{i}" for i in range(50)})
    consumer = received.consumer

    def start() -> bool:
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(f"{name}.delay", 0), timeout=10)
        except KafkaException:
            return False
        return bool(50 <= low == high)

    wait_for(start, "the log start offset of the front partition")


def test_leaders_describe_and_look_up_pending_records(cluster: LocalCluster) -> None:
    name = create_topics(cluster)
    written, hour_ms, now_ms = ProducedRecords(cluster, name), 3_600_000, int(time.time() * 1000)
    for i in range(20):
        written.add(f"r{i}", now_ms + (i + 1) * hour_ms, 1, key=f"k{i % 4}")
    written.flush()
    written.cancel("k3", 1)

    def describe_pending(**asked: Any) -> DelayedMessagesResponse | None:
        """Return None if the leader has not read the partition, or is not the one that the client knows."""
        for broker_id, port in cluster.ports.items():
            connection = KafkaConnection(cluster.address(broker_id), port)
            try:
                return fetch_pending(connection, f"{name}.delay", 1, DelayedMessagesRequest(**asked))
            except (Declined, NoResponse):
                continue
            finally:
                connection.close()
        return None

    def response_with_cancelled() -> DelayedMessagesResponse | None:
        found = describe_pending(bounds_ms=[now_ms + 10 * hour_ms], records_max=100, duration_ms_max=5_000)
        return found if found is not None and any(r.cancelled for r in found.records) else None

    found = wait_for(response_with_cancelled, "the leader has read the records and the tombstone")
    assert found.pending == 20 and sum(found.counts) == 20
    offsets = [written.positions[f"r{i}"][1] for i in range(20)]
    assert [r.offset for r in found.records] == offsets and found.next_ms == -1
    assert [r.cancelled for r in found.records] == [i % 4 == 3 for i in range(20)]
    one = describe_pending(bounds_ms=[], records_max=2, key=b"k1", from_ms=now_ms + 3 * hour_ms, duration_ms_max=5_000)
    assert one is not None and [r.offset for r in one.records] == [offsets[5], offsets[9]] and one.next_ms > 0
