"""Rows in disaster recovery: the image that rows describe, and the reset of rows for a new metadata log.

Invariants: a row that the new log lacks is applied again, even if it was applied before. Rows with an incarnation are deleted, because a
new ZooKeeper reuses those numbers. Does not contain: ZooKeeper, files.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction
from django.db.models import Max

from brokerd.cluster.image import Image
from brokerd.cluster.levels import LEVEL_MAX
from brokerd.cluster.model import (
    INTERNAL_TOPICS,
    NO_BROKER_EPOCH,
    BrokerState,
    PartitionState,
    TopicState,
)
from controlplane.domain.audit_operation import AuditOperation
from controlplane.domain.config_overlay import LISTS, apply_overlay
from controlplane.models import Broker, Cluster, HandledRequest, ObservedPartition, ObservedTopic, Topic
from controlplane.models.change import Outcome
from controlplane.services.common import record


def known_image(cluster_id: str, brokers: Sequence[int]) -> Image:
    """The image from rows: observed rows if they are of this cluster, otherwise the applied desired rows.

    `cluster_id` is from the disks ("" = unknown), `brokers` are candidates for partitions that were never observed. Leaders and ISRs are
    omitted: observed rows may be seconds old, or older than the loss of ZooKeeper and a new cluster created by mistake.
    """
    row = Cluster.objects.filter(pk=1).first()
    seen = row is not None and bool(row.cluster_id) and row.cluster_id == (cluster_id or row.cluster_id)
    # No row contains the metadata level. A lower level than before would omit records (ACLs) of the rows. Older brokers reject a higher one.
    image = Image(cluster_id=cluster_id or (row.cluster_id if row is not None else ""), metadata_version=LEVEL_MAX)
    if row is not None and seen:
        image.seq, image.controller_epoch = row.metadata_seq, row.controller_epoch or 0
    image.controller_epoch = max(image.controller_epoch, _epoch())
    if seen:
        for broker in Broker.objects.all():
            image.brokers[broker.broker_id] = BrokerState(
                broker.broker_id,
                NO_BROKER_EPOCH,
                broker.broker_uuid,
                broker.host,
                broker.port,
                broker.rack,
                broker.failure_domain,
                False,
                life=broker.life,
            )
        _add_observed_rows(image)
    add_applied_rows(image, brokers)
    return image


def _epoch() -> int:
    return max(0, Topic.objects.aggregate(highest=Max("controller_epoch"))["highest"] or 0)


def _add_observed_rows(image: Image) -> None:
    for t in ObservedTopic.objects.filter(ready=True):
        image.topics[t.id] = TopicState(t.id, t.name, t.generation, dict(t.configs), t.partition_count, ready=True)
    for observed in ObservedPartition.objects.filter(topic__ready=True):
        image.topics[observed.topic_id].partitions[observed.index] = PartitionState(
            tuple(observed.replicas),
            (),
            observers=tuple(observed.observers),
            leader_epoch=observed.leader_epoch,
            partition_epoch=observed.partition_epoch,
            adding=tuple(observed.adding),
            removing=tuple(observed.removing),
            assignment_generation=observed.assignment_generation,
            handover_offset=-1 if observed.archive_start is None else observed.archive_start,
            handover_epoch=-1 if observed.archive_epoch is None else observed.archive_epoch,
            history_replicas=tuple(observed.holders),
        )


def add_applied_rows(image: Image, brokers: Sequence[int]) -> None:
    """Add applied rows: tombstones, and topics that `image` lacks or has in an earlier generation."""
    for row in Topic.objects.filter(applied_generation__gt=0):
        whole = row.applied_generation == row.generation
        seen = image.topics.get(row.id)
        if row.deleted_at is not None:
            if whole:
                image.topics.pop(row.id, None)
                image.deleted[row.id] = row.generation
            continue
        if seen is not None and (not whole or seen.generation >= row.generation):
            continue
        # The row has changed since it was applied. It is added with the applied generation, and the controller applies it again.
        generation = row.generation if whole else row.applied_generation
        configs = apply_overlay(row.configs, row.overlay) if whole else dict(row.configs)
        topic = TopicState(row.id, row.name, generation, configs, row.partitions, ready=True)
        if seen is not None:
            topic.partitions = seen.partitions
        for index in range(row.partitions):
            if index not in topic.partitions and (given := (row.assignment or {}).get(str(index))):
                topic.partitions[index] = PartitionState(tuple(given), ())
        image.topics[row.id] = topic
        _assign_missing_replicas(topic, row.replication_factor, sorted(brokers))
    image.topic_ids = {t.name: i for i, t in image.topics.items()}


def _assign_missing_replicas(topic: TopicState, factor: int, brokers: Sequence[int]) -> None:
    """Assign partitions without known replicas round robin. Logs on the disks win later (`rebuilt.rebuilt_state`)."""
    for index in range(topic.partition_count):
        if index not in topic.partitions and brokers:
            turned = [brokers[(index + i) % len(brokers)] for i in range(min(factor, len(brokers)))]
            topic.partitions[index] = PartitionState(tuple(turned), ())


def reset_rows(image: Image) -> list[str]:
    """Prepare the rows for a new log: rows that it lacks are applied again, and handled requests of an earlier ZooKeeper are deleted."""
    notes = []
    with transaction.atomic():
        HandledRequest.objects.all().delete()
        for row in Topic.objects.all():
            topic = image.topics.get(row.id)
            holds = topic.generation if topic is not None else image.deleted.get(row.id, 0)
            if row.applied_generation > holds:
                Topic.objects.filter(pk=row.pk).update(applied_generation=holds)
                if row.deleted_at is None:
                    notes.append(
                        f"{row.name}: the database is newer than the log (generation {row.generation}, {holds}); the controller will apply it again"
                    )
    return notes


def import_topics(image: Image, *, actor: str) -> tuple[list[str], list[str]]:
    """Create rows for topics of the log without a row, in the log's generation: (imported names, notes about skipped topics)."""
    imported, notes = [], []
    with transaction.atomic():
        for topic in sorted(image.topics.values(), key=lambda t: t.name):
            if not topic.ready:
                notes.append(f"{topic.name}: its creation in the log is not complete; skipped")
                continue
            row = Topic.objects.filter(pk=topic.topic_id).first()
            if row is not None:
                if row.generation < topic.generation:
                    notes.append(
                        f"{topic.name}: the row is older than the log ({row.generation}, {topic.generation}); adopt it on the drift page"
                    )
                continue
            if Topic.objects.filter(name=topic.name, deleted_at__isnull=True).exists():
                notes.append(f"{topic.name}: the database contains another topic of this name; skipped")
                continue
            _import(topic, image.controller_epoch, actor)
            imported.append(topic.name)
    return imported, notes


def _import(topic: TopicState, controller_epoch: int, actor: str) -> None:
    factor = max((len(s.target) for s in topic.partitions.values()), default=1)
    # The moves are lost with the database, so the row removes their throttles: without them it is one generation ahead of the log.
    configs = {k: v for k, v in topic.configs.items() if k not in LISTS}
    generation = topic.generation + (len(configs) < len(topic.configs))
    Topic.objects.create(
        id=topic.topic_id,
        name=topic.name,
        partitions=topic.partition_count,
        replication_factor=factor,
        configs=configs,
        internal=topic.name in INTERNAL_TOPICS,
        generation=generation,
        applied_generation=topic.generation,
        controller_epoch=controller_epoch,
    )
    record(
        actor,
        AuditOperation.TOPIC_IMPORT,
        "topic",
        topic.name,
        comment="the database was lost; imported from the metadata log",
        before={"configs": dict(topic.configs)},
        after={"partitions": topic.partition_count, "replication_factor": factor, "configs": configs},
        object_id=str(topic.topic_id),
        generation=generation,
        outcome=Outcome.CONFIRMED,
    )


def holds_topics() -> bool:
    """Return whether this database has been used for a cluster."""
    return Topic.objects.exists() or ObservedTopic.objects.exists()
