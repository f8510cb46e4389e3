"""Messages of the consumer protocol (KIP-848). Descriptions only; names, types and versions are from Kafka's message definitions (up to 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from brokerd.wire.schema import Struct, array, f


@dataclass(slots=True)
class ConsumerGroupHeartbeatRequest(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class TopicPartitions(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[int] = f(array("int32"))

    group_id: str = f("string")
    member_id: str = f("string")
    member_epoch: int = f("int32")
    instance_id: str | None = f("string", nullable="0+", default=None)
    rack_id: str | None = f("string", nullable="0+", default=None)
    rebalance_timeout_ms: int = f("int32", default=-1)
    subscribed_topic_names: list[str] | None = f(array("string"), nullable="0+", default=None)
    subscribed_topic_regex: str | None = f("string", "1+", nullable="1+", default=None)
    server_assignor: str | None = f("string", nullable="0+", default=None)
    topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = f(
        array("TopicPartitions"), nullable="0+", default=None
    )


@dataclass(slots=True)
class ConsumerGroupHeartbeatResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class TopicPartitions(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[int] = f(array("int32"))

    @dataclass(slots=True)
    class Assignment(Struct):
        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = f(array("TopicPartitions"))

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16")
    error_message: str | None = f("string", nullable="0+", default=None)
    member_id: str | None = f("string", nullable="0+", default=None)
    member_epoch: int = f("int32")
    heartbeat_interval_ms: int = f("int32")
    assignment: ConsumerGroupHeartbeatResponse.Assignment | None = f("Assignment", nullable="0+", default=None)


@dataclass(slots=True)
class ConsumerGroupDescribeRequest(Struct):
    FLEXIBLE = 0

    group_ids: list[str] = f(array("string"))
    include_authorized_operations: bool = f("bool")


@dataclass(slots=True)
class ConsumerGroupDescribeResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class TopicPartitions(Struct):
        topic_id: UUID = f("uuid")
        topic_name: str = f("string")
        partitions: list[int] = f(array("int32"))

    @dataclass(slots=True)
    class Assignment(Struct):
        topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions] = f(array("TopicPartitions"))

    @dataclass(slots=True)
    class Member(Struct):
        member_id: str = f("string")
        instance_id: str | None = f("string", nullable="0+", default=None)
        rack_id: str | None = f("string", nullable="0+", default=None)
        member_epoch: int = f("int32")
        client_id: str = f("string")
        client_host: str = f("string")
        subscribed_topic_names: list[str] = f(array("string"))
        subscribed_topic_regex: str | None = f("string", nullable="0+", default=None)
        assignment: ConsumerGroupDescribeResponse.Assignment = f("Assignment")
        target_assignment: ConsumerGroupDescribeResponse.Assignment = f("Assignment")
        member_type: int = f("int8", "1+", default=-1)

    @dataclass(slots=True)
    class DescribedGroup(Struct):
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)
        group_id: str = f("string")
        group_state: str = f("string")
        group_epoch: int = f("int32")
        assignment_epoch: int = f("int32")
        assignor_name: str = f("string")
        members: list[ConsumerGroupDescribeResponse.Member] = f(array("Member"))
        authorized_operations: int = f("int32", default=-2147483648)

    throttle_time_ms: int = f("int32")
    groups: list[ConsumerGroupDescribeResponse.DescribedGroup] = f(array("DescribedGroup"))
