"""Reading from the closest replica (KIP-392) with librdkafka: the broker that it reads from, the order of the records, and the death of that broker.

librdkafka's own statistics show which broker it reads from.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from brokerd.config.broker import RACK_AWARE
from tests.cluster.local import LocalCluster, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    made = LocalCluster(tmp_path_factory.mktemp("racks"), 3, {"replica.selector.class": RACK_AWARE})
    made.own_settings = {i: {"broker.rack": f"rack-{i}"} for i in made.ports}
    with made as running:
        yield running


@pytest.fixture(autouse=True)
def at_rest(cluster: LocalCluster) -> None:
    cluster.until_at_rest()


def test_a_consumer_reads_from_its_own_rack_and_from_the_leader_while_that_replica_is_down(
    cluster: LocalCluster,
) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("near", 1, 3)])["near"].result(60)
    topic = wait_for(lambda: (t := cluster.image.topic_named("near")) and t.ready and t, "the topic")
    leader = topic.partitions[0].leader
    near = next(i for i in cluster.ports if i != leader)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    sent: list[str] = []
    read: list[str] = []
    reads_from = -1

    def on_statistics(text: str) -> None:
        nonlocal reads_from
        partitions: dict[str, Any] = json.loads(text)["topics"].get("near", {}).get("partitions", {})
        reads_from = partitions.get("0", {}).get("broker", -1)

    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "near",
            "enable.auto.commit": False,
            "stats_cb": on_statistics,
            "client.rack": f"rack-{near}",
            "statistics.interval.ms": 100,
            "topic.metadata.refresh.interval.ms": 1000,
            "reconnect.backoff.max.ms": 500,
        }
    )
    consumer.assign([TopicPartition("near", 0, 0)])

    def produce_more() -> None:
        for _ in range(50):
            sent.append(f"v{len(sent)}")
            producer.produce("near", sent[-1], partition=0)
        assert producer.flush(60) == 0

    def all_read(broker: int) -> bool:
        read.extend(m.value().decode() for m in consumer.consume(100, 0.1) if m.error() is None)
        return len(read) >= len(sent) and reads_from == broker

    try:
        produce_more()
        wait_for(
            lambda: all_read(near), "everything to be read, and fetches to go to the replica in the consumer's rack"
        )
        produce_more()
        wait_for(lambda: all_read(near), "the next records, from the closest replica")
        cluster.kill(f"broker-{near}")
        produce_more()
        wait_for(lambda: all_read(leader), "the next records, from the leader")
        # It would return to its own rack a minute after the first redirect: librdkafka accepts one preferred read replica per minute.
        assert read == sent, "each record one time and in order"
    finally:
        consumer.close()
