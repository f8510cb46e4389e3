"""A test cluster as the monitor would project it: an image built by hand, written by the real projection."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID, uuid4

from django.utils import timezone

from brokerd.cluster.image import Image
from brokerd.cluster.model import (
    NO_BROKER_EPOCH,
    NO_LEADER,
    BrokerState,
    PartitionState,
    ReplicaIncarnation,
    TopicPartition,
    TopicState,
)
from controlplane.models import Cluster, ObservedReplica, Topic
from controlplane.monitoring.projection import MetadataProjection
from controlplane.selectors.topics import drift_count
from controlplane.services.access import missing_count


class World:
    """`brokers` live brokers with incarnation 100 + id. Change the image, then call `project()`."""

    def __init__(self, brokers: int = 3) -> None:
        self.image = Image(seq=1, cluster_id="test", controller_epoch=1)
        self.projection = MetadataProjection()
        for b in range(1, brokers + 1):
            self.image.brokers[b] = BrokerState(b, 100 + b, f"uuid-{b}", "127.0.0.1", 9000 + b)
        self.project()

    def project(self) -> None:
        self.image.seq += 1
        self.projection.write(self.image)
        self.projection.touch(
            self.image,
            controller_id=1,
            connected=True,
            fresh=True,
            drift=drift_count(),
            access_missing=missing_count(self.image),
        )

    def topic(
        self,
        name: str,
        *replicas: tuple[int, ...],
        row: bool = True,
        configs: dict[str, str] | None = None,
        size: int = 1000,
    ) -> UUID:
        topic_id = uuid4()
        state = TopicState(topic_id, name, 1, configs or {}, len(replicas), ready=True)
        for i, r in enumerate(replicas):
            isr_members = tuple(ReplicaIncarnation(b, 100 + b) for b in r)
            state.partitions[i] = PartitionState(r, isr_members, r[0], 100 + r[0])
        self.image.topics[topic_id] = state
        self.image.topic_ids[name] = topic_id
        if row:
            Topic.objects.create(
                id=topic_id,
                name=name,
                partitions=len(replicas),
                replication_factor=len(replicas[0]),
                configs=configs or {},
                applied_generation=1,
            )
        self.project()
        self.set_sizes(name, size)
        return topic_id

    def set_sizes(self, name: str, size: int, **copies: int) -> None:
        """Every replica of the topic has `size` bytes, that of broker N `bN` bytes where it is given."""
        from controlplane.models import ObservedPartition

        now = timezone.now()
        ObservedPartition.objects.filter(topic__name=name).update(size_bytes=size, sampled_at=now)
        rows = ObservedReplica.objects.filter(partition__topic__name=name)
        rows.update(size_bytes=size, sampled_at=now)
        for broker, bytes_held in copies.items():
            rows.filter(broker_id=int(broker[1:])).update(size_bytes=bytes_held)

    def apply_rows(self) -> None:
        """The controller's part for waiting rows: writes configs of topics and brokers to the metadata log and marks the rows as applied."""
        from controlplane.controller.request_persistence import desired_access, desired_topic
        from controlplane.services import access, topic_results

        for row in topic_results.waiting_topics():
            state = self.image.topics[row.id]
            state.configs, state.generation = dict(desired_topic(row).configs), row.generation
            topic_results.mark_applied({row.id: row.generation}, 1)
        for entry in access.waiting_entries():
            self.image.broker_configs[int(entry.key)] = (entry.generation, dict(desired_access(entry).value or {}))
            access.mark_applied(entry, 1)
        self.project()

    def state(self, name: str, index: int) -> PartitionState:
        found = self.image.partition(TopicPartition(self.image.topic_ids[name], index))
        assert found is not None
        return found

    def put(self, name: str, index: int, **changes: object) -> None:
        """Change a partition and mirror it. `isr` may be given as broker ids."""
        if "isr" in changes:
            changes["isr"] = tuple(ReplicaIncarnation(b, 100 + b) for b in changes["isr"])  # type: ignore[attr-defined]
        before = self.state(name, index)
        topic = self.image.topics[self.image.topic_ids[name]]
        topic.partitions[index] = replace(before, partition_epoch=before.partition_epoch + 1, **changes)  # type: ignore[arg-type]
        self.project()

    def begin_move(self, name: str, index: int, to: tuple[int, ...]) -> None:
        """The controller's part for a requested assignment."""
        before = self.state(name, index)
        old = tuple(b for b in before.replicas if b not in to)
        self.put(
            name,
            index,
            replicas=(*to, *old),
            adding=tuple(b for b in to if b not in before.isr_ids),
            removing=old,
            assignment_generation=before.assignment_generation + 1,
        )

    def end_move(self, name: str, index: int) -> None:
        """All new replicas are in sync: the controller removes the old ones."""
        before = self.state(name, index)
        to = before.target
        self.put(
            name,
            index,
            replicas=to,
            isr=to,
            adding=(),
            removing=(),
            leader=to[0],
            leader_broker_epoch=100 + to[0],
            assignment_generation=before.assignment_generation + 1,
        )

    def down(self, broker_id: int) -> None:
        self.image.brokers[broker_id] = replace(self.image.brokers[broker_id], alive=False)
        self.project()

    def register(self, broker_id: int) -> None:
        self.image.brokers[broker_id] = replace(self.image.brokers[broker_id], alive=True)
        self.project()

    def offline(self, name: str, index: int) -> None:
        self.put(name, index, isr=(), last_isr=(1,), leader=NO_LEADER, leader_broker_epoch=NO_BROKER_EPOCH)

    def age_observation(self, seconds: float) -> None:
        from datetime import timedelta

        Cluster.objects.update(observed_at=timezone.now() - timedelta(seconds=seconds))
