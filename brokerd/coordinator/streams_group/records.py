"""Records of streams groups in __consumer_offsets, in Kafka's formats, so that Kafka's tools can read them. Pure.

The names are those of Kafka's message definitions (group-coordinator 4.3). The optional time of an assignment is not written. An invalid record
raises ValueError; the coordinator logs and skips it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from brokerd.coordinator.record_keys import decode_key, encode_key
from brokerd.coordinator.streams_group.events import (
    StreamsGroupChange,
    StreamsGroupMetadata,
    StreamsMemberMetadata,
    StreamsRecordKey,
    StreamsRecordValue,
    UserEndpoint,
)
from brokerd.coordinator.streams_group.reconciliation import StreamsMemberAssignment, StreamsMemberState
from brokerd.coordinator.streams_group.tasks import TaskId, Tasks, TaskSet, by_subtopology
from brokerd.coordinator.streams_group.topology import CopartitionGroup, InternalTopic, Subtopology, Topology
from brokerd.wire.messages.streams_groups import StreamsGroupHeartbeatRequest
from brokerd.wire.schema import Struct, array, f, packer, unpacker

KEY_TYPES = frozenset(StreamsRecordKey)
NAMED = frozenset({StreamsRecordKey.MEMBER, StreamsRecordKey.TARGET_ASSIGNMENT, StreamsRecordKey.CURRENT_ASSIGNMENT})
"""Key types with a member id after the group id."""
ELEMENTS_MAX = 1_000_000


@dataclass(slots=True)
class StreamsGroupMetadataValue(Struct):
    @dataclass(slots=True)
    class LastAssignmentConfig(Struct):
        key: str = f("string")
        value: str = f("string")

    epoch: int = f("int32")
    metadata_hash: int = f("int64")
    validated_topology_epoch: int = f("int32", tag=0, tagged="0+", default=-1)
    last_assignment_configs: list[StreamsGroupMetadataValue.LastAssignmentConfig] | None = f(
        array("LastAssignmentConfig"), nullable="0+", tag=1, tagged="0+", default=None
    )


@dataclass(slots=True)
class StreamsGroupMemberMetadataValue(Struct):
    @dataclass(slots=True)
    class Endpoint(Struct):
        host: str = f("string")
        port: int = f("uint16")

    @dataclass(slots=True)
    class KeyValue(Struct):
        key: str = f("string")
        value: str = f("string")

    instance_id: str | None = f("string", nullable="0+")
    rack_id: str | None = f("string", nullable="0+")
    client_id: str = f("string")
    client_host: str = f("string")
    rebalance_timeout_ms: int = f("int32", default=-1)
    topology_epoch: int = f("int32")
    process_id: str = f("string")
    user_endpoint: StreamsGroupMemberMetadataValue.Endpoint | None = f("Endpoint", nullable="0+", default=None)
    client_tags: list[StreamsGroupMemberMetadataValue.KeyValue] = f(array("KeyValue"))


@dataclass(slots=True)
class StreamsGroupTargetAssignmentMetadataValue(Struct):
    assignment_epoch: int = f("int32")


@dataclass(slots=True)
class StreamsGroupTargetAssignmentMemberValue(Struct):
    @dataclass(slots=True)
    class TaskIds(Struct):
        subtopology_id: str = f("string")
        partitions: list[int] = f(array("int32"))

    active_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = f(array("TaskIds"))
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = f(array("TaskIds"))
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = f(array("TaskIds"))


@dataclass(slots=True)
class StreamsGroupCurrentMemberAssignmentValue(Struct):
    @dataclass(slots=True)
    class TaskIds(Struct):
        subtopology_id: str = f("string")
        partitions: list[int] = f(array("int32"))
        assignment_epochs: list[int] | None = f(array("int32"), nullable="0+", tag=0, tagged="0+", default=None)

    member_epoch: int = f("int32")
    previous_member_epoch: int = f("int32")
    state: int = f("int8")
    active_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = f(array("TaskIds"))
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = f(array("TaskIds"))
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = f(array("TaskIds"))
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = f(array("TaskIds"))
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = f(array("TaskIds"))
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = f(array("TaskIds"))


@dataclass(slots=True)
class StreamsGroupTopologyValue(Struct):
    @dataclass(slots=True)
    class TopicConfig(Struct):
        key: str = f("string")
        value: str = f("string")

    @dataclass(slots=True)
    class TopicInfo(Struct):
        name: str = f("string")
        partitions: int = f("int32")
        replication_factor: int = f("int16")
        topic_configs: list[StreamsGroupTopologyValue.TopicConfig] = f(array("TopicConfig"))

    @dataclass(slots=True)
    class CopartitionGroup(Struct):
        source_topics: list[int] = f(array("int16"))
        source_topic_regex: list[int] = f(array("int16"))
        repartition_source_topics: list[int] = f(array("int16"))

    @dataclass(slots=True)
    class Subtopology(Struct):
        subtopology_id: str = f("string")
        source_topics: list[str] = f(array("string"))
        source_topic_regex: list[str] = f(array("string"))
        state_changelog_topics: list[StreamsGroupTopologyValue.TopicInfo] = f(array("TopicInfo"))
        repartition_sink_topics: list[str] = f(array("string"))
        repartition_source_topics: list[StreamsGroupTopologyValue.TopicInfo] = f(array("TopicInfo"))
        copartition_groups: list[StreamsGroupTopologyValue.CopartitionGroup] = f(array("CopartitionGroup"))

    epoch: int = f("int32")
    subtopologies: list[StreamsGroupTopologyValue.Subtopology] = f(array("Subtopology"))


VALUES: dict[StreamsRecordKey, type[object]] = {
    StreamsRecordKey.GROUP: StreamsGroupMetadataValue,
    StreamsRecordKey.MEMBER: StreamsGroupMemberMetadataValue,
    StreamsRecordKey.TARGET_EPOCH: StreamsGroupTargetAssignmentMetadataValue,
    StreamsRecordKey.TARGET_ASSIGNMENT: StreamsGroupTargetAssignmentMemberValue,
    StreamsRecordKey.CURRENT_ASSIGNMENT: StreamsGroupCurrentMemberAssignmentValue,
    StreamsRecordKey.TOPOLOGY: StreamsGroupTopologyValue,
}


# -- keys ------------------------------------------------------------------------------------------------------------------
def key(group_id: str, change: StreamsGroupChange) -> bytes:
    return encode_key(change.fact, (group_id, change.name) if change.fact in NAMED else (group_id,))


def read_key(data: bytes) -> tuple[str, StreamsRecordKey, str]:
    """(group id, key type, member id or empty)."""
    kind, texts = decode_key(data)
    if kind not in VALUES or len(texts) != 1 + (kind in NAMED):
        raise ValueError(f"unsupported key version {kind}")
    fact = StreamsRecordKey(kind)
    return texts[0], fact, texts[1] if fact in NAMED else ""


# -- writing ---------------------------------------------------------------------------------------------------------------
def value(change: StreamsGroupChange) -> bytes | None:
    """The value of the record. None is a tombstone."""
    if change.value is None:
        return None
    out = bytearray(2)  # version 0
    packer(VALUES[change.fact], 0, True)(_to_value(change.value), out, [])
    return bytes(out)


def _to_value(fact_value: StreamsRecordValue) -> Struct:
    match fact_value:
        case StreamsGroupMetadata():
            config = StreamsGroupMetadataValue.LastAssignmentConfig
            return StreamsGroupMetadataValue(
                fact_value.epoch,
                fact_value.topics_hash,
                fact_value.validated_epoch,
                [config(*pair) for pair in fact_value.configs] or None,
            )
        case StreamsMemberMetadata():
            return _member_value(fact_value)
        case Tasks():
            one = StreamsGroupTargetAssignmentMemberValue.TaskIds
            return StreamsGroupTargetAssignmentMemberValue(
                *([one(s, ps) for s, ps in by_subtopology(tasks).items()] for tasks in fact_value)
            )
        case StreamsMemberAssignment():
            roles = [
                _task_ids(tasks, fact_value.assignment_epochs if tasks is owned.active else None)
                for owned in (fact_value.assigned, fact_value.revoking)
                for tasks in owned
            ]
            return StreamsGroupCurrentMemberAssignmentValue(
                fact_value.epoch, fact_value.previous_epoch, fact_value.state, *roles
            )
        case Topology():
            return _topology_value(fact_value)
        case int():
            return StreamsGroupTargetAssignmentMetadataValue(fact_value)


def _member_value(member: StreamsMemberMetadata) -> StreamsGroupMemberMetadataValue:
    message = StreamsGroupMemberMetadataValue
    return message(
        None,
        member.rack_id,
        member.client_id,
        member.client_host,
        member.rebalance_ms,
        member.topology_epoch,
        member.process_id,
        message.Endpoint(*member.endpoint) if member.endpoint is not None else None,
        [message.KeyValue(*pair) for pair in member.client_tags],
    )


def _task_ids(
    tasks: TaskSet, epochs: Mapping[TaskId, int] | None
) -> list[StreamsGroupCurrentMemberAssignmentValue.TaskIds]:
    return [
        StreamsGroupCurrentMemberAssignmentValue.TaskIds(
            s, ps, None if epochs is None else [epochs[TaskId(s, p)] for p in ps]
        )
        for s, ps in by_subtopology(tasks).items()
    ]


def _topology_value(topology: Topology) -> StreamsGroupTopologyValue:
    message = StreamsGroupTopologyValue

    def infos(topics: Iterable[InternalTopic]) -> list[StreamsGroupTopologyValue.TopicInfo]:
        return [
            message.TopicInfo(
                t.name, t.partitions, t.replication_factor, [message.TopicConfig(*pair) for pair in t.configs]
            )
            for t in topics
        ]

    return message(
        topology.epoch,
        [
            message.Subtopology(
                s.subtopology_id,
                list(s.source_topics),
                [],
                infos(s.changelog_topics),
                list(s.repartition_sink_topics),
                infos(s.repartition_source_topics),
                [
                    message.CopartitionGroup(list(g.source_topics), [], list(g.repartition_source_topics))
                    for g in s.copartition_groups
                ],
            )
            for s in topology
        ],
    )


# -- reading ---------------------------------------------------------------------------------------------------------------
class ListedTasks(Protocol):
    """The tasks of one subtopology, in any message."""

    subtopology_id: str
    partitions: list[int]


TopologyMessage = StreamsGroupTopologyValue | StreamsGroupHeartbeatRequest.Topology
TopicInfoMessage = StreamsGroupTopologyValue.TopicInfo | StreamsGroupHeartbeatRequest.TopicInfo


def read_value(fact: StreamsRecordKey, data: bytes) -> StreamsRecordValue:
    """`StreamsGroupChange.value` of a record with this key type."""
    if data[:2] != b"\0\0":
        raise ValueError(f"unsupported value version of {fact.name}: {int.from_bytes(data[:2], 'big')}")
    try:
        stored, _ = unpacker(VALUES[fact], 0, True)(memoryview(data), 2, len(data), [ELEMENTS_MAX])
    except (struct.error, IndexError) as e:
        raise ValueError("the record is incomplete") from e
    match stored:
        case StreamsGroupMetadataValue():
            configs = tuple((c.key, c.value) for c in stored.last_assignment_configs or ())
            return StreamsGroupMetadata(stored.epoch, stored.metadata_hash, stored.validated_topology_epoch, configs)
        case StreamsGroupMemberMetadataValue():
            return _read_member(stored)
        case StreamsGroupTargetAssignmentMetadataValue():
            return stored.assignment_epoch
        case StreamsGroupTargetAssignmentMemberValue():
            return tasks_of(stored.active_tasks, stored.standby_tasks, stored.warmup_tasks)
        case StreamsGroupCurrentMemberAssignmentValue():
            return _read_assignment(stored)
        case StreamsGroupTopologyValue():
            return topology_of(stored)
    raise AssertionError(f"{fact.name} has no value")


def tasks_of(active: Iterable[ListedTasks], standby: Iterable[ListedTasks], warmup: Iterable[ListedTasks]) -> Tasks:
    """The tasks in three lists of a message."""

    def listed(role: Iterable[ListedTasks]) -> TaskSet:
        return frozenset(TaskId(t.subtopology_id, p) for t in role for p in t.partitions)

    return Tasks(listed(active), listed(standby), listed(warmup))


def _read_member(stored: StreamsGroupMemberMetadataValue) -> StreamsMemberMetadata:
    at = stored.user_endpoint
    return StreamsMemberMetadata(
        stored.rack_id,
        stored.client_id,
        stored.client_host,
        stored.rebalance_timeout_ms,
        stored.topology_epoch,
        stored.process_id,
        UserEndpoint(at.host, at.port) if at is not None else None,
        tuple((t.key, t.value) for t in stored.client_tags),
    )


def _read_assignment(stored: StreamsGroupCurrentMemberAssignmentValue) -> StreamsMemberAssignment:
    epochs = {
        TaskId(t.subtopology_id, p): epoch
        for t in (*stored.active_tasks, *stored.active_tasks_pending_revocation)
        for p, epoch in zip(t.partitions, t.assignment_epochs or [stored.member_epoch] * len(t.partitions), strict=True)
    }
    return StreamsMemberAssignment(
        stored.member_epoch,
        stored.previous_member_epoch,
        StreamsMemberState(stored.state),
        tasks_of(stored.active_tasks, stored.standby_tasks, stored.warmup_tasks),
        tasks_of(
            stored.active_tasks_pending_revocation,
            stored.standby_tasks_pending_revocation,
            stored.warmup_tasks_pending_revocation,
        ),
        epochs,
    )


def topology_of(message: TopologyMessage) -> Topology:
    """The topology in a record or in a heartbeat."""
    return Topology(
        message.epoch,
        tuple(
            Subtopology(
                s.subtopology_id,
                tuple(s.source_topics),
                tuple(s.repartition_sink_topics),
                _internal_topics(s.repartition_source_topics),
                _internal_topics(s.state_changelog_topics),
                tuple(
                    CopartitionGroup(tuple(g.source_topics), tuple(g.repartition_source_topics))
                    for g in s.copartition_groups
                ),
            )
            for s in message.subtopologies
        ),
    )


def _internal_topics(infos: Sequence[TopicInfoMessage]) -> tuple[InternalTopic, ...]:
    return tuple(
        InternalTopic(t.name, t.partitions, t.replication_factor, tuple((c.key, c.value) for c in t.topic_configs))
        for t in infos
    )
