"""Messages for topics, partitions and log directories. Descriptions only; names, types and versions are from Kafka's message
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
class AlterReplicaLogDirsRequest(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class AlterReplicaLogDirTopic(Struct):
        name: str = f("string")
        partitions: list[int] = f(array("int32"))

    @dataclass(slots=True)
    class AlterReplicaLogDir(Struct):
        path: str = f("string")
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = f(array("AlterReplicaLogDirTopic"))

    dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = f(array("AlterReplicaLogDir"))


@dataclass(slots=True)
class AlterReplicaLogDirsResponse(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class AlterReplicaLogDirPartitionResult(Struct):
        partition_index: int = f("int32")
        error_code: int = f("int16")

    @dataclass(slots=True)
    class AlterReplicaLogDirTopicResult(Struct):
        topic_name: str = f("string")
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = f(
            array("AlterReplicaLogDirPartitionResult")
        )

    throttle_time_ms: int = f("int32")
    results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = f(array("AlterReplicaLogDirTopicResult"))


@dataclass(slots=True)
class DescribeLogDirsRequest(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class DescribableLogDirTopic(Struct):
        topic: str = f("string")
        partitions: list[int] = f(array("int32"))

    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = f(
        array("DescribableLogDirTopic"), nullable="0+"
    )
    # A tag of Weir: the response must also contain the leader's figures for replicas out of sync.
    lagging: bool = f("bool", "2+", tag=10_001, tagged="2+")
    # A tag of Weir: the response must also contain the current use of client quotas.
    quota_use: bool = f("bool", "2+", tag=10_002, tagged="2+")
    # A tag of Weir: the response must also contain the clients that are connected.
    clients: bool = f("bool", "2+", tag=10_003, tagged="2+")
    # A tag of Weir: the response must also contain the health of each directory's disk.
    disks: bool = f("bool", "2+", tag=10_005, tagged="2+")
    # A tag of Weir: the response must also contain the remote sizes of the partitions with tiered storage that this broker leads.
    remote: bool = f("bool", "2+", tag=10_006, tagged="2+")
    # A tag of Weir: the partitions in the response must also contain their counters of bytes.
    traffic: bool = f("bool", "2+", tag=10_007, tagged="2+")
    # A tag of Weir: the response must also contain the metrics of requests.
    requests: bool = f("bool", "2+", tag=10_008, tagged="2+")
    # A tag of Weir: the response must also contain the numbers of dead letters of the share groups.
    share_letters: bool = f("bool", "2+", tag=10_009, tagged="2+")


@dataclass(slots=True)
class DescribeLogDirsResponse(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class DescribeLogDirsPartition(Struct):
        partition_index: int = f("int32")
        partition_size: int = f("int64")
        offset_lag: int = f("int64")
        is_future_key: bool = f("bool")
        # Tags of Weir: bytes of record batches since the replica was opened. `brokerd.replication.replica`.
        bytes_in: int = f("int64", "2+", tag=10_000, tagged="2+")
        bytes_out: int = f("int64", "2+", tag=10_001, tagged="2+")
        replication_bytes_in: int = f("int64", "2+", tag=10_002, tagged="2+")
        replication_bytes_out: int = f("int64", "2+", tag=10_003, tagged="2+")

    @dataclass(slots=True)
    class DescribeLogDirsTopic(Struct):
        name: str = f("string")
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = f(array("DescribeLogDirsPartition"))

    @dataclass(slots=True)
    class DescribeLogDirsResult(Struct):
        error_code: int = f("int16")
        log_dir: str = f("string")
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = f(array("DescribeLogDirsTopic"))
        total_bytes: int = f("int64", "4+", default=-1)
        usable_bytes: int = f("int64", "4+", default=-1)
        is_cordoned: bool = f("bool", "5+")
        # Tags of Weir: `brokerd.cluster.disk_health`, and the time of the last probe in ms (-1: unknown).
        health: int = f("int8", "2+", tag=10_005, tagged="2+")
        probe_ms: int = f("int32", "2+", default=-1, tag=10_006, tagged="2+")

    @dataclass(slots=True)
    class LaggingCopy(Struct):
        topic: str = f("string")
        partition_index: int = f("int32")
        broker_id: int = f("int32")
        log_end: int = f("int64")
        log_start: int = f("int64")

    @dataclass(slots=True)
    class QuotaUse(Struct):
        entity: str = f("string")
        quota: str = f("string")
        per_second: float = f("float64")

    @dataclass(slots=True)
    class RemoteSize(Struct):
        """Bytes of a partition with tiered storage: `brokerd.remote.sizes`."""

        topic: str = f("string")
        partition_index: int = f("int32")
        remote: int = f("int64")
        local_only: int = f("int64")
        copying: int = f("int64")
        read: int = f("int64")
        # -1: a broker of a version that does not report it.
        local_start: int = f("int64", "2+", tag=0, tagged="2+", default=-1)

    @dataclass(slots=True)
    class ErrorCount(Struct):
        code: int = f("int16")
        count: int = f("int64")

    @dataclass(slots=True)
    class ApiRequests(Struct):
        """Requests of one API since the start of the broker: `brokerd.net.request_metrics`. The greatest time is of the last one to two minutes."""

        name: str = f("string")
        counts: list[int] = f(array("int64"))
        sum_seconds: float = f("float64")
        greatest_seconds: float = f("float64")
        errors: list[DescribeLogDirsResponse.ErrorCount] = f(array("ErrorCount"))

    @dataclass(slots=True)
    class ShareLetters(Struct):
        """Number of dead letters of one topic since the start of the broker (`brokerd.sharing.dead_letters`). `reason`: why the last record without a dead
        letter has none."""

        group_id: str = f("string")
        topic: str = f("string")
        written: int = f("int64")
        unwritten: int = f("int64")
        reason: str = f("string")

    @dataclass(slots=True)
    class ConnectedClient(Struct):
        """The connections with equal properties. Times in milliseconds: the age of the oldest one, and the time since the last request."""

        listener: str = f("string")
        principal: str = f("string")
        client_id: str = f("string")
        host: str = f("string")
        software_name: str = f("string")
        software_version: str = f("string")
        is_broker: bool = f("bool")
        connections: int = f("int32")
        connected_ms: int = f("int64")
        idle_ms: int = f("int64")
        requests_per_second: float = f("float64")
        received_bytes_per_second: float = f("float64")
        sent_bytes_per_second: float = f("float64")
        # Loaded from the disk for responses.
        cold_bytes_per_second: float = f("float64", "2+", tag=0, tagged="2+")

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16", "3+")
    results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = f(array("DescribeLogDirsResult"))
    # A tag of Weir, far above Kafka's own. Clients that do not know it skip it. `brokerd.replication.produce_latency`.
    produce_times: list[int] = f(array("int64"), "2+", tag=10_000, tagged="2+")
    # The leader's figures for replicas out of sync. `brokerd.apis.log_dirs`.
    lagging: list[DescribeLogDirsResponse.LaggingCopy] = f(array("LaggingCopy"), "2+", tag=10_001, tagged="2+")
    # The current use of client quotas. `brokerd.authz.quotas`.
    quota_use: list[DescribeLogDirsResponse.QuotaUse] = f(array("QuotaUse"), "2+", tag=10_002, tagged="2+")
    # The clients with the most traffic, and the number of all. `brokerd.apis.connected_clients`.
    clients: list[DescribeLogDirsResponse.ConnectedClient] = f(array("ConnectedClient"), "2+", tag=10_003, tagged="2+")
    client_count: int = f("int32", "2+", tag=10_004, tagged="2+")
    # Sizes over both tiers. `brokerd.remote.sizes`.
    remote: list[DescribeLogDirsResponse.RemoteSize] = f(array("RemoteSize"), "2+", tag=10_006, tagged="2+")
    # APIs with requests. `brokerd.net.request_metrics`.
    requests: list[DescribeLogDirsResponse.ApiRequests] = f(array("ApiRequests"), "2+", tag=10_007, tagged="2+")
    # Dead letters of share groups. `brokerd.apis.share_dead_letters`.
    share_letters: list[DescribeLogDirsResponse.ShareLetters] = f(array("ShareLetters"), "2+", tag=10_008, tagged="2+")


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
