"""Messages for records: produce, fetch, offsets. Descriptions only; names, types and versions are from Kafka's message definitions (up to 4.3).

Exceptions are tagged fields that only Weir uses. Other programs skip them:
  - `awaits_bootstrap`, `bootstrap_snapshot`: the bootstrap of a log
  - `history_read`: history reads (`history`); `history_json`: those of brokers of the previous version
  - `key_lookup`: look-ups by key of the control plane (`key_lookups`)
  - `half_messages`, `delayed_messages`: the lists of undecided half messages and of pending delayed messages
  - `route`: records of routes (`routes`)
  - `remote_start`: followers that serve remote records
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from brokerd.wire.schema import Struct, array, f

BOOTSTRAP_TAG = 10_000
"""Far above Kafka's tags."""
HISTORY_JSON_TAG = 10_001
HISTORY_READ_TAG = 10_002
KEY_LOOKUP_TAG = 10_003
REMOTE_START_TAG = 10_004
ROUTE_TAG = 10_010
HALF_MESSAGES_TAG = 10_020
DELAYED_MESSAGES_TAG = 10_021


@dataclass(slots=True)
class ProduceRequest(Struct):
    FLEXIBLE = 9

    @dataclass(slots=True)
    class PartitionProduceData(Struct):
        index: int = f("int32")
        records: Any = f("records", nullable="0+")

    @dataclass(slots=True)
    class TopicProduceData(Struct):
        name: str = f("string", "0-12")
        topic_id: UUID = f("uuid", "13+")
        partition_data: list[ProduceRequest.PartitionProduceData] = f(array("PartitionProduceData"))

    transactional_id: str | None = f("string", "3+", nullable="3+", default=None)
    acks: int = f("int16")
    timeout_ms: int = f("int32")
    topic_data: list[ProduceRequest.TopicProduceData] = f(array("TopicProduceData"))
    route: bytes = f("bytes", "9+", tag=ROUTE_TAG, tagged="9+")


@dataclass(slots=True)
class ProduceResponse(Struct):
    FLEXIBLE = 9

    @dataclass(slots=True)
    class BatchIndexAndErrorMessage(Struct):
        batch_index: int = f("int32", "8+")
        batch_index_error_message: str | None = f("string", "8+", nullable="8+", default=None)

    @dataclass(slots=True)
    class LeaderIdAndEpoch(Struct):
        leader_id: int = f("int32", "10+", default=-1)
        leader_epoch: int = f("int32", "10+", default=-1)

    @dataclass(slots=True)
    class PartitionProduceResponse(Struct):
        index: int = f("int32")
        error_code: int = f("int16")
        base_offset: int = f("int64")
        log_append_time_ms: int = f("int64", "2+", default=-1)
        log_start_offset: int = f("int64", "5+", default=-1)
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = f(array("BatchIndexAndErrorMessage"), "8+")
        error_message: str | None = f("string", "8+", nullable="8+", default=None)
        current_leader: ProduceResponse.LeaderIdAndEpoch | None = f("LeaderIdAndEpoch", "10+", tag=0, tagged="10+")

    @dataclass(slots=True)
    class TopicProduceResponse(Struct):
        name: str = f("string", "0-12")
        topic_id: UUID = f("uuid", "13+")
        partition_responses: list[ProduceResponse.PartitionProduceResponse] = f(array("PartitionProduceResponse"))

    @dataclass(slots=True)
    class NodeEndpoint(Struct):
        node_id: int = f("int32", "10+")
        host: str = f("string", "10+")
        port: int = f("int32", "10+")
        rack: str | None = f("string", "10+", nullable="10+", default=None)

    responses: list[ProduceResponse.TopicProduceResponse] = f(array("TopicProduceResponse"))
    throttle_time_ms: int = f("int32", "1+")
    node_endpoints: list[ProduceResponse.NodeEndpoint] = f(array("NodeEndpoint"), "10+", tag=0, tagged="10+")
    route: bytes = f("bytes", "9+", tag=ROUTE_TAG, tagged="9+")


