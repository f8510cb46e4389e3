"""The differences between two states of the cluster, and the changes by one record. Pure.

A row has values for display before and after; None means that there was none. ISR and leaders are compared by broker id, not by incarnation.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from brokerd.cluster.image import Image
from brokerd.cluster.metadata import (
    AccessChanged,
    BrokerConfigChanged,
    BrokerDown,
    BrokerUp,
    FeatureFinalised,
    MetadataRecord,
    PartitionChanged,
    PartitionsGrown,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
)
from brokerd.cluster.model import NO_LEADER, BrokerState, PartitionState, TopicState
from weir_common.phrases import Phrase, counted, sentence

ALL_BROKERS = -1
"""Broker id of cluster-wide broker configs."""

NO_LEADER_TEXT = sentence("none")


class DifferenceKind(StrEnum):
    BROKER = "broker"
    LEADER = "leader"
    ISR_SHRINK = "isr_shrink"
    ISR_EXPAND = "isr_expand"
    PLACEMENT = "placement"
    TOPIC = "topic"
    TOPIC_CONFIG = "topic_config"
    BROKER_CONFIG = "broker_config"
    ACCESS = "access"
    FEATURE = "feature"


@dataclass(frozen=True, slots=True)
class StateDifference:
    """`subject` is for display. `topic`, `partition` and `broker` identify the object, if it is one of these. `name` is the config, ACL or feature. `brokers`
    are the brokers with a replica of the partition before or after."""

    kind: DifferenceKind
    subject: str
    before: str | None
    after: str | None
    topic: str = ""
    partition: int | None = None
    broker: int | None = None
    name: str = ""
    brokers: frozenset[int] = frozenset()


def ids_text(ids: Iterable[int]) -> str:
    return ", ".join(str(i) for i in ids)


def placement_text(state: PartitionState) -> str:
    """Replicas in the order of preference. Replicas that are being added or removed are marked."""
    parts = [f"{b}+" if b in state.adding else f"{b}-" if b in state.removing else str(b) for b in state.replicas]
    replicas = ", ".join(parts)
    if not state.observers:
        return replicas
    return sentence("{replicas} observers {observers}", replicas=replicas, observers=ids_text(state.observers))


def leader_text(state: PartitionState) -> str:
    return NO_LEADER_TEXT if state.leader == NO_LEADER else str(state.leader)


def partition_differences(
    topic: str, index: int, old: PartitionState, new: PartitionState
) -> Iterator[StateDifference]:
    brokers = frozenset((*old.hosts, *new.hosts))

    def row(kind: DifferenceKind, before: str, after: str) -> StateDifference:
        return StateDifference(kind, f"{topic}-{index}", before, after, topic, index, brokers=brokers)

    if old.leader != new.leader:
        yield row(DifferenceKind.LEADER, leader_text(old), leader_text(new))
    was, now = ids_text(sorted(old.isr_ids)), ids_text(sorted(new.isr_ids))
    if set(old.isr_ids) - set(new.isr_ids):
        yield row(DifferenceKind.ISR_SHRINK, was, now)
    if set(new.isr_ids) - set(old.isr_ids):
        yield row(DifferenceKind.ISR_EXPAND, was, now)
    if placement_text(old) != placement_text(new):
        yield row(DifferenceKind.PLACEMENT, placement_text(old), placement_text(new))


def broker_text(broker: BrokerState | None) -> str | None:
    """Return state and address of the broker as text, None for a broker that never registered."""
    if broker is None:
        return None
    state = Phrase("alive") if broker.alive else Phrase("down")
    return sentence("{state}, {address}", state=state, address=f"{broker.host}:{broker.port}")


def _broker_difference(broker_id: int, old: BrokerState | None, new: BrokerState | None) -> Iterator[StateDifference]:
    before, after = broker_text(old), broker_text(new)
    if old is not None and new is not None and before == after and old.broker_epoch != new.broker_epoch and new.alive:
        before = sentence("broker epoch {epoch}", epoch=old.broker_epoch)
        after = sentence("restarted, broker epoch {epoch}", epoch=new.broker_epoch)
    if before != after:
        yield StateDifference(DifferenceKind.BROKER, _broker(broker_id), before, after, broker=broker_id)


def _config_differences(
    kind: DifferenceKind,
    subject: str,
    old: Mapping[str, str],
    new: Mapping[str, str],
    *,
    topic: str = "",
    broker: int | None = None,
) -> Iterator[StateDifference]:
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield StateDifference(
                kind,
                sentence("{object}: {name}", object=subject, name=name),
                old.get(name),
                new.get(name),
                topic=topic,
                broker=broker,
                name=name,
            )


def _broker_configs(broker_id: int, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[StateDifference]:
    everywhere = broker_id == ALL_BROKERS
    yield from _config_differences(
        DifferenceKind.BROKER_CONFIG,
        sentence("all brokers") if everywhere else _broker(broker_id),
        old,
        new,
        broker=None if everywhere else broker_id,
    )


def _topic_text(topic: TopicState | None) -> str | None:
    return None if topic is None else _partitions(topic.partition_count)


def _partitions(count: int) -> str:
    return counted(count, "{count} partition", "{count} partitions")


def _broker(broker_id: int) -> str:
    return sentence("broker {id}", id=broker_id)


def _topic_difference(name: str, old: TopicState | None, new: TopicState | None) -> Iterator[StateDifference]:
    before, after = _topic_text(old), _topic_text(new)
    if old is not None and new is not None and old.topic_id != new.topic_id:
        after = sentence("{partitions}, created again", partitions=after)
    if before != after:
        yield StateDifference(DifferenceKind.TOPIC, name, before, after, name)


def access_text(generation: int, value: Mapping[str, object] | None) -> str | None:
    if value is None:
        return None
    return json.dumps(value, sort_keys=True) if value else sentence("version {generation}", generation=generation)


Access = tuple[int, Mapping[str, object] | None]


def _access_difference(kind: str, key: str, old: Access, new: Access) -> Iterator[StateDifference]:
    before, after = access_text(*old), access_text(*new)
    if before != after:
        yield StateDifference(DifferenceKind.ACCESS, f"{kind} {key}", before, after, name=key)


def _feature_difference(name: str, old: int | None, new: int | None) -> Iterator[StateDifference]:
    if old != new:
        texts = [None if level is None else str(level) for level in (old, new)]
        yield StateDifference(DifferenceKind.FEATURE, name, texts[0], texts[1], name=name)


def differences(old: Image, new: Image) -> Iterator[StateDifference]:
    """The differences of two states, by kind of object and name. A topic that was created or deleted is one difference."""
    for broker_id in sorted({*old.brokers, *new.brokers}):
        yield from _broker_difference(broker_id, old.brokers.get(broker_id), new.brokers.get(broker_id))
    for name in sorted({*old.topic_ids, *new.topic_ids}):
        was, now = old.topic_named(name), new.topic_named(name)
        yield from _topic_difference(name, was, now)
        if was is None or now is None or was.topic_id != now.topic_id:
            continue
        yield from _config_differences(DifferenceKind.TOPIC_CONFIG, name, was.configs, now.configs, topic=name)
        for index in sorted(was.partitions.keys() & now.partitions.keys()):
            if was.partitions[index] != now.partitions[index]:
                yield from partition_differences(name, index, was.partitions[index], now.partitions[index])
    for broker_id in sorted({*old.broker_configs, *new.broker_configs}):
        configs = [image.broker_configs.get(broker_id, (0, {}))[1] for image in (old, new)]
        yield from _broker_configs(broker_id, configs[0], configs[1])
    for kind in sorted({*old.access, *new.access}):
        for key in sorted({*old.access.get(kind, {}), *new.access.get(kind, {})}):
            yield from _access_difference(kind, key, old.access_to(kind, key), new.access_to(kind, key))
    for name in sorted({*old.features, *new.features}):
        yield from _feature_difference(name, old.features.get(name), new.features.get(name))


def record_differences(image: Image, record: MetadataRecord) -> Iterator[StateDifference]:
    """Yield the changes that the record makes. `image`: the state before the record."""
    match record:
        case BrokerUp() | BrokerDown():
            after = Image(brokers=dict(image.brokers))
            after.apply(record)
            broker_id = record.broker_id
            yield from _broker_difference(broker_id, image.brokers.get(broker_id), after.brokers.get(broker_id))
        case TopicCreated():
            text = _partitions(record.partition_count)
            yield StateDifference(DifferenceKind.TOPIC, record.name, None, text, record.name)
        case TopicDeleted() if record.topic_id in image.topics:
            topic = image.topics[record.topic_id]
            yield from _topic_difference(topic.name, topic, None)
        case PartitionsGrown() if record.topic_id in image.topics:
            topic = image.topics[record.topic_id]
            yield StateDifference(
                DifferenceKind.TOPIC, topic.name, _topic_text(topic), _partitions(record.partition_count), topic.name
            )
        case PartitionChanged() if record.topic_id in image.topics:
            topic = image.topics[record.topic_id]
            if (old := topic.partitions.get(record.partition)) is not None:
                yield from partition_differences(topic.name, record.partition, old, record.state)
        case TopicConfigChanged() if record.topic_id in image.topics:
            topic = image.topics[record.topic_id]
            yield from _config_differences(
                DifferenceKind.TOPIC_CONFIG, topic.name, topic.configs, record.configs, topic=topic.name
            )
        case BrokerConfigChanged():
            old_configs = image.broker_configs.get(record.broker_id, (0, {}))[1]
            yield from _broker_configs(record.broker_id, old_configs, record.configs)
        case AccessChanged():
            new = (record.generation, record.value)
            yield from _access_difference(record.kind, record.key, image.access_to(record.kind, record.key), new)
        case FeatureFinalised():
            yield from _feature_difference(record.name, image.features.get(record.name), record.feature_level)
