"""Thousands of partitions: their placement is known without counting all."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from uuid import UUID

from brokerd.cluster.metadata import MetadataRecord, PartitionChanged, TopicCreated, TopicDeleted, TopicReady
from brokerd.cluster.model import PartitionState, ReplicaIncarnation, TopicPartition
from brokerd.storage import checkpoints
from brokerd.wire.errors import ErrorCode
from tests.simulation.disk import SimDisk
from tests.unit.replication.test_relocations import TP, A, B, Harness

MANY = UUID(int=8)
LED = PartitionState((1,), (ReplicaIncarnation(1, 11),), 1, 11)


def test_the_topic_id_of_a_directory_survives_a_power_cut_after_the_first_flush() -> None:
    harness = Harness(SimDisk(), configs={"flush.messages": "1"})
    harness.append()
    harness.run_until_idle()
    assert harness.replica.log.flushing.acknowledgeable_end == 1
    for seed in range(20):
        found = harness.disk.power_cut(random.Random(seed))
        assert checkpoints.read_partition_metadata(found, A / "t-0") == TP.topic_id


def topic_records(count: int) -> list[MetadataRecord]:
    return [
        TopicCreated(MANY, "m", count, {}, 1),
        *(PartitionChanged(MANY, i, LED) for i in range(count)),
        TopicReady(MANY),
    ]


def apply_records(harness: Harness, records: list[MetadataRecord]) -> None:
    for record in records:
        harness.image.apply(record)
    harness.replica_manager.apply(harness.image, records, harness.now)


def open_pending(harness: Harness) -> bool:
    """The end of an iteration. Returns whether replicas are left for the next one."""
    return harness.replica_manager.open_pending(harness.now, clock=lambda: 0.0)


def open_all(harness: Harness) -> None:
    while open_pending(harness):
        pass


def count_logs_per_directory(harness: Harness) -> dict[Path, int]:
    return dict(Counter(r.log.folder.parent for r in harness.replica_manager.hosted.values()))


def test_the_replicas_of_each_directory_are_counted() -> None:
    harness = Harness(SimDisk())
    apply_records(harness, topic_records(9))
    open_all(harness)
    dirs = harness.replica_manager.log_dirs
    assert {d.path: d.replica_count for d in dirs.all} == count_logs_per_directory(harness) == {A: 5, B: 5}
    assert harness.request(B) is ErrorCode.NONE
    harness.run_until_idle()
    assert {d.path: d.replica_count for d in dirs.all} == count_logs_per_directory(harness) == {A: 4, B: 6}
    apply_records(harness, [TopicDeleted(MANY, "m", 2)])
    assert {d.path: d.replica_count for d in dirs.all} == {A: 0, B: 1}
    assert count_logs_per_directory(harness) == {B: 1}


def test_many_new_partitions_are_opened_in_batches() -> None:
    harness = Harness(SimDisk())
    harness.replica_manager.pending_openings.per_iteration = 10
    apply_records(harness, topic_records(25))
    assert len(harness.replica_manager.hosted) == 1, "records of the metadata log were applied and logs were opened"
    assert open_pending(harness) and len(harness.replica_manager.hosted) == 1 + 10
    assert open_pending(harness) and len(harness.replica_manager.hosted) == 1 + 20
    assert not open_pending(harness) and len(harness.replica_manager.hosted) == 1 + 25
    assert all(r.leads for r in harness.replica_manager.hosted.values())


def test_pending_openings_follow_the_current_metadata_log() -> None:
    """The partition is moved away, led by another broker, or deleted while its opening is delayed."""
    harness = Harness(SimDisk())
    harness.replica_manager.pending_openings.per_iteration = 1
    apply_records(harness, topic_records(3))
    assert open_pending(harness)
    elsewhere = PartitionState((2,), (ReplicaIncarnation(2, 12),), 2, 12, 1, 1)
    theirs = PartitionState((2, 1), (ReplicaIncarnation(2, 12),), 2, 12, 1, 1)
    apply_records(harness, [PartitionChanged(MANY, 1, elsewhere), PartitionChanged(MANY, 2, theirs)])
    open_all(harness)
    assert {tp.partition for tp in harness.replica_manager.hosted if tp.topic_id == MANY} == {0, 2}
    assert not harness.replica_manager.hosted[TopicPartition(MANY, 2)].leads
    apply_records(harness, [TopicDeleted(MANY, "m", 2)])
    apply_records(
        harness, [TopicCreated(UUID(int=9), "n", 2, {}, 1), *(PartitionChanged(UUID(int=9), i, LED) for i in range(2))]
    )
    apply_records(harness, [TopicDeleted(UUID(int=9), "n", 2)])
    open_all(harness)
    assert {tp.topic_id for tp in harness.replica_manager.hosted} == {harness.replica.tp.topic_id}
    assert not [f for f in harness.folders() if f.name.startswith("n-") and not f.name.endswith("-delete")]
