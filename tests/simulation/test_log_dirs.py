"""Several log directories per broker, one of which fails: only its replicas go offline, other brokers lead, and no acknowledged record is lost.

Complete brokers and a controller in virtual time; a failed directory returns EIO for everything. tests/faults does the same with a real device.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.cluster.model import TopicPartition
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from tests.simulation.checkers import History, InvariantChecker, logs_agree
from tests.simulation.clients import Client, Producer
from tests.simulation.cluster import BrokerNode, Cluster
from tests.simulation.world import MS, S, World

DIRS = (Path("/disk-a"), Path("/disk-b"))
PARTITIONS = 6


class Scene:
    def __init__(self, seed: int, brokers: int = 3) -> None:
        self.world = World(seed)
        self.cluster = Cluster(self.world, brokers, 1, {"log.dirs": ",".join(map(str, DIRS))})
        InvariantChecker(self.cluster)
        self.history = History()
        self.topic_id = self.cluster.want_topic(
            "t", PARTITIONS, brokers, min_insync_replicas="2" if brokers > 2 else "1"
        )
        self.cluster.run_until(self.cluster.is_settled, 30, "the beginning")
        self.producers = [Producer(self.cluster, self.history, f"p{i}", "t", i) for i in range(PARTITIONS)]
        self.client = Client(self.cluster, "client")
        self.world.run(self.world.now_us + 1 * S)

    def hosted_in(self, node: BrokerNode, folder: Path) -> set[TopicPartition]:
        return {tp for tp, r in node.broker.replica_manager.hosted.items() if r.log.folder.parent == folder}

    def describe_all(self, broker_id: int) -> dict[str, DescribeLogDirsResponse.DescribeLogDirsResult]:
        responses: list[DescribeLogDirsResponse] = []
        self.client.enter(
            lambda: self.client.send_request(
                broker_id, ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None), responses.append
            )
        )
        self.cluster.run_until(lambda: bool(responses), 10, "a response")
        return {r.log_dir: r for r in responses[0].results}

    def served_without(self, broker_id: int, lost: set[TopicPartition]) -> bool:
        """Others lead `lost`, and this broker has none of them; it is in the ISR of the rest."""
        return all(
            s.leader >= 0 and (broker_id in s.isr_ids) == (TopicPartition(t.topic_id, i) not in lost)
            for t, i, s in self.cluster.image.each_partition()
        )

    def end(self) -> None:
        self.cluster.run_until(self.cluster.is_settled, 60, "everything in step")
        for producer in self.producers:
            producer.stopped = True
        self.cluster.run_until(lambda: all(p.idle for p in self.producers), 20, "the last acknowledgements")
        self.cluster.run_until(self.cluster.level, 60, "everything in step")
        logs_agree(self.cluster)
        self.history.verify(self.cluster)


def test_partitions_are_spread_over_the_log_directories_and_reported() -> None:
    scene = Scene(1)
    times: list[DescribeLogDirsResponse] = []
    nothing = DescribeLogDirsRequest(topics=[])
    scene.client.enter(lambda: scene.client.send_request(1, ApiKey.DESCRIBE_LOG_DIRS, 4, nothing, times.append))
    scene.cluster.run_until(lambda: bool(times), 10, "how long producers wait")
    assert sum(times[0].produce_times) > 0 and not any(r.topics for r in times[0].results)
    for node in scene.cluster.brokers.values():
        assert [len(scene.hosted_in(node, d)) for d in DIRS] == [PARTITIONS // 2] * 2
    reported = scene.describe_all(1)
    assert sorted(reported) == [str(d) for d in DIRS]
    for result in reported.values():
        assert result.error_code == 0 and result.total_bytes > result.usable_bytes > 0
        assert [p.partition_size > 0 for t in result.topics for p in t.partitions] == [True] * (PARTITIONS // 2)
    scene.end()


@pytest.mark.parametrize("seed", [1, 22])
def test_a_failed_directory_takes_its_replicas_offline_and_no_record_is_lost(seed: int) -> None:
    scene = Scene(seed)
    node = scene.cluster.brokers[1]
    lost = scene.hosted_in(node, DIRS[1])
    assert any((s := scene.cluster.image.partition(tp)) is not None and s.leader == 1 for tp in lost), (
        "no leader would have to move"
    )
    node.disk.broken.add(DIRS[1])
    scene.cluster.run_until(lambda: scene.served_without(1, lost), 30, "others to lead")
    acks = scene.history.acks
    scene.world.run(scene.world.now_us + 2 * S)
    assert scene.history.acks > acks + 50, "all partitions are written to"
    reported = scene.describe_all(1)
    assert reported[str(DIRS[1])].error_code == ErrorCode.KAFKA_STORAGE_ERROR and reported[str(DIRS[0])].error_code == 0
    # A successor of the controller knows too: the preferred leader is not restored.
    scene.cluster.controllers[0].crash()
    scene.cluster.controllers[0].start()
    scene.world.run(scene.world.now_us + 12 * S)
    assert scene.served_without(1, lost)
    # Restarted with the directory still failed: the other directory is served, and no empty replica replaces an offline one.
    node.kill()
    node.start()
    scene.cluster.run_until(lambda: scene.served_without(1, lost), 60, "the rest of broker 1 in step")
    assert not lost & set(node.broker.replica_manager.hosted)
    # Repaired: the replicas catch up.
    node.kill()
    node.disk.broken.clear()
    node.start()
    scene.end()
    assert scene.hosted_in(node, DIRS[1]) == lost


@pytest.mark.parametrize("seed", [1, 2])
def test_an_only_replica_waits_for_its_directory(seed: int) -> None:
    scene = Scene(seed, brokers=1)
    node = scene.cluster.brokers[1]
    lost = scene.hosted_in(node, DIRS[0])
    node.disk.broken.add(DIRS[0])

    def offline() -> set[TopicPartition]:
        return {TopicPartition(t.topic_id, i) for t, i, s in scene.cluster.image.each_partition() if s.leader < 0}

    scene.cluster.run_until(lambda: offline() == lost, 30, "those partitions to be without a leader, and no others")
    scene.world.run(scene.world.now_us + 7 * S)
    assert offline() == lost, "the partitions got a leader again"
    node.kill()
    node.disk.broken.clear()
    node.start()
    scene.end()


def test_a_broker_without_an_online_log_directory_stops_and_removes_its_registration() -> None:
    scene = Scene(1)
    node = scene.cluster.brokers[2]
    node.disk.broken.update(DIRS)
    scene.cluster.run_until(lambda: node.broker.stopped, 30, "its end")
    assert node.broker.exit_status == 1
    scene.cluster.run_until(
        lambda: all(s.leader in (1, 3) for _, _, s in scene.cluster.image.each_partition()), 2, "others to lead at once"
    )
    node.kill()
    node.disk.broken.clear()
    node.start()
    scene.end()


def test_a_replica_rebuilt_in_another_directory_is_used_when_the_first_directory_returns() -> None:
    from controlplane.controller.events import DesiredReset

    scene = Scene(2)
    node = scene.cluster.brokers[1]
    lost = scene.hosted_in(node, DIRS[0])
    node.disk.broken.add(DIRS[0])
    scene.cluster.run_until(lambda: scene.served_without(1, lost), 30, "others to lead")
    for tp in sorted(lost):
        scene.cluster.deliver_desired(DesiredReset(tp.topic_id, tp.partition, 1, f"reset-{tp.partition}"))
    scene.cluster.run_until(scene.cluster.is_settled, 30, "the copies, rebuilt")
    assert scene.hosted_in(node, DIRS[1]) >= lost
    scene.world.run(scene.world.now_us + 500 * MS)
    node.kill()
    node.disk.broken.clear()
    node.start()
    scene.end()
    assert scene.hosted_in(node, DIRS[1]) >= lost
    aside = [f for f in node.disk.folders if f.parent == DIRS[0] and f.name.endswith("-stray")]
    assert len(aside) == len(lost)
