"""Transactions with foreign clients: committed transactions are read completely, aborted ones never, and offsets are committed with the records."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiokafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer

from tests.cluster.local import LocalCluster
from tests.faults.scene import create

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder: Path = tmp_path_factory.mktemp("transactions")
    with LocalCluster(folder, 3) as c:
        yield c


def create_topic(cluster: LocalCluster) -> str:
    name = f"t{uuid4().hex[:8]}"
    create(cluster, name, min_insync=2)
    return name


def producer(cluster: LocalCluster, transactional_id: str, **settings: object) -> Producer:
    made = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": transactional_id,
            "linger.ms": 0,
            "log_level": 0,
            **{k.replace("_", "."): v for k, v in settings.items()},
        }
    )
    made.init_transactions(60)
    return made


def reader(cluster: LocalCluster, isolation: str, group: str = "", **settings: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group or uuid4().hex,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **{k.replace("_", "."): v for k, v in settings.items()},
        }
    )


def read(cluster: LocalCluster, name: str, isolation: str = "read_committed") -> list[str]:
    """All records for a new consumer, up to the end offset of its isolation level."""
    consumer = reader(cluster, isolation, enable_partition_eof=True)
    consumer.assign([TopicPartition(name, 0, 0)])
    out: list[str] = []
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF
            consumer.close()
            return out
        out.append(message.value().decode())
    raise AssertionError(f"no end within 60 s; {len(out)} records")


def write(made: Producer, name: str, values: list[str]) -> None:
    for value in values:
        made.produce(name, value, partition=0)
    assert made.flush(60) == 0


def test_confluent_reads_committed_transactions_completely_and_aborted_ones_never(cluster: LocalCluster) -> None:
    name = create_topic(cluster)
    made = producer(cluster, f"id-{name}")
    made.begin_transaction()
    write(made, name, ["a1", "a2"])
    assert read(cluster, name) == [], "not decided"
    assert read(cluster, name, "read_uncommitted") == ["a1", "a2"]
    made.commit_transaction(60)
    made.begin_transaction()
    write(made, name, ["b1", "b2"])
    made.abort_transaction(60)
    made.begin_transaction()
    write(made, name, ["c1"])
    made.commit_transaction(60)
    assert read(cluster, name) == ["a1", "a2", "c1"]
    assert read(cluster, name, "read_uncommitted") == ["a1", "a2", "b1", "b2", "c1"]


def test_a_zombie_producer_is_fenced_and_its_transaction_is_aborted(cluster: LocalCluster) -> None:
    name = create_topic(cluster)
    old = producer(cluster, f"id-{name}")
    old.begin_transaction()
    write(old, name, ["old"])
    new = producer(cluster, f"id-{name}")
    with pytest.raises(KafkaException) as e:
        old.commit_transaction(30)
    assert e.value.args[0].fatal() and e.value.args[0].code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    new.begin_transaction()
    write(new, name, ["new"])
    new.commit_transaction(60)
    assert read(cluster, name) == ["new"]


def test_confluent_reads_transforms_and_writes_with_offsets_in_the_transaction(cluster: LocalCluster) -> None:
    source, target = create_topic(cluster), create_topic(cluster)
    plain = Producer({"bootstrap.servers": cluster.bootstrap})
    for i in range(30):
        plain.produce(source, str(i), partition=0)
    assert plain.flush(60) == 0
    group = f"g-{target}"
    made = producer(cluster, f"id-{target}")
    consumer = reader(cluster, "read_committed", group)
    consumer.subscribe([source])
    done, turn = 0, 0
    deadline = time.monotonic() + 90
    while done < 30:
        assert time.monotonic() < deadline
        messages = [m for m in consumer.consume(5, 1) if not m.error()]
        if not messages:
            continue
        turn += 1
        made.begin_transaction()
        write(made, target, [f"<{m.value().decode()}>" for m in messages])
        made.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 60
        )
        if turn % 2:
            made.abort_transaction(60)
            for p in consumer.committed(consumer.assignment(), 30):
                consumer.seek(TopicPartition(p.topic, p.partition, max(0, p.offset)))
        else:
            made.commit_transaction(60)
            done += len(messages)
    assert read(cluster, target) == [f"<{i}>" for i in range(30)]
    assert consumer.committed([TopicPartition(source, 0)], 30)[0].offset == 30
    consumer.close()


def test_kafka_python_and_aiokafka_transactions(cluster: LocalCluster) -> None:
    name = create_topic(cluster)
    theirs = KafkaProducer(bootstrap_servers=cluster.bootstrap.split(","), transactional_id=f"py-{name}")
    theirs.init_transactions()
    for values, commit in ((["p1", "p2"], True), (["no"], False), (["p3"], True)):
        theirs.begin_transaction()
        for value in values:
            theirs.send(name, value.encode(), partition=0).get(60)
        if commit:
            theirs.commit_transaction()
        else:
            theirs.abort_transaction()
    theirs.close()

    async def aio() -> list[str]:
        made = AIOKafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=f"aio-{name}")
        await made.start()
        async with made.transaction():
            await made.send_and_wait(name, b"a1", partition=0)
        await made.begin_transaction()
        await made.send_and_wait(name, b"no", partition=0)
        await made.abort_transaction()
        async with made.transaction():
            await made.send_and_wait(name, b"a2", partition=0)
            await made.send_offsets_to_transaction({aiokafka.TopicPartition(name, 0): 3}, f"aio-{name}")
        await made.stop()
        consumer = AIOKafkaConsumer(
            name, bootstrap_servers=cluster.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        await consumer.start()
        out = [(await asyncio.wait_for(consumer.getone(), 60)).value.decode() for _ in range(5)]
        await consumer.stop()
        return out

    expected = ["p1", "p2", "p3", "a1", "a2"]
    assert asyncio.run(aio()) == expected
    assert read(cluster, name) == expected
    consumer: Any = KafkaConsumer(
        name,
        bootstrap_servers=cluster.bootstrap.split(","),
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        consumer_timeout_ms=10_000,
    )
    assert [next(consumer).value.decode() for _ in expected] == expected
    consumer.close()
