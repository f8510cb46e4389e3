"""Membership and offsets of share groups (KIP-932). Descriptions only; names, types and versions are from Kafka's message definitions (up to 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from brokerd.wire.schema import Struct, array, f


@dataclass(slots=True)
class ShareGroupHeartbeatRequest(Struct):
    FLEXIBLE = 0

    group_id: str = f("string")
    member_id: str = f("string")
    member_epoch: int = f("int32")
    rack_id: str | None = f("string", nullable="0+", default=None)
    subscribed_topic_names: list[str] | None = f(array("string"), nullable="0+", default=None)


@dataclass(slots=True)
class ShareGroupHeartbeatResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class TopicPartitions(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[int] = f(array("int32"))

    @dataclass(slots=True)
    class Assignment(Struct):
        topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions] = f(array("TopicPartitions"))

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16")
    error_message: str | None = f("string", nullable="0+", default=None)
    member_id: str | None = f("string", nullable="0+", default=None)
    member_epoch: int = f("int32")
    heartbeat_interval_ms: int = f("int32")
    assignment: ShareGroupHeartbeatResponse.Assignment | None = f("Assignment", nullable="0+", default=None)


@dataclass(slots=True)
class ShareGroupDescribeRequest(Struct):
    FLEXIBLE = 0

    group_ids: list[str] = f(array("string"))
    include_authorized_operations: bool = f("bool")


@dataclass(slots=True)
class ShareGroupDescribeResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class Assignment(Struct):
        topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions] = f(array("TopicPartitions"))

    @dataclass(slots=True)
    class TopicPartitions(Struct):
        topic_id: UUID = f("uuid")
        topic_name: str = f("string")
        partitions: list[int] = f(array("int32"))

    @dataclass(slots=True)
    class Member(Struct):
        member_id: str = f("string")
        rack_id: str | None = f("string", nullable="0+", default=None)
        member_epoch: int = f("int32")
        client_id: str = f("string")
        client_host: str = f("string")
        subscribed_topic_names: list[str] = f(array("string"))
        assignment: ShareGroupDescribeResponse.Assignment = f("Assignment")

    @dataclass(slots=True)
    class DescribedGroup(Struct):
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)
        group_id: str = f("string")
        group_state: str = f("string")
        group_epoch: int = f("int32")
        assignment_epoch: int = f("int32")
        assignor_name: str = f("string")
        members: list[ShareGroupDescribeResponse.Member] = f(array("Member"))
        authorized_operations: int = f("int32", default=-2147483648)

    throttle_time_ms: int = f("int32")
    groups: list[ShareGroupDescribeResponse.DescribedGroup] = f(array("DescribedGroup"))


@dataclass(slots=True)
class DescribeShareGroupOffsetsRequest(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class DescribeShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = f("string")
        partitions: list[int] = f(array("int32"))

    @dataclass(slots=True)
    class DescribeShareGroupOffsetsRequestGroup(Struct):
        group_id: str = f("string")
        topics: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None = f(
            array("DescribeShareGroupOffsetsRequestTopic"), nullable="0+"
        )

    groups: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup] = f(
        array("DescribeShareGroupOffsetsRequestGroup")
    )


@dataclass(slots=True)
class DescribeShareGroupOffsetsResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class DescribeShareGroupOffsetsResponsePartition(Struct):
        partition_index: int = f("int32")
        start_offset: int = f("int64")
        leader_epoch: int = f("int32")
        lag: int = f("int64", "1+", default=-1)
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)

    @dataclass(slots=True)
    class DescribeShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = f("string")
        topic_id: UUID = f("uuid")
        partitions: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition] = f(
            array("DescribeShareGroupOffsetsResponsePartition")
        )

    @dataclass(slots=True)
    class DescribeShareGroupOffsetsResponseGroup(Struct):
        group_id: str = f("string")
        topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic] = f(
            array("DescribeShareGroupOffsetsResponseTopic")
        )
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)

    throttle_time_ms: int = f("int32")
    groups: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup] = f(
        array("DescribeShareGroupOffsetsResponseGroup")
    )


@dataclass(slots=True)
class AlterShareGroupOffsetsRequest(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class AlterShareGroupOffsetsRequestPartition(Struct):
        partition_index: int = f("int32")
        start_offset: int = f("int64")

    @dataclass(slots=True)
    class AlterShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = f("string")
        partitions: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition] = f(
            array("AlterShareGroupOffsetsRequestPartition")
        )

    group_id: str = f("string")
    topics: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic] = f(
        array("AlterShareGroupOffsetsRequestTopic")
    )


@dataclass(slots=True)
class AlterShareGroupOffsetsResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class AlterShareGroupOffsetsResponsePartition(Struct):
        partition_index: int = f("int32")
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)

    @dataclass(slots=True)
    class AlterShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = f("string")
        topic_id: UUID = f("uuid")
        partitions: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition] = f(
            array("AlterShareGroupOffsetsResponsePartition")
        )

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16")
    error_message: str | None = f("string", nullable="0+", default=None)
    responses: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic] = f(
        array("AlterShareGroupOffsetsResponseTopic")
    )


@dataclass(slots=True)
class DeleteShareGroupOffsetsRequest(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class DeleteShareGroupOffsetsRequestTopic(Struct):
        topic_name: str = f("string")

    group_id: str = f("string")
    topics: list[DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic] = f(
        array("DeleteShareGroupOffsetsRequestTopic")
    )


@dataclass(slots=True)
class DeleteShareGroupOffsetsResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class DeleteShareGroupOffsetsResponseTopic(Struct):
        topic_name: str = f("string")
        topic_id: UUID = f("uuid")
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16")
    error_message: str | None = f("string", nullable="0+", default=None)
    responses: list[DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic] = f(
        array("DeleteShareGroupOffsetsResponseTopic")
    )
