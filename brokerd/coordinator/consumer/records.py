"""Records of groups of the consumer protocol in __consumer_offsets, in Kafka's formats, so that Kafka's tools can read them. Pure.

The names are those of Kafka's message definitions (group-coordinator, up to 4.3). The optional times of creation and assignment are not written.
Key type 4, which Kafka replaced with the metadata hash, is skipped. An invalid record raises ValueError; the coordinator logs and skips it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from brokerd.cluster.model import TopicPartition
from brokerd.coordinator.consumer.assignors import Assignment
from brokerd.coordinator.consumer.events import (
    ClassicMemberMetadata,
    ConsumerGroupChange,
    GroupMetadata,
    GroupRecordKey,
    MemberMetadata,
    ResolvedRegularExpression,
)
from brokerd.coordinator.consumer.reconciliation import MemberAssignment, MemberState
from brokerd.coordinator.record_keys import decode_key, encode_key
from brokerd.wire.schema import Struct, array, f, packer, unpacker

PARTITION_METADATA = 4
"""Key type of ConsumerGroupPartitionMetadata, which Kafka 3.7 to 4.0 wrote."""
KEY_TYPES = frozenset({*GroupRecordKey, PARTITION_METADATA})
ELEMENTS_MAX = 1_000_000


@dataclass(slots=True)
class ConsumerGroupMetadataValue(Struct):
    epoch: int = f("int32")
    metadata_hash: int = f("int64", tag=0, tagged="0+", default=0)


@dataclass(slots=True)
class ConsumerGroupMemberMetadataValue(Struct):
    @dataclass(slots=True)
    class ClassicProtocol(Struct):
        name: str = f("string")
        metadata: bytes = f("bytes")

    @dataclass(slots=True)
    class ClassicMemberMetadata(Struct):
        session_timeout_ms: int = f("int32")
        supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol] = f(array("ClassicProtocol"))

    instance_id: str | None = f("string", nullable="0+")
    rack_id: str | None = f("string", nullable="0+")
    client_id: str = f("string")
    client_host: str = f("string")
    subscribed_topic_names: list[str] = f(array("string"))
    subscribed_topic_regex: str | None = f("string", nullable="0+")
    rebalance_timeout_ms: int = f("int32", default=-1)
    server_assignor: str | None = f("string", nullable="0+")
    classic_member_metadata: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None = f(
        "ClassicMemberMetadata", nullable="0+", tag=0, tagged="0+", default=None
    )


@dataclass(slots=True)
class ConsumerGroupTargetAssignmentMetadataValue(Struct):
    assignment_epoch: int = f("int32")


@dataclass(slots=True)
class ConsumerGroupTargetAssignmentMemberValue(Struct):
    @dataclass(slots=True)
    class TopicPartition(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[int] = f(array("int32"))

    topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition] = f(array("TopicPartition"))


@dataclass(slots=True)
class ConsumerGroupCurrentMemberAssignmentValue(Struct):
    @dataclass(slots=True)
    class TopicPartitions(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[int] = f(array("int32"))
        assignment_epochs: list[int] = f(array("int32"), tag=0, tagged="0+")

    member_epoch: int = f("int32")
    previous_member_epoch: int = f("int32")
    state: int = f("int8")
    assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = f(array("TopicPartitions"))
    partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = f(
        array("TopicPartitions")
    )


@dataclass(slots=True)
class ConsumerGroupRegularExpressionValue(Struct):
    topics: list[str] = f(array("string"))
    version: int = f("int64")
    timestamp: int = f("int64")


VALUES: dict[GroupRecordKey, type[object]] = {
    GroupRecordKey.GROUP: ConsumerGroupMetadataValue,
    GroupRecordKey.MEMBER: ConsumerGroupMemberMetadataValue,
    GroupRecordKey.TARGET_EPOCH: ConsumerGroupTargetAssignmentMetadataValue,
    GroupRecordKey.TARGET_ASSIGNMENT: ConsumerGroupTargetAssignmentMemberValue,
    GroupRecordKey.CURRENT_ASSIGNMENT: ConsumerGroupCurrentMemberAssignmentValue,
    GroupRecordKey.REGULAR_EXPRESSION: ConsumerGroupRegularExpressionValue,
}
NAMED = frozenset(
    {
        GroupRecordKey.MEMBER,
        GroupRecordKey.TARGET_ASSIGNMENT,
        GroupRecordKey.CURRENT_ASSIGNMENT,
        GroupRecordKey.REGULAR_EXPRESSION,
    }
)
"""Key types with a member id or a regular expression after the group id."""


def by_topic(share: Assignment) -> dict[UUID, list[int]]:
    out: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(share):
        out.setdefault(topic_id, []).append(partition)
    return out


def assignment_of(listed: Any) -> Assignment:
    """The assignment in a list of messages with `topic_id` and `partitions`."""
    return frozenset(TopicPartition(t.topic_id, p) for t in listed for p in t.partitions)


def key(group_id: str, change: ConsumerGroupChange) -> bytes:
    return encode_key(change.fact, (group_id, change.name) if change.fact in NAMED else (group_id,))


def value(change: ConsumerGroupChange) -> bytes | None:
    """The value of the record. None is a tombstone."""
    if change.value is None:
        return None
    cls = VALUES[change.fact]
    out = bytearray(2)  # version 0
    packer(cls, 0, True)(_to_value(change.fact, change.value), out, [])
    return bytes(out)


def _to_value(fact: GroupRecordKey, fact_value: Any) -> Any:
    match fact:
        case GroupRecordKey.GROUP:
            return ConsumerGroupMetadataValue(fact_value.epoch, fact_value.topics_hash)
        case GroupRecordKey.MEMBER:
            return ConsumerGroupMemberMetadataValue(
                fact_value.instance_id,
                fact_value.rack_id,
                fact_value.client_id,
                fact_value.client_host,
                sorted(fact_value.topics),
                fact_value.pattern,
                fact_value.rebalance_ms,
                fact_value.assignor,
                _to_classic_value(fact_value.classic),
            )
        case GroupRecordKey.TARGET_EPOCH:
            return ConsumerGroupTargetAssignmentMetadataValue(fact_value)
        case GroupRecordKey.TARGET_ASSIGNMENT:
            one = ConsumerGroupTargetAssignmentMemberValue.TopicPartition
            return ConsumerGroupTargetAssignmentMemberValue([one(t, ps) for t, ps in by_topic(fact_value).items()])
        case GroupRecordKey.CURRENT_ASSIGNMENT:
            several = ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions
            assigned, revoking = (
                [
                    several(t, ps, [fact_value.assignment_epochs[TopicPartition(t, p)] for p in ps])
                    for t, ps in by_topic(share).items()
                ]
                for share in (fact_value.assigned, fact_value.revoking)
            )
            return ConsumerGroupCurrentMemberAssignmentValue(
                fact_value.epoch, fact_value.previous_epoch, fact_value.state, assigned, revoking
            )
        case GroupRecordKey.REGULAR_EXPRESSION:
            return ConsumerGroupRegularExpressionValue(
                sorted(fact_value.topics), fact_value.version, fact_value.wall_ms
            )


def _to_classic_value(
    side: ClassicMemberMetadata | None,
) -> ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None:
    if side is None:
        return None
    one = ConsumerGroupMemberMetadataValue.ClassicProtocol
    return ConsumerGroupMemberMetadataValue.ClassicMemberMetadata(side.session_ms, [one(*p) for p in side.protocols])


def _from_classic_value(
    v: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None,
) -> ClassicMemberMetadata | None:
    if v is None:
        return None
    return ClassicMemberMetadata(
        v.session_timeout_ms, tuple((p.name, bytes(p.metadata)) for p in v.supported_protocols)
    )


def read_key(data: bytes) -> tuple[str, GroupRecordKey | None, str]:
    """(group id, key type, name). The key type is None if the record is skipped."""
    kind, texts = decode_key(data)
    if kind == PARTITION_METADATA and texts:
        return texts[0], None, ""
    if kind not in VALUES or len(texts) != 1 + (kind in NAMED):
        raise ValueError(f"unsupported key version {kind}")
    fact = GroupRecordKey(kind)
    return texts[0], fact, texts[1] if fact in NAMED else ""


def read_value(fact: GroupRecordKey, data: bytes) -> object:
    """`Change.value` of a record with this key type."""
    if data[:2] != b"\0\0":
        raise ValueError(f"unsupported value version of {fact.name}: {int.from_bytes(data[:2], 'big')}")
    try:
        stored, _ = unpacker(VALUES[fact], 0, True)(memoryview(data), 2, len(data), [ELEMENTS_MAX])
    except (struct.error, IndexError) as e:
        raise ValueError("the record is incomplete") from e
    match fact:
        case GroupRecordKey.GROUP:
            return GroupMetadata(stored.epoch, stored.metadata_hash)
        case GroupRecordKey.MEMBER:
            return MemberMetadata(
                stored.instance_id,
                stored.rack_id,
                stored.client_id,
                stored.client_host,
                frozenset(stored.subscribed_topic_names),
                stored.subscribed_topic_regex or None,
                stored.rebalance_timeout_ms,
                stored.server_assignor,
                _from_classic_value(stored.classic_member_metadata),
            )
        case GroupRecordKey.TARGET_EPOCH:
            return stored.assignment_epoch
        case GroupRecordKey.TARGET_ASSIGNMENT:
            return assignment_of(stored.topic_partitions)
        case GroupRecordKey.CURRENT_ASSIGNMENT:
            # Kafka before 4.3 wrote no assignment epochs: use the last member epoch for all partitions.
            last = max(stored.member_epoch, stored.previous_member_epoch)
            assignment_epochs = {
                TopicPartition(t.topic_id, p): epoch
                for t in (*stored.assigned_partitions, *stored.partitions_pending_revocation)
                for p, epoch in zip(t.partitions, t.assignment_epochs or [last] * len(t.partitions), strict=True)
            }
            return MemberAssignment(
                stored.member_epoch,
                stored.previous_member_epoch,
                MemberState(stored.state),
                assignment_of(stored.assigned_partitions),
                assignment_of(stored.partitions_pending_revocation),
                assignment_epochs,
            )
        case GroupRecordKey.REGULAR_EXPRESSION:
            return ResolvedRegularExpression(frozenset(stored.topics), stored.version, stored.timestamp)