@dataclass(slots=True)
class FetchRequest(Struct):
    FLEXIBLE = 12

    @dataclass(slots=True)
    class ReplicaState(Struct):
        replica_id: int = f("int32", "15+", default=-1)
        replica_epoch: int = f("int64", "15+", default=-1)

    @dataclass(slots=True)
    class FetchPartition(Struct):
        partition: int = f("int32")
        current_leader_epoch: int = f("int32", "9+", default=-1)
        fetch_offset: int = f("int64")
        last_fetched_epoch: int = f("int32", "12+", default=-1)
        log_start_offset: int = f("int64", "5+", default=-1)
        partition_max_bytes: int = f("int32")
        replica_directory_id: UUID = f("uuid", "17+", tag=0, tagged="17+")
        high_watermark: int = f("int64", "18+", default=9223372036854775807, tag=1, tagged="18+")
        awaits_bootstrap: bool = f("bool", "12+", tag=BOOTSTRAP_TAG, tagged="12+")
        remote_start: int = f("int64", "12+", default=-1, tag=REMOTE_START_TAG, tagged="12+")
        history_json: bytes = f("bytes", "12+", tag=HISTORY_JSON_TAG, tagged="12+")
        history_read: bytes = f("bytes", "12+", tag=HISTORY_READ_TAG, tagged="12+")
        key_lookup: bytes = f("bytes", "12+", tag=KEY_LOOKUP_TAG, tagged="12+")
        half_messages: bytes = f("bytes", "12+", tag=HALF_MESSAGES_TAG, tagged="12+")
        delayed_messages: bytes = f("bytes", "12+", tag=DELAYED_MESSAGES_TAG, tagged="12+")

    @dataclass(slots=True)
    class FetchTopic(Struct):
        topic: str = f("string", "0-12")
        topic_id: UUID = f("uuid", "13+")
        partitions: list[FetchRequest.FetchPartition] = f(array("FetchPartition"))

    @dataclass(slots=True)
    class ForgottenTopic(Struct):
        topic: str = f("string", "7-12")
        topic_id: UUID = f("uuid", "13+")
        partitions: list[int] = f(array("int32"), "7+")

    cluster_id: str | None = f("string", "12+", nullable="12+", default=None, tag=0, tagged="12+")
    replica_id: int = f("int32", "0-14", default=-1)
    replica_state: FetchRequest.ReplicaState | None = f("ReplicaState", "15+", tag=1, tagged="15+")
    max_wait_ms: int = f("int32")
    min_bytes: int = f("int32")
    max_bytes: int = f("int32", "3+", default=2147483647)
    isolation_level: int = f("int8", "4+")
    session_id: int = f("int32", "7+")
    session_epoch: int = f("int32", "7+", default=-1)
    topics: list[FetchRequest.FetchTopic] = f(array("FetchTopic"))
    forgotten_topics_data: list[FetchRequest.ForgottenTopic] = f(array("ForgottenTopic"), "7+")
    rack_id: str = f("string", "11+")


@dataclass(slots=True)
class FetchResponse(Struct):
    FLEXIBLE = 12

    @dataclass(slots=True)
    class EpochEndOffset(Struct):
        epoch: int = f("int32", "12+", default=-1)
        end_offset: int = f("int64", "12+", default=-1)

    @dataclass(slots=True)
    class LeaderIdAndEpoch(Struct):
        leader_id: int = f("int32", "12+", default=-1)
        leader_epoch: int = f("int32", "12+", default=-1)

    @dataclass(slots=True)
    class SnapshotId(Struct):
        end_offset: int = f("int64", default=-1)
        epoch: int = f("int32", default=-1)

    @dataclass(slots=True)
    class AbortedTransaction(Struct):
        producer_id: int = f("int64", "4+")
        first_offset: int = f("int64", "4+")

    @dataclass(slots=True)
    class PartitionData(Struct):
        partition_index: int = f("int32")
        error_code: int = f("int16")
        high_watermark: int = f("int64")
        last_stable_offset: int = f("int64", "4+", default=-1)
        log_start_offset: int = f("int64", "5+", default=-1)
        diverging_epoch: FetchResponse.EpochEndOffset | None = f("EpochEndOffset", "12+", tag=0, tagged="12+")
        current_leader: FetchResponse.LeaderIdAndEpoch | None = f("LeaderIdAndEpoch", "12+", tag=1, tagged="12+")
        snapshot_id: FetchResponse.SnapshotId | None = f("SnapshotId", "12+", tag=2, tagged="12+")
        bootstrap_snapshot: bytes = f("bytes", "12+", tag=BOOTSTRAP_TAG, tagged="12+")
        history_json: bytes = f("bytes", "12+", tag=HISTORY_JSON_TAG, tagged="12+")
        history_read: bytes = f("bytes", "12+", tag=HISTORY_READ_TAG, tagged="12+")
        key_lookup: bytes = f("bytes", "12+", tag=KEY_LOOKUP_TAG, tagged="12+")
        half_messages: bytes = f("bytes", "12+", tag=HALF_MESSAGES_TAG, tagged="12+")
        delayed_messages: bytes = f("bytes", "12+", tag=DELAYED_MESSAGES_TAG, tagged="12+")
        aborted_transactions: list[FetchResponse.AbortedTransaction] | None = f(
            array("AbortedTransaction"), "4+", nullable="4+"
        )
        preferred_read_replica: int = f("int32", "11+", default=-1)
        records: Any = f("records", nullable="0+")

    @dataclass(slots=True)
    class FetchableTopicResponse(Struct):
        topic: str = f("string", "0-12")
        topic_id: UUID = f("uuid", "13+")
        partitions: list[FetchResponse.PartitionData] = f(array("PartitionData"))

    @dataclass(slots=True)
    class NodeEndpoint(Struct):
        node_id: int = f("int32", "16+")
        host: str = f("string", "16+")
        port: int = f("int32", "16+")
        rack: str | None = f("string", "16+", nullable="16+", default=None)

    throttle_time_ms: int = f("int32", "1+")
    error_code: int = f("int16", "7+")
    session_id: int = f("int32", "7+")
    responses: list[FetchResponse.FetchableTopicResponse] = f(array("FetchableTopicResponse"))
    node_endpoints: list[FetchResponse.NodeEndpoint] = f(array("NodeEndpoint"), "16+", tag=0, tagged="16+")


