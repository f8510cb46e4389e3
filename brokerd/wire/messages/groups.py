"""Messages of the classic group protocol and of committed offsets. Descriptions only; names, types and versions are from Kafka's message
definitions (up to 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from brokerd.wire.schema import Struct, array, f


@dataclass(slots=True)
class FindCoordinatorRequest(Struct):
    FLEXIBLE = 3

    key: str = f("string", "0-3")
    key_type: int = f("int8", "1+")
    coordinator_keys: list[str] = f(array("string"), "4+")


@dataclass(slots=True)
class FindCoordinatorResponse(Struct):
    FLEXIBLE = 3

    @dataclass(slots=True)
    class Coordinator(Struct):
        key: str = f("string", "4+")
        node_id: int = f("int32", "4+")
        host: str = f("string", "4+")
        port: int = f("int32", "4+")
        error_code: int = f("int16", "4+")
        error_message: str | None = f("string", "4+", nullable="4+")

    throttle_time_ms: int = f("int32", "1+")
    error_code: int = f("int16", "0-3")
    error_message: str | None = f("string", "1-3", nullable="1-3")
    node_id: int = f("int32", "0-3")
    host: str = f("string", "0-3")
    port: int = f("int32", "0-3")
    coordinators: list[FindCoordinatorResponse.Coordinator] = f(array("Coordinator"), "4+")


@dataclass(slots=True)
class JoinGroupRequest(Struct):
    FLEXIBLE = 6

    @dataclass(slots=True)
    class JoinGroupRequestProtocol(Struct):
        name: str = f("string")
        metadata: bytes = f("bytes")

    group_id: str = f("string")
    session_timeout_ms: int = f("int32")
    rebalance_timeout_ms: int = f("int32", "1+", default=-1)
    member_id: str = f("string")
    group_instance_id: str | None = f("string", "5+", nullable="5+", default=None)
    protocol_type: str = f("string")
    protocols: list[JoinGroupRequest.JoinGroupRequestProtocol] = f(array("JoinGroupRequestProtocol"))
    reason: str | None = f("string", "8+", nullable="8+", default=None)


@dataclass(slots=True)
class JoinGroupResponse(Struct):
    FLEXIBLE = 6

    @dataclass(slots=True)
    class JoinGroupResponseMember(Struct):
        member_id: str = f("string")
        group_instance_id: str | None = f("string", "5+", nullable="5+", default=None)
        metadata: bytes = f("bytes")

    throttle_time_ms: int = f("int32", "2+")
    error_code: int = f("int16")
    generation_id: int = f("int32", default=-1)
    protocol_type: str | None = f("string", "7+", nullable="7+", default=None)
    protocol_name: str | None = f("string", nullable="7+")
    leader: str = f("string")
    skip_assignment: bool = f("bool", "9+")
    member_id: str = f("string")
    members: list[JoinGroupResponse.JoinGroupResponseMember] = f(array("JoinGroupResponseMember"))


@dataclass(slots=True)
class SyncGroupRequest(Struct):
    FLEXIBLE = 4

    @dataclass(slots=True)
    class SyncGroupRequestAssignment(Struct):
        member_id: str = f("string")
        assignment: bytes = f("bytes")

    group_id: str = f("string")
    generation_id: int = f("int32")
    member_id: str = f("string")
    group_instance_id: str | None = f("string", "3+", nullable="3+", default=None)
    protocol_type: str | None = f("string", "5+", nullable="5+", default=None)
    protocol_name: str | None = f("string", "5+", nullable="5+", default=None)
    assignments: list[SyncGroupRequest.SyncGroupRequestAssignment] = f(array("SyncGroupRequestAssignment"))


@dataclass(slots=True)
class SyncGroupResponse(Struct):
    FLEXIBLE = 4

    throttle_time_ms: int = f("int32", "1+")
    error_code: int = f("int16")
    protocol_type: str | None = f("string", "5+", nullable="5+", default=None)
    protocol_name: str | None = f("string", "5+", nullable="5+", default=None)
    assignment: bytes = f("bytes")


@dataclass(slots=True)
class HeartbeatRequest(Struct):
    FLEXIBLE = 4

    group_id: str = f("string")
    generation_id: int = f("int32")
    member_id: str = f("string")
    group_instance_id: str | None = f("string", "3+", nullable="3+", default=None)


@dataclass(slots=True)
class HeartbeatResponse(Struct):
    FLEXIBLE = 4

    throttle_time_ms: int = f("int32", "1+")
    error_code: int = f("int16")


@dataclass(slots=True)
class LeaveGroupRequest(Struct):
    FLEXIBLE = 4

    @dataclass(slots=True)
    class MemberIdentity(Struct):
        member_id: str = f("string", "3+")
        group_instance_id: str | None = f("string", "3+", nullable="3+", default=None)
        reason: str | None = f("string", "5+", nullable="5+", default=None)

    group_id: str = f("string")
    member_id: str = f("string", "0-2")
    members: list[LeaveGroupRequest.MemberIdentity] = f(array("MemberIdentity"), "3+")


@dataclass(slots=True)
class LeaveGroupResponse(Struct):
    FLEXIBLE = 4

    @dataclass(slots=True)
    class MemberResponse(Struct):
        member_id: str = f("string", "3+")
        group_instance_id: str | None = f("string", "3+", nullable="3+")
        error_code: int = f("int16", "3+")

    throttle_time_ms: int = f("int32", "1+")
    error_code: int = f("int16")
    members: list[LeaveGroupResponse.MemberResponse] = f(array("MemberResponse"), "3+")


@dataclass(slots=True)
class OffsetCommitRequest(Struct):
    FLEXIBLE = 8

    @dataclass(slots=True)
    class OffsetCommitRequestPartition(Struct):
        partition_index: int = f("int32")
        committed_offset: int = f("int64")
        committed_leader_epoch: int = f("int32", "6+", default=-1)
        commit_timestamp: int = f("int64", "1", default=-1)
        committed_metadata: str | None = f("string", nullable="0+")

    @dataclass(slots=True)
    class OffsetCommitRequestTopic(Struct):
        name: str = f("string", "0-9")
        topic_id: UUID = f("uuid", "10+")
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = f(array("OffsetCommitRequestPartition"))

    group_id: str = f("string")
    generation_id_or_member_epoch: int = f("int32", "1+", default=-1)
    member_id: str = f("string", "1+")
    group_instance_id: str | None = f("string", "7+", nullable="7+", default=None)
    retention_time_ms: int = f("int64", "2-4", default=-1)
    topics: list[OffsetCommitRequest.OffsetCommitRequestTopic] = f(array("OffsetCommitRequestTopic"))


@dataclass(slots=True)
class OffsetCommitResponse(Struct):
    FLEXIBLE = 8

    @dataclass(slots=True)
    class OffsetCommitResponsePartition(Struct):
        partition_index: int = f("int32")
        error_code: int = f("int16")

    @dataclass(slots=True)
    class OffsetCommitResponseTopic(Struct):
        name: str = f("string", "0-9")
        topic_id: UUID = f("uuid", "10+")
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = f(array("OffsetCommitResponsePartition"))

    throttle_time_ms: int = f("int32", "3+")
    topics: list[OffsetCommitResponse.OffsetCommitResponseTopic] = f(array("OffsetCommitResponseTopic"))


@dataclass(slots=True)
class OffsetFetchRequest(Struct):
    FLEXIBLE = 6

    @dataclass(slots=True)
    class OffsetFetchRequestTopic(Struct):
        name: str = f("string", "0-7")
        partition_indexes: list[int] = f(array("int32"), "0-7")

    @dataclass(slots=True)
    class OffsetFetchRequestTopics(Struct):
        name: str = f("string", "8-9")
        topic_id: UUID = f("uuid", "10+")
        partition_indexes: list[int] = f(array("int32"), "8+")

    @dataclass(slots=True)
    class OffsetFetchRequestGroup(Struct):
        group_id: str = f("string", "8+")
        member_id: str | None = f("string", "9+", nullable="9+", default=None)
        member_epoch: int = f("int32", "9+", default=-1)
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = f(
            array("OffsetFetchRequestTopics"), "8+", nullable="8+"
        )

    group_id: str = f("string", "0-7")
    topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None = f(
        array("OffsetFetchRequestTopic"), "0-7", nullable="2-7"
    )
    groups: list[OffsetFetchRequest.OffsetFetchRequestGroup] = f(array("OffsetFetchRequestGroup"), "8+")
    require_stable: bool = f("bool", "7+")


@dataclass(slots=True)
class OffsetFetchResponse(Struct):
    FLEXIBLE = 6

    @dataclass(slots=True)
    class OffsetFetchResponsePartition(Struct):
        partition_index: int = f("int32", "0-7")
        committed_offset: int = f("int64", "0-7")
        committed_leader_epoch: int = f("int32", "5-7", default=-1)
        metadata: str | None = f("string", "0-7", nullable="0-7")
        error_code: int = f("int16", "0-7")

    @dataclass(slots=True)
    class OffsetFetchResponseTopic(Struct):
        name: str = f("string", "0-7")
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = f(
            array("OffsetFetchResponsePartition"), "0-7"
        )

    @dataclass(slots=True)
    class OffsetFetchResponsePartitions(Struct):
        partition_index: int = f("int32", "8+")
        committed_offset: int = f("int64", "8+")
        committed_leader_epoch: int = f("int32", "8+", default=-1)
        metadata: str | None = f("string", "8+", nullable="8+")
        error_code: int = f("int16", "8+")

    @dataclass(slots=True)
    class OffsetFetchResponseTopics(Struct):
        name: str = f("string", "8-9")
        topic_id: UUID = f("uuid", "10+")
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = f(
            array("OffsetFetchResponsePartitions"), "8+"
        )

    @dataclass(slots=True)
    class OffsetFetchResponseGroup(Struct):
        group_id: str = f("string", "8+")
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = f(array("OffsetFetchResponseTopics"), "8+")
        error_code: int = f("int16", "8+")

    throttle_time_ms: int = f("int32", "3+")
    topics: list[OffsetFetchResponse.OffsetFetchResponseTopic] = f(array("OffsetFetchResponseTopic"), "0-7")
    error_code: int = f("int16", "2-7")
    groups: list[OffsetFetchResponse.OffsetFetchResponseGroup] = f(array("OffsetFetchResponseGroup"), "8+")


@dataclass(slots=True)
class DescribeGroupsRequest(Struct):
    FLEXIBLE = 5

    groups: list[str] = f(array("string"))
    include_authorized_operations: bool = f("bool", "3+")


@dataclass(slots=True)
class DescribeGroupsResponse(Struct):
    FLEXIBLE = 5

    @dataclass(slots=True)
    class DescribedGroupMember(Struct):
        member_id: str = f("string")
        group_instance_id: str | None = f("string", "4+", nullable="4+", default=None)
        client_id: str = f("string")
        client_host: str = f("string")
        member_metadata: bytes = f("bytes")
        member_assignment: bytes = f("bytes")

    @dataclass(slots=True)
    class DescribedGroup(Struct):
        error_code: int = f("int16")
        error_message: str | None = f("string", "6+", nullable="6+", default=None)
        group_id: str = f("string")
        group_state: str = f("string")
        protocol_type: str = f("string")
        protocol_data: str = f("string")
        members: list[DescribeGroupsResponse.DescribedGroupMember] = f(array("DescribedGroupMember"))
        authorized_operations: int = f("int32", "3+", default=-2147483648)

    throttle_time_ms: int = f("int32", "1+")
    groups: list[DescribeGroupsResponse.DescribedGroup] = f(array("DescribedGroup"))


@dataclass(slots=True)
class ListGroupsRequest(Struct):
    FLEXIBLE = 3

    states_filter: list[str] = f(array("string"), "4+")
    types_filter: list[str] = f(array("string"), "5+")


@dataclass(slots=True)
class ListGroupsResponse(Struct):
    FLEXIBLE = 3

    @dataclass(slots=True)
    class ListedGroup(Struct):
        group_id: str = f("string")
        protocol_type: str = f("string")
        group_state: str = f("string", "4+")
        group_type: str = f("string", "5+")

    throttle_time_ms: int = f("int32", "1+")
    error_code: int = f("int16")
    groups: list[ListGroupsResponse.ListedGroup] = f(array("ListedGroup"))


@dataclass(slots=True)
class DeleteGroupsRequest(Struct):
    FLEXIBLE = 2

    groups_names: list[str] = f(array("string"))


@dataclass(slots=True)
class DeleteGroupsResponse(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class DeletableGroupResult(Struct):
        group_id: str = f("string")
        error_code: int = f("int16")

    throttle_time_ms: int = f("int32")
    results: list[DeleteGroupsResponse.DeletableGroupResult] = f(array("DeletableGroupResult"))


@dataclass(slots=True)
class OffsetDeleteRequest(Struct):
    FLEXIBLE = None

    @dataclass(slots=True)
    class OffsetDeleteRequestPartition(Struct):
        partition_index: int = f("int32")

    @dataclass(slots=True)
    class OffsetDeleteRequestTopic(Struct):
        name: str = f("string")
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = f(array("OffsetDeleteRequestPartition"))

    group_id: str = f("string")
    topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = f(array("OffsetDeleteRequestTopic"))


@dataclass(slots=True)
class OffsetDeleteResponse(Struct):
    FLEXIBLE = None

    @dataclass(slots=True)
    class OffsetDeleteResponsePartition(Struct):
        partition_index: int = f("int32")
        error_code: int = f("int16")

    @dataclass(slots=True)
    class OffsetDeleteResponseTopic(Struct):
        name: str = f("string")
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = f(array("OffsetDeleteResponsePartition"))

    error_code: int = f("int16")
    throttle_time_ms: int = f("int32")
    topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = f(array("OffsetDeleteResponseTopic"))
