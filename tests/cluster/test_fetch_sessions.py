"""Fetch sessions with a foreign client: kafka-python uses them by default, like the Java client."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer
from kafka import TopicPartition as Tp

from tests.cluster.local import LocalCluster, wait_for

pytestmark = pytest.mark.cluster
PARTITIONS = 30


def test_kafka_python_fetch_sessions_survive_a_brokers_death_and_a_changed_assignment(cluster: LocalCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("sessions", PARTITIONS, 3)])["sessions"].result(60)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap.split(","), auto_offset_reset="earliest")
    tps = [Tp("sessions", i) for i in range(PARTITIONS)]
    consumer.assign(tps)
    sent: list[bytes] = []
    got: set[bytes] = set()

    def send(*partitions: int) -> None:
        for partition in partitions:
            sent.append(b"%d" % len(sent))
            producer.produce("sessions", sent[-1], partition=partition)
        assert not producer.flush(60)

    def all_read() -> bool:
        for found in consumer.poll(200).values():
            got.update(record.value for record in found)
        return len(got) == len(sent)

    def sessions() -> dict[Any, Any]:
        return {node: h.next_metadata for node, h in consumer._fetcher._session_handlers.items()}

    send(*range(PARTITIONS))
    wait_for(all_read, "one record of each partition")
    for _ in range(5):
        send(3)
        wait_for(all_read, "a record of one partition of many")
    wait_for(
        lambda: all_read() and sum(s.session_id > 0 and s.epoch > 1 for s in sessions().values()) == 3, "three sessions"
    )
    consumer.assign(tps[:10])
    send(7)
    wait_for(all_read, "a record after partitions were forgotten")
    consumer.assign(tps)  # from the log start again: kafka-python drops its positions
    send(*range(PARTITIONS))
    wait_for(all_read, "records after the partitions were added to the session again")
    state = cluster.image.topic_named("sessions")
    assert state is not None
    leader = state.partitions[3].leader
    cluster.kill(f"broker-{leader}")
    send(*range(PARTITIONS))
    wait_for(all_read, "records of the other leaders")
    cluster.start_broker(leader)
    wait_for(
        lambda: all(len(s.isr) == 3 for s in cluster.image.topic_named("sessions").partitions.values()),  # type: ignore[union-attr]
        "all replicas in sync, most of them of idle partitions",
    )
    send(*range(PARTITIONS))
    wait_for(all_read, "records after the broker's restart")
    assert got == set(sent)
    consumer.close()
