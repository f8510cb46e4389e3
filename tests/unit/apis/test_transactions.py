"""Authorization of the transaction APIs: no part of an unauthorized request reaches the coordinator or a log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from tests.unit.authz.scene import Broker, UnusedComponent

TOPIC, GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER, TRANSACTION = (
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
WRITE_X = "write transactional_id x"


class Recorder:
    """A transaction coordinator that keeps the events."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def handle(self, transactional_id: str, event: Any, *, new_producer_id: int | None = None) -> int:
        self.events.append(event)
        return LOADING


def broker_with(*rules: str) -> tuple[Broker, Recorder]:
    recorder = Recorder()
    broker = Broker(transactions=recorder)
    broker.allow(*rules)
    return broker, recorder


@pytest.mark.parametrize(
    ("transactional_id", "rules", "error"),
    [
        (None, [], CLUSTER),
        (None, ["describe cluster kafka-cluster", "read topic t"], CLUSTER),
        (None, ["idempotent_write cluster kafka-cluster"], 0),
        (None, ["write topic t"], 0),
        ("x", ["write topic t", "idempotent_write cluster kafka-cluster"], TRANSACTION),
        ("x", ["describe transactional_id x"], TRANSACTION),
        ("x", [WRITE_X], LOADING),
    ],
)
def test_a_producer_id_needs_the_transactional_id_or_the_permission_to_write_anywhere(
    transactional_id: str | None, rules: list[str], error: int
) -> None:
    broker, recorder = broker_with(*rules)
    body = m.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1_000)
    response = broker.send_request(ApiKey.INIT_PRODUCER_ID, 4, body)
    assert (response.error_code, response.producer_id) == (error, -1 if error else 7)
    assert len(recorder.events) == (error == LOADING)


def add_partitions_request(*topics: str) -> m.AddPartitionsToTxnRequest:
    r = m.AddPartitionsToTxnRequest
    return r(
        v3_and_below_transactional_id="x",
        v3_and_below_topics=[r.AddPartitionsToTxnTopic(name=t, partitions=[0]) for t in topics],
    )


@pytest.mark.parametrize(
    ("rules", "errors"),
    [
        (["write topic *"], {"t": TRANSACTION, "u": TRANSACTION}),
        ([WRITE_X], {"t": TOPIC, "u": TOPIC}),
        ([WRITE_X, "write topic t"], {"t": ErrorCode.OPERATION_NOT_ATTEMPTED, "u": TOPIC}),
        ([WRITE_X, "write topic *"], {"t": ErrorCode.OPERATION_NOT_ATTEMPTED, "u": 3}),  # u does not exist
    ],
)
def test_all_partitions_are_added_to_a_transaction_or_none(rules: list[str], errors: dict[str, int]) -> None:
    broker, recorder = broker_with(*rules)
    response = broker.send_request(ApiKey.ADD_PARTITIONS_TO_TXN, 3, add_partitions_request("t", "u"))
    found = {t.name: t.results_by_partition[0].partition_error_code for t in response.results_by_topic_v3_and_below}
    assert found == errors and not recorder.events


def test_an_authorized_client_adds_partitions() -> None:
    broker, recorder = broker_with(WRITE_X, "write topic t")
    broker.send_request(ApiKey.ADD_PARTITIONS_TO_TXN, 3, add_partitions_request("t"))
    assert len(recorder.events) == 1


def test_newer_versions_of_add_partitions_are_for_brokers() -> None:
    broker, recorder = broker_with(WRITE_X, "write topic t")
    r = m.AddPartitionsToTxnRequest
    topics = [r.AddPartitionsToTxnTopic(name="t", partitions=[0])]
    body = r(transactions=[r.AddPartitionsToTxnTransaction(transactional_id="x", topics=topics)])
    response = broker.send_request(ApiKey.ADD_PARTITIONS_TO_TXN, 4, body)
    assert (response.error_code, response.results_by_transaction) == (CLUSTER, []) and not recorder.events
    broker.allow("cluster_action cluster kafka-cluster")
    assert broker.send_request(ApiKey.ADD_PARTITIONS_TO_TXN, 4, body).error_code == 0 and len(recorder.events) == 1


