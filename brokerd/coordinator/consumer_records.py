"""How the facts of a group of the new protocol stand in __consumer_offsets: Kafka's own formats, so that its tools read them.

Law: pure; what cannot be read raises ValueError and is skipped by the loader with a line in the log. The names are those of Kafka's message
definitions (group-coordinator, up to 4.3). Left out, as they are optional there: times of creation and assignment. Key type 4, which Kafka itself has given up for the header's hash, is read over.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from brokerd.cluster.model import TopicPartition
from brokerd.coordinator.assignors import Share
from brokerd.coordinator.consumer_events import Change, ClassicSide, Fact, Header, Profile, Resolved
from brokerd.coordinator.reconciliation import MemberState, Standing
from brokerd.wire.schema import Struct, array, f, packer, unpacker

PARTITION_METADATA = 4
"""The key type of what Kafka 3.7 to 4.0 knew of the topics."""
KEY_TYPES = frozenset({*Fact, PARTITION_METADATA})
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


VALUES: dict[Fact, type[Any]] = {
    Fact.GROUP: ConsumerGroupMetadataValue,
    Fact.MEMBER: ConsumerGroupMemberMetadataValue,
    Fact.TARGET_EPOCH: ConsumerGroupTargetAssignmentMetadataValue,
    Fact.TARGET: ConsumerGroupTargetAssignmentMemberValue,
    Fact.STANDING: ConsumerGroupCurrentMemberAssignmentValue,
    Fact.PATTERN: ConsumerGroupRegularExpressionValue,
}
NAMED = frozenset({Fact.MEMBER, Fact.TARGET, Fact.STANDING, Fact.PATTERN})
"""Whose keys have a member id or a pattern behind the group id."""


def by_topic(share: Share) -> dict[UUID, list[int]]:
    out: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(share):
        out.setdefault(topic_id, []).append(partition)
    return out


def share_of(listed: Any) -> Share:
    """Of anything that has topic ids with partitions."""
    return frozenset(TopicPartition(t.topic_id, p) for t in listed for p in t.partitions)


def key(group_id: str, change: Change) -> bytes:
    out = bytearray(struct.pack(">h", change.fact))
    for text in (group_id, change.name) if change.fact in NAMED else (group_id,):
        data = text.encode()
        out += struct.pack(">h", len(data)) + data
    return bytes(out)


def value(change: Change) -> bytes | None:
    """None is a tombstone."""
    if change.value is None:
        return None
    cls = VALUES[change.fact]
    out = bytearray(2)  # version 0
    packer(cls, 0, True)(_shaped(change.fact, change.value), out, [])
    return bytes(out)


def _shaped(fact: Fact, v: Any) -> Any:
    match fact:
        case Fact.GROUP:
            return ConsumerGroupMetadataValue(v.epoch, v.topics_hash)
        case Fact.MEMBER:
            return ConsumerGroupMemberMetadataValue(
                v.instance_id, v.rack_id, v.client_id, v.client_host, sorted(v.topics), v.pattern, v.rebalance_ms,
                v.assignor, _classic_shaped(v.classic),
            )  # fmt: skip
        case Fact.TARGET_EPOCH:
            return ConsumerGroupTargetAssignmentMetadataValue(v)
        case Fact.TARGET:
            one = ConsumerGroupTargetAssignmentMemberValue.TopicPartition
            return ConsumerGroupTargetAssignmentMemberValue([one(t, ps) for t, ps in by_topic(v).items()])
        case Fact.STANDING:
            several = ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions
            assigned, revoking = (
                [several(t, ps, [v.since[TopicPartition(t, p)] for p in ps]) for t, ps in by_topic(share).items()]
                for share in (v.assigned, v.revoking)
            )
            return ConsumerGroupCurrentMemberAssignmentValue(v.epoch, v.previous_epoch, v.state, assigned, revoking)
        case Fact.PATTERN:
            return ConsumerGroupRegularExpressionValue(sorted(v.topics), v.version, v.wall_ms)


def _classic_shaped(side: ClassicSide | None) -> ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None:
    if side is None:
        return None
    one = ConsumerGroupMemberMetadataValue.ClassicProtocol
    return ConsumerGroupMemberMetadataValue.ClassicMemberMetadata(side.session_ms, [one(*p) for p in side.protocols])


def _classic_side(v: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None) -> ClassicSide | None:
    if v is None:
        return None
    return ClassicSide(v.session_timeout_ms, tuple((p.name, bytes(p.metadata)) for p in v.supported_protocols))


def read_key(data: bytes) -> tuple[str, Fact | None, str]:
    """(group id, fact, its name); no fact where the key is one of those that are read over."""
    try:
        (kind,) = struct.unpack_from(">h", data)
        texts, pos = [], 2
        while pos < len(data):
            (n,) = struct.unpack_from(">h", data, pos)
            text = data[pos + 2 : pos + 2 + n]
            if n < 0 or len(text) != n:
                raise ValueError("cut off")
            texts.append(text.decode())
            pos += 2 + n
    except struct.error as e:
        raise ValueError("cut off") from e
    if kind == PARTITION_METADATA and texts:
        return texts[0], None, ""
    if kind not in VALUES or len(texts) != 1 + (kind in NAMED):
        raise ValueError(f"key version {kind}")
    fact = Fact(kind)
    return texts[0], fact, texts[1] if fact in NAMED else ""


def read_value(fact: Fact, data: bytes) -> Any:
    """What `Change.value` is of this fact."""
    if data[:2] != b"\0\0":
        raise ValueError(f"{fact.name} version {int.from_bytes(data[:2], 'big')}")
    try:
        v, _ = unpacker(VALUES[fact], 0, True)(memoryview(data), 2, len(data), [ELEMENTS_MAX])
    except (struct.error, IndexError) as e:
        raise ValueError("cut off") from e
    match fact:
        case Fact.GROUP:
            return Header(v.epoch, v.metadata_hash)
        case Fact.MEMBER:
            return Profile(
                v.instance_id, v.rack_id, v.client_id, v.client_host, frozenset(v.subscribed_topic_names),
                v.subscribed_topic_regex or None, v.rebalance_timeout_ms, v.server_assignor,
                _classic_side(v.classic_member_metadata),
            )  # fmt: skip
        case Fact.TARGET_EPOCH:
            return v.assignment_epoch
        case Fact.TARGET:
            return share_of(v.topic_partitions)
        case Fact.STANDING:
            # Kafka before 4.3 wrote none of a partition's own epochs: as if it were all given last.
            last = max(v.member_epoch, v.previous_member_epoch)
            since = {
                TopicPartition(t.topic_id, p): epoch
                for t in (*v.assigned_partitions, *v.partitions_pending_revocation)
                for p, epoch in zip(t.partitions, t.assignment_epochs or [last] * len(t.partitions), strict=True)
            }
            return Standing(
                v.member_epoch, v.previous_member_epoch, MemberState(v.state),
                share_of(v.assigned_partitions), share_of(v.partitions_pending_revocation), since,
            )  # fmt: skip
        case Fact.PATTERN:
            return Resolved(frozenset(v.topics), v.version, v.timestamp)
