"""Majority acknowledgements with broker processes (decision 102): a frozen follower delays no producer, and no acknowledged record is lost.

The rules of a vote are proven in tests/simulation.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic

from brokerd.cluster.majority_config import MAJORITY_ACKS
from tests.cluster.local import LocalCluster, wait_for
from tests.cluster.test_failover import ClusterWithProbes, all_in_sync, verifier_with_topic

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
ON = {"weir_majority_acks_enable": "true"}
FROZEN_S = 8
PATIENT = {"zookeeper.session.timeout.ms": "30000", "replica.lag.time.max.ms": "30000"}
"""A frozen follower stays in the ISR for longer than the test."""


class PatientCluster(ClusterWithProbes):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, settings=PATIENT)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with PatientCluster(tmp_path) as running:
        yield running


def create(cluster: LocalCluster, name: str, replicas: int = 3, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, 1, replicas, config=configs)])[name].result(30)


def produce(producer: Producer, topic: str, wait_s: float) -> float | None:
    """Seconds until the acknowledgement, or None if it does not come within `wait_s`."""
    acked: list[float] = []
    began = time.monotonic()
    producer.produce(
        topic, b"x", partition=0, on_delivery=lambda e, m: acked.append(time.monotonic()) if e is None else None
    )
    while not acked and time.monotonic() - began < wait_s:
        producer.poll(0.05)
    return acked[0] - began if acked else None


def test_a_frozen_follower_delays_producers_of_other_topics_only(cluster: LocalCluster) -> None:
    create(cluster, "majority", **{MAJORITY_ACKS: "true"})
    create(cluster, "all")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "message.timeout.ms": 60_000})
    for topic in ("majority", "all"):
        assert produce(producer, topic, 30) is not None
    wait_for(lambda: all_in_sync(cluster), "all replicas in sync")
    states = [cluster.image.topic_named(t).partitions[0] for t in ("majority", "all")]  # type: ignore[union-attr]
    follower = next(b for b in cluster.ports if b not in {s.leader for s in states})
    frozen = cluster.processes[f"broker-{follower}"]
    frozen.send_signal(signal.SIGSTOP)
    try:
        assert produce(producer, "majority", FROZEN_S) is not None
        assert produce(producer, "all", 2) is None, "the control: every in-sync replica must have the record"
        assert all_in_sync(cluster), "the follower is still in the ISR"
    finally:
        frozen.send_signal(signal.SIGCONT)
    assert producer.flush(60) == 0
    wait_for(lambda: all_in_sync(cluster), "all replicas in sync again")


def test_nothing_acknowledged_is_lost_when_leaders_die(cluster: LocalCluster) -> None:
    verifier = verifier_with_topic(cluster, 5_000, **ON)
    verifier.progress("before the first fault")
    for broker_id in cluster.ports:
        cluster.kill(f"broker-{broker_id}")
        began = time.monotonic()
        wait_for(
            lambda b=broker_id: all(p.leader not in (-1, b) for _, _, p in cluster.image.each_partition()),  # type: ignore[misc]
            "leaders elsewhere",
            30,
        )
        print(f"broker {broker_id}: leaders elsewhere after {time.monotonic() - began:.2f} s")
        verifier.progress(f"without broker {broker_id}")
        cluster.start_broker(broker_id)
        wait_for(lambda: all_in_sync(cluster), f"broker {broker_id} in every ISR", 90)
    verifier.finish()


def test_the_config_cannot_change_and_needs_three_replicas(cluster: LocalCluster) -> None:
    with pytest.raises(KafkaException, match="replication factor of 3 or more"):
        create(cluster, "two", 2, **{MAJORITY_ACKS: "true"})
    create(cluster, "all")
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    resource = ConfigResource(ConfigResource.Type.TOPIC, "all", set_config={MAJORITY_ACKS: "true"})
    with pytest.raises(KafkaException, match="only when the topic is created"):
        next(iter(admin.alter_configs([resource]).values())).result(30)
