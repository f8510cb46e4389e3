"""A disk hangs under one of a broker's log directories: the directory goes offline, other brokers lead, and no acknowledged record is lost.

Complete brokers and a controller in virtual time. Flushes of the directory never return; writes and cached reads work, as on Linux. tests/faults does
the same with a real device.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerd.cluster.disk_health import DiskHealth
from brokerd.cluster.model import TopicPartition
from brokerd.storage.log_dirs import LogDirs
from brokerd.wire.apis import ApiKey
from brokerd.wire.messages import DescribeLogDirsRequest, DescribeLogDirsResponse
from tests.simulation.checkers import History, InvariantChecker, Violation, logs_agree
from tests.simulation.clients import Client, Producer
from tests.simulation.cluster import BrokerNode, Cluster
from tests.simulation.world import MS, S, World

DIRS = (Path("/disk-a"), Path("/disk-b"))
PARTITIONS = 6
HUNG_MS = 6_000
SETTINGS = {
    "log.dirs": ",".join(map(str, DIRS)),
    "weir.log.dir.probe.interval.ms": "1000",
    "weir.log.dir.slow.ms": "500",
    "weir.log.dir.hung.ms": str(HUNG_MS),
}


class Scene:
    """Records are acknowledged after a flush, so that a hung disk stops producers until other brokers lead."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.cluster = Cluster(self.world, 3, 1, SETTINGS)
        InvariantChecker(self.cluster)
        self.history = History()
        self.cluster.want_topic("t", PARTITIONS, 3, min_insync_replicas="2", flush_messages="1")
        self.cluster.run_until(self.cluster.is_settled, 30, "the beginning")
        self.producers = [Producer(self.cluster, self.history, f"p{i}", "t", i) for i in range(PARTITIONS)]
        self.client = Client(self.cluster, "client")
        self.world.run(self.world.now_us + 3 * S)

    def hosted_in(self, node: BrokerNode, folder: Path) -> set[TopicPartition]:
        return {tp for tp, r in node.broker.replica_manager.hosted.items() if r.log.folder.parent == folder}

    def served_without(self, broker_id: int, lost: set[TopicPartition]) -> bool:
        return all(
            s.leader >= 0 and s.leader != broker_id and broker_id not in s.isr_ids
            for t, i, s in self.cluster.image.each_partition()
            if TopicPartition(t.topic_id, i) in lost
        )

    def health(self, broker_id: int) -> dict[str, tuple[DiskHealth, int]]:
        responses: list[DescribeLogDirsResponse] = []
        request = DescribeLogDirsRequest(topics=[], disks=True)
        self.client.enter(
            lambda: self.client.send_request(broker_id, ApiKey.DESCRIBE_LOG_DIRS, 4, request, responses.append)
        )
        self.cluster.run_until(lambda: bool(responses), 10, "a response")
        return {r.log_dir: (DiskHealth(r.health), r.probe_ms) for r in responses[0].results}

    def end(self) -> None:
        self.cluster.run_until(self.cluster.is_settled, 60, "everything in step")
        for producer in self.producers:
            producer.stopped = True
        self.cluster.run_until(lambda: all(p.idle for p in self.producers), 20, "the last acknowledgements")
        self.cluster.run_until(self.cluster.level, 60, "everything in step")
        logs_agree(self.cluster)
        self.history.verify(self.cluster)


def hang_directory(seed: int) -> Scene:
    """A directory of broker 1 hangs until others lead; after a restart with a working disk its replicas are in sync again."""
    scene = Scene(seed)
    node = scene.cluster.brokers[1]
    lost = scene.hosted_in(node, DIRS[1])
    assert any((s := scene.cluster.image.partition(tp)) is not None and s.leader == 1 for tp in lost)
    node.disk.hung.add(DIRS[1])
    scene.cluster.run_until(lambda: scene.served_without(1, lost), HUNG_MS // 1_000 + 10, "others to lead")
    assert not node.broker.stopped
    acks = scene.history.acks
    scene.world.run(scene.world.now_us + 2 * S)
    assert scene.history.acks > acks + 50, "all partitions are written to"
    health = scene.health(1)
    assert health[str(DIRS[0])][0] is DiskHealth.OK
    assert health[str(DIRS[1])][0] is DiskHealth.HUNG and health[str(DIRS[1])][1] >= HUNG_MS
    node.kill()
    node.disk.hung.clear()
    node.start()
    scene.end()
    assert scene.hosted_in(node, DIRS[1]) == lost
    return scene


def test_a_hung_directory_goes_offline_and_no_record_is_lost() -> None:
    hang_directory(1)


def test_the_worlds_detect_a_broker_that_ignores_a_hung_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogDirs, "fail", lambda self, failed, reason: None)
    with pytest.raises((Violation, AssertionError)):
        hang_directory(1)


def test_a_broker_whose_only_directory_hangs_stops_and_removes_its_registration() -> None:
    scene = Scene(3)
    node = scene.cluster.brokers[2]
    node.disk.hung.update(DIRS)
    scene.cluster.run_until(lambda: node.broker.stopped, HUNG_MS // 1_000 + 10, "its end")
    scene.cluster.run_until(
        lambda: all(s.leader in (1, 3) for _, _, s in scene.cluster.image.each_partition()), 2, "others to lead at once"
    )
    node.kill()
    node.disk.hung.clear()
    node.start()
    scene.end()


def test_a_slow_directory_is_reported_and_stays_online() -> None:
    scene = Scene(4)
    node = scene.cluster.brokers[3]
    node.probe_ms = 700
    scene.world.run(scene.world.now_us + 6 * S)
    assert set(scene.health(3).values()) == {(DiskHealth.SLOW, 700)}
    node.probe_ms = 5
    scene.world.run(scene.world.now_us + 7 * S + 500 * MS)
    assert set(scene.health(3).values()) == {(DiskHealth.OK, 5)}
    scene.end()
