"""Foreign clients: they create a topic, produce with each compression and consume in a group with a rebalance.

Checks the results that each client reports, and the records of the log. Does not check performance.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import threading
import time
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

from tests.cluster.local import LocalCluster, wait_for

pytestmark = pytest.mark.cluster
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


def create(cluster: LocalCluster, partitions: int = 4, **configs: str) -> str:
    name = f"t-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 3, config=configs)])[name].result(30)
    return name


def read_all(cluster: LocalCluster, topic: str, partitions: int) -> list[bytes]:
    """Every record of the topic, read by manual assignment: the content of the log."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "truth", "enable.auto.commit": False})
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=20)[1] for p in range(partitions)]
    consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions)])
    out: list[bytes] = []
    deadline = time.monotonic() + 60
    while len(out) < sum(ends):
        assert time.monotonic() < deadline, f"{len(out)} of {sum(ends)} records after 60 s"
        out += [m.value() for m in consumer.consume(1000, 1) if not m.error()]
    consumer.close()
    return out


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_librdkafka_produces_every_compression_and_reads_it_back(cluster: LocalCluster, compression: str) -> None:
    topic = create(cluster)
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "compression.type": compression, "enable.idempotence": True}
    )
    want = [f"{compression}-{i}".encode() * 10 for i in range(500)]
    for value in want:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    assert sorted(read_all(cluster, topic, 4)) == sorted(want)


def test_a_librdkafka_group_rebalances_when_a_member_joins_and_leaves(cluster: LocalCluster) -> None:
    topic = create(cluster)
    config = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": f"g-{topic}",
        "auto.offset.reset": "earliest",
        "session.timeout.ms": 6000,
    }
    first, second = Consumer(config), Consumer(config)
    first.subscribe([topic])

    def poll_assignments(*consumers: Consumer) -> list[int]:
        for c in consumers:
            c.poll(0.1)
        return [len(c.assignment()) for c in consumers]

    wait_for(lambda: poll_assignments(first) == [4], "one member to own all")
    second.subscribe([topic])
    wait_for(lambda: poll_assignments(first, second) == [2, 2], "two members to own two partitions each")
    second.close()
    wait_for(lambda: poll_assignments(first) == [4], "the remaining member to own all again")
    first.close()


def test_committed_offsets_and_their_metadata_are_kept(cluster: LocalCluster) -> None:
    topic = create(cluster)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": f"g-{topic}"})
    consumer.commit(offsets=[TopicPartition(topic, 1, 7, metadata="a note")], asynchronous=False)
    other = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": f"g-{topic}"})
    kept = other.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=20)
    assert [(p.offset, p.metadata) for p in kept] == [(-1001, None), (7, "a note")]
    consumer.close()
    other.close()


def test_an_admin_client_grows_describes_alters_and_deletes_a_topic(cluster: LocalCluster) -> None:
    topic = create(cluster, 2, **{"retention.ms": "3600000"})
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_partitions([NewPartitions(topic, 5)])[topic].result(30)
    wait_for(lambda: len(admin.list_topics(topic, timeout=10).topics[topic].partitions) == 5, "five partitions")
    resource = ConfigResource(ResourceType.TOPIC, topic)
    shown = admin.describe_configs([resource])[resource].result(30)
    assert shown["retention.ms"].value == "3600000"
    assert shown["segment.bytes"].is_default
    admin.delete_topics([topic])[topic].result(30)
    wait_for(lambda: topic not in admin.list_topics(timeout=10).topics, "the topic to be deleted")


