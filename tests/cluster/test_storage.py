"""A broker's log directories on real processes: replicas are spread over them, moved while they are written to, and reported to a foreign client."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient

from tests.cluster.local import LocalCluster, wait_for

pytestmark = pytest.mark.cluster
PARTITIONS = 4


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("dirs")
    settings = {"log.dirs": f"{folder}/a,{folder}/b", "replica.alter.log.dirs.io.max.bytes.per.second": str(20_000_000)}
    with LocalCluster(folder, brokers=1, settings=settings) as running:
        yield running


def replica_directories(admin: KafkaAdminClient, topic: str) -> dict[int, set[tuple[str, bool]]]:
    """{partition: {(directory name, whether it is a future replica)}}."""
    out: dict[int, set[tuple[str, bool]]] = {}
    for response in admin.describe_log_dirs():
        for d in response["log_dirs"]:
            assert d["error_code"] == 0
            for described in d["topics"]:
                for p in described["partitions"] if described["name"] == topic else ():
                    out.setdefault(p["partition_index"], set()).add((Path(d["log_dir"]).name, p["is_future_key"]))
    return out


def test_replicas_move_between_log_directories_while_they_are_written_to(cluster: LocalCluster) -> None:
    topic = f"t-{uuid4().hex[:8]}"
    creator = AdminClient({"bootstrap.servers": cluster.bootstrap})
    creator.create_topics([NewTopic(topic, PARTITIONS, 1, config={"segment.bytes": "4000000"})])[topic].result(30)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 5})
    acknowledged: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for i in range(8_000):
        producer.produce(topic, b"%d" % i + bytes(2_000), partition=i % PARTITIONS)
        if i % 500 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    before = replica_directories(admin, topic)
    assert sorted(d for places in before.values() for d, _ in places) == ["a", "a", "b", "b"]
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            for p in range(PARTITIONS):
                value = b"moving-%d" % number
                producer.produce(
                    topic,
                    value,
                    partition=p,
                    on_delivery=lambda error, m, p=p: None if error else acknowledged[p].append(m.value()),
                )
            number += 1
            producer.poll(0.002)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        target = {p: "b" if ("a", False) in places else "a" for p, places in before.items()}
        seen_future = False
        altered = admin.alter_replica_log_dirs(
            {(topic, p, 1): str(cluster.folder / name) for p, name in target.items()}
        )
        assert altered and all(not getattr(e, "errno", 0) for e in altered.values()), altered

        def is_moved() -> bool:
            nonlocal seen_future
            now = replica_directories(admin, topic)
            seen_future = seen_future or any(future for places in now.values() for _, future in places)
            return now == {p: {(name, False)} for p, name in target.items()}

        wait_for(is_moved, "the replicas in their new directories", 90)
        assert seen_future
        time.sleep(0.2)
    finally:
        stop.set()
        writer.join(30)
    assert producer.flush(60) == 0
    admin.close()
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "truth", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    ends = [consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=20)[1] for p in range(PARTITIONS)]
    found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    deadline = time.monotonic() + 60
    while sum(map(len, found)) < sum(ends):
        assert time.monotonic() < deadline
        for m in consumer.consume(2_000, 1):
            if not m.error():
                found[m.partition()].append(m.value())
    consumer.close()
    for p in range(PARTITIONS):
        assert [v for v in found[p] if v.startswith(b"moving")] == acknowledged[p] != []
        assert len(found[p]) == 2_000 + len(acknowledged[p])
    folders = {f.name for d in "ab" for f in (cluster.folder / d).iterdir() if f.is_dir()}
    assert not [name for name in folders if name.endswith(("-future", "-delete", "-stray"))]
