"""Committed offsets and members of one consumer group: the requests of an offset reset. Blocking; raises NoResponse and Declined of `clients.connection`.

Invariant: the number of requests is bounded. A read of 1,000 partitions costs one Metadata, one FindCoordinator, one OffsetFetch, and one
ListOffsets per leader and timestamp; a commit or a deletion costs one request per 1,000 partitions. Does not contain: what a reset changes
(`domain.offset_reset`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from django.conf import settings

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.schema import Struct
from controlplane.clients.broker_samples import EARLIEST, LATEST, PARTITIONS_PER_REQUEST
from controlplane.clients.connection import Declined, KafkaConnection, NoResponse
from controlplane.clients.group_samples import DescribedGroupState, GroupType
from controlplane.domain.offset_reset_types import CommittedOffset, Key, LogRange

CALL_SECONDS = 5.0
"""Deadline of one request. A look-up by time reads the time index of each partition."""

DEADLINE_SECONDS = 20.0
"""Deadline of one operation with all its requests, so that a web request ends."""

RETRY_SECONDS = 0.2
"""Pause between two attempts while the coordinator moves or loads."""

INACTIVE = frozenset({DescribedGroupState.EMPTY, DescribedGroupState.DEAD})
"""States of a group without members. Only such a group accepts commits of others."""

LEAVE_EPOCH = -1
"""The member epoch with which a member of the consumer protocol leaves (KIP-848)."""


@dataclass(frozen=True, slots=True)
class MemberStatus:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """A group as its coordinator describes it. A group that does not exist is Dead."""

    state: str
    type: GroupType
    members: tuple[MemberStatus, ...]

    @property
    def active(self) -> bool:
        return self.state not in INACTIVE or bool(self.members)


class GroupOffsetsClient:
    """`with GroupOffsetsClient("group") as client: client.committed()`. Connections are opened when needed. `requests` counts the requests by name.
    Not thread-safe."""

    def __init__(self, group_id: str, deadline_s: float = DEADLINE_SECONDS) -> None:
        self.group_id = group_id
        self.requests: dict[str, int] = {}
        self._deadline = time.monotonic() + deadline_s
        self._connections: dict[tuple[str, int], KafkaConnection] = {}
        self._brokers: dict[int, tuple[str, int]] = {}
        self._coordinators: dict[str, tuple[str, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # -- reads -------------------------------------------------------------------------------------------------------------------

    def status(self) -> GroupStatus:
        described = self._call_coordinator(
            ApiKey.DESCRIBE_GROUPS, 4, m.DescribeGroupsRequest(groups=[self.group_id]), lambda a: a.groups[0].error_code
        ).groups[0]
        if described.group_state != DescribedGroupState.DEAD:
            return GroupStatus(
                described.group_state,
                GroupType.CLASSIC,
                tuple(
                    MemberStatus(x.member_id, x.group_instance_id, x.client_id, x.client_host.lstrip("/"))
                    for x in described.members
                ),
            )
        # DescribeGroups reports groups of the consumer protocol as Dead.
        consumer = self._call_coordinator(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            0,
            m.ConsumerGroupDescribeRequest(group_ids=[self.group_id]),
            lambda a: a.groups[0].error_code,
            accepted=(ErrorCode.GROUP_ID_NOT_FOUND,),
        ).groups[0]
        if consumer.error_code:
            return self._streams_status()
        return GroupStatus(
            consumer.group_state,
            GroupType.CONSUMER,
            tuple(
                MemberStatus(x.member_id, x.instance_id, x.client_id, x.client_host.lstrip("/"))
                for x in consumer.members
            ),
        )

    def _streams_status(self) -> GroupStatus:
        """The status if it is a streams group (KIP-1071), otherwise Dead. A broker that lists no streams group may not support their API."""
        none = GroupStatus(DescribedGroupState.DEAD, GroupType.CLASSIC, ())
        if not self._is_listed_as(GroupType.STREAMS):
            return none
        streams = self._call_coordinator(
            ApiKey.STREAMS_GROUP_DESCRIBE,
            0,
            m.StreamsGroupDescribeRequest(group_ids=[self.group_id]),
            lambda a: a.groups[0].error_code,
            accepted=(ErrorCode.GROUP_ID_NOT_FOUND,),
        ).groups[0]
        if streams.error_code:
            return none
        members = [MemberStatus(x.member_id, None, x.client_id, x.client_host.lstrip("/")) for x in streams.members]
        return GroupStatus(streams.group_state, GroupType.STREAMS, tuple(members))

    def is_share_group(self) -> bool:
        """Return whether its coordinator lists the group as a share group (KIP-932)."""
        return self._is_listed_as(GroupType.SHARE)

    def _is_listed_as(self, group_type: GroupType) -> bool:
        body = m.ListGroupsRequest(types_filter=[group_type])
        listed = self._call_coordinator(ApiKey.LIST_GROUPS, 5, body, lambda a: a.error_code).groups
        return any(g.group_id == self.group_id and g.group_type == group_type for g in listed)

    def fetch_committed(
        self, keys: Iterable[Key] | None = None, group_id: str = ""
    ) -> tuple[dict[Key, CommittedOffset], set[Key]]:
        """(committed offsets, partitions for which an open transaction has written an offset) of these partitions, None = all with a committed
        offset."""
        group = group_id or self.group_id
        request = m.OffsetFetchRequest
        topics = None
        if keys is not None:
            topics = [
                request.OffsetFetchRequestTopics(name=name, partition_indexes=indexes)
                for name, indexes in by_topic(keys).items()
            ]
        requested = request.OffsetFetchRequestGroup(group_id=group, topics=topics)
        body = request(groups=[requested], require_stable=True)
        response = self._call_coordinator(
            ApiKey.OFFSET_FETCH, 8, body, lambda a: a.groups[0].error_code, group_id=group
        )
        found: dict[Key, CommittedOffset] = {}
        unstable: set[Key] = set()
        for topic in response.groups[0].topics:
            for p in topic.partitions:
                key = topic.name, p.partition_index
                if p.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                    unstable.add(key)
                elif p.error_code:
                    raise Declined(f"{topic.name}-{p.partition_index}: {ErrorCode(p.error_code).text}")
                elif p.committed_offset >= 0:
                    found[key] = CommittedOffset(p.committed_offset, p.committed_leader_epoch, p.metadata)
        return found, unstable

    def leaders(self, topics: Iterable[str]) -> dict[Key, int]:
        """The leader of each partition of these topics, -1 = none. A topic that does not exist is omitted."""
        names = sorted(set(topics))
        body = m.MetadataRequest(
            topics=[m.MetadataRequest.MetadataRequestTopic(name=n) for n in names], allow_auto_topic_creation=False
        )
        response = self._of_any_broker(ApiKey.METADATA, 9, body)
        self._brokers = {b.node_id: (b.host, b.port) for b in response.brokers}
        return {
            (topic.name, p.partition_index): p.leader_id
            for topic in response.topics
            if topic.error_code in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE)
            for p in topic.partitions
        }

    def log_ranges(self, leaders: Mapping[Key, int]) -> dict[Key, LogRange]:
        """Log start and end of the partitions whose leader responds."""
        starts, ends = self.offsets_at(leaders, EARLIEST), self.offsets_at(leaders, LATEST)
        return {key: LogRange(min(starts[key], end), end) for key, end in ends.items() if key in starts}

    def offsets_at(self, leaders: Mapping[Key, int], timestamp: int) -> dict[Key, int]:
        """The offset of the first record at or after `timestamp` (ms since 1970, EARLIEST or LATEST). Partitions without such a record, and those
        whose leader does not respond, are omitted."""
        request = m.ListOffsetsRequest
        found: dict[Key, int] = {}
        for leader in sorted({b for b in leaders.values() if b in self._brokers}):
            for keys in chunks([k for k, b in leaders.items() if b == leader]):
                topics = [
                    request.ListOffsetsTopic(
                        name=name,
                        partitions=[
                            request.ListOffsetsPartition(partition_index=i, timestamp=timestamp) for i in indexes
                        ],
                    )
                    for name, indexes in by_topic(keys).items()
                ]
                try:
                    response = self._call(self._brokers[leader], ApiKey.LIST_OFFSETS, 5, request(-1, 0, topics))
                except NoResponse:
                    break  # these partitions have no leader for the caller
                for reported in response.topics:
                    for p in reported.partitions:
                        if p.error_code == ErrorCode.NONE and p.offset >= 0:
                            found[reported.name, p.partition_index] = p.offset
        return found

    # -- writes ------------------------------------------------------------------------------------------------------------------

    def commit(self, offsets: Mapping[Key, CommittedOffset]) -> dict[Key, ErrorCode]:
        """Commit offsets without being a member. The coordinator accepts the commit only while the group has no members. Returns {partition: error};
        empty = all offsets are committed."""
        request = m.OffsetCommitRequest
        errors: dict[Key, ErrorCode] = {}
        for keys in chunks(sorted(offsets)):
            topics = [
                request.OffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        request.OffsetCommitRequestPartition(
                            partition_index=i,
                            committed_offset=offsets[name, i].offset,
                            committed_leader_epoch=offsets[name, i].leader_epoch,
                            committed_metadata=offsets[name, i].metadata,
                        )
                        for i in indexes
                    ],
                )
                for name, indexes in by_topic(keys).items()
            ]
            body = request(group_id=self.group_id, generation_id_or_member_epoch=-1, member_id="", topics=topics)
            response = self._call_coordinator(ApiKey.OFFSET_COMMIT, 8, body, _coordinator_error)
            errors |= _errors(response)
        return errors

    def delete(self, keys: Iterable[Key]) -> dict[Key, ErrorCode]:
        """Delete committed offsets. The coordinator rejects topics that a member is subscribed to. The errors by partition."""
        request = m.OffsetDeleteRequest
        errors: dict[Key, ErrorCode] = {}
        for chunk in chunks(sorted(keys)):
            topics = [
                request.OffsetDeleteRequestTopic(
                    name=name,
                    partitions=[request.OffsetDeleteRequestPartition(partition_index=i) for i in indexes],
                )
                for name, indexes in by_topic(chunk).items()
            ]
            response = self._call_coordinator(
                ApiKey.OFFSET_DELETE,
                0,
                request(group_id=self.group_id, topics=topics),
                lambda a: a.error_code,
                accepted=(ErrorCode.GROUP_ID_NOT_FOUND,),
            )
            errors |= _errors(response)
        return errors

    def remove_member(self, member: MemberStatus, group_type: GroupType, reason: str) -> None:
        """Remove a member: LeaveGroup, or for the newer protocols a heartbeat that leaves. Raises Declined, also for an unknown member."""
        if group_type is GroupType.STREAMS:
            leave = m.StreamsGroupHeartbeatRequest(
                group_id=self.group_id, member_id=member.member_id, member_epoch=LEAVE_EPOCH
            )
            self._call_coordinator(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, leave, lambda a: a.error_code)
            return
        if group_type is GroupType.CONSUMER:
            self._call_coordinator(
                ApiKey.CONSUMER_GROUP_HEARTBEAT,
                0,
                m.ConsumerGroupHeartbeatRequest(
                    group_id=self.group_id,
                    member_id=member.member_id,
                    member_epoch=LEAVE_EPOCH,
                    instance_id=member.instance_id,
                ),
                lambda a: a.error_code,
            )
            return
        body = m.LeaveGroupRequest(
            group_id=self.group_id,
            members=[
                m.LeaveGroupRequest.MemberIdentity(
                    member_id=member.member_id, group_instance_id=member.instance_id, reason=reason
                )
            ],
        )
        self._call_coordinator(
            ApiKey.LEAVE_GROUP,
            5,
            body,
            lambda a: a.error_code or (a.members[0].error_code if a.members else ErrorCode.NONE),
        )

    # -- connections -------------------------------------------------------------------------------------------------------------

    def _call(self, address: tuple[str, int], api: ApiKey, version: int, body: Struct) -> Any:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise NoResponse(f"{address[0]}:{address[1]}: the deadline of the operation has passed")
        connection = self._connections.setdefault(address, KafkaConnection(*address))
        self.requests[api.name] = self.requests.get(api.name, 0) + 1
        return connection.call(api, version, body, min(CALL_SECONDS, left))

    def _of_any_broker(self, api: ApiKey, version: int, body: Struct) -> Any:
        problem = NoResponse("no broker is known")
        for address in settings.WEIR.bootstrap.split(","):
            host, _, port = address.rpartition(":")
            try:
                return self._call((host, int(port)), api, version, body)
            except NoResponse as e:
                problem = e
        raise problem

    def _call_coordinator(
        self,
        api: ApiKey,
        version: int,
        body: Struct,
        error_of: Callable[[Any], int],
        *,
        accepted: Sequence[ErrorCode] = (),
        group_id: str = "",
    ) -> Any:
        """The response of the group's coordinator, found again while it moves or loads. Raises Declined with the error."""
        group = group_id or self.group_id
        while True:
            if group not in self._coordinators:
                found = self._of_any_broker(ApiKey.FIND_COORDINATOR, 3, m.FindCoordinatorRequest(key=group, key_type=0))
                code = ErrorCode(found.error_code)
                if code == ErrorCode.NONE:
                    self._coordinators[group] = found.host, found.port
            if group in self._coordinators:
                response = self._call(self._coordinators[group], api, version, body)
                code = ErrorCode(error_of(response))
                if code == ErrorCode.NONE or code in accepted:
                    return response
            if not code.retriable:
                raise Declined(code.text)
            self._coordinators.pop(group, None)
            if time.monotonic() + RETRY_SECONDS >= self._deadline:
                raise NoResponse(f"group {group!r}: {code.text}")
            time.sleep(RETRY_SECONDS)


def _coordinator_error(response: m.OffsetCommitResponse) -> int:
    """An OffsetCommit response has no error field for the whole request: the coordinator repeats its error for each partition."""
    codes = {p.error_code for t in response.topics for p in t.partitions}
    moving = (
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
    return next(iter(codes)) if len(codes) == 1 and codes <= set(moving) else ErrorCode.NONE


def _errors(response: Any) -> dict[Key, ErrorCode]:
    return {
        (t.name, p.partition_index): ErrorCode(p.error_code)
        for t in response.topics
        for p in t.partitions
        if p.error_code
    }


def by_topic(keys: Iterable[Key]) -> dict[str, list[int]]:
    """{topic: partition indexes}."""
    out: dict[str, list[int]] = {}
    for topic, index in keys:
        out.setdefault(topic, []).append(index)
    return out


def chunks(keys: Sequence[Key]) -> Iterator[Sequence[Key]]:
    """The partitions of each request."""
    for at in range(0, len(keys), PARTITIONS_PER_REQUEST):
        yield keys[at : at + PARTITIONS_PER_REQUEST]
