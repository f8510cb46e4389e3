"""Requests about transactions, against recorded responses."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.clients import transactions as client
from controlplane.clients.connection import Declined, NoResponse
from controlplane.domain.transactions import PartitionTransaction

HANGING = PartitionTransaction("orders", 3, 1, 4711, 2, -1, 1234, 1_000)


class Broker:
    """Answers with these bodies, in their order; an exception is raised."""

    def __init__(self, *responses: Any) -> None:
        self.responses, self.asked, self.closed = list(responses), list[Any](), False

    def call(self, api: ApiKey, version: int, body: Any, timeout_s: float) -> Any:
        self.asked.append(body)
        response = self.responses.pop(0)
        if isinstance(response, Exception):
            raise response
        return response

    def close(self) -> None:
        self.closed = True


def producers(*partitions: tuple[int, int, int]) -> m.DescribeProducersResponse:
    """(partition, error, start offset)."""
    r = m.DescribeProducersResponse
    return r(
        topics=[
            r.TopicResponse(
                name="orders",
                partitions=[
                    r.PartitionResponse(
                        partition_index=i,
                        error_code=error,
                        active_producers=[
                            r.ProducerState(producer_id=i, producer_epoch=0, current_txn_start_offset=start),
                            r.ProducerState(producer_id=99, producer_epoch=0, current_txn_start_offset=-1),
                        ],
                    )
                    for i, error, start in partitions
                ],
            )
        ]
    )


def test_a_coordinator_lists_its_own_ids_and_declines_while_it_loads() -> None:
    r = m.ListTransactionsResponse
    state = r.TransactionState(transactional_id="a", producer_id=1, transaction_state="Ongoing")
    broker = Broker(r(transaction_states=[state]), r(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    (found,) = client.list_transactions(broker, 2, states=["Ongoing"], open_longer_ms=60_000)  # type: ignore[arg-type]
    assert (found.transactional_id, found.coordinator) == ("a", 2)
    assert (broker.asked[0].state_filters, broker.asked[0].duration_filter) == (["Ongoing"], 60_000)
    with pytest.raises(Declined, match="COORDINATOR_LOAD_IN_PROGRESS"):
        client.list_transactions(broker, 2)  # type: ignore[arg-type]


def test_ids_of_other_coordinators_are_left_out() -> None:
    r = m.DescribeTransactionsResponse
    mine = r.TransactionState(
        transactional_id="a",
        transaction_state="Ongoing",
        transaction_start_time_ms=5,
        topics=[r.TopicData(topic="orders", partitions=[3, 4])],
    )
    empty = r.TransactionState(transactional_id="b", transaction_state="Empty", transaction_start_time_ms=-1)
    other = r.TransactionState(transactional_id="c", error_code=ErrorCode.NOT_COORDINATOR)
    unknown = r.TransactionState(transactional_id="d", error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    never = r.TransactionState(transactional_id="e", error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    broker = Broker(r(transaction_states=[mine, empty, other, unknown, never]))
    a, b = client.describe_transactions(broker, ["a", "b", "c", "d", "e"])  # type: ignore[arg-type]
    assert (a.partitions, a.started_ms, a.is_open) == ((("orders", 3), ("orders", 4)), 5, True)
    assert (b.partitions, b.started_ms, b.is_open) == ((), None, False)
    loading = r.TransactionState(transactional_id="a", error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    with pytest.raises(Declined):
        client.describe_transactions(Broker(r(transaction_states=[loading])), ["a"])  # type: ignore[arg-type]


def test_a_broker_coordinates_the_partitions_that_it_answers_for() -> None:
    r = m.DescribeTransactionsResponse
    codes = {
        "a": ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        "b": ErrorCode.NOT_COORDINATOR,
        "c": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        "d": ErrorCode.NONE,
        "e": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
    broker = Broker(
        r(transaction_states=[r.TransactionState(transactional_id=i, error_code=c) for i, c in codes.items()])
    )
    probes = {name: n for n, name in enumerate(codes)}
    assert client.coordinated_partitions(broker, probes) == {0, 3}  # type: ignore[arg-type]


def test_a_scan_is_read_in_parts_and_counts_the_described_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PARTITIONS_PER_REQUEST", 2)
    wanted = {"orders": [0, 1, 2]}
    broker = Broker(producers((0, 0, 5), (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 6)), producers((2, 0, 7)))
    scan = client.scan_partitions(broker, 1, wanted, 60)  # type: ignore[arg-type]
    assert [(t.partition, t.start_offset, t.producer_id) for t in scan.transactions] == [
        (("orders", 0), 5, 0),
        (("orders", 2), 7, 2),
    ]
    assert scan.described == 2 and len(broker.asked) == 2
    late = client.scan_partitions(Broker(producers((0, 0, 5)), NoResponse("slow")), 1, wanted, 60)  # type: ignore[arg-type]
    assert late.described == 1
    with pytest.raises(NoResponse):
        client.scan_partitions(Broker(NoResponse("down")), 1, wanted, 60)  # type: ignore[arg-type]
    bounded = Broker(producers((0, 0, 5)))
    assert client.scan_partitions(bounded, 1, wanted, 0.0).described == 1  # type: ignore[arg-type]


def test_the_limit_of_time_outs_is_read_from_the_broker() -> None:
    r = m.DescribeConfigsResponse
    config = r.DescribeConfigsResourceResult(name=client.TIMEOUT_MAX_CONFIG, value="900000")
    broker = Broker(r(results=[r.DescribeConfigsResult(configs=[config])]), r(results=[r.DescribeConfigsResult()]))
    assert client.timeout_ms_max(broker, 1) == 900_000  # type: ignore[arg-type]
    with pytest.raises(Declined):
        client.timeout_ms_max(broker, 1)  # type: ignore[arg-type]


def test_an_abort_marker_has_the_producer_and_reports_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    r = m.WriteTxnMarkersResponse

    def respond(code: ErrorCode) -> Any:
        part = r.WritableTxnMarkerPartitionResult(partition_index=3, error_code=code)
        topic = r.WritableTxnMarkerTopicResult(name="orders", partitions=[part])
        return r(markers=[r.WritableTxnMarkerResult(producer_id=4711, topics=[topic])])

    broker = Broker(respond(ErrorCode.NONE), respond(ErrorCode.INVALID_PRODUCER_EPOCH), r())
    monkeypatch.setattr(client, "KafkaConnection", lambda host, port: broker)
    client.write_abort_marker("h", 1, HANGING)
    (marker,) = broker.asked[0].markers
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (4711, 2, False)
    assert marker.coordinator_epoch == 0 and marker.topics[0].partition_indexes == [3] and broker.closed
    for name in ("INVALID_PRODUCER_EPOCH", "UNKNOWN_SERVER_ERROR"):
        with pytest.raises(Declined, match=name):
            client.write_abort_marker("h", 1, HANGING)


def test_fencing_waits_for_the_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    r = m.InitProducerIdResponse
    busy = r(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
    broker = Broker(busy, r(producer_id=7, producer_epoch=4), r(error_code=ErrorCode.NOT_COORDINATOR), busy, busy)
    monkeypatch.setattr(client, "KafkaConnection", lambda host, port: broker)
    monkeypatch.setattr(client, "RETRY_SECONDS", 0.0)
    assert client.fence_producer("h", 1, "a", 60_000) == (7, 4)
    assert (broker.asked[0].transactional_id, broker.asked[0].producer_id) == ("a", -1)
    with pytest.raises(Declined, match="NOT_COORDINATOR"):
        client.fence_producer("h", 1, "a", 60_000)
    monkeypatch.setattr(client, "FENCE_SECONDS", 0.0)
    with pytest.raises(NoResponse, match="not aborted"):
        client.fence_producer("h", 1, "a", 60_000)
