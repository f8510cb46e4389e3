"""Messages for producer ids and transactions. Descriptions only; names, types and versions are from Kafka's message definitions (up to 4.3)."""

from __future__ import annotations

from dataclasses import dataclass

from brokerd.wire.schema import Struct, array, f


@dataclass(slots=True)
class InitProducerIdRequest(Struct):
    FLEXIBLE = 2

    transactional_id: str | None = f("string", nullable="0+")
    transaction_timeout_ms: int = f("int32")
    producer_id: int = f("int64", "3+", default=-1)
    producer_epoch: int = f("int16", "3+", default=-1)
    enable2_pc: bool = f("bool", "6+")
    keep_prepared_txn: bool = f("bool", "6+")


@dataclass(slots=True)
class InitProducerIdResponse(Struct):
    FLEXIBLE = 2

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16")
    producer_id: int = f("int64", default=-1)
    producer_epoch: int = f("int16")
    ongoing_txn_producer_id: int = f("int64", "6+", default=-1)
    ongoing_txn_producer_epoch: int = f("int16", "6+", default=-1)


@dataclass(slots=True)
class AddPartitionsToTxnRequest(Struct):
    FLEXIBLE = 3

    @dataclass(slots=True)
    class AddPartitionsToTxnTopic(Struct):
        name: str = f("string")
        partitions: list[int] = f(array("int32"))

    @dataclass(slots=True)
    class AddPartitionsToTxnTransaction(Struct):
        transactional_id: str = f("string", "4+")
        producer_id: int = f("int64", "4+")
        producer_epoch: int = f("int16", "4+")
        verify_only: bool = f("bool", "4+")
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = f(array("AddPartitionsToTxnTopic"), "4+")

    transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = f(
        array("AddPartitionsToTxnTransaction"), "4+"
    )
    v3_and_below_transactional_id: str = f("string", "0-3")
    v3_and_below_producer_id: int = f("int64", "0-3")
    v3_and_below_producer_epoch: int = f("int16", "0-3")
    v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = f(
        array("AddPartitionsToTxnTopic"), "0-3"
    )


@dataclass(slots=True)
class AddPartitionsToTxnResponse(Struct):
    FLEXIBLE = 3

    @dataclass(slots=True)
    class AddPartitionsToTxnPartitionResult(Struct):
        partition_index: int = f("int32")
        partition_error_code: int = f("int16")

    @dataclass(slots=True)
    class AddPartitionsToTxnTopicResult(Struct):
        name: str = f("string")
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = f(
            array("AddPartitionsToTxnPartitionResult")
        )

    @dataclass(slots=True)
    class AddPartitionsToTxnResult(Struct):
        transactional_id: str = f("string", "4+")
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = f(
            array("AddPartitionsToTxnTopicResult"), "4+"
        )

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16", "4+")
    results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = f(
        array("AddPartitionsToTxnResult"), "4+"
    )
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = f(
        array("AddPartitionsToTxnTopicResult"), "0-3"
    )


@dataclass(slots=True)
class AddOffsetsToTxnRequest(Struct):
    FLEXIBLE = 3

    transactional_id: str = f("string")
    producer_id: int = f("int64")
    producer_epoch: int = f("int16")
    group_id: str = f("string")


@dataclass(slots=True)
class AddOffsetsToTxnResponse(Struct):
    FLEXIBLE = 3

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16")


@dataclass(slots=True)
class EndTxnRequest(Struct):
    FLEXIBLE = 3

    transactional_id: str = f("string")
    producer_id: int = f("int64")
    producer_epoch: int = f("int16")
    committed: bool = f("bool")


@dataclass(slots=True)
class EndTxnResponse(Struct):
    FLEXIBLE = 3

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16")
    producer_id: int = f("int64", "5+", default=-1)
    producer_epoch: int = f("int16", "5+", default=-1)


@dataclass(slots=True)
class WriteTxnMarkersRequest(Struct):
    FLEXIBLE = 1

    @dataclass(slots=True)
    class WritableTxnMarkerTopic(Struct):
        name: str = f("string")
        partition_indexes: list[int] = f(array("int32"))

    @dataclass(slots=True)
    class WritableTxnMarker(Struct):
        producer_id: int = f("int64")
        producer_epoch: int = f("int16")
        transaction_result: bool = f("bool")
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = f(array("WritableTxnMarkerTopic"))
        coordinator_epoch: int = f("int32")
        transaction_version: int = f("int8", "2+")

    markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = f(array("WritableTxnMarker"))


@dataclass(slots=True)
class WriteTxnMarkersResponse(Struct):
    FLEXIBLE = 1

    @dataclass(slots=True)
    class WritableTxnMarkerPartitionResult(Struct):
        partition_index: int = f("int32")
        error_code: int = f("int16")

    @dataclass(slots=True)
    class WritableTxnMarkerTopicResult(Struct):
        name: str = f("string")
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = f(
            array("WritableTxnMarkerPartitionResult")
        )

    @dataclass(slots=True)
    class WritableTxnMarkerResult(Struct):
        producer_id: int = f("int64")
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = f(array("WritableTxnMarkerTopicResult"))

    markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = f(array("WritableTxnMarkerResult"))


