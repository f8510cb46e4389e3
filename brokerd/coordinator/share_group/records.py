"""Records of share groups in __consumer_offsets, in Kafka's formats, so that Kafka's tools can read them. Pure.

The names are those of Kafka's message definitions (group-coordinator, up to 4.3). An invalid record raises ValueError; the coordinator logs and
skips it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from brokerd.coordinator.consumer.records import assignment_of, by_topic
from brokerd.coordinator.record_keys import decode_key, encode_key
from brokerd.coordinator.share_group.events import (
    ShareGroupChange,
    ShareMemberAssignment,
    ShareMemberMetadata,
    ShareRecordKey,
    StatePartitions,
)
from brokerd.wire.schema import Struct, array, f, packer, unpacker

KEY_TYPES = frozenset(ShareRecordKey)
NAMED = frozenset({ShareRecordKey.MEMBER, ShareRecordKey.TARGET_ASSIGNMENT, ShareRecordKey.CURRENT_ASSIGNMENT})
"""Key types with a member id after the group id."""
ELEMENTS_MAX = 1_000_000
STABLE_MEMBER = 0
"""Kafka's number of the only state that members of share groups have."""


@dataclass(slots=True)
class ShareGroupMemberMetadataValue(Struct):
    rack_id: str | None = f("string", nullable="0+")
    client_id: str = f("string")
    client_host: str = f("string")
    subscribed_topic_names: list[str] = f(array("string"))


@dataclass(slots=True)
class ShareGroupMetadataValue(Struct):
    epoch: int = f("int32")
    metadata_hash: int = f("int64")


@dataclass(slots=True)
class ShareGroupTargetAssignmentMetadataValue(Struct):
    assignment_epoch: int = f("int32")
    assignment_timestamp: int = f("int64", tag=0, tagged="0+", default=0)