@pytest.mark.parametrize(
    ("name", "partitions", "replicas", "configs", "code"),
    [
        ("no spaces", 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("x" * 250, 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("__consumer_offsets", 1, 1, {}, KafkaError.TOPIC_ALREADY_EXISTS),
        ("fine", 0, 1, {}, KafkaError.INVALID_PARTITIONS),
        ("fine", 1, 4, {}, KafkaError.INVALID_REPLICATION_FACTOR),
        ("fine", 1, 1, {"retention.ms": "soon"}, KafkaError.INVALID_CONFIG),
        ("fine", 1, 1, {"no.such.config": "1"}, KafkaError.INVALID_CONFIG),
    ],
)
def test_an_invalid_topic_is_rejected_with_kafkas_code(
    cluster: LocalCluster, name: str, partitions: int, replicas: int, configs: dict[str, str], code: int
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    future = admin.create_topics([NewTopic(name, partitions, replicas, config=configs)])[name]
    with pytest.raises(KafkaException) as rejected:
        future.result(30)
    assert rejected.value.args[0].code() == code


def test_a_batch_that_is_too_large_is_rejected_and_nothing_of_it_is_stored(cluster: LocalCluster) -> None:
    topic = create(cluster, 1, **{"max.message.bytes": "1000"})
    errors: list[int] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    producer.produce(topic, b"x" * 5000, on_delivery=lambda e, m: errors.append(e.code() if e else 0))
    producer.flush(30)
    assert errors == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert read_all(cluster, topic, 1) == []


@pytest.mark.parametrize("compression", [c for c in COMPRESSIONS if c != "none"])
def test_kafka_python_produces_and_a_group_of_two_consumes(cluster: LocalCluster, compression: str) -> None:
    from kafka import KafkaConsumer, KafkaProducer

    topic = create(cluster)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap.split(","), compression_type=compression, acks="all")
    want = {f"v{i}".encode() for i in range(200)}
    for value in want:
        producer.send(topic, value)
    producer.flush(30)
    producer.close()
    got: set[bytes] = set()
    stop = threading.Event()

    def member() -> None:
        consumer = KafkaConsumer(
            bootstrap_servers=cluster.bootstrap.split(","),
            group_id=f"kp-{topic}",
            auto_offset_reset="earliest",
            session_timeout_ms=6000,
            heartbeat_interval_ms=500,
        )
        consumer.partitions_for_topic(topic)  # metadata is loaded before the join: see test_rebalance
        consumer.subscribe([topic])
        while not stop.is_set():
            for records in consumer.poll(200).values():
                got.update(r.value for r in records)
        consumer.close()

    members = [threading.Thread(target=member) for _ in range(2)]
    for thread in members:
        thread.start()
    try:
        wait_for(lambda: got == want, "kafka-python to read all")
    finally:
        stop.set()
        for thread in members:
            thread.join(timeout=30)


def test_aiokafka_produces_and_a_group_consumes(cluster: LocalCluster) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    topic = create(cluster)

    async def run() -> set[bytes]:
        got: set[bytes] = set()
        for compression in ("gzip", "snappy", "lz4", "zstd", None):
            producer = AIOKafkaProducer(
                bootstrap_servers=cluster.bootstrap, compression_type=compression, enable_idempotence=True
            )
            await producer.start()
            for i in range(50):
                await producer.send(topic, f"{compression}-{i}".encode())
            await producer.stop()
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=cluster.bootstrap, group_id=f"aio-{topic}", auto_offset_reset="earliest"
        )
        await consumer.start()
        async with asyncio.timeout(60):
            while len(got) < 250:
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    got.update(r.value for r in records)
        await consumer.stop()
        return got

    assert len(asyncio.run(run())) == 250


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_debians_kcat_produces_and_consumes(cluster: LocalCluster, compression: str) -> None:
    kcat = shutil.which("kcat")
    assert kcat is not None, "kcat is missing: apt install kcat"
    topic = create(cluster)
    lines = "".join(f"{compression}-{i}\n" for i in range(100))
    base = [kcat, "-b", cluster.bootstrap, "-q"]
    subprocess.run([*base, "-P", "-t", topic, "-z", compression], input=lines, text=True, check=True, timeout=60)
    out = subprocess.run(
        [*base, "-C", "-t", topic, "-e"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert sorted(out.split()) == sorted(lines.split())
    group = [*base, "-G", f"kcat-{topic}", "-e", "-X", "auto.offset.reset=earliest", topic]
    by_group = subprocess.run(group, capture_output=True, text=True, timeout=90, check=True).stdout
    assert sorted(by_group.split()) == sorted(lines.split())
