"""A broker dies under load: no acknowledged record is lost, duplicated or reordered, and every partition has a leader again within seconds.

The verifier compares the log with the producer's acknowledgements. Does not check the database (test_control_plane.py).
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from controlplane.controller.events import DesiredAssignment, DesiredReset
from tests import log_phrases
from tests.cluster.local import LocalCluster, wait_for

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
PARTITIONS = 6
RECORDS_PER_SECOND = 20_000
"""Limits the load: the test checks safety, not throughput."""


class Count(NamedTuple):
    """The result, in records. `failed`: the producer gave up. `disordered`: before an older record of their partition."""

    acked: int
    lost: int
    doubled: int
    disordered: int
    failed: int
    undelivered: int


class Verifier:
    """An idempotent acks=all producer and a consumer group, and what each of them saw. `rate`: at most that many records per second."""

    def __init__(self, cluster: LocalCluster, topic: str, rate: int) -> None:
        self.cluster, self.topic, self.rate = cluster, topic, rate
        self.acked: dict[int, int] = {}
        self.failed: list[str] = []
        self.seen: set[int] = set()
        self.begins: dict[int, int] = {}
        """{partition: log start offset} after a deliberate deletion of records."""
        self._stop = threading.Event()
        self._stopped_at = 0.0
        self._threads = [threading.Thread(target=self._produce), threading.Thread(target=self._consume)]
        for thread in self._threads:
            thread.start()

    def _produce(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 120_000,
            }
        )

        def on_delivery(error: object, message: object) -> None:
            if error is not None:
                self.failed.append(str(error))
            else:
                self.acked[int(message.value())] = message.partition()  # type: ignore[attr-defined]

        number, began = 0, time.monotonic()
        while not self._stop.is_set():
            try:
                producer.produce(self.topic, str(number), partition=number % PARTITIONS, on_delivery=on_delivery)
                number += 1
            except BufferError:
                producer.poll(0.1)
            if number % max(1, self.rate // 100) == 0:
                ahead = number / self.rate - (time.monotonic() - began)
                producer.poll(max(0.0, min(ahead, 0.1)))
        assert producer.flush(120) == 0

    def _consume(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": f"verifier-{self.topic}",
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 6000,
            }
        )
        consumer.subscribe([self.topic])
        quiet_since = time.monotonic()
        # The time before the stop does not bound the time that the group still needs: all brokers may have been dead.
        while not self._stop.is_set() or time.monotonic() - max(quiet_since, self._stopped_at) < 60:
            messages = [m for m in consumer.consume(1000, 0.2) if not m.error()]
            if messages:
                quiet_since = time.monotonic()
                self.seen.update(int(m.value()) for m in messages)
            if self._stop.is_set() and not self._threads[0].is_alive() and self.seen >= set(self.acked):
                break
        consumer.close()

    def progress(self, what: str, records: int = 2_000) -> None:
        """Waits until `records` more are acknowledged."""
        before = len(self.acked)
        wait_for(lambda: len(self.acked) >= before + records, f"acknowledgements {what}", 90)

    def stop(self) -> None:
        self._stopped_at = time.monotonic()
        self._stop.set()

    def count(self) -> Count:
        """Stops, reads every partition from its log start and compares."""
        self.stop()
        for thread in self._threads:
            thread.join(timeout=150)
        return self.count_for(self.acked)

    def count_for(self, acked: Mapping[int, int]) -> Count:
        """The result for these acknowledgements ({number: partition}) alone, against the logs now. `undelivered`: not read by the group yet."""
        logs = {p: self._log(p) for p in range(PARTITIONS)}
        assert all(n % PARTITIONS == p for p, numbers in logs.items() for n in numbers), "a record in another partition"
        found = [n for numbers in logs.values() for n in numbers]
        # Records deleted on purpose are below the first record of the log.
        first = {p: min(logs[p], default=0) for p in self.begins}
        kept = {n for n, p in acked.items() if n >= first.get(p, 0)}
        return Count(
            acked=len(acked),
            lost=len(kept - set(found)),
            doubled=len(found) - len(set(found)),
            disordered=sum(a > b for numbers in logs.values() for a, b in pairwise(numbers)),
            failed=len(self.failed),
            undelivered=len(set(acked) - self.seen),
        )

    def finish(self) -> None:
        count = self.count()
        assert count == Count(count.acked, 0, 0, 0, 0, 0), f"{count} {self.failed[:3]}"

    def _log(self, partition: int) -> list[int]:
        consumer = Consumer(
            {"bootstrap.servers": self.cluster.bootstrap, "group.id": "truth", "enable.partition.eof": True}
        )
        tp = TopicPartition(self.topic, partition, 0)
        deadline = time.monotonic() + 60
        while True:
            try:
                begin, end = consumer.get_watermark_offsets(tp, timeout=30)
                break
            except KafkaException as e:  # leadership may be moving to the preferred leaders
                if time.monotonic() > deadline:
                    topic = self.cluster.image.topic_named(self.topic)
                    state = topic and topic.partitions.get(partition)
                    raise AssertionError(f"partition {partition}: no end offset ({e}) from {state}") from e
                time.sleep(0.2)
        assert begin == self.begins.get(partition, 0), f"partition {partition} begins at {begin}, not {self.begins}"
        consumer.assign([TopicPartition(self.topic, partition, begin)])
        out: list[int] = []
        ended = False  # the offsets contain control records, so the number of records is unknown
        while not ended:
            assert time.monotonic() < deadline, f"partition {partition}: {len(out)} of {end - begin} records after 60 s"
            messages = consumer.consume(5000, 1)
            out += [int(m.value()) for m in messages if not m.error()]
            ended = any(m.error() and m.error().code() == KafkaError._PARTITION_EOF for m in messages)
        consumer.close()
        return out


class ClusterWithProbes(LocalCluster):
    probes = True


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with ClusterWithProbes(tmp_path) as running:
        yield running


def verifier_with_topic(cluster: LocalCluster, rate: int = RECORDS_PER_SECOND, **configs: str) -> Verifier:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    dotted = {name.replace("_", "."): value for name, value in configs.items()}
    topic = NewTopic("verified", PARTITIONS, 3, config={"min.insync.replicas": "2", **dotted})
    admin.create_topics([topic])["verified"].result(30)
    return Verifier(cluster, "verified", rate)


def all_in_sync(cluster: LocalCluster) -> bool:
    return all(len(p.isr) == len(p.replicas) and p.leader >= 0 for _, _, p in cluster.image.each_partition())


def test_nothing_acknowledged_is_lost_when_brokers_controller_and_zookeeper_are_killed_in_turn(
    cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    verifier = verifier_with_topic(cluster)
    verifier.progress("before the first fault")

    cluster.kill("broker-2")
    began = time.monotonic()
    wait_for(
        lambda: all(p.leader not in (-1, 2) for _, _, p in cluster.image.each_partition()), "leaders elsewhere", 30
    )
    assert time.monotonic() - began < 30, "leaders took too long to move"
    assert f"{log_phrases.PROBED_DEAD}2" in caplog.text, "its session had to expire"
    verifier.progress("with one broker dead")
    cluster.start_broker(2)
    wait_for(lambda: all_in_sync(cluster), "broker 2 back in every ISR")

    cluster.stop_controller()
    verifier.progress("without a controller")
    cluster.start_controller()

    cluster.kill("zookeeper")
    verifier.progress("without ZooKeeper")
    cluster.start_zookeeper()
    wait_for(lambda: cluster.controller is not None and cluster.controller.ensemble.acting, "a controller again")
    wait_for(lambda: len(cluster.image.live_brokers()) == 3 and all_in_sync(cluster), "all in sync after ZooKeeper")

    for follower in (1, 3):
        cluster.kill(f"broker-{follower}")
        verifier.progress(f"with broker {follower} dead")
        cluster.start_broker(follower)
        wait_for(lambda: all_in_sync(cluster), f"broker {follower} back in every ISR")
    verifier.finish()


def test_a_frozen_leader_acknowledges_nothing_after_it_was_replaced(cluster: LocalCluster) -> None:
    verifier = verifier_with_topic(cluster)
    verifier.progress("before the freeze")
    cluster.processes["broker-1"].send_signal(signal.SIGSTOP)
    wait_for(lambda: all(p.leader not in (-1, 1) for _, _, p in cluster.image.each_partition()), "leaders elsewhere")
    verifier.progress("while frozen")
    cluster.processes["broker-1"].send_signal(signal.SIGCONT)
    wait_for(lambda: all_in_sync(cluster), "the old leader in the ISR as a follower")
    verifier.finish()


def test_acknowledged_records_survive_the_death_of_every_process_at_once(cluster: LocalCluster) -> None:
    verifier = verifier_with_topic(cluster)
    verifier.progress("before the kill")
    for name in list(cluster.processes):
        cluster.kill(name)
    cluster.stop_controller()
    cluster.start_zookeeper()
    cluster.start_controller()
    for broker_id in cluster.ports:
        cluster.start_broker(broker_id)
    wait_for(lambda: len(cluster.image.live_brokers()) == 3 and all_in_sync(cluster), "everything back")
    verifier.progress("after the restart")
    verifier.finish()


def test_a_clean_shutdown_moves_leaders_first_and_a_move_and_a_recovery_end_in_a_full_isr(
    cluster: LocalCluster,
) -> None:
    verifier = verifier_with_topic(cluster)
    verifier.progress("before the stop")
    assert cluster.kill("broker-3", signal.SIGTERM) == 0
    assert all(p.leader not in (-1, 3) for _, _, p in cluster.image.each_partition())
    cluster.start_broker(3)
    wait_for(lambda: all_in_sync(cluster), "broker 3 back")

    topic = cluster.image.topic_named("verified")
    assert topic is not None
    state = topic.partitions[0]
    target = (state.replicas[1], state.replicas[0])
    cluster.rows.move(DesiredAssignment(topic.topic_id, 0, target, state.assignment_generation, "move-1"))
    wait_for(lambda: topic.partitions[0].replicas == target and not topic.partitions[0].reassigning, "the move to end")

    broker_id = topic.partitions[1].replicas[0]
    cluster.rows.reset(DesiredReset(topic.topic_id, 1, broker_id, "reset-1"))
    wait_for(lambda: f"{log_phrases.REPLICA_RESET}reset-1" in cluster.log(f"broker-{broker_id}"), "the rebuild")
    wait_for(lambda: all_in_sync(cluster), "the rebuilt replica in sync")
    verifier.finish()
