"""Messages for versions, metadata and brokers. Descriptions only; names, types and versions are from Kafka's message definitions (up to 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from brokerd.wire.schema import Struct, array, f


@dataclass(slots=True)
class ApiVersionsRequest(Struct):
    FLEXIBLE = 3

    client_software_name: str = f("string", "3+")
    client_software_version: str = f("string", "3+")


@dataclass(slots=True)
class ApiVersionsResponse(Struct):
    FLEXIBLE = 3

    @dataclass(slots=True)
    class ApiVersion(Struct):
        api_key: int = f("int16")
        min_version: int = f("int16")
        max_version: int = f("int16")

    @dataclass(slots=True)
    class SupportedFeatureKey(Struct):
        name: str = f("string", "3+")
        min_version: int = f("int16", "3+")
        max_version: int = f("int16", "3+")

    @dataclass(slots=True)
    class FinalizedFeatureKey(Struct):
        name: str = f("string", "3+")
        max_version_level: int = f("int16", "3+")
        min_version_level: int = f("int16", "3+")

    error_code: int = f("int16")
    api_keys: list[ApiVersionsResponse.ApiVersion] = f(array("ApiVersion"))
    throttle_time_ms: int = f("int32", "1+")
    supported_features: list[ApiVersionsResponse.SupportedFeatureKey] = f(
        array("SupportedFeatureKey"), "3+", tag=0, tagged="3+"
    )
    finalized_features_epoch: int = f("int64", "3+", default=-1, tag=1, tagged="3+")
    finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey] = f(
        array("FinalizedFeatureKey"), "3+", tag=2, tagged="3+"
    )
    zk_migration_ready: bool = f("bool", "3+", tag=3, tagged="3+")


@dataclass(slots=True)
class MetadataRequest(Struct):
    FLEXIBLE = 9

    @dataclass(slots=True)
    class MetadataRequestTopic(Struct):
        topic_id: UUID = f("uuid", "10+")
        name: str | None = f("string", nullable="10+")

    topics: list[MetadataRequest.MetadataRequestTopic] | None = f(array("MetadataRequestTopic"), nullable="1+")
    allow_auto_topic_creation: bool = f("bool", "4+", default=True)
    include_cluster_authorized_operations: bool = f("bool", "8-10")
    include_topic_authorized_operations: bool = f("bool", "8+")


@dataclass(slots=True)
class MetadataResponse(Struct):
    FLEXIBLE = 9

    @dataclass(slots=True)
    class MetadataResponseBroker(Struct):
        node_id: int = f("int32")
        host: str = f("string")
        port: int = f("int32")
        rack: str | None = f("string", "1+", nullable="1+", default=None)

    @dataclass(slots=True)
    class MetadataResponsePartition(Struct):
        error_code: int = f("int16")
        partition_index: int = f("int32")
        leader_id: int = f("int32")
        leader_epoch: int = f("int32", "7+", default=-1)
        replica_nodes: list[int] = f(array("int32"))
        isr_nodes: list[int] = f(array("int32"))
        offline_replicas: list[int] = f(array("int32"), "5+")

    @dataclass(slots=True)
    class MetadataResponseTopic(Struct):
        error_code: int = f("int16")
        name: str | None = f("string", nullable="12+")
        topic_id: UUID = f("uuid", "10+")
        is_internal: bool = f("bool", "1+")
        partitions: list[MetadataResponse.MetadataResponsePartition] = f(array("MetadataResponsePartition"))
        topic_authorized_operations: int = f("int32", "8+", default=-2147483648)

    throttle_time_ms: int = f("int32", "3+")
    brokers: list[MetadataResponse.MetadataResponseBroker] = f(array("MetadataResponseBroker"))
    cluster_id: str | None = f("string", "2+", nullable="2+", default=None)
    controller_id: int = f("int32", "1+", default=-1)
    topics: list[MetadataResponse.MetadataResponseTopic] = f(array("MetadataResponseTopic"))
    cluster_authorized_operations: int = f("int32", "8-10", default=-2147483648)
    error_code: int = f("int16", "13+")


@dataclass(slots=True)
class DescribeClusterRequest(Struct):
    FLEXIBLE = 0

    include_cluster_authorized_operations: bool = f("bool")
    endpoint_type: int = f("int8", "1+", default=1)
    include_fenced_brokers: bool = f("bool", "2+")


@dataclass(slots=True)
class DescribeClusterResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class DescribeClusterBroker(Struct):
        broker_id: int = f("int32")
        host: str = f("string")
        port: int = f("int32")
        rack: str | None = f("string", nullable="0+", default=None)
        is_fenced: bool = f("bool", "2+")

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16")
    error_message: str | None = f("string", nullable="0+", default=None)
    endpoint_type: int = f("int8", "1+", default=1)
    cluster_id: str = f("string")
    controller_id: int = f("int32", default=-1)
    brokers: list[DescribeClusterResponse.DescribeClusterBroker] = f(array("DescribeClusterBroker"))
    cluster_authorized_operations: int = f("int32", default=-2147483648)


@dataclass(slots=True)
class DescribeTopicPartitionsRequest(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class TopicRequest(Struct):
        name: str = f("string")

    @dataclass(slots=True)
    class Cursor(Struct):
        topic_name: str = f("string")
        partition_index: int = f("int32")

    topics: list[DescribeTopicPartitionsRequest.TopicRequest] = f(array("TopicRequest"))
    response_partition_limit: int = f("int32", default=2000)
    cursor: DescribeTopicPartitionsRequest.Cursor | None = f("Cursor", nullable="0+", default=None)


@dataclass(slots=True)
class DescribeTopicPartitionsResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class DescribeTopicPartitionsResponsePartition(Struct):
        error_code: int = f("int16")
        partition_index: int = f("int32")
        leader_id: int = f("int32")
        leader_epoch: int = f("int32", default=-1)
        replica_nodes: list[int] = f(array("int32"))
        isr_nodes: list[int] = f(array("int32"))
        eligible_leader_replicas: list[int] | None = f(array("int32"), nullable="0+")
        last_known_elr: list[int] | None = f(array("int32"), nullable="0+")
        offline_replicas: list[int] = f(array("int32"))

    @dataclass(slots=True)
    class DescribeTopicPartitionsResponseTopic(Struct):
        error_code: int = f("int16")
        name: str | None = f("string", nullable="0+")
        topic_id: UUID = f("uuid")
        is_internal: bool = f("bool")
        partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = f(
            array("DescribeTopicPartitionsResponsePartition")
        )
        topic_authorized_operations: int = f("int32", default=-2147483648)

    @dataclass(slots=True)
    class Cursor(Struct):
        topic_name: str = f("string")
        partition_index: int = f("int32")

    throttle_time_ms: int = f("int32")
    topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = f(
        array("DescribeTopicPartitionsResponseTopic")
    )
    next_cursor: DescribeTopicPartitionsResponse.Cursor | None = f("Cursor", nullable="0+", default=None)


@dataclass(slots=True)
class UpdateFeaturesRequest(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class FeatureUpdateKey(Struct):
        feature: str = f("string")
        max_version_level: int = f("int16")
        allow_downgrade: bool = f("bool", "0")
        upgrade_type: int = f("int8", "1+", default=1)

    timeout_ms: int = f("int32", default=60000)
    feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = f(array("FeatureUpdateKey"))
    validate_only: bool = f("bool", "1+")


@dataclass(slots=True)
class UpdateFeaturesResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class UpdatableFeatureResult(Struct):
        feature: str = f("string", "0-1")
        error_code: int = f("int16", "0-1")
        error_message: str | None = f("string", "0-1", nullable="0-1", default=None)

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16")
    error_message: str | None = f("string", nullable="0+", default=None)
    results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = f(array("UpdatableFeatureResult"), "0-1")


@dataclass(slots=True)
class ListConfigResourcesRequest(Struct):
    """Version 0 was named ListClientMetricsResources."""

    FLEXIBLE = 0

    resource_types: list[int] = f(array("int8"), "1+")


@dataclass(slots=True)
class ListConfigResourcesResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class ConfigResource(Struct):
        resource_name: str = f("string")
        resource_type: int = f("int8", "1+", default=16)

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16")
    config_resources: list[ListConfigResourcesResponse.ConfigResource] = f(array("ConfigResource"))
