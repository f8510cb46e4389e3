"""The consumer groups that one broker coordinates: state, members with their assignments, committed offsets."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypedDict

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.clients.connection import KafkaConnection

Key = tuple[str, int]
"""(topic, partition index)"""

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of groups of consumers in the classic protocol. Others (Kafka Connect: "connect") have assignments of their own format."""

STREAMS_ASSIGNOR = "sticky"
"""The only assignor of streams groups. Their description does not contain it."""


class GroupType(StrEnum):
    """The protocol of a group, as ListGroups returns it (KIP-848, KIP-932, KIP-1071)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class DescribedGroupState(StrEnum):
    """States of all protocols, as brokers return them."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class DescribedMember:
    member_id: str
    client_id: str
    host: str
    partitions: tuple[Key, ...]


class StoredMember(TypedDict):
    """A member in the row of its group. `partitions`: [topic, index] of each."""

    member_id: str
    client_id: str
    host: str
    partitions: list[list[str | int]]


@dataclass(frozen=True, slots=True)
class GroupSample:
    """One group as described by its coordinator; `committed` has only partitions with a committed offset."""

    group_id: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[DescribedMember, ...]
    committed: Mapping[Key, int]


def sample_groups(connection: KafkaConnection) -> tuple[GroupSample, ...]:
    """The groups that this broker coordinates. Raises NoResponse."""
    listed = connection.call(ApiKey.LIST_GROUPS, 5, m.ListGroupsRequest())
    names = [g.group_id for g in listed.groups if g.group_type != GroupType.SHARE]
    if not names:
        return ()
    # Each protocol has its own describe API. A broker that lists no consumer protocol group may not support its API.
    consumers = [g.group_id for g in listed.groups if g.group_type == GroupType.CONSUMER]
    streams = [g.group_id for g in listed.groups if g.group_type == GroupType.STREAMS]
    classic = [n for n in names if n not in {*consumers, *streams}]
    described: list[GroupSample] = []
    if classic:
        described += _classic(connection.call(ApiKey.DESCRIBE_GROUPS, 4, m.DescribeGroupsRequest(groups=classic)))
    if consumers:
        body = m.ConsumerGroupDescribeRequest(group_ids=consumers)
        described += _consumers(connection.call(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, body))
    if streams:
        request = m.StreamsGroupDescribeRequest(group_ids=streams)
        described += _streams_groups(connection.call(ApiKey.STREAMS_GROUP_DESCRIBE, 0, request))
    fetched = connection.call(
        ApiKey.OFFSET_FETCH,
        8,
        m.OffsetFetchRequest(
            groups=[m.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=n, topics=None) for n in names]
        ),
    )
    committed: dict[str, dict[Key, int]] = {}
    for group in fetched.groups:
        if group.error_code == ErrorCode.NONE:
            committed[group.group_id] = {
                (topic.name, p.partition_index): p.committed_offset
                for topic in group.topics
                for p in topic.partitions
                if p.error_code == ErrorCode.NONE and p.committed_offset >= 0
            }
    return tuple(replace(g, committed=committed[g.group_id]) for g in described if g.group_id in committed)


def _consumers(response: m.ConsumerGroupDescribeResponse) -> list[GroupSample]:
    """Groups of the consumer protocol (KIP-848)."""
    return [
        GroupSample(
            group.group_id,
            group.group_state,
            CONSUMER_PROTOCOL_TYPE,
            group.assignor_name,
            tuple(
                DescribedMember(
                    x.member_id,
                    x.client_id,
                    x.client_host.lstrip("/"),
                    tuple((t.topic_name, p) for t in x.assignment.topic_partitions for p in t.partitions),
                )
                for x in group.members
            ),
            {},
        )
        for group in response.groups
        if group.error_code == ErrorCode.NONE
    ]


def _streams_groups(response: m.StreamsGroupDescribeResponse) -> list[GroupSample]:
    """Streams groups (KIP-1071). A member has the partitions that its active tasks read: those with the number of the task, of each source topic of its
    subtopology. A topic with fewer partitions than the subtopology has tasks is not read by every task, which the response does not show."""
    described = []
    for group in response.groups:
        if group.error_code != ErrorCode.NONE:
            continue
        subtopologies = (group.topology.subtopologies or ()) if group.topology is not None else ()
        sources = {
            s.subtopology_id: (*s.source_topics, *(t.name for t in s.repartition_source_topics)) for s in subtopologies
        }
        members = tuple(
            DescribedMember(
                x.member_id,
                x.client_id,
                x.client_host.lstrip("/"),
                tuple(
                    (topic, p)
                    for task in x.assignment.active_tasks
                    for topic in sources.get(task.subtopology_id, ())
                    for p in task.partitions
                ),
            )
            for x in group.members
        )
        described.append(
            GroupSample(group.group_id, group.group_state, GroupType.STREAMS, STREAMS_ASSIGNOR, members, {})
        )
    return described


def _classic(response: m.DescribeGroupsResponse) -> list[GroupSample]:
    described = []
    for group in response.groups:
        # A coordinator that is loading or has just lost the group returns an error: the next sample has the group.
        if group.error_code != ErrorCode.NONE or group.group_state == DescribedGroupState.DEAD:
            continue
        members = tuple(
            DescribedMember(
                x.member_id,
                x.client_id,
                x.client_host.lstrip("/"),
                parse_assignment(bytes(x.member_assignment)) if group.protocol_type == CONSUMER_PROTOCOL_TYPE else (),
            )
            for x in group.members
        )
        described.append(
            GroupSample(
                group.group_id,
                group.group_state,
                group.protocol_type,
                group.protocol_data,
                members,
                {},
            )
        )
    return described


def parse_assignment(data: bytes) -> tuple[Key, ...]:
    """The partitions in a member's assignment (Kafka's consumer protocol: version, [topic, [partition]], user data). Empty for
    a malformed assignment: clients can send any bytes."""
    try:
        (_, topics), at = struct.unpack_from(">hi", data), 6
        out: list[Key] = []
        for _ in range(topics):
            (length,) = struct.unpack_from(">h", data, at)
            name = data[at + 2 : at + 2 + length].decode()
            at += 2 + length
            (count,) = struct.unpack_from(">i", data, at)
            at += 4
            if not 0 <= count <= (len(data) - at) // 4:
                return ()
            out += [(name, p) for p in struct.unpack_from(f">{count}i", data, at)]
            at += 4 * count
        return tuple(out)
    except (struct.error, UnicodeDecodeError):
        return ()