@pytest.mark.parametrize(
    ("rules", "error"),
    [(["read group g"], TRANSACTION), ([WRITE_X], GROUP), ([WRITE_X, "read group g"], 15)],  # no __consumer_offsets
)
def test_offsets_are_added_with_the_transactional_id_and_the_group(rules: list[str], error: int) -> None:
    broker, _ = broker_with(*rules)
    body = m.AddOffsetsToTxnRequest(transactional_id="x", group_id="g")
    assert broker.send_request(ApiKey.ADD_OFFSETS_TO_TXN, 3, body).error_code == error


@pytest.mark.parametrize(("rules", "error"), [(["describe transactional_id x"], TRANSACTION), ([WRITE_X], LOADING)])
def test_a_transaction_is_ended_with_write_on_its_id(rules: list[str], error: int) -> None:
    broker, recorder = broker_with(*rules)
    assert broker.send_request(ApiKey.END_TXN, 3, m.EndTxnRequest(transactional_id="x")).error_code == error
    assert len(recorder.events) == (error == LOADING)


def test_transactions_and_their_topics_are_returned_with_describe_permission() -> None:
    state = SimpleNamespace(value="Ongoing")
    record = SimpleNamespace(
        partitions={("t", 0), ("u", 0)}, state=state, timeout_ms=1, started_wall_ms=1, producer_id=5, epoch=0
    )
    one = SimpleNamespace(transactional_id="x", record=record, state=state)
    broker = Broker(
        transactions=UnusedComponent("transactions", find_existing=lambda i: (one, 0), shards={}, each=lambda: [one])
    )
    broker.allow("describe topic t")
    body = m.DescribeTransactionsRequest(transactional_ids=["y", "x"])
    shown = broker.send_request(ApiKey.DESCRIBE_TRANSACTIONS, 0, body).transaction_states
    assert [(s.transactional_id, s.error_code) for s in shown] == [("y", TRANSACTION), ("x", TRANSACTION)]
    assert broker.send_request(ApiKey.LIST_TRANSACTIONS, 0, m.ListTransactionsRequest()).transaction_states == []
    broker.allow("describe transactional_id x")
    shown = broker.send_request(ApiKey.DESCRIBE_TRANSACTIONS, 0, body).transaction_states
    assert [(s.transactional_id, s.error_code, [t.topic for t in s.topics]) for s in shown] == [
        ("x", 0, ["t"]),
        ("y", TRANSACTION, []),
    ]
    listed = broker.send_request(ApiKey.LIST_TRANSACTIONS, 0, m.ListTransactionsRequest()).transaction_states
    assert [s.transactional_id for s in listed] == ["x"]


def broker_with_transactions(*transactional_ids: str) -> Broker:
    state = SimpleNamespace(value="Ongoing")
    record = SimpleNamespace(state=state, started_wall_ms=1, producer_id=5)
    found = [SimpleNamespace(transactional_id=name, record=record, state=state) for name in transactional_ids]
    return Broker(transactions=UnusedComponent("transactions", shards={}, each=lambda: found))


@pytest.mark.parametrize(
    ("pattern", "listed"),
    [
        (None, ["pay-1", "pay-2", "ship/1"]),
        ("", ["pay-1", "pay-2", "ship/1"]),
        ("pay-.*", ["pay-1", "pay-2"]),
        ("pay", []),
        (r"\w+/\d", ["ship/1"]),
    ],
)
def test_transactions_are_listed_by_a_pattern_of_whole_ids(pattern: str | None, listed: list[str]) -> None:
    broker = broker_with_transactions("pay-1", "pay-2", "ship/1", "pay-hidden")
    for name in ("pay-1", "pay-2", "ship/1"):
        broker.allow(f"describe transactional_id {name}")
    response = broker.send_request(
        ApiKey.LIST_TRANSACTIONS, 2, m.ListTransactionsRequest(transactional_id_pattern=pattern)
    )
    assert [s.transactional_id for s in response.transaction_states] == listed


@pytest.mark.parametrize("pattern", ["pay-[", r"(a)\1", "größe"])
def test_an_invalid_pattern_lists_nothing(pattern: str) -> None:
    broker = broker_with_transactions("pay-1")
    response = broker.send_request(
        ApiKey.LIST_TRANSACTIONS, 2, m.ListTransactionsRequest(transactional_id_pattern=pattern)
    )
    assert (response.error_code, response.transaction_states) == (ErrorCode.INVALID_REGULAR_EXPRESSION, [])
