"""The APIs of Apache Kafka 3.9 from its published message schemas. `docs/apis.md` is compared with them.

Source: common/message/*Request.json in kafka-clients 3.9.2 (validVersions, listeners, latestVersionUnstable), and, for what was dropped by KIP-896, in 4.3.1.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Published:
    """`kept_from`: the lowest version that Kafka 4 still serves (None: none of them). `listeners`: who serves it: z = a broker with ZooKeeper,
    b = a broker with KRaft, c = a KRaft controller. `unstable`: its latest version is off unless a test setting says so."""

    name: str
    low: int
    high: int
    kept_from: int | None
    listeners: str
    unstable: bool = False


KAFKA_3_9: dict[int, Published] = {
    0: Published("Produce", 0, 11, 3, "zb"),
    1: Published("Fetch", 0, 17, 4, "zbc"),
    2: Published("ListOffsets", 0, 9, 1, "zb"),
    3: Published("Metadata", 0, 12, 0, "zb"),
    4: Published("LeaderAndIsr", 0, 7, None, "z"),
    5: Published("StopReplica", 0, 4, None, "z"),
    6: Published("UpdateMetadata", 0, 8, None, "z"),
    7: Published("ControlledShutdown", 0, 3, None, "zc"),
    8: Published("OffsetCommit", 0, 9, 2, "zb"),
    9: Published("OffsetFetch", 0, 9, 1, "zb"),
    10: Published("FindCoordinator", 0, 6, 0, "zb"),
    11: Published("JoinGroup", 0, 9, 0, "zb"),
    12: Published("Heartbeat", 0, 4, 0, "zb"),
    13: Published("LeaveGroup", 0, 5, 0, "zb"),
    14: Published("SyncGroup", 0, 5, 0, "zb"),
    15: Published("DescribeGroups", 0, 5, 0, "zb"),
    16: Published("ListGroups", 0, 5, 0, "zb"),
    17: Published("SaslHandshake", 0, 1, 0, "zbc"),
    18: Published("ApiVersions", 0, 4, 0, "zbc"),
    19: Published("CreateTopics", 0, 7, 2, "zbc"),
    20: Published("DeleteTopics", 0, 6, 1, "zbc"),
    21: Published("DeleteRecords", 0, 2, 0, "zb"),
    22: Published("InitProducerId", 0, 5, 0, "zb"),
    23: Published("OffsetForLeaderEpoch", 0, 4, 2, "zb"),
    24: Published("AddPartitionsToTxn", 0, 5, 0, "zb"),
    25: Published("AddOffsetsToTxn", 0, 4, 0, "zb"),
    26: Published("EndTxn", 0, 4, 0, "zb"),
    27: Published("WriteTxnMarkers", 0, 1, 1, "zb"),
    28: Published("TxnOffsetCommit", 0, 4, 0, "zb"),
    29: Published("DescribeAcls", 0, 3, 1, "zbc"),
    30: Published("CreateAcls", 0, 3, 1, "zbc"),
    31: Published("DeleteAcls", 0, 3, 1, "zbc"),
    32: Published("DescribeConfigs", 0, 4, 1, "zbc"),
    33: Published("AlterConfigs", 0, 2, 0, "zbc"),
    34: Published("AlterReplicaLogDirs", 0, 2, 1, "zb"),
    35: Published("DescribeLogDirs", 0, 4, 1, "zb"),
    36: Published("SaslAuthenticate", 0, 2, 0, "zbc"),
    37: Published("CreatePartitions", 0, 3, 0, "zbc"),
    38: Published("CreateDelegationToken", 0, 3, 1, "zbc"),
    39: Published("RenewDelegationToken", 0, 2, 1, "zbc"),
    40: Published("ExpireDelegationToken", 0, 2, 1, "zbc"),
    41: Published("DescribeDelegationToken", 0, 3, 1, "zbc"),
    42: Published("DeleteGroups", 0, 2, 0, "zb"),
    43: Published("ElectLeaders", 0, 2, 0, "zbc"),
    44: Published("IncrementalAlterConfigs", 0, 1, 0, "zbc"),
    45: Published("AlterPartitionReassignments", 0, 0, 0, "zbc"),
    46: Published("ListPartitionReassignments", 0, 0, 0, "zbc"),
    47: Published("OffsetDelete", 0, 0, 0, "zb"),
    48: Published("DescribeClientQuotas", 0, 1, 0, "zb"),
    49: Published("AlterClientQuotas", 0, 1, 0, "zbc"),
    50: Published("DescribeUserScramCredentials", 0, 0, 0, "zbc"),
    51: Published("AlterUserScramCredentials", 0, 0, 0, "zbc"),
    52: Published("Vote", 0, 1, 0, "c"),
    53: Published("BeginQuorumEpoch", 0, 1, 0, "c"),
    54: Published("EndQuorumEpoch", 0, 1, 0, "c"),
    55: Published("DescribeQuorum", 0, 2, 0, "bc"),
    56: Published("AlterPartition", 0, 3, 2, "zc"),
    57: Published("UpdateFeatures", 0, 1, 0, "zbc"),
    58: Published("Envelope", 0, 0, 0, "zc"),
    59: Published("FetchSnapshot", 0, 1, 0, "c"),
    60: Published("DescribeCluster", 0, 1, 0, "zbc"),
    61: Published("DescribeProducers", 0, 0, 0, "zb"),
    62: Published("BrokerRegistration", 0, 4, 0, "c"),
    63: Published("BrokerHeartbeat", 0, 1, 0, "c"),
    64: Published("UnregisterBroker", 0, 0, 0, "bc"),
    65: Published("DescribeTransactions", 0, 0, 0, "zb"),
    66: Published("ListTransactions", 0, 1, 0, "zb"),
    67: Published("AllocateProducerIds", 0, 0, 0, "zc"),
    68: Published("ConsumerGroupHeartbeat", 0, 0, 0, "zb"),
    69: Published("ConsumerGroupDescribe", 0, 0, 0, "zb"),
    70: Published("ControllerRegistration", 0, 0, 0, "c"),
    71: Published("GetTelemetrySubscriptions", 0, 0, 0, "b"),
    72: Published("PushTelemetry", 0, 0, 0, "b"),
    73: Published("AssignReplicasToDirs", 0, 0, 0, "c"),
    74: Published("ListClientMetricsResources", 0, 0, 0, "b"),
    75: Published("DescribeTopicPartitions", 0, 0, 0, "b"),
    76: Published("ShareGroupHeartbeat", 0, 0, 1, "b", unstable=True),
    77: Published("ShareGroupDescribe", 0, 0, 1, "b", unstable=True),
    78: Published("ShareFetch", 0, 0, 1, "b", unstable=True),
    79: Published("ShareAcknowledge", 0, 0, 1, "b", unstable=True),
    80: Published("AddRaftVoter", 0, 0, 0, "bc"),
    81: Published("RemoveRaftVoter", 0, 0, 0, "bc"),
    82: Published("UpdateRaftVoter", 0, 0, 0, "c"),
    83: Published("InitializeShareGroupState", 0, 0, 0, "b", unstable=True),
    84: Published("ReadShareGroupState", 0, 0, 0, "b", unstable=True),
    85: Published("WriteShareGroupState", 0, 0, 0, "b", unstable=True),
    86: Published("DeleteShareGroupState", 0, 0, 0, "b", unstable=True),
    87: Published("ReadShareGroupStateSummary", 0, 0, 0, "b", unstable=True),
}
