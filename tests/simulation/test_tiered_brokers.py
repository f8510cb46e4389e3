"""Whole brokers with tiered storage in a simulated world: copies, local retention, reads, bootstrap, deletion.

The decisions alone, in hundreds of worlds with deposed leaders: test_tier.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from brokerd.cluster.model import REMOTE_LOG_METADATA_TOPIC
from brokerd.wire import records
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import DescribeLogDirsRequest, DescribeLogDirsResponse, FetchRequest
from controlplane.controller.events import DesiredAssignment
from tests.simulation.scene import PATIENT, Scene

SETTINGS = {
    **PATIENT,
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.url": "s3://simulated",
    "remote.log.manager.task.interval.ms": "200",
    "remote.log.metadata.topic.num.partitions": "2",
    "log.retention.check.interval.ms": "500",
}
TOPIC = {"remote_storage_enable": "true", "segment_bytes": "400", "local_retention_bytes": "800"}
READ_BYTES = 300


class TieredScene(Scene):
    def __init__(self, seed: int, brokers: int = 2, replicas: int | None = None) -> None:
        super().__init__(seed, settings=SETTINGS, brokers=brokers, replicas=replicas, **TOPIC)
        self.cluster.until(
            lambda: self.cluster.image.topic_named(REMOTE_LOG_METADATA_TOPIC) is not None, 30, "the metadata topic"
        )
        self.cluster.until(self.cluster.settled, 30, "its replicas")
        self.written: list[str] = []

    def produce(self, count: int) -> None:
        texts = [f"{len(self.written) + i:06d}" for i in range(count)]
        self.write(*texts)
        self.written += texts

    @property
    def store(self) -> dict[str, bytes]:
        return self.cluster.remote_store.objects

    @property
    def stored_bytes(self) -> int:
        return sum(len(content) for name, content in self.store.items() if name.endswith(".log"))

    def local_start(self, broker: int) -> int:
        replica = self.cluster.brokers[broker].broker.partitions.hosted.get(self.tp)
        return -1 if replica is None else replica.log.start_offset

    def fetch(self, offset: int) -> Any:
        """The response of the leader for this offset: one partition."""
        part = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=READ_BYTES)
        body = FetchRequest(
            replica_id=-1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic="t", partitions=[part])],
        )
        answers: list[Any] = []
        self.client.enter(lambda: self.client.send_request(self.state.leader, ApiKey.FETCH, 12, body, answers.append))
        self.cluster.until(lambda: bool(answers), 20, f"the answer for offset {offset}")
        return answers[0].responses[0].partitions[0] if answers[0] is not None and answers[0].responses else None

    def read_all(self, start: int = 0) -> list[str]:
        out: list[str] = []
        offset, tries = start, 0
        while offset < len(self.written):
            part = self.fetch(offset)
            tries += 1
            assert tries < 20 * len(self.written) + 200, f"no progress at {offset}"
            if part is None or part.error_code in (
                ErrorCode.OFFSET_NOT_AVAILABLE,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ):
                self.pass_ms(100)
                continue
            assert part.error_code == 0, f"error {part.error_code} at {offset}"
            for record in records.iterate(bytes(part.records or b"")):
                if record.offset >= offset:
                    assert record.offset == offset and record.value is not None
                    out.append(record.value.decode())
                    offset += 1
        return out

    def remote_size(self) -> DescribeLogDirsResponse.RemoteSize:
        """What the leader reports about the sizes of the partition over both tiers."""
        answers: list[DescribeLogDirsResponse] = []
        body = DescribeLogDirsRequest(topics=[], remote=True)
        self.client.enter(
            lambda: self.client.send_request(self.state.leader, ApiKey.DESCRIBE_LOG_DIRS, 4, body, answers.append)
        )
        self.cluster.until(lambda: bool(answers), 10, "the remote sizes")
        (found,) = answers[0].remote
        return found

    def leads_another(self, broker: int) -> bool:
        return self.state.leader not in (broker, -1)

    def orphans(self) -> set[str]:
        """Segment ids of objects without metadata on the leader."""
        broker = self.cluster.brokers[self.state.leader].broker
        known = set(broker.remote_logs.led[self.tp].leader.remote_log.segments)
        return {n.rpartition("/")[2].partition("-")[2].rpartition(".")[0] for n in self.store} - known

    def until_tiered(self, brokers: tuple[int, ...] = (1, 2)) -> None:
        self.cluster.until(lambda: all(self.local_start(b) > 0 for b in brokers), 60, "local retention on all replicas")


@pytest.mark.parametrize("seed", range(3))
def test_old_records_are_read_from_the_store(seed: int) -> None:
    scene = TieredScene(seed)
    scene.produce(60)
    scene.until_tiered()
    assert scene.read_all() == scene.written
    while (remote := scene.remote_size()).remote != scene.stored_bytes:  # the last copy is not finished yet
        scene.pass_ms(200)
    log = scene.cluster.brokers[scene.state.leader].broker.partitions.hosted[scene.tp].log
    assert 0 < remote.local_only < log.size_bytes, "some local segments have a copy"
    assert (remote.copying, remote.read > 0) == (0, True)
    assert len([n for n in scene.store if n.endswith(".log")]) > 3


@pytest.mark.parametrize("seed", range(3))
def test_reads_and_copies_survive_kills_and_a_failing_store(seed: int) -> None:
    """Leaders are killed, answers of helpers are lost, and the store fails: every record is read, and at rest no object is without metadata."""
    scene = TieredScene(seed, brokers=3)
    scene.cluster.remote_store.failing = 0.2
    for _ in range(4):
        scene.produce(20)
        for node in scene.cluster.brokers.values():
            if node.remote_helper is not None:
                node.remote_helper.fails = 0.2
        scene.pass_ms(2_000)
        leader = scene.cluster.brokers[scene.state.leader]
        leader.kill()
        scene.cluster.until(partial(scene.leads_another, leader.broker_id), 30, "another leader")
        leader.start()
        scene.cluster.until(scene.cluster.settled, 60, "everything in sync")
    scene.cluster.remote_store.failing = 0
    for node in scene.cluster.brokers.values():
        if node.remote_helper is not None:
            node.remote_helper.fails = 0
    scene.until_tiered((1, 2, 3))
    assert scene.read_all() == scene.written
    scene.pass_ms(10_000)
    assert scene.read_all() == scene.written
    assert scene.orphans() == set()


@pytest.mark.parametrize("seed", range(2))
def test_consumers_wait_while_the_store_is_away_and_producers_do_not(seed: int) -> None:
    scene = TieredScene(seed)
    scene.produce(40)
    scene.until_tiered()
    scene.cluster.remote_store.away = True
    scene.pass_ms(6_000)
    scene.produce(20)
    part = scene.fetch(0)
    assert part.error_code in (0, ErrorCode.OFFSET_NOT_AVAILABLE) and not part.records
    scene.cluster.remote_store.away = False
    assert scene.read_all() == scene.written


@pytest.mark.parametrize("seed", range(2))
def test_a_new_replica_begins_at_the_local_log_start_with_the_state_of_the_tier(seed: int) -> None:
    scene = TieredScene(seed, brokers=3, replicas=2)
    for number in range(40):
        assert scene.send(scene.state.leader, f"{number:06d}", producer=(7, number)) == 0
        scene.written.append(f"{number:06d}")
    old = scene.state.replicas
    scene.until_tiered(old)
    new = next(b for b in (1, 2, 3) if b not in old)
    before = scene.cluster.world.reached["remote snapshot: NONE"]
    scene.cluster.want(
        DesiredAssignment(scene.topic_id, 0, (new, old[0]), scene.state.assignment_generation, "move", "request")
    )
    scene.cluster.until(lambda: scene.state.replicas == (new, old[0]) and new in scene.state.isr_ids, 60, "the move")
    assert scene.cluster.world.reached["remote snapshot: NONE"] > before
    replica = scene.cluster.brokers[new].broker.partitions.hosted[scene.tp]
    assert replica.log.start_offset > 0
    scene.cluster.brokers[old[0]].kill()
    scene.until_leads(new)
    assert scene.read_all() == scene.written
    assert scene.send(new, "000039", producer=(7, 39), acks=1) == 0, "the repeated batch is recognised"
    assert scene.send(new, "000040", producer=(7, 40), acks=1) == 0
    assert replica.log.end_offset == 41


@pytest.mark.parametrize("seed", range(2))
def test_a_deleted_topic_leaves_no_object(seed: int) -> None:
    scene = TieredScene(seed)
    scene.produce(40)
    scene.until_tiered()
    assert scene.store
    scene.cluster.delete_topic("t")
    scene.cluster.until(lambda: not scene.store, 120, "the deletion of all objects")


@pytest.mark.parametrize("seed", range(2))
def test_a_new_replica_of_a_topic_that_lost_records_before_it_was_tiered(seed: int) -> None:
    """The leader's log starts above 0 and nothing is remote: the replica starts there, without a snapshot of the tier."""
    scene = TieredScene(seed, brokers=3, replicas=2)
    scene.cluster.remote_store.away = True
    scene.produce(10)
    leader = scene.cluster.brokers[scene.state.leader]
    log_ = leader.broker.partitions.hosted[scene.tp].log
    leader.enter(lambda: log_.raise_start(5))
    old = scene.state.replicas
    new = next(b for b in (1, 2, 3) if b not in old)
    scene.cluster.want(
        DesiredAssignment(scene.topic_id, 0, (old[0], new), scene.state.assignment_generation, "move", "request")
    )
    scene.cluster.until(lambda: scene.state.replicas == (old[0], new) and new in scene.state.isr_ids, 60, "the move")
    assert scene.local_start(new) == 5


@pytest.mark.parametrize("seed", range(2))
def test_deleted_records_are_hidden_in_both_tiers_under_every_leader(seed: int) -> None:
    scene = TieredScene(seed)
    scene.produce(40)
    scene.until_tiered()
    leader = scene.cluster.brokers[scene.state.leader]
    replica = leader.broker.partitions.hosted[scene.tp]
    leader.enter(lambda: leader.broker.remote_logs.request_start(replica, 7))
    scene.cluster.until(lambda: replica.start_offset == 7, 30, "the log start")
    assert scene.fetch(6).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    leader.kill()
    scene.cluster.until(partial(scene.leads_another, leader.broker_id), 30, "another leader")
    other = scene.cluster.brokers[scene.state.leader].broker.partitions.hosted[scene.tp]
    scene.cluster.until(lambda: other.remote is not None and other.remote.loaded, 30, "its remote log")
    assert other.start_offset == 7 and scene.fetch(6).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert scene.read_all(7) == scene.written[7:]
