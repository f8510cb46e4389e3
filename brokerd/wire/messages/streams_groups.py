"""Messages of streams groups (KIP-1071). Descriptions only; names, types and versions are from Kafka's message definitions (4.3)."""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.wire.schema import Struct, array, f


@dataclass(slots=True)
class StreamsGroupHeartbeatRequest(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class KeyValue(Struct):
        key: str = f("string")
        value: str = f("string")

    @dataclass(slots=True)
    class TopicInfo(Struct):
        name: str = f("string")
        partitions: int = f("int32")
        replication_factor: int = f("int16")
        topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue] = f(array("KeyValue"))

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
        state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = f(array("TopicInfo"))
        repartition_sink_topics: list[str] = f(array("string"))
        repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = f(array("TopicInfo"))
        copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup] = f(array("CopartitionGroup"))

    @dataclass(slots=True)
    class Topology(Struct):
        epoch: int = f("int32")
        subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology] = f(array("Subtopology"))

    @dataclass(slots=True)
    class TaskIds(Struct):
        subtopology_id: str = f("string")
        partitions: list[int] = f(array("int32"))

    @dataclass(slots=True)
    class Endpoint(Struct):
        host: str = f("string")
        port: int = f("uint16")

    @dataclass(slots=True)
    class TaskOffset(Struct):
        subtopology_id: str = f("string")
        partition: int = f("int32")
        offset: int = f("int64")

    group_id: str = f("string")
    member_id: str = f("string")
    member_epoch: int = f("int32")
    endpoint_information_epoch: int = f("int32")
    instance_id: str | None = f("string", nullable="0+", default=None)
    rack_id: str | None = f("string", nullable="0+", default=None)
    rebalance_timeout_ms: int = f("int32", default=-1)
    topology: StreamsGroupHeartbeatRequest.Topology | None = f("Topology", nullable="0+", default=None)
    active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = f(array("TaskIds"), nullable="0+", default=None)
    standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = f(array("TaskIds"), nullable="0+", default=None)
    warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = f(array("TaskIds"), nullable="0+", default=None)
    process_id: str | None = f("string", nullable="0+", default=None)
    user_endpoint: StreamsGroupHeartbeatRequest.Endpoint | None = f("Endpoint", nullable="0+", default=None)
    client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] | None = f(array("KeyValue"), nullable="0+", default=None)
    task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = f(
        array("TaskOffset"), nullable="0+", default=None
    )
    task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = f(
        array("TaskOffset"), nullable="0+", default=None
    )
    shutdown_application: bool = f("bool", default=False)


@dataclass(slots=True)
class StreamsGroupHeartbeatResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class Status(Struct):
        status_code: int = f("int8")
        status_detail: str = f("string")

    @dataclass(slots=True)
    class TaskIds(Struct):
        subtopology_id: str = f("string")
        partitions: list[int] = f(array("int32"))

    @dataclass(slots=True)
    class Endpoint(Struct):
        host: str = f("string")
        port: int = f("uint16")

    @dataclass(slots=True)
    class TopicPartition(Struct):
        topic: str = f("string")
        partitions: list[int] = f(array("int32"))

    @dataclass(slots=True)
    class EndpointToPartitions(Struct):
        user_endpoint: StreamsGroupHeartbeatResponse.Endpoint = f("Endpoint")
        active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = f(array("TopicPartition"))
        standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = f(array("TopicPartition"))

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16")
    error_message: str | None = f("string", nullable="0+", default=None)
    member_id: str = f("string")
    member_epoch: int = f("int32")
    heartbeat_interval_ms: int = f("int32")
    acceptable_recovery_lag: int = f("int32")
    task_offset_interval_ms: int = f("int32")
    status: list[StreamsGroupHeartbeatResponse.Status] | None = f(array("Status"), nullable="0+")
    active_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = f(array("TaskIds"), nullable="0+", default=None)
    standby_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = f(array("TaskIds"), nullable="0+", default=None)
    warmup_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = f(array("TaskIds"), nullable="0+", default=None)
    endpoint_information_epoch: int = f("int32")
    partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponse.EndpointToPartitions] | None = f(
        array("EndpointToPartitions"), nullable="0+", default=None
    )


@dataclass(slots=True)
class StreamsGroupDescribeRequest(Struct):
    FLEXIBLE = 0

    group_ids: list[str] = f(array("string"))
    include_authorized_operations: bool = f("bool")


@dataclass(slots=True)
class StreamsGroupDescribeResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class KeyValue(Struct):
        key: str = f("string")
        value: str = f("string")

    @dataclass(slots=True)
    class TopicInfo(Struct):
        name: str = f("string")
        partitions: int = f("int32")
        replication_factor: int = f("int16")
        topic_configs: list[StreamsGroupDescribeResponse.KeyValue] = f(array("KeyValue"))

    @dataclass(slots=True)
    class Subtopology(Struct):
        subtopology_id: str = f("string")
        source_topics: list[str] = f(array("string"))
        repartition_sink_topics: list[str] = f(array("string"))
        state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo] = f(array("TopicInfo"))
        repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo] = f(array("TopicInfo"))

    @dataclass(slots=True)
    class Topology(Struct):
        epoch: int = f("int32")
        subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None = f(
            array("Subtopology"), nullable="0+", default=None
        )

    @dataclass(slots=True)
    class TaskIds(Struct):
        subtopology_id: str = f("string")
        partitions: list[int] = f(array("int32"))

    @dataclass(slots=True)
    class Assignment(Struct):
        active_tasks: list[StreamsGroupDescribeResponse.TaskIds] = f(array("TaskIds"))
        standby_tasks: list[StreamsGroupDescribeResponse.TaskIds] = f(array("TaskIds"))
        warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds] = f(array("TaskIds"))

    @dataclass(slots=True)
    class Endpoint(Struct):
        host: str = f("string")
        port: int = f("uint16")

    @dataclass(slots=True)
    class TaskOffset(Struct):
        subtopology_id: str = f("string")
        partition: int = f("int32")
        offset: int = f("int64")

    @dataclass(slots=True)
    class Member(Struct):
        member_id: str = f("string")
        member_epoch: int = f("int32")
        instance_id: str | None = f("string", nullable="0+", default=None)
        rack_id: str | None = f("string", nullable="0+", default=None)
        client_id: str = f("string")
        client_host: str = f("string")
        topology_epoch: int = f("int32")
        process_id: str = f("string")
        user_endpoint: StreamsGroupDescribeResponse.Endpoint | None = f("Endpoint", nullable="0+", default=None)
        client_tags: list[StreamsGroupDescribeResponse.KeyValue] = f(array("KeyValue"))
        task_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = f(array("TaskOffset"))
        task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = f(array("TaskOffset"))
        assignment: StreamsGroupDescribeResponse.Assignment = f("Assignment")
        target_assignment: StreamsGroupDescribeResponse.Assignment = f("Assignment")
        is_classic: bool = f("bool")

    @dataclass(slots=True)
    class DescribedGroup(Struct):
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)
        group_id: str = f("string")
        group_state: str = f("string")
        group_epoch: int = f("int32")
        assignment_epoch: int = f("int32")
        topology: StreamsGroupDescribeResponse.Topology | None = f("Topology", nullable="0+", default=None)
        members: list[StreamsGroupDescribeResponse.Member] = f(array("Member"))
        authorized_operations: int = f("int32", default=-2147483648)

    throttle_time_ms: int = f("int32")
    groups: list[StreamsGroupDescribeResponse.DescribedGroup] = f(array("DescribedGroup"))
