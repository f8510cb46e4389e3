"""Messages for topics, partitions and reassignments. Descriptions only; names, types and versions are from Kafka's message
definitions (up to 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from brokerd.wire.schema import Struct, array, f


@dataclass(slots=True)
class CreateTopicsRequest(Struct):
    FLEXIBLE = 5

    @dataclass(slots=True)
    class CreatableReplicaAssignment(Struct):
        partition_index: int = f("int32")
        broker_ids: list[int] = f(array("int32"))

    @dataclass(slots=True)
    class CreatableTopicConfig(Struct):
        name: str = f("string")
        value: str | None = f("string", nullable="0+")

    @dataclass(slots=True)
    class CreatableTopic(Struct):
        name: str = f("string")
        num_partitions: int = f("int32")
        replication_factor: int = f("int16")
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = f(array("CreatableReplicaAssignment"))
        configs: list[CreateTopicsRequest.CreatableTopicConfig] = f(array("CreatableTopicConfig"))

    topics: list[CreateTopicsRequest.CreatableTopic] = f(array("CreatableTopic"))
    timeout_ms: int = f("int32", default=60000)
    validate_only: bool = f("bool", "1+")


@dataclass(slots=True)
class CreateTopicsResponse(Struct):
    FLEXIBLE = 5

    @dataclass(slots=True)
    class CreatableTopicConfigs(Struct):
        name: str = f("string", "5+")
        value: str | None = f("string", "5+", nullable="5+")
        read_only: bool = f("bool", "5+")
        config_source: int = f("int8", "5+", default=-1)
        is_sensitive: bool = f("bool", "5+")

    @dataclass(slots=True)
    class CreatableTopicResult(Struct):
        name: str = f("string")
        topic_id: UUID = f("uuid", "7+")
        error_code: int = f("int16")
        error_message: str | None = f("string", "1+", nullable="0+")
        topic_config_error_code: int = f("int16", "5+", tag=0, tagged="5+")
        num_partitions: int = f("int32", "5+", default=-1)
        replication_factor: int = f("int16", "5+", default=-1)
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = f(
            array("CreatableTopicConfigs"), "5+", nullable="5+"
        )

    throttle_time_ms: int = f("int32", "2+")
    topics: list[CreateTopicsResponse.CreatableTopicResult] = f(array("CreatableTopicResult"))


@dataclass(slots=True)
class DeleteTopicsRequest(Struct):
    FLEXIBLE = 4

    @dataclass(slots=True)
    class DeleteTopicState(Struct):
        name: str | None = f("string", "6+", nullable="6+", default=None)
        topic_id: UUID = f("uuid", "6+")

    topics: list[DeleteTopicsRequest.DeleteTopicState] = f(array("DeleteTopicState"), "6+")
    topic_names: list[str] = f(array("string"), "0-5")
    timeout_ms: int = f("int32")


@dataclass(slots=True)
class DeleteTopicsResponse(Struct):
    FLEXIBLE = 4

    @dataclass(slots=True)
    class DeletableTopicResult(Struct):
        name: str | None = f("string", nullable="6+")
        topic_id: UUID = f("uuid", "6+")
        error_code: int = f("int16")
        error_message: str | None = f("string", "5+", nullable="5+", default=None)

    throttle_time_ms: int = f("int32", "1+")
    responses: list[DeleteTopicsResponse.DeletableTopicResult] = f(array("DeletableTopicResult"))


@dataclass(slots=True)
class CreatePartitionsRequest(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class CreatePartitionsAssignment(Struct):
        broker_ids: list[int] = f(array("int32"))

    @dataclass(slots=True)
    class CreatePartitionsTopic(Struct):
        name: str = f("string")
        count: int = f("int32")
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = f(
            array("CreatePartitionsAssignment"), nullable="0+"
        )

    topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = f(array("CreatePartitionsTopic"))
    timeout_ms: int = f("int32")
    validate_only: bool = f("bool")


@dataclass(slots=True)
class CreatePartitionsResponse(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class CreatePartitionsTopicResult(Struct):
        name: str = f("string")
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)

    throttle_time_ms: int = f("int32")
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = f(array("CreatePartitionsTopicResult"))


@dataclass(slots=True)
class ElectLeadersRequest(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class TopicPartitions(Struct):
        topic: str = f("string")
        partitions: list[int] = f(array("int32"))

    election_type: int = f("int8", "1+")
    topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = f(array("TopicPartitions"), nullable="0+")
    timeout_ms: int = f("int32", default=60000)


@dataclass(slots=True)
class ElectLeadersResponse(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class PartitionResult(Struct):
        partition_id: int = f("int32")
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+")

    @dataclass(slots=True)
    class ReplicaElectionResult(Struct):
        topic: str = f("string")
        partition_result: list[ElectLeadersResponse.PartitionResult] = f(array("PartitionResult"))

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16", "1+")
    replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = f(array("ReplicaElectionResult"))


@dataclass(slots=True)
class AlterPartitionReassignmentsRequest(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class ReassignablePartition(Struct):
        partition_index: int = f("int32")
        replicas: list[int] | None = f(array("int32"), nullable="0+", default=None)

    @dataclass(slots=True)
    class ReassignableTopic(Struct):
        name: str = f("string")
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = f(array("ReassignablePartition"))

    timeout_ms: int = f("int32", default=60000)
    allow_replication_factor_change: bool = f("bool", "1+", default=True)
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = f(array("ReassignableTopic"))


@dataclass(slots=True)
class AlterPartitionReassignmentsResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class ReassignablePartitionResponse(Struct):
        partition_index: int = f("int32")
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+")

    @dataclass(slots=True)
    class ReassignableTopicResponse(Struct):
        name: str = f("string")
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = f(
            array("ReassignablePartitionResponse")
        )

    throttle_time_ms: int = f("int32")
    allow_replication_factor_change: bool = f("bool", "1+", default=True)
    error_code: int = f("int16")
    error_message: str | None = f("string", nullable="0+")
    responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = f(
        array("ReassignableTopicResponse")
    )


@dataclass(slots=True)
class ListPartitionReassignmentsRequest(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class ListPartitionReassignmentsTopics(Struct):
        name: str = f("string")
        partition_indexes: list[int] = f(array("int32"))

    timeout_ms: int = f("int32", default=60000)
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = f(
        array("ListPartitionReassignmentsTopics"), nullable="0+", default=None
    )


@dataclass(slots=True)
class ListPartitionReassignmentsResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class OngoingPartitionReassignment(Struct):
        partition_index: int = f("int32")
        replicas: list[int] = f(array("int32"))
        adding_replicas: list[int] = f(array("int32"))
        removing_replicas: list[int] = f(array("int32"))

    @dataclass(slots=True)
    class OngoingTopicReassignment(Struct):
        name: str = f("string")
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = f(
            array("OngoingPartitionReassignment")
        )

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16")
    error_message: str | None = f("string", nullable="0+")
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = f(array("OngoingTopicReassignment"))
