"""What the APIs of transactions ask of their caller: more lines of `guards`' table, under its laws. Called by `authorizer`."""

from __future__ import annotations

from typing import Any

from brokerd.access.group_guards import commits
from brokerd.access.guards import (
    CLUSTER,
    GROUP,
    NO_CLUSTER,
    NO_GROUP,
    NO_TOPIC,
    NO_TRANSACTION,
    TOPIC,
    TRANSACTION,
    Asked,
    Guard,
    O,
)
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode

BROKERS_ADD_FROM = 4
"""From this version on AddPartitionsToTxn is what a partition's leader asks the coordinator."""


def add_partitions(a: Asked) -> bool:
    r = m.AddPartitionsToTxnResponse
    body = a.body
    if a.version >= BROKERS_ADD_FROM:
        return False if a.may(O.CLUSTER_ACTION, CLUSTER) else a.refuse(r(error_code=NO_CLUSTER))
    topics = body.v3_and_below_topics

    def told(error_of: dict[str, int]) -> Any:
        part = r.AddPartitionsToTxnPartitionResult
        results = [
            r.AddPartitionsToTxnTopicResult(name=t.name, results_by_partition=[
                part(partition_index=p, partition_error_code=error_of[t.name]) for p in t.partitions])
            for t in topics
        ]  # fmt: skip
        return r(results_by_topic_v3_and_below=results)

    if not a.may(O.WRITE, TRANSACTION, body.v3_and_below_transactional_id):
        return a.refuse(told({t.name: NO_TRANSACTION for t in topics}))
    may, may_not = a.only(O.WRITE, topics)
    if not may_not:
        return False
    # All or nothing: what may be added is not added either.
    untried = {t.name: ErrorCode.OPERATION_NOT_ATTEMPTED for t in may}
    return a.refuse(told({**untried, **{t.name: NO_TOPIC for t in may_not}}))


def add_offsets(a: Asked) -> bool:
    r = m.AddOffsetsToTxnResponse
    if not a.may(O.WRITE, TRANSACTION, a.body.transactional_id):
        return a.refuse(r(error_code=NO_TRANSACTION))
    return False if a.may(O.READ, GROUP, a.body.group_id) else a.refuse(r(error_code=NO_GROUP))


def end(a: Asked) -> bool:
    fine = a.may(O.WRITE, TRANSACTION, a.body.transactional_id)
    return False if fine else a.refuse(m.EndTxnResponse(error_code=NO_TRANSACTION))


def write_markers(a: Asked) -> bool:
    if a.may(O.CLUSTER_ACTION, CLUSTER):
        return False
    r = m.WriteTxnMarkersResponse
    part = r.WritableTxnMarkerPartitionResult
    return a.refuse(r(markers=[
        r.WritableTxnMarkerResult(producer_id=w.producer_id, topics=[
            r.WritableTxnMarkerTopicResult(name=t.name, partitions=[part(partition_index=p, error_code=NO_CLUSTER) for p in t.partition_indexes])
            for t in w.topics])
        for w in a.body.markers
    ]))  # fmt: skip


def commit_offsets(a: Asked) -> bool:
    r = m.TxnOffsetCommitResponse
    return commits(
        a, r, r.TxnOffsetCommitResponseTopic, r.TxnOffsetCommitResponsePartition,
        (O.WRITE, TRANSACTION, a.body.transactional_id, NO_TRANSACTION), (O.READ, GROUP, a.body.group_id, NO_GROUP),
    )  # fmt: skip


def describe_producers(a: Asked) -> bool:
    r = m.DescribeProducersResponse
    a.body.topics, may_not = a.only(O.READ, a.body.topics)
    part = r.PartitionResponse
    refused = [
        r.TopicResponse(name=t.name, partitions=[part(partition_index=p, error_code=NO_TOPIC) for p in t.partition_indexes])
        for t in may_not
    ]  # fmt: skip
    if refused:
        a.then(lambda answer: answer.topics.extend(refused))
    return False


def describe(a: Asked) -> bool:
    """A transaction shows those of its topics that the caller may know of."""
    state = m.DescribeTransactionsResponse.TransactionState
    may_not = [i for i in a.body.transactional_ids if not a.may(O.DESCRIBE, TRANSACTION, i)]
    a.body.transactional_ids = [i for i in a.body.transactional_ids if i not in may_not]

    def amend(answer: m.DescribeTransactionsResponse) -> None:
        for shown in answer.transaction_states:
            shown.topics = [t for t in shown.topics if a.may(O.DESCRIBE, TOPIC, t.topic)]
        answer.transaction_states.extend(state(error_code=NO_TRANSACTION, transactional_id=i) for i in may_not)

    a.then(amend)
    return False


def list_all(a: Asked) -> bool:
    def amend(answer: m.ListTransactionsResponse) -> None:
        answer.transaction_states = [
            t for t in answer.transaction_states if a.may(O.DESCRIBE, TRANSACTION, t.transactional_id)
        ]

    a.then(amend)
    return False


GUARDS: dict[int, Guard] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: add_offsets,
    ApiKey.END_TXN: end,
    ApiKey.WRITE_TXN_MARKERS: write_markers,
    ApiKey.TXN_OFFSET_COMMIT: commit_offsets,
    ApiKey.DESCRIBE_PRODUCERS: describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: describe,
    ApiKey.LIST_TRANSACTIONS: list_all,
}
