"""The database's side of a disaster: what its rows know of the metadata log, and what they must forget once there is a new one.

Laws: a wish that the new log does not hold waits again, whatever was applied once; what is named after an incarnation is forgotten, for a new
ZooKeeper gives those numbers anew. Called by the commands. Must not come in: ZooKeeper, files.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction
from django.db.models import Max

from brokerd.cluster.image import Image
from brokerd.cluster.levels import LEVEL_MAX
from brokerd.cluster.model import (
    INTERNAL_TOPICS,
    NO_INCARNATION,
    BrokerState,
    PartitionState,
    TopicState,
)
from controlplane.models import Broker, Cluster, HandledRequest, ObservedTopic, Partition, Topic
from controlplane.models.change import Outcome
from controlplane.services import throttles
from controlplane.services.common import record


def known_image(cluster_id: str, brokers: Sequence[int]) -> Image:
    """What the rows know of a cluster: the observer's mirror where it watched this cluster, else the wishes that were applied.

    `cluster_id` is the disks' ("" = they know none), `brokers` those who may hold a partition that nobody has seen yet. Leaders and ISRs are
    left out: the mirror may be seconds old, or of the time before ZooKeeper was lost and a new cluster was begun by mistake.
    """
    row = Cluster.objects.filter(pk=1).first()
    seen = row is not None and bool(row.cluster_id) and row.cluster_id == (cluster_id or row.cluster_id)
    # No row knows the log's level. A lower one than it had would leave out records (ACLs) that the rows want; a higher one is refused aloud by who cannot read it.
    image = Image(cluster_id=cluster_id or (row.cluster_id if row is not None else ""), metadata_version=LEVEL_MAX)
    if row is not None and seen:
        image.seq, image.controller_epoch = row.metadata_seq, row.controller_epoch or 0
    image.controller_epoch = max(image.controller_epoch, _epoch())
    if seen:
        for b in Broker.objects.all():
            image.brokers[b.broker_id] = BrokerState(
                b.broker_id, NO_INCARNATION, b.broker_uuid, b.host, b.port, b.rack, b.failure_domain, False
            )
        _mirrored(image)
    add_wished(image, brokers)
    return image


def _epoch() -> int:
    return max(0, Topic.objects.aggregate(highest=Max("controller_epoch"))["highest"] or 0)


def _mirrored(image: Image) -> None:
    for t in ObservedTopic.objects.filter(ready=True):
        image.topics[t.id] = TopicState(t.id, t.name, t.generation, dict(t.configs), t.partition_count, ready=True)
    for p in Partition.objects.filter(topic__ready=True):
        image.topics[p.topic_id].partitions[p.index] = PartitionState(
            tuple(p.replicas), (), observers=tuple(p.observers), leader_epoch=p.leader_epoch, partition_epoch=p.partition_epoch,
            adding=tuple(p.adding), removing=tuple(p.removing), assignment_generation=p.assignment_generation,
            archive_start=-1 if p.archive_start is None else p.archive_start, archive_epoch=-1 if p.archive_epoch is None else p.archive_epoch,
            holders=tuple(p.holders),
        )  # fmt: skip


def add_wished(image: Image, brokers: Sequence[int]) -> None:
    """Rows that were applied once: tombstones, and topics that `image` does not hold, or in an earlier generation."""
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
        # Not whole: what the log held is not what the row says now. It waits again, in an earlier generation.
        generation = row.generation if whole else row.applied_generation
        configs = throttles.effective(row.configs, row.overlay) if whole else dict(row.configs)
        topic = TopicState(row.id, row.name, generation, configs, row.partitions, ready=True)
        if seen is not None:
            topic.partitions = seen.partitions
        for index in range(row.partitions):
            if index not in topic.partitions and (given := (row.assignment or {}).get(str(index))):
                topic.partitions[index] = PartitionState(tuple(given), ())
        image.topics[row.id] = topic
        _places(topic, row.replication_factor, sorted(brokers))
    image.topic_ids = {t.name: i for i, t in image.topics.items()}


def _places(topic: TopicState, factor: int, brokers: Sequence[int]) -> None:
    """Nobody knows where these were: the disks will say (`rebuilt.seated`). Those of which there is no copy are spread."""
    for index in range(topic.partition_count):
        if index not in topic.partitions and brokers:
            turned = [brokers[(index + i) % len(brokers)] for i in range(min(factor, len(brokers)))]
            topic.partitions[index] = PartitionState(tuple(turned), ())


def begin_anew(image: Image) -> list[str]:
    """The rows' part of a new log: what it does not hold waits again, answers to an earlier ZooKeeper's requests are forgotten."""
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
                        f"{row.name}: the database is newer than the log (generation {row.generation}, {holds}); the controller applies it again"
                    )
    return notes


def import_topics(image: Image, *, who: str) -> tuple[list[str], list[str]]:
    """Rows for the log's topics that have none, in the log's generation: (imported names, sentences about what was left alone)."""
    imported, notes = [], []
    with transaction.atomic():
        for topic in sorted(image.topics.values(), key=lambda t: t.name):
            if not topic.ready:
                notes.append(f"{topic.name}: its creation has not ended in the log; left out")
                continue
            row = Topic.objects.filter(pk=topic.topic_id).first()
            if row is not None:
                if row.generation < topic.generation:
                    notes.append(
                        f"{topic.name}: the row is older than the log ({row.generation}, {topic.generation}); adopt it on the drift page"
                    )
                continue
            if Topic.objects.filter(name=topic.name, deleted_at__isnull=True).exists():
                notes.append(f"{topic.name}: the database wants another topic of this name; left alone")
                continue
            _import(topic, image.controller_epoch, who)
            imported.append(topic.name)
    return imported, notes


def _import(topic: TopicState, controller_epoch: int, who: str) -> None:
    factor = max((len(s.target) for s in topic.partitions.values()), default=1)
    # The moves are lost with the database, and nobody else would ever take their throttles off: the row is a generation ahead without them.
    configs = {k: v for k, v in topic.configs.items() if k not in throttles.LISTS}
    generation = topic.generation + (len(configs) < len(topic.configs))
    Topic.objects.create(
        id=topic.topic_id, name=topic.name, partitions=topic.partition_count, replication_factor=factor, configs=configs,
        internal=topic.name in INTERNAL_TOPICS, generation=generation, applied_generation=topic.generation,
        controller_epoch=controller_epoch,
    )  # fmt: skip
    record(
        who, "topic.import", "topic", topic.name, why="the database was lost; taken over from the metadata log",
        before={"configs": dict(topic.configs)},
        after={"partitions": topic.partition_count, "replication_factor": factor, "configs": configs},
        object_id=str(topic.topic_id), generation=generation, outcome=Outcome.CONFIRMED,
    )  # fmt: skip


def holds_topics() -> bool:
    """Whether this database has ever been used for a cluster."""
    return Topic.objects.exists() or ObservedTopic.objects.exists()