@dataclass(slots=True)
class ShareGroupTargetAssignmentMemberValue(Struct):
    @dataclass(slots=True)
    class TopicPartition(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[int] = f(array("int32"))

    topic_partitions: list[ShareGroupTargetAssignmentMemberValue.TopicPartition] = f(array("TopicPartition"))


@dataclass(slots=True)
class ShareGroupCurrentMemberAssignmentValue(Struct):
    @dataclass(slots=True)
    class TopicPartitions(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[int] = f(array("int32"))

    member_epoch: int = f("int32")
    previous_member_epoch: int = f("int32")
    state: int = f("int8")
    assigned_partitions: list[ShareGroupCurrentMemberAssignmentValue.TopicPartitions] = f(array("TopicPartitions"))


@dataclass(slots=True)
class ShareGroupStatePartitionMetadataValue(Struct):
    @dataclass(slots=True)
    class TopicPartitionsInfo(Struct):
        topic_id: UUID = f("uuid")
        topic_name: str = f("string")
        partitions: list[int] = f(array("int32"))

    @dataclass(slots=True)
    class TopicInfo(Struct):
        topic_id: UUID = f("uuid")
        topic_name: str = f("string")

    initializing_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = f(
        array("TopicPartitionsInfo")
    )
    initialized_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = f(
        array("TopicPartitionsInfo")
    )
    deleting_topics: list[ShareGroupStatePartitionMetadataValue.TopicInfo] = f(array("TopicInfo"))


VALUES: dict[ShareRecordKey, type[object]] = {
    ShareRecordKey.MEMBER: ShareGroupMemberMetadataValue,
    ShareRecordKey.GROUP: ShareGroupMetadataValue,
    ShareRecordKey.TARGET_EPOCH: ShareGroupTargetAssignmentMetadataValue,
    ShareRecordKey.TARGET_ASSIGNMENT: ShareGroupTargetAssignmentMemberValue,
    ShareRecordKey.CURRENT_ASSIGNMENT: ShareGroupCurrentMemberAssignmentValue,
    ShareRecordKey.STATE_PARTITIONS: ShareGroupStatePartitionMetadataValue,
}


def key(group_id: str, change: ShareGroupChange) -> bytes:
    return encode_key(change.fact, (group_id, change.name) if change.fact in NAMED else (group_id,))


def read_key(data: bytes) -> tuple[str, ShareRecordKey, str]:
    """(group id, key type, member id or empty)."""
    kind, texts = decode_key(data)
    if kind not in VALUES or len(texts) != 1 + (kind in NAMED):
        raise ValueError(f"unsupported key version {kind}")
    fact = ShareRecordKey(kind)
    return texts[0], fact, texts[1] if fact in NAMED else ""


def value(change: ShareGroupChange) -> bytes | None:
    """The value of the record. None is a tombstone."""
    if change.value is None:
        return None
    out = bytearray(2)  # version 0
    packer(VALUES[change.fact], 0, True)(_to_value(change.fact, change.value), out, [])
    return bytes(out)


def _infos(topics: Mapping[UUID, tuple[str, frozenset[int]]]) -> list[Any]:
    info = ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo
    return [info(topic_id, name, sorted(partitions)) for topic_id, (name, partitions) in sorted(topics.items())]


def _to_value(fact: ShareRecordKey, fact_value: Any) -> Any:
    match fact:
        case ShareRecordKey.MEMBER:
            return ShareGroupMemberMetadataValue(
                fact_value.rack_id, fact_value.client_id, fact_value.client_host, sorted(fact_value.topics)
            )
        case ShareRecordKey.GROUP:
            return ShareGroupMetadataValue(*fact_value)
        case ShareRecordKey.TARGET_EPOCH:
            return ShareGroupTargetAssignmentMetadataValue(fact_value)
        case ShareRecordKey.TARGET_ASSIGNMENT:
            one = ShareGroupTargetAssignmentMemberValue.TopicPartition
            return ShareGroupTargetAssignmentMemberValue([one(t, ps) for t, ps in by_topic(fact_value).items()])
        case ShareRecordKey.CURRENT_ASSIGNMENT:
            some = ShareGroupCurrentMemberAssignmentValue.TopicPartitions
            assigned = [some(t, ps) for t, ps in by_topic(fact_value.assigned).items()]
            return ShareGroupCurrentMemberAssignmentValue(
                fact_value.epoch, fact_value.previous_epoch, STABLE_MEMBER, assigned
            )
        case ShareRecordKey.STATE_PARTITIONS:
            gone = ShareGroupStatePartitionMetadataValue.TopicInfo
            return ShareGroupStatePartitionMetadataValue(
                _infos(fact_value.initializing),
                _infos(fact_value.initialized),
                [gone(t, name) for t, name in sorted(fact_value.deleting.items())],
            )


def read_value(fact: ShareRecordKey, data: bytes) -> object:
    """`ShareGroupChange.value` of a record with this key type."""
    if data[:2] != b"\0\0":
        raise ValueError(f"unsupported value version of {fact.name}: {int.from_bytes(data[:2], 'big')}")
    try:
        stored, _ = unpacker(VALUES[fact], 0, True)(memoryview(data), 2, len(data), [ELEMENTS_MAX])
    except (struct.error, IndexError) as e:
        raise ValueError("the record is incomplete") from e
    match fact:
        case ShareRecordKey.MEMBER:
            return ShareMemberMetadata(
                stored.rack_id, stored.client_id, stored.client_host, frozenset(stored.subscribed_topic_names)
            )
        case ShareRecordKey.GROUP:
            return stored.epoch, stored.metadata_hash
        case ShareRecordKey.TARGET_EPOCH:
            return stored.assignment_epoch
        case ShareRecordKey.TARGET_ASSIGNMENT:
            return assignment_of(stored.topic_partitions)
        case ShareRecordKey.CURRENT_ASSIGNMENT:
            return ShareMemberAssignment(
                stored.member_epoch, stored.previous_member_epoch, assignment_of(stored.assigned_partitions)
            )
        case ShareRecordKey.STATE_PARTITIONS:
            return StatePartitions(
                {t.topic_id: (t.topic_name, frozenset(t.partitions)) for t in stored.initializing_topics},
                {t.topic_id: (t.topic_name, frozenset(t.partitions)) for t in stored.initialized_topics},
                {t.topic_id: t.topic_name for t in stored.deleting_topics},
            )
