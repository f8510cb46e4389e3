"""The metadata image: brokers, topics, partitions, configs and access entries as of one entry of the metadata log.

Invariants: only `apply` changes the image, in log order. `validate` succeeds after every entry. Only TopicDeleted deletes a topic; a missing
record never does. See docs/flows.md. Does not contain ZooKeeper access, sockets or decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from uuid import UUID

from brokerd.cluster.access_values import AccessValue, configs_of
from brokerd.cluster.levels import LEVEL_MIN, level_problem
from brokerd.cluster.metadata import (
    BROKER,
    GENESIS_HASH,
    GROUP,
    AccessChanged,
    BrokerConfigChanged,
    BrokerDown,
    BrokerUp,
    ClusterCreated,
    Entry,
    FeatureFinalised,
    IsrRejected,
    MetadataError,
    MetadataLevelRaised,
    MetadataRecord,
    PartitionChanged,
    PartitionsGrown,
    ReplicaReset,
    RequestCompleted,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    TopicReady,
)
from brokerd.cluster.model import NO_LEADER, BrokerState, PartitionState, ReplicaIncarnation, TopicPartition, TopicState

TOMBSTONES_MAX = 100_000
"""Maximum number of stored ids of deleted topics. They prevent that a restored database recreates a deleted topic."""


@dataclass(slots=True)
class Image:
    """The state as of entry `seq`. Mutable; only `apply_entry` changes it.

    `topics` also contains topics that are not ready. `deleted` contains tombstones {topic id: generation}. `unfinished` are the records of
    unfinished entries. They are applied with the last entry of the same decision. They are discarded if the controller was deposed before
    it wrote that entry.
    """

    seq: int = 0
    chain_hash: str = GENESIS_HASH
    controller_epoch: int = 0
    cluster_id: str = ""
    metadata_version: int = 0
    brokers: dict[int, BrokerState] = field(default_factory=dict)
    topics: dict[UUID, TopicState] = field(default_factory=dict)
    topic_ids: dict[str, UUID] = field(default_factory=dict)
    deleted: dict[UUID, int] = field(default_factory=dict)
    broker_configs: dict[int, tuple[int, dict[str, str]]] = field(default_factory=dict)
    unfinished: list[MetadataRecord] = field(default_factory=list)
    access: dict[str, dict[str, tuple[int, AccessValue | None]]] = field(default_factory=dict)
    """{kind: {key: (generation, value)}}. Kinds are acl, scram and quota. The value is None after a deletion."""
    features: dict[str, int] = field(default_factory=dict)
    """Finalised features: {name: level}."""

    # -- reading ---------------------------------------------------------------------------------------------------
    def topic_named(self, name: str) -> TopicState | None:
        topic_id = self.topic_ids.get(name)
        return self.topics.get(topic_id) if topic_id is not None else None

    def is_assigned(self, broker_id: int, topic: str, partition: int) -> bool:
        """Return whether the broker is a replica, an observer or a history replica of the partition."""
        found = self.topic_named(topic)
        state = found.partitions.get(partition) if found is not None else None
        return state is not None and broker_id in state.hosts

    def partition(self, tp: TopicPartition) -> PartitionState | None:
        topic = self.topics.get(tp.topic_id)
        return topic.partitions.get(tp.partition) if topic is not None else None

    def alive(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.alive

    def live_brokers(self) -> list[BrokerState]:
        return [b for _, b in sorted(self.brokers.items()) if b.alive]

    def broker_epoch(self, broker_id: int) -> int | None:
        """The broker epoch of a live broker, else None."""
        broker = self.brokers.get(broker_id)
        return broker.broker_epoch if broker is not None and broker.alive else None

    def access_to(self, kind: str, key: str) -> tuple[int, AccessValue | None]:
        """(generation, value) of an access entry. (0, None) if it never existed. For kind BROKER: the settings of the broker with id `key`."""
        if kind == BROKER:
            return self.broker_configs.get(int(key), (0, None))
        return self.access.get(kind, {}).get(key, (0, None))

    def configs_of_broker(self, broker_id: int) -> tuple[int, dict[str, str]]:
        """(generation, dynamic configs) of a broker; ALL_BROKERS for the cluster-wide ones."""
        return self.broker_configs.get(broker_id, (0, {}))

    def configs_of_group(self, group_id: str) -> dict[str, str]:
        return configs_of(self.access_to(GROUP, group_id)[1])

    def each_partition(self) -> Iterator[tuple[TopicState, int, PartitionState]]:
        for topic in self.topics.values():
            for index, state in topic.partitions.items():
                yield topic, index, state

    # -- changing --------------------------------------------------------------------------------------------------
    def apply_entry(self, entry: Entry, data_hash: str) -> tuple[MetadataRecord, ...]:
        """Apply the next entry. Returns the records that take effect (none for an unfinished entry).

        Raises MetadataError if it is not the next entry. The image is unchanged then.
        """
        if entry.seq != self.seq + 1:
            raise MetadataError(f"entry {entry.seq} does not follow {self.seq}")
        if entry.previous_hash != self.chain_hash:
            raise MetadataError(
                f"entry {entry.seq} belongs to another metadata log: its previous hash is {entry.previous_hash[:12]}, "
                f"expected {self.chain_hash[:12]}"
            )
        if entry.controller_epoch < self.controller_epoch:
            raise MetadataError(f"entry {entry.seq} was written by deposed controller epoch {entry.controller_epoch}")
        if entry.controller_epoch > self.controller_epoch:
            self.unfinished.clear()
        applied: tuple[MetadataRecord, ...] = ()
        if entry.unfinished:
            self.unfinished += entry.records
        else:
            applied = (*self.unfinished, *entry.records)
            self.unfinished.clear()
            for record in applied:
                self.apply(record)
        self.seq, self.chain_hash, self.controller_epoch = entry.seq, data_hash, entry.controller_epoch
        return applied

    def apply(self, record: MetadataRecord) -> None:
        match record:
            case ClusterCreated():
                self._reach(record.metadata_version)
                self.cluster_id = record.cluster_id
            case MetadataLevelRaised():
                self._reach(record.level)
            case BrokerUp():
                self.brokers[record.broker_id] = BrokerState(
                    record.broker_id,
                    record.broker_epoch,
                    record.broker_uuid,
                    record.host,
                    record.port,
                    record.rack,
                    record.failure_domain,
                    True,
                    record.endpoints,
                    record.life,
                    record.tail_doubt,
                )
            case BrokerDown():
                old = self.brokers.get(record.broker_id)
                if old is not None and old.broker_epoch == record.broker_epoch:
                    self.brokers[record.broker_id] = replace(old, alive=False)
            case TopicCreated():
                self.topics[record.topic_id] = TopicState(
                    record.topic_id, record.name, record.generation, dict(record.configs), record.partition_count
                )
                self.topic_ids[record.name] = record.topic_id
            case TopicReady():
                self._topic(record.topic_id).ready = True
            case TopicDeleted():
                topic = self.topics.pop(record.topic_id, None)
                if topic is not None and self.topic_ids.get(topic.name) == record.topic_id:
                    del self.topic_ids[topic.name]
                self.deleted[record.topic_id] = record.generation
                while len(self.deleted) > TOMBSTONES_MAX:
                    del self.deleted[next(iter(self.deleted))]
            case PartitionsGrown():
                topic = self._topic(record.topic_id)
                topic.generation, topic.partition_count = record.generation, record.partition_count
            case PartitionChanged():
                self._topic(record.topic_id).partitions[record.partition] = record.state
            case TopicConfigChanged():
                topic = self._topic(record.topic_id)
                topic.generation, topic.configs = record.generation, dict(record.configs)
            case BrokerConfigChanged():
                self.broker_configs[record.broker_id] = (record.generation, dict(record.configs))
            case AccessChanged():
                self.access.setdefault(record.kind, {})[record.key] = (record.generation, record.value)
            case FeatureFinalised():
                self.features[record.name] = record.feature_level
            case IsrRejected() | ReplicaReset() | RequestCompleted():
                pass  # notifications to readers of the log, not stored in the image
            case _:
                raise MetadataError(f"record type {type(record).__name__} cannot be applied")

    def _reach(self, level: int) -> None:
        problem = level_problem(level)
        if problem is not None:
            raise MetadataError(problem)
        self.metadata_version = level

    def _topic(self, topic_id: UUID) -> TopicState:
        topic = self.topics.get(topic_id)
        if topic is None:
            raise MetadataError(f"record for unknown topic {topic_id}")
        return topic

    def validate(self) -> None:
        """Check every invariant of the image. Raises AssertionError."""
        for topic in self.topics.values():
            assert self.topic_ids.get(topic.name) == topic.topic_id, f"name {topic.name} is not mapped to its topic"
            self._validate_topic(topic, topic.partitions)

    def validate_partitions(self, records: Iterable[MetadataRecord]) -> None:
        """Check the invariants of the partitions that `records` changed. Raises AssertionError."""
        for record in records:
            if isinstance(record, PartitionChanged) and record.topic_id in self.topics:
                self._validate_topic(self.topics[record.topic_id], (record.partition,))

    @staticmethod
    def _validate_topic(topic: TopicState, indexes: Iterable[int]) -> None:
        for index in indexes:
            partition = topic.partitions[index]
            where = f"{topic.name}-{index}: {partition}"
            assert 0 <= index < topic.partition_count, f"partition index too large, {where}"
            assert partition.replicas and len(set(partition.replicas)) == len(partition.replicas), (
                f"replicas empty or duplicate, {where}"
            )
            assert set(partition.isr_ids) <= set(partition.replicas), f"ISR member is not a replica, {where}"
            assert len(set(partition.isr_ids)) == len(partition.isr), f"duplicate ISR member, {where}"
            assert not set(partition.elr) & set(partition.isr_ids), f"ELR and ISR overlap, {where}"
            assert set(partition.elr) <= set(partition.replicas), f"ELR member is not a replica, {where}"
            assert set(partition.adding) <= set(partition.replicas) and set(partition.removing) <= set(
                partition.replicas
            ), f"adding or removing broker is not a replica, {where}"
            assert not set(partition.observers) & set(partition.replicas), f"observer is a replica, {where}"
            assert len(set(partition.observers)) == len(partition.observers), f"duplicate observer, {where}"
            assert partition.observers or partition.tail_start < 0, f"tail_start without observers, {where}"
            assert (partition.handover_offset >= 0) == bool(partition.history_replicas), (
                f"handover_offset without history_replicas or vice versa, {where}"
            )
            assert len(set(partition.history_replicas)) == len(partition.history_replicas), (
                f"duplicate history replica, {where}"
            )
            assert not set(partition.observers) & set(partition.history_replicas), (
                f"history replica is an observer, {where}"
            )
            assert partition.handover_offset >= partition.log_start_floor or partition.handover_offset < 0, (
                f"handover_offset below log_start_floor, {where}"
            )
            assert set(partition.voters) <= set(partition.replicas), f"voter is not a replica, {where}"
            assert not partition.voters or not (partition.observers or partition.history_replicas), (
                f"voters with observers or history, {where}"
            )
            if partition.leader != NO_LEADER:
                assert ReplicaIncarnation(partition.leader, partition.leader_broker_epoch) in partition.isr, (
                    f"leader is not in the ISR, {where}"
                )
            else:
                assert partition.isr or partition.elr or partition.last_isr or partition.voters, (
                    f"no ISR, ELR or last ISR to elect from, {where}"
                )

    # -- snapshots -------------------------------------------------------------------------------------------------
    def records(self) -> Iterator[MetadataRecord]:
        """The records that rebuild this image, without seq, chain hash and controller epoch."""
        yield ClusterCreated(self.cluster_id)
        if self.metadata_version > LEVEL_MIN:
            yield MetadataLevelRaised(self.metadata_version)
        for broker in self.brokers.values():
            yield BrokerUp(
                broker.broker_id,
                broker.broker_epoch,
                broker.broker_uuid,
                broker.host,
                broker.port,
                broker.rack,
                broker.failure_domain,
                True,
                broker.endpoints,
                broker.life,
                broker.tail_doubt,
            )
            if not broker.alive:
                yield BrokerDown(broker.broker_id, broker.broker_epoch)
        for topic_id, generation in self.deleted.items():
            yield TopicDeleted(topic_id, "", generation)
        for broker_id, (generation, configs) in self.broker_configs.items():
            yield BrokerConfigChanged(broker_id, generation, configs)
        for kind, entries in self.access.items():
            for key, (generation, value) in entries.items():
                yield AccessChanged(kind, key, generation, value)
        for name, feature_level in self.features.items():
            yield FeatureFinalised(name, feature_level)
        for topic in self.topics.values():
            yield TopicCreated(topic.topic_id, topic.name, topic.generation, topic.configs, topic.partition_count)
            for index, state in topic.partitions.items():
                yield PartitionChanged(topic.topic_id, index, state)
            if topic.ready:
                yield TopicReady(topic.topic_id)

    @staticmethod
    def from_records(records: Iterable[MetadataRecord], seq: int, chain_hash: str, controller_epoch: int) -> Image:
        image = Image()
        for record in records:
            image.apply(record)
        image.seq, image.chain_hash, image.controller_epoch = seq, chain_hash, controller_epoch
        return image