@dataclass(slots=True)
class ListOffsetsRequest(Struct):
    FLEXIBLE = 6

    @dataclass(slots=True)
    class ListOffsetsPartition(Struct):
        partition_index: int = f("int32")
        current_leader_epoch: int = f("int32", "4+", default=-1)
        timestamp: int = f("int64")
        max_num_offsets: int = f("int32", "0", default=1)

    @dataclass(slots=True)
    class ListOffsetsTopic(Struct):
        name: str = f("string")
        partitions: list[ListOffsetsRequest.ListOffsetsPartition] = f(array("ListOffsetsPartition"))

    replica_id: int = f("int32")
    isolation_level: int = f("int8", "2+")
    topics: list[ListOffsetsRequest.ListOffsetsTopic] = f(array("ListOffsetsTopic"))
    timeout_ms: int = f("int32", "10+")


@dataclass(slots=True)
class ListOffsetsResponse(Struct):
    FLEXIBLE = 6

    @dataclass(slots=True)
    class ListOffsetsPartitionResponse(Struct):
        partition_index: int = f("int32")
        error_code: int = f("int16")
        old_style_offsets: list[int] = f(array("int64"), "0")
        timestamp: int = f("int64", "1+", default=-1)
        offset: int = f("int64", "1+", default=-1)
        leader_epoch: int = f("int32", "4+", default=-1)

    @dataclass(slots=True)
    class ListOffsetsTopicResponse(Struct):
        name: str = f("string")
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = f(array("ListOffsetsPartitionResponse"))

    throttle_time_ms: int = f("int32", "2+")
    topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = f(array("ListOffsetsTopicResponse"))


@dataclass(slots=True)
class OffsetForLeaderEpochRequest(Struct):
    FLEXIBLE = 4

    @dataclass(slots=True)
    class OffsetForLeaderPartition(Struct):
        partition: int = f("int32")
        current_leader_epoch: int = f("int32", "2+", default=-1)
        leader_epoch: int = f("int32")

    @dataclass(slots=True)
    class OffsetForLeaderTopic(Struct):
        topic: str = f("string")
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = f(array("OffsetForLeaderPartition"))

    replica_id: int = f("int32", "3+", default=-2)
    topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = f(array("OffsetForLeaderTopic"))


@dataclass(slots=True)
class OffsetForLeaderEpochResponse(Struct):
    FLEXIBLE = 4

    @dataclass(slots=True)
    class EpochEndOffset(Struct):
        error_code: int = f("int16")
        partition: int = f("int32")
        leader_epoch: int = f("int32", "1+", default=-1)
        end_offset: int = f("int64", default=-1)

    @dataclass(slots=True)
    class OffsetForLeaderTopicResult(Struct):
        topic: str = f("string")
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = f(array("EpochEndOffset"))

    throttle_time_ms: int = f("int32", "2+")
    topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = f(array("OffsetForLeaderTopicResult"))


@dataclass(slots=True)
class DeleteRecordsRequest(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class DeleteRecordsPartition(Struct):
        partition_index: int = f("int32")
        offset: int = f("int64")

    @dataclass(slots=True)
    class DeleteRecordsTopic(Struct):
        name: str = f("string")
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = f(array("DeleteRecordsPartition"))

    topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = f(array("DeleteRecordsTopic"))
    timeout_ms: int = f("int32")


@dataclass(slots=True)
class DeleteRecordsResponse(Struct):
    FLEXIBLE = 2

    @dataclass(slots=True)
    class DeleteRecordsPartitionResult(Struct):
        partition_index: int = f("int32")
        low_watermark: int = f("int64")
        error_code: int = f("int16")

    @dataclass(slots=True)
    class DeleteRecordsTopicResult(Struct):
        name: str = f("string")
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = f(array("DeleteRecordsPartitionResult"))

    throttle_time_ms: int = f("int32")
    topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = f(array("DeleteRecordsTopicResult"))
