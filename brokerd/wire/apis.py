"""One row per API: key, supported versions, messages, and each missing version with its reason.

Invariant: every advertised version is supported, except Produce 0-2. These versions are advertised and rejected, because librdkafka (Debian's kcat)
would otherwise send batches uncompressed (KAFKA-18659).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from brokerd.wire import messages as m
from brokerd.wire.errors import ErrorCode
from brokerd.wire.schema import Struct


class ApiKey(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


@dataclass(frozen=True, slots=True)
class Api:
    """Versions `min_version` to `max_version` are supported. `advertised_min` is the minimum in the ApiVersions response."""

    key: ApiKey
    name: str
    min_version: int
    max_version: int
    request: type[Struct]
    response: type[Struct]
    gaps: str = ""
    advertised_min: int | None = None

    def flexible(self, version: int) -> bool:
        return self.request.FLEXIBLE is not None and version >= self.request.FLEXIBLE


_AT_ONCE = "of the broker settings, only those that docs/settings.md lists as dynamic"
_NO_TOKENS = "rejected with DELEGATION_TOKEN_AUTH_DISABLED, as Kafka does without a secret key; use SCRAM users instead"

APIS: dict[int, Api] = {
    api.key: api
    for api in (
        Api(ApiKey.PRODUCE, "Produce", 3, 13, m.ProduceRequest, m.ProduceResponse, advertised_min=0),
        Api(ApiKey.FETCH, "Fetch", 4, 18, m.FetchRequest, m.FetchResponse),
        Api(ApiKey.LIST_OFFSETS, "ListOffsets", 1, 11, m.ListOffsetsRequest, m.ListOffsetsResponse, "without tiered storage the latest tiered offset is -1, as in Kafka"),
        Api(ApiKey.METADATA, "Metadata", 0, 13, m.MetadataRequest, m.MetadataResponse),
        Api(ApiKey.OFFSET_COMMIT, "OffsetCommit", 2, 10, m.OffsetCommitRequest, m.OffsetCommitResponse),
        Api(ApiKey.OFFSET_FETCH, "OffsetFetch", 1, 10, m.OffsetFetchRequest, m.OffsetFetchResponse),
        Api(ApiKey.FIND_COORDINATOR, "FindCoordinator", 0, 6, m.FindCoordinatorRequest, m.FindCoordinatorResponse),
        Api(ApiKey.JOIN_GROUP, "JoinGroup", 0, 9, m.JoinGroupRequest, m.JoinGroupResponse),
        Api(ApiKey.HEARTBEAT, "Heartbeat", 0, 4, m.HeartbeatRequest, m.HeartbeatResponse),
        Api(ApiKey.LEAVE_GROUP, "LeaveGroup", 0, 5, m.LeaveGroupRequest, m.LeaveGroupResponse),
        Api(ApiKey.SYNC_GROUP, "SyncGroup", 0, 5, m.SyncGroupRequest, m.SyncGroupResponse),
        Api(ApiKey.DESCRIBE_GROUPS, "DescribeGroups", 0, 6, m.DescribeGroupsRequest, m.DescribeGroupsResponse),
        Api(ApiKey.LIST_GROUPS, "ListGroups", 0, 5, m.ListGroupsRequest, m.ListGroupsResponse),
        Api(ApiKey.API_VERSIONS, "ApiVersions", 0, 4, m.ApiVersionsRequest, m.ApiVersionsResponse),
        Api(ApiKey.CREATE_TOPICS, "CreateTopics", 2, 7, m.CreateTopicsRequest, m.CreateTopicsResponse),
        Api(ApiKey.DELETE_TOPICS, "DeleteTopics", 1, 6, m.DeleteTopicsRequest, m.DeleteTopicsResponse),
        Api(ApiKey.DELETE_RECORDS, "DeleteRecords", 0, 2, m.DeleteRecordsRequest, m.DeleteRecordsResponse),
        Api(ApiKey.INIT_PRODUCER_ID, "InitProducerId", 0, 5, m.InitProducerIdRequest, m.InitProducerIdResponse,
            "no version 6: two-phase commit (KIP-939)"),
        Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 2, 4, m.OffsetForLeaderEpochRequest,
            m.OffsetForLeaderEpochResponse),
        Api(ApiKey.ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 5, m.AddPartitionsToTxnRequest,
            m.AddPartitionsToTxnResponse),
        Api(ApiKey.ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4, m.AddOffsetsToTxnRequest, m.AddOffsetsToTxnResponse),
        Api(ApiKey.END_TXN, "EndTxn", 0, 5, m.EndTxnRequest, m.EndTxnResponse),
        Api(ApiKey.WRITE_TXN_MARKERS, "WriteTxnMarkers", 1, 2, m.WriteTxnMarkersRequest, m.WriteTxnMarkersResponse),
        Api(ApiKey.TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 5, m.TxnOffsetCommitRequest, m.TxnOffsetCommitResponse),
        Api(ApiKey.DESCRIBE_CONFIGS, "DescribeConfigs", 1, 4, m.DescribeConfigsRequest, m.DescribeConfigsResponse),
        Api(ApiKey.ALTER_CONFIGS, "AlterConfigs", 0, 2, m.AlterConfigsRequest, m.AlterConfigsResponse, _AT_ONCE),
        Api(ApiKey.ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", 1, 2, m.AlterReplicaLogDirsRequest,
            m.AlterReplicaLogDirsResponse),
        Api(ApiKey.DESCRIBE_LOG_DIRS, "DescribeLogDirs", 1, 5, m.DescribeLogDirsRequest, m.DescribeLogDirsResponse),
        Api(ApiKey.CREATE_PARTITIONS, "CreatePartitions", 0, 3, m.CreatePartitionsRequest, m.CreatePartitionsResponse),
        Api(ApiKey.DELETE_GROUPS, "DeleteGroups", 0, 2, m.DeleteGroupsRequest, m.DeleteGroupsResponse),
        Api(ApiKey.INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, m.IncrementalAlterConfigsRequest,
            m.IncrementalAlterConfigsResponse, _AT_ONCE),
        Api(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", 0, 1,
            m.AlterPartitionReassignmentsRequest, m.AlterPartitionReassignmentsResponse),
        Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0,
            m.ListPartitionReassignmentsRequest, m.ListPartitionReassignmentsResponse),
        Api(ApiKey.OFFSET_DELETE, "OffsetDelete", 0, 0, m.OffsetDeleteRequest, m.OffsetDeleteResponse),
        Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, m.DescribeClientQuotasRequest,
            m.DescribeClientQuotasResponse),
        Api(ApiKey.ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, m.AlterClientQuotasRequest, m.AlterClientQuotasResponse,
            "each broker enforces `controller_mutation_rate` separately; automatically created topics do not count"),
        Api(ApiKey.DESCRIBE_ACLS, "DescribeAcls", 1, 3, m.DescribeAclsRequest, m.DescribeAclsResponse),
        Api(ApiKey.CREATE_ACLS, "CreateAcls", 1, 3, m.CreateAclsRequest, m.CreateAclsResponse),
        Api(ApiKey.DELETE_ACLS, "DeleteAcls", 1, 3, m.DeleteAclsRequest, m.DeleteAclsResponse),
        Api(ApiKey.DESCRIBE_CLUSTER, "DescribeCluster", 0, 2, m.DescribeClusterRequest, m.DescribeClusterResponse),
        Api(ApiKey.SASL_HANDSHAKE, "SaslHandshake", 0, 1, m.SaslHandshakeRequest, m.SaslHandshakeResponse),
        Api(ApiKey.SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, m.SaslAuthenticateRequest, m.SaslAuthenticateResponse),
        Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", 0, 0,
            m.DescribeUserScramCredentialsRequest, m.DescribeUserScramCredentialsResponse),
        Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", 0, 0,
            m.AlterUserScramCredentialsRequest, m.AlterUserScramCredentialsResponse),
        Api(ApiKey.CREATE_DELEGATION_TOKEN, "CreateDelegationToken", 1, 3, m.CreateDelegationTokenRequest,
            m.CreateDelegationTokenResponse, _NO_TOKENS),
        Api(ApiKey.RENEW_DELEGATION_TOKEN, "RenewDelegationToken", 1, 2, m.RenewDelegationTokenRequest,
            m.RenewDelegationTokenResponse, _NO_TOKENS),
        Api(ApiKey.EXPIRE_DELEGATION_TOKEN, "ExpireDelegationToken", 1, 2, m.ExpireDelegationTokenRequest,
            m.ExpireDelegationTokenResponse, _NO_TOKENS),
        Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, "DescribeDelegationToken", 1, 3, m.DescribeDelegationTokenRequest,
            m.DescribeDelegationTokenResponse, _NO_TOKENS),
        Api(ApiKey.UPDATE_FEATURES, "UpdateFeatures", 0, 2, m.UpdateFeaturesRequest, m.UpdateFeaturesResponse,
            "`metadata.version` and other KRaft features do not exist; the feature for the level of the metadata log is `weir.metadata.version`"),
        Api(ApiKey.LIST_CONFIG_RESOURCES, "ListConfigResources", 0, 1, m.ListConfigResourcesRequest,
            m.ListConfigResourcesResponse, "client metrics subscriptions (KIP-714) are not supported: the list is empty"),
        Api(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", 0, 0, m.DescribeTopicPartitionsRequest,
            m.DescribeTopicPartitionsResponse),
        Api(ApiKey.ELECT_LEADERS, "ElectLeaders", 0, 2, m.ElectLeadersRequest, m.ElectLeadersResponse),
        Api(ApiKey.DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, m.DescribeProducersRequest,
            m.DescribeProducersResponse),
        Api(ApiKey.DESCRIBE_TRANSACTIONS, "DescribeTransactions", 0, 0, m.DescribeTransactionsRequest,
            m.DescribeTransactionsResponse),
        Api(ApiKey.LIST_TRANSACTIONS, "ListTransactions", 0, 2, m.ListTransactionsRequest, m.ListTransactionsResponse),
        Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1, m.ConsumerGroupHeartbeatRequest,
            m.ConsumerGroupHeartbeatResponse, "the assignors ignore racks, as Kafka's own assignors do since 3.8 (KAFKA-16694)"),
        Api(ApiKey.CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 1, m.ConsumerGroupDescribeRequest,
            m.ConsumerGroupDescribeResponse),
        Api(ApiKey.SHARE_GROUP_HEARTBEAT, "ShareGroupHeartbeat", 1, 1, m.ShareGroupHeartbeatRequest, m.ShareGroupHeartbeatResponse),
        Api(ApiKey.SHARE_GROUP_DESCRIBE, "ShareGroupDescribe", 1, 1, m.ShareGroupDescribeRequest, m.ShareGroupDescribeResponse),
        Api(ApiKey.SHARE_FETCH, "ShareFetch", 1, 2, m.ShareFetchRequest, m.ShareFetchResponse),
        Api(ApiKey.SHARE_ACKNOWLEDGE, "ShareAcknowledge", 1, 2, m.ShareAcknowledgeRequest, m.ShareAcknowledgeResponse),
        Api(ApiKey.INITIALIZE_SHARE_GROUP_STATE, "InitializeShareGroupState", 0, 0, m.InitializeShareGroupStateRequest, m.InitializeShareGroupStateResponse),
        Api(ApiKey.READ_SHARE_GROUP_STATE, "ReadShareGroupState", 0, 0, m.ReadShareGroupStateRequest, m.ReadShareGroupStateResponse),
        Api(ApiKey.WRITE_SHARE_GROUP_STATE, "WriteShareGroupState", 0, 1, m.WriteShareGroupStateRequest, m.WriteShareGroupStateResponse),
        Api(ApiKey.DELETE_SHARE_GROUP_STATE, "DeleteShareGroupState", 0, 0, m.DeleteShareGroupStateRequest, m.DeleteShareGroupStateResponse),
        Api(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, "ReadShareGroupStateSummary", 0, 1, m.ReadShareGroupStateSummaryRequest, m.ReadShareGroupStateSummaryResponse),
        Api(ApiKey.STREAMS_GROUP_HEARTBEAT, "StreamsGroupHeartbeat", 0, 0, m.StreamsGroupHeartbeatRequest, m.StreamsGroupHeartbeatResponse),
        Api(ApiKey.STREAMS_GROUP_DESCRIBE, "StreamsGroupDescribe", 0, 0, m.StreamsGroupDescribeRequest, m.StreamsGroupDescribeResponse),
        Api(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, "DescribeShareGroupOffsets", 0, 1, m.DescribeShareGroupOffsetsRequest, m.DescribeShareGroupOffsetsResponse),
        Api(ApiKey.ALTER_SHARE_GROUP_OFFSETS, "AlterShareGroupOffsets", 0, 0, m.AlterShareGroupOffsetsRequest, m.AlterShareGroupOffsetsResponse),
        Api(ApiKey.DELETE_SHARE_GROUP_OFFSETS, "DeleteShareGroupOffsets", 0, 0, m.DeleteShareGroupOffsetsRequest, m.DeleteShareGroupOffsetsResponse),
    )
}  # fmt: skip

_INTERNAL = "used between Kafka's brokers and controllers; Weir uses the metadata log, and ISR proposals in ZooKeeper"
_QUORUM = "no KRaft quorum: the metadata log is in ZooKeeper"
_NO_TELEMETRY = "Kafka advertises it only with a plugin that receives the metrics (KIP-714); clients that do not see it send no metrics"

ABSENT: dict[int, str] = {
    52: _INTERNAL,
    53: _INTERNAL,
    54: _INTERNAL,
    55: _QUORUM,
    56: _INTERNAL,
    58: _INTERNAL,
    59: _INTERNAL,
    62: _INTERNAL,
    63: _INTERNAL,
    64: "KRaft only, where a registration outlives its broker; in Weir it ends with the broker's session",
    67: _INTERNAL,
    70: _INTERNAL,
    71: _NO_TELEMETRY,
    72: _NO_TELEMETRY,
    73: _INTERNAL,
    80: _QUORUM,
    81: _QUORUM,
    82: _INTERNAL,
}
"""APIs of Kafka 4.3 that are not supported, with the reason. docs/apis.md is generated from both tables."""


_VERSION_RANGES = [
    m.ApiVersionsResponse.ApiVersion(
        api_key=api.key,
        min_version=api.min_version if api.advertised_min is None else api.advertised_min,
        max_version=api.max_version,
    )
    for api in APIS.values()
]
"""The ranges are shared by all responses, because each new connection requests them."""


def api_versions_response(version: int, error: int = ErrorCode.NONE) -> m.ApiVersionsResponse:
    """The ApiVersions response. With UNSUPPORTED_VERSION the body has version 0 and still contains the ranges, so that the client can use a lower version
    (KIP-511)."""
    return m.ApiVersionsResponse(error_code=error, api_keys=_VERSION_RANGES)
