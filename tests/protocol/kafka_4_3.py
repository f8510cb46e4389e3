"""The APIs of Apache Kafka 4.3 from its published message schemas. `docs/apis.md` is compared with them.

Source: common/message/*Request.json in kafka-clients 4.3.1 (validVersions, listeners, latestVersionUnstable).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Published:
    """`listeners`: the nodes that support the API: b = a broker, c = a controller of KRaft. `unstable`: Kafka does not enable its latest version unless a
    test setting says so."""

    name: str
    low: int
    high: int
    listeners: str
    unstable: bool = False


KAFKA_4_3: dict[int, Published] = {
    0: Published("Produce", 3, 13, "b"),
    1: Published("Fetch", 4, 18, "bc"),
    2: Published("ListOffsets", 1, 11, "b"),
    3: Published("Metadata", 0, 13, "b"),
    8: Published("OffsetCommit", 2, 10, "b"),
    9: Published("OffsetFetch", 1, 10, "b"),
    10: Published("FindCoordinator", 0, 6, "b"),
    11: Published("JoinGroup", 0, 9, "b"),
    12: Published("Heartbeat", 0, 4, "b"),
    13: Published("LeaveGroup", 0, 5, "b"),
    14: Published("SyncGroup", 0, 5, "b"),
    15: Published("DescribeGroups", 0, 6, "b"),
    16: Published("ListGroups", 0, 5, "b"),
    17: Published("SaslHandshake", 0, 1, "bc"),
    18: Published("ApiVersions", 0, 4, "bc"),
    19: Published("CreateTopics", 2, 7, "bc"),
    20: Published("DeleteTopics", 1, 6, "bc"),
    21: Published("DeleteRecords", 0, 2, "b"),
    22: Published("InitProducerId", 0, 6, "b", unstable=True),
    23: Published("OffsetForLeaderEpoch", 2, 4, "b"),
    24: Published("AddPartitionsToTxn", 0, 5, "b"),
    25: Published("AddOffsetsToTxn", 0, 4, "b"),
    26: Published("EndTxn", 0, 5, "b"),
    27: Published("WriteTxnMarkers", 1, 2, "b"),
    28: Published("TxnOffsetCommit", 0, 5, "b"),
    29: Published("DescribeAcls", 1, 3, "bc"),
    30: Published("CreateAcls", 1, 3, "bc"),
    31: Published("DeleteAcls", 1, 3, "bc"),
    32: Published("DescribeConfigs", 1, 4, "bc"),
    33: Published("AlterConfigs", 0, 2, "bc"),
    34: Published("AlterReplicaLogDirs", 1, 2, "b"),
    35: Published("DescribeLogDirs", 1, 5, "b"),
    36: Published("SaslAuthenticate", 0, 2, "bc"),
    37: Published("CreatePartitions", 0, 3, "bc"),
    38: Published("CreateDelegationToken", 1, 3, "bc"),
    39: Published("RenewDelegationToken", 1, 2, "bc"),
    40: Published("ExpireDelegationToken", 1, 2, "bc"),
    41: Published("DescribeDelegationToken", 1, 3, "bc"),
    42: Published("DeleteGroups", 0, 2, "b"),
    43: Published("ElectLeaders", 0, 2, "bc"),
    44: Published("IncrementalAlterConfigs", 0, 1, "bc"),
    45: Published("AlterPartitionReassignments", 0, 1, "bc"),
    46: Published("ListPartitionReassignments", 0, 0, "bc"),
    47: Published("OffsetDelete", 0, 0, "b"),
    48: Published("DescribeClientQuotas", 0, 1, "b"),
    49: Published("AlterClientQuotas", 0, 1, "bc"),
    50: Published("DescribeUserScramCredentials", 0, 0, "bc"),
    51: Published("AlterUserScramCredentials", 0, 0, "bc"),
    52: Published("Vote", 0, 2, "c"),
    53: Published("BeginQuorumEpoch", 0, 1, "c"),
    54: Published("EndQuorumEpoch", 0, 1, "c"),
    55: Published("DescribeQuorum", 0, 2, "bc"),
    56: Published("AlterPartition", 2, 3, "c"),
    57: Published("UpdateFeatures", 0, 2, "bc"),
    58: Published("Envelope", 0, 0, "c"),
    59: Published("FetchSnapshot", 0, 1, "c"),
    60: Published("DescribeCluster", 0, 2, "bc"),
    61: Published("DescribeProducers", 0, 0, "b"),
    62: Published("BrokerRegistration", 0, 4, "c"),
    63: Published("BrokerHeartbeat", 0, 2, "c"),
    64: Published("UnregisterBroker", 0, 0, "bc"),
    65: Published("DescribeTransactions", 0, 0, "b"),
    66: Published("ListTransactions", 0, 2, "b"),
    67: Published("AllocateProducerIds", 0, 0, "c"),
    68: Published("ConsumerGroupHeartbeat", 0, 1, "b"),
    69: Published("ConsumerGroupDescribe", 0, 1, "b"),
    70: Published("ControllerRegistration", 0, 0, "c"),
    71: Published("GetTelemetrySubscriptions", 0, 0, "b"),
    72: Published("PushTelemetry", 0, 0, "b"),
    73: Published("AssignReplicasToDirs", 0, 0, "c"),
    74: Published("ListConfigResources", 0, 1, "b"),
    75: Published("DescribeTopicPartitions", 0, 0, "b"),
    76: Published("ShareGroupHeartbeat", 1, 1, "b"),
    77: Published("ShareGroupDescribe", 1, 1, "b"),
    78: Published("ShareFetch", 1, 2, "b"),
    79: Published("ShareAcknowledge", 1, 2, "b"),
    80: Published("AddRaftVoter", 0, 1, "bc"),
    81: Published("RemoveRaftVoter", 0, 0, "bc"),
    82: Published("UpdateRaftVoter", 0, 0, "c"),
    83: Published("InitializeShareGroupState", 0, 0, "b"),
    84: Published("ReadShareGroupState", 0, 0, "b"),
    85: Published("WriteShareGroupState", 0, 1, "b"),
    86: Published("DeleteShareGroupState", 0, 0, "b"),
    87: Published("ReadShareGroupStateSummary", 0, 1, "b"),
    88: Published("StreamsGroupHeartbeat", 0, 0, "b"),
    89: Published("StreamsGroupDescribe", 0, 0, "b"),
    90: Published("DescribeShareGroupOffsets", 0, 1, "b"),
    91: Published("AlterShareGroupOffsets", 0, 0, "b"),
    92: Published("DeleteShareGroupOffsets", 0, 0, "b"),
}
