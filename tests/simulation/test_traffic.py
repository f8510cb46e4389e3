"""Counters of bytes on whole brokers: what clients produced and what followers copied, through a change of leaders.

The checker compares the counters with the sizes of the logs. It fails if copied bytes count as produced ones.
"""

from __future__ import annotations

from functools import partial

import pytest

from brokerd.cluster.model import TopicPartition
from brokerd.replication.replica import Replica
from brokerd.runtime.metrics import BrokerMetrics
from tests.simulation.checkers import History, Violation
from tests.simulation.clients import Producer
from tests.simulation.cluster import Cluster
from tests.simulation.world import S, World

PARTITIONS = 4


class Scene:
    """Three brokers. Broker 1 is killed and starts again: then its counters begin at zero, those of the others continue."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.cluster = Cluster(self.world, 3, 1, {})
        self.history = History()
        self.topic_id = self.cluster.want_topic("t", PARTITIONS, 3, min_insync_replicas="2")
        self.cluster.run_until(self.cluster.is_settled, 30, "the beginning")

    def produce(self, name: str) -> None:
        producers = [Producer(self.cluster, self.history, f"{name}{i}", "t", i) for i in range(PARTITIONS)]
        self.world.run(self.world.now_us + 2 * S)
        for producer in producers:
            producer.stopped = True
        self.cluster.run_until(lambda: all(p.idle for p in producers), 20, "the last acknowledgements")

    def replica(self, broker_id: int, index: int) -> Replica:
        return self.cluster.brokers[broker_id].broker.replica_manager.hosted[TopicPartition(self.topic_id, index)]

    def run(self) -> None:
        self.produce("a")
        self.cluster.run_until(self.cluster.level, 60, "everything in step")
        before = {i: (self.replica(1, i).bytes_in, self.replica(1, i).log.size_bytes) for i in range(PARTITIONS)}
        if not any(produced for produced, _ in before.values()):
            raise Violation("broker 1 was the leader of no partition")
        self.cluster.brokers[1].kill()
        self.cluster.run_until(lambda: len(self.cluster.image.live_brokers()) == 2, 60, "broker 1 to be gone")
        self.produce("b")
        self.cluster.brokers[1].start()
        self.cluster.run_until(self.cluster.level, 60, "everything in step")
        for index, (produced, size_before) in before.items():
            traffic_adds_up([self.replica(b, index) for b in (1, 2, 3)], produced, size_before)


def traffic_adds_up(replicas: list[Replica], produced_before: int, size_before: int) -> None:
    """`replicas`: of one partition, the first one opened again with `size_before` bytes, of which it had appended `produced_before` as leader."""
    size = replicas[0].log.size_bytes
    for r, opened_with in zip(replicas, (size_before, 0, 0), strict=True):
        if r.bytes_in + r.replication_bytes_in != size - opened_with:
            raise Violation(
                f"{r.name}: {r.bytes_in} + {r.replication_bytes_in} bytes in, {size - opened_with} appended"
            )
    if produced_before + sum(r.bytes_in for r in replicas) != size:
        raise Violation(f"{replicas[0].name}: bytes in of all leaders are not the size of the log, {size}")
    copied, sent = sum(r.replication_bytes_in for r in replicas), sum(r.replication_bytes_out for r in replicas)
    if (
        sent < copied - 2 * produced_before
    ):  # the bytes that broker 1 sent before it was killed are not counted any more
        raise Violation(f"{replicas[0].name}: {copied} bytes copied, {sent} sent")


@pytest.mark.parametrize("seed", [1, 2])
def test_the_counters_of_all_brokers_add_up_to_the_log(seed: int) -> None:
    scene = Scene(seed)
    scene.run()
    for broker_id in (2, 3):
        broker = scene.cluster.brokers[broker_id].broker
        replica_manager, requests = broker.replica_manager, broker.dispatch.metrics
        metrics = BrokerMetrics(broker_id, partial(getattr, replica_manager, "hosted"), requests.all)
        found = {
            (f.name + suffix, dict(labels).get("topic", dict(labels).get("request", ""))): value
            for f in metrics.families()
            for suffix, labels, value in f.samples
        }
        produced = sum(scene.replica(broker_id, i).bytes_in for i in range(PARTITIONS))
        assert found["kafka_server_brokertopicmetrics_bytesin_total", "t"] == produced > 0
        for request in ("Produce", "FetchFollower", "Metadata"):
            assert found["kafka_network_requestmetrics_requests_total", request] > 0


def test_the_checker_finds_copied_bytes_that_count_as_produced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Replica, "bytes_in", property(lambda self: self.log.written_bytes))
    with pytest.raises(Violation):
        Scene(1).run()
