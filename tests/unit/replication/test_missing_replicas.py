"""Replicas that no online log directory contains are reported as offline until they are reset or removed."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import ClusterCreated, PartitionChanged, TopicCreated, TopicReady
from brokerd.cluster.model import PartitionState, ReplicaIncarnation, TopicPartition
from brokerd.membership.controller_outbox import ControllerOutbox
from brokerd.replication.missing_replicas import MissingReplicas
from brokerd.replication.outbox import OutboxEntry
from brokerd.storage.log_dirs import LogDirs
from tests.simulation.disk import SimDisk

A, T = Path("/a"), UUID(int=1)


def test_only_assigned_replicas_without_a_directory_are_missing() -> None:
    disk, outbox, image = SimDisk(), ControllerOutbox(), Image()
    disk.mkdir(A)
    disk.mkdir(A / "t-0")
    for record in (
        ClusterCreated("c"),
        TopicCreated(T, "t", 3, {}, 1),
        PartitionChanged(T, 0, PartitionState((1,), (ReplicaIncarnation(1, 11),), 1, 11)),
        PartitionChanged(T, 1, PartitionState((1,), (ReplicaIncarnation(1, 11),), 1, 11)),
        PartitionChanged(T, 2, PartitionState((2,), (ReplicaIncarnation(2, 22),), 2, 22)),
        TopicReady(T),
    ):
        image.apply(record)
    missing = MissingReplicas(1, LogDirs((A,), disk), outbox)
    missing.find(image)
    assert set(missing) == {TopicPartition(T, 1)} and TopicPartition(T, 1) in missing
    assert outbox.changed == {OutboxEntry.OFFLINE_REPLICAS}


def test_each_change_is_reported_once() -> None:
    outbox = ControllerOutbox()
    missing, tp = MissingReplicas(1, LogDirs((A,), SimDisk()), outbox), TopicPartition(T, 0)
    missing.discard(tp)
    assert not outbox.changed, "it was not missing"
    missing.add(tp)
    assert outbox.changed == {OutboxEntry.OFFLINE_REPLICAS}
    outbox.changed.clear()
    missing.discard(tp)
    assert outbox.changed == {OutboxEntry.OFFLINE_REPLICAS} and tp not in missing
