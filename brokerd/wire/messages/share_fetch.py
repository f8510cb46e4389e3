"""Delivery and acknowledgement of records to members of share groups (KIP-932). Descriptions only; names, types and versions are from Kafka's message definitions (up to 4.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from brokerd.wire.schema import Struct, array, f


@dataclass(slots=True)
class ShareFetchRequest(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class AcknowledgementBatch(Struct):
        first_offset: int = f("int64")
        last_offset: int = f("int64")
        acknowledge_types: list[int] = f(array("int8"))

    @dataclass(slots=True)
    class FetchPartition(Struct):
        partition_index: int = f("int32")
        partition_max_bytes: int = f("int32", "0")
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = f(array("AcknowledgementBatch"))

    @dataclass(slots=True)
    class FetchTopic(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[ShareFetchRequest.FetchPartition] = f(array("FetchPartition"))

    @dataclass(slots=True)
    class ForgottenTopic(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[int] = f(array("int32"))

    group_id: str | None = f("string", nullable="0+", default=None)
    member_id: str | None = f("string", nullable="0+")
    share_session_epoch: int = f("int32")
    max_wait_ms: int = f("int32")
    min_bytes: int = f("int32")
    max_bytes: int = f("int32", default=2147483647)
    max_records: int = f("int32", "1+")
    batch_size: int = f("int32", "1+")
    share_acquire_mode: int = f("int8", "2+", default=0)
    is_renew_ack: bool = f("bool", "2+", default=False)
    topics: list[ShareFetchRequest.FetchTopic] = f(array("FetchTopic"))
    forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic] = f(array("ForgottenTopic"))


@dataclass(slots=True)
class ShareFetchResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class LeaderIdAndEpoch(Struct):
        leader_id: int = f("int32")
        leader_epoch: int = f("int32")

    @dataclass(slots=True)
    class AcquiredRecords(Struct):
        first_offset: int = f("int64")
        last_offset: int = f("int64")
        delivery_count: int = f("int16")

    @dataclass(slots=True)
    class PartitionData(Struct):
        partition_index: int = f("int32")
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)
        acknowledge_error_code: int = f("int16")
        acknowledge_error_message: str | None = f("string", nullable="0+", default=None)
        current_leader: ShareFetchResponse.LeaderIdAndEpoch = f("LeaderIdAndEpoch")
        records: Any | None = f("records", nullable="0")
        acquired_records: list[ShareFetchResponse.AcquiredRecords] = f(array("AcquiredRecords"))

    @dataclass(slots=True)
    class ShareFetchableTopicResponse(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[ShareFetchResponse.PartitionData] = f(array("PartitionData"))

    @dataclass(slots=True)
    class NodeEndpoint(Struct):
        node_id: int = f("int32")
        host: str = f("string")
        port: int = f("int32")
        rack: str | None = f("string", nullable="0+", default=None)

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16")
    error_message: str | None = f("string", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = f("int32", "1+")
    responses: list[ShareFetchResponse.ShareFetchableTopicResponse] = f(array("ShareFetchableTopicResponse"))
    node_endpoints: list[ShareFetchResponse.NodeEndpoint] = f(array("NodeEndpoint"))


@dataclass(slots=True)
class ShareAcknowledgeRequest(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class AcknowledgementBatch(Struct):
        first_offset: int = f("int64")
        last_offset: int = f("int64")
        acknowledge_types: list[int] = f(array("int8"))

    @dataclass(slots=True)
    class AcknowledgePartition(Struct):
        partition_index: int = f("int32")
        acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = f(array("AcknowledgementBatch"))

    @dataclass(slots=True)
    class AcknowledgeTopic(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = f(array("AcknowledgePartition"))

    group_id: str | None = f("string", nullable="0+", default=None)
    member_id: str | None = f("string", nullable="0+")
    share_session_epoch: int = f("int32")
    is_renew_ack: bool = f("bool", "2+", default=False)
    topics: list[ShareAcknowledgeRequest.AcknowledgeTopic] = f(array("AcknowledgeTopic"))


@dataclass(slots=True)
class ShareAcknowledgeResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class LeaderIdAndEpoch(Struct):
        leader_id: int = f("int32")
        leader_epoch: int = f("int32")

    @dataclass(slots=True)
    class PartitionData(Struct):
        partition_index: int = f("int32")
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)
        current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch = f("LeaderIdAndEpoch")

    @dataclass(slots=True)
    class ShareAcknowledgeTopicResponse(Struct):
        topic_id: UUID = f("uuid")
        partitions: list[ShareAcknowledgeResponse.PartitionData] = f(array("PartitionData"))

    @dataclass(slots=True)
    class NodeEndpoint(Struct):
        node_id: int = f("int32")
        host: str = f("string")
        port: int = f("int32")
        rack: str | None = f("string", nullable="0+", default=None)

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16")
    error_message: str | None = f("string", nullable="0+", default=None)
    acquisition_lock_timeout_ms: int = f("int32", "2+")
    responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = f(array("ShareAcknowledgeTopicResponse"))
    node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint] = f(array("NodeEndpoint"))