@dataclass(slots=True)
class TxnOffsetCommitRequest(Struct):
    FLEXIBLE = 3

    @dataclass(slots=True)
    class TxnOffsetCommitRequestPartition(Struct):
        partition_index: int = f("int32")
        committed_offset: int = f("int64")
        committed_leader_epoch: int = f("int32", "2+", default=-1)
        committed_metadata: str | None = f("string", nullable="0+")

    @dataclass(slots=True)
    class TxnOffsetCommitRequestTopic(Struct):
        name: str = f("string")
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = f(
            array("TxnOffsetCommitRequestPartition")
        )

    transactional_id: str = f("string")
    group_id: str = f("string")
    producer_id: int = f("int64")
    producer_epoch: int = f("int16")
    generation_id: int = f("int32", "3+", default=-1)
    member_id: str = f("string", "3+")
    group_instance_id: str | None = f("string", "3+", nullable="3+", default=None)
    topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = f(array("TxnOffsetCommitRequestTopic"))


@dataclass(slots=True)
class TxnOffsetCommitResponse(Struct):
    FLEXIBLE = 3

    @dataclass(slots=True)
    class TxnOffsetCommitResponsePartition(Struct):
        partition_index: int = f("int32")
        error_code: int = f("int16")

    @dataclass(slots=True)
    class TxnOffsetCommitResponseTopic(Struct):
        name: str = f("string")
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = f(
            array("TxnOffsetCommitResponsePartition")
        )

    throttle_time_ms: int = f("int32")
    topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = f(array("TxnOffsetCommitResponseTopic"))


@dataclass(slots=True)
class DescribeProducersRequest(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class TopicRequest(Struct):
        name: str = f("string")
        partition_indexes: list[int] = f(array("int32"))

    topics: list[DescribeProducersRequest.TopicRequest] = f(array("TopicRequest"))


@dataclass(slots=True)
class DescribeProducersResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class ProducerState(Struct):
        producer_id: int = f("int64")
        producer_epoch: int = f("int32")
        last_sequence: int = f("int32", default=-1)
        last_timestamp: int = f("int64", default=-1)
        coordinator_epoch: int = f("int32")
        current_txn_start_offset: int = f("int64", default=-1)

    @dataclass(slots=True)
    class PartitionResponse(Struct):
        partition_index: int = f("int32")
        error_code: int = f("int16")
        error_message: str | None = f("string", nullable="0+", default=None)
        active_producers: list[DescribeProducersResponse.ProducerState] = f(array("ProducerState"))

    @dataclass(slots=True)
    class TopicResponse(Struct):
        name: str = f("string")
        partitions: list[DescribeProducersResponse.PartitionResponse] = f(array("PartitionResponse"))

    throttle_time_ms: int = f("int32")
    topics: list[DescribeProducersResponse.TopicResponse] = f(array("TopicResponse"))


@dataclass(slots=True)
class DescribeTransactionsRequest(Struct):
    FLEXIBLE = 0

    transactional_ids: list[str] = f(array("string"))


@dataclass(slots=True)
class DescribeTransactionsResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class TopicData(Struct):
        topic: str = f("string")
        partitions: list[int] = f(array("int32"))

    @dataclass(slots=True)
    class TransactionState(Struct):
        error_code: int = f("int16")
        transactional_id: str = f("string")
        transaction_state: str = f("string")
        transaction_timeout_ms: int = f("int32")
        transaction_start_time_ms: int = f("int64")
        producer_id: int = f("int64")
        producer_epoch: int = f("int16")
        topics: list[DescribeTransactionsResponse.TopicData] = f(array("TopicData"))

    throttle_time_ms: int = f("int32")
    transaction_states: list[DescribeTransactionsResponse.TransactionState] = f(array("TransactionState"))


@dataclass(slots=True)
class ListTransactionsRequest(Struct):
    FLEXIBLE = 0

    state_filters: list[str] = f(array("string"))
    producer_id_filters: list[int] = f(array("int64"))
    duration_filter: int = f("int64", "1+", default=-1)
    # A regular expression over whole transactional ids. None or empty: all.
    transactional_id_pattern: str | None = f("string", "2+", nullable="2+", default=None)


@dataclass(slots=True)
class ListTransactionsResponse(Struct):
    FLEXIBLE = 0

    @dataclass(slots=True)
    class TransactionState(Struct):
        transactional_id: str = f("string")
        producer_id: int = f("int64")
        transaction_state: str = f("string")

    throttle_time_ms: int = f("int32")
    error_code: int = f("int16")
    unknown_state_filters: list[str] = f(array("string"))
    transaction_states: list[ListTransactionsResponse.TransactionState] = f(array("TransactionState"))
