"""Requests about transactions: to their coordinators, and to the leaders of the partitions.

Every call has a deadline; without a response it raises NoResponse. Does not contain: which transactions hang (`domain.transactions`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.clients.broker_configs import RESOURCE_BROKER
from controlplane.clients.connection import Declined, KafkaConnection, NoResponse
from controlplane.domain.transactions import DescribedTransaction, ListedTransaction, PartitionTransaction

READ_SECONDS = 1.0
"""Deadline of one request of a page."""

MARKER_SECONDS = 10.0
"""Deadline of an end marker. A leader waits 5 s for its replication."""

FENCE_SECONDS = 15.0
"""Deadline of a fencing. Before its response the coordinator aborts the open transaction in all partitions."""

RETRY_SECONDS = 0.1

PARTITIONS_PER_REQUEST = 200
"""Partitions of one DescribeProducers request. The broker serves other clients in between."""

ELSEWHERE = frozenset(
    (ErrorCode.NOT_COORDINATOR, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.COORDINATOR_NOT_AVAILABLE)
)
"""This broker does not have the transactional id. COORDINATOR_NOT_AVAILABLE: no transaction was ever begun, so __transaction_state does not exist."""

TIMEOUT_MAX_CONFIG = "transaction.max.timeout.ms"


@dataclass(frozen=True, slots=True)
class ScannedPartitions:
    """The transactions that are open in the partitions of one leader. `described`: the partitions for which it answered before the deadline."""

    transactions: list[PartitionTransaction]
    described: int


def list_transactions(
    connection: KafkaConnection,
    broker_id: int,
    *,
    states: Iterable[str] = (),
    producer_ids: Iterable[int] = (),
    open_longer_ms: int = -1,
) -> list[ListedTransaction]:
    """The transactional ids that this broker coordinates. Raises NoResponse, or Declined while the coordinator loads. Empty filters: all."""
    body = m.ListTransactionsRequest(
        state_filters=list(states), producer_id_filters=list(producer_ids), duration_filter=open_longer_ms
    )
    response = connection.call(ApiKey.LIST_TRANSACTIONS, 1, body, READ_SECONDS)
    if response.error_code:
        raise Declined(ErrorCode(response.error_code).name)
    return [
        ListedTransaction(t.transactional_id, t.producer_id, t.transaction_state, broker_id)
        for t in response.transaction_states
    ]


def describe_transactions(connection: KafkaConnection, transactional_ids: Sequence[str]) -> list[DescribedTransaction]:
    """Describe the transactional ids that this broker coordinates. Others are omitted. Raises NoResponse, or Declined while the coordinator loads."""
    body = m.DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
    response = connection.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, body, READ_SECONDS)
    found = []
    for transaction in response.transaction_states:
        if transaction.error_code in ELSEWHERE:
            continue
        if transaction.error_code:
            raise Declined(ErrorCode(transaction.error_code).name)
        found.append(
            DescribedTransaction(
                transactional_id=transaction.transactional_id,
                state=transaction.transaction_state,
                producer_id=transaction.producer_id,
                producer_epoch=transaction.producer_epoch,
                timeout_ms=transaction.transaction_timeout_ms,
                started_ms=transaction.transaction_start_time_ms
                if transaction.transaction_start_time_ms >= 0
                else None,
                partitions=tuple((d.topic, i) for d in transaction.topics for i in d.partitions),
            )
        )
    return found


def coordinated_partitions(connection: KafkaConnection, probes: Mapping[str, int]) -> frozenset[int]:
    """The partitions of __transaction_state that this broker coordinates and has loaded. `probes`: transactional ids with their partitions. Raises
    NoResponse."""
    body = m.DescribeTransactionsRequest(transactional_ids=list(probes))
    response = connection.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, body, READ_SECONDS)
    mine = (ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    return frozenset(probes[t.transactional_id] for t in response.transaction_states if t.error_code in mine)


def timeout_ms_max(connection: KafkaConnection, broker_id: int) -> int:
    """transaction.max.timeout.ms of this broker. Raises NoResponse and Declined."""
    resource = m.DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=RESOURCE_BROKER, resource_name=str(broker_id), configuration_keys=[TIMEOUT_MAX_CONFIG]
    )
    body = m.DescribeConfigsRequest(resources=[resource])
    (result,) = connection.call(ApiKey.DESCRIBE_CONFIGS, 4, body, READ_SECONDS).results
    if result.error_code or not result.configs:
        raise Declined(result.error_message or f"{TIMEOUT_MAX_CONFIG} is not reported")
    return int(result.configs[0].value or 0)


def scan_partitions(
    connection: KafkaConnection, broker_id: int, partitions: Mapping[str, Sequence[int]], seconds: float = READ_SECONDS
) -> ScannedPartitions:
    """The open transactions in these partitions, which this broker leads. Raises NoResponse if not even the first request was answered."""
    requested = [(topic, i) for topic, indexes in partitions.items() for i in indexes]
    found: list[PartitionTransaction] = []
    described, deadline = 0, time.monotonic() + seconds
    for at in range(0, len(requested), PARTITIONS_PER_REQUEST):
        left = deadline - time.monotonic()
        if at and left <= 0:
            break
        topics: dict[str, m.DescribeProducersRequest.TopicRequest] = {}
        for name, i in requested[at : at + PARTITIONS_PER_REQUEST]:
            topic = topics.setdefault(name, m.DescribeProducersRequest.TopicRequest(name=name, partition_indexes=[]))
            topic.partition_indexes.append(i)
        try:
            body = m.DescribeProducersRequest(topics=list(topics.values()))
            response = connection.call(ApiKey.DESCRIBE_PRODUCERS, 0, body, left)
        except NoResponse:
            if at == 0:
                raise
            break
        for reported in response.topics:
            for partition in reported.partitions:
                if partition.error_code:
                    continue
                described += 1
                found += [
                    PartitionTransaction(
                        topic=reported.name,
                        index=partition.partition_index,
                        leader=broker_id,
                        producer_id=state.producer_id,
                        producer_epoch=state.producer_epoch,
                        coordinator_epoch=state.coordinator_epoch,
                        start_offset=state.current_txn_start_offset,
                        last_timestamp_ms=state.last_timestamp,
                    )
                    for state in partition.active_producers
                    if state.current_txn_start_offset >= 0
                ]
    return ScannedPartitions(found, described)


def write_abort_marker(host: str, port: int, hanging: PartitionTransaction) -> None:
    """End the transaction in this partition as aborted, as `kafka-transactions.sh abort` does. The address is that of the leader. Raises NoResponse, or
    Declined with the error of the leader."""
    topic = m.WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=hanging.topic, partition_indexes=[hanging.index])
    marker = m.WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=hanging.producer_id,
        producer_epoch=hanging.producer_epoch,
        transaction_result=False,
        topics=[topic],
        coordinator_epoch=max(0, hanging.coordinator_epoch),
    )
    connection = KafkaConnection(host, port)
    try:
        body = m.WriteTxnMarkersRequest(markers=[marker])
        response = connection.call(ApiKey.WRITE_TXN_MARKERS, 1, body, MARKER_SECONDS)
    finally:
        connection.close()
    codes = [p.error_code for r in response.markers for t in r.topics for p in t.partitions]
    code = ErrorCode(codes[0]) if codes else ErrorCode.UNKNOWN_SERVER_ERROR
    if code:
        raise Declined(code.name)


def fence_producer(host: str, port: int, transactional_id: str, timeout_ms: int) -> tuple[int, int]:
    """Fence the producer of this transactional id, as Kafka's Admin.fenceProducers: its open transaction is aborted, and its epoch is too old from now
    on. The address is that of the coordinator. Returns the new (producer id, epoch). Raises NoResponse and Declined."""
    body = m.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    connection = KafkaConnection(host, port)
    deadline = time.monotonic() + FENCE_SECONDS
    try:
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise NoResponse(f"{host}:{port}: the open transaction was not aborted within {FENCE_SECONDS:.0f} s.")
            response = connection.call(ApiKey.INIT_PRODUCER_ID, 4, body, left)
            code = ErrorCode(response.error_code)
            if not code:
                return response.producer_id, response.producer_epoch
            if code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                raise Declined(code.name)
            time.sleep(RETRY_SECONDS)
    finally:
        connection.close()
