"""Authorization of the transaction APIs at the leaders of partitions: markers, offset commits, producers."""

from __future__ import annotations

import pytest

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from tests.unit.apis.test_transactions import CLUSTER, GROUP, LOADING, TOPIC, TRANSACTION, WRITE_X
from tests.unit.authz.scene import Broker, UnusedComponent


def test_markers_are_written_by_brokers() -> None:
    broker, r = Broker(), m.WriteTxnMarkersRequest
    topic = r.WritableTxnMarkerTopic(name="t", partition_indexes=[0])
    marker = r.WritableTxnMarker(producer_id=5, transaction_result=True, topics=[topic])
    (result,) = broker.send_request(ApiKey.WRITE_TXN_MARKERS, 1, r(markers=[marker])).markers
    assert [(p.partition_index, p.error_code) for t in result.topics for p in t.partitions] == [(0, CLUSTER)]
    assert result.producer_id == 5 and broker.log.end_offset == 0


def commit_offsets(rules: list[str], *names: str) -> dict[str, int]:
    """The errors of an offset commit in a transaction, with a group coordinator that is loading."""
    groups = UnusedComponent(
        "groups", partition_count=lambda topic: 1, metadata_bytes_max=100, find=lambda group_id: (0, None, LOADING)
    )
    broker, r = Broker(groups=groups), m.TxnOffsetCommitRequest
    broker.allow(*rules)
    part = r.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    topics = [r.TxnOffsetCommitRequestTopic(name=n, partitions=[part]) for n in names]
    response = broker.send_request(ApiKey.TXN_OFFSET_COMMIT, 3, r(transactional_id="x", group_id="g", topics=topics))
    return {t.name: t.partitions[0].error_code for t in response.topics}


@pytest.mark.parametrize(
    ("rules", "errors"),
    [
        (["read group g", "read topic *"], {"t": TRANSACTION, "u": TRANSACTION}),
        ([WRITE_X, "read topic *"], {"t": GROUP, "u": GROUP}),
        ([WRITE_X, "read group g"], {"t": TOPIC, "u": TOPIC}),
        ([WRITE_X, "read group g", "read topic t"], {"t": LOADING, "u": TOPIC}),
    ],
)
def test_committing_offsets_in_a_transaction_needs_permission(rules: list[str], errors: dict[str, int]) -> None:
    assert commit_offsets(rules, "t", "u") == errors


@pytest.mark.parametrize("rules", [["read group g"], [WRITE_X]])
def test_an_unauthorized_offset_commit_without_topics_does_not_reach_the_group(rules: list[str]) -> None:
    broker, r = Broker(groups=UnusedComponent("groups")), m.TxnOffsetCommitRequest
    broker.allow(*rules)
    assert broker.send_request(ApiKey.TXN_OFFSET_COMMIT, 3, r(transactional_id="x", group_id="g")).topics == []


def test_producers_of_authorized_topics_are_described() -> None:
    broker, r = Broker(), m.DescribeProducersRequest
    broker.allow("read topic t")
    body = r(topics=[r.TopicRequest(name=n, partition_indexes=[0]) for n in ("u", "t")])
    shown = broker.send_request(ApiKey.DESCRIBE_PRODUCERS, 0, body).topics
    assert [(t.name, t.partitions[0].error_code) for t in shown] == [("t", 0), ("u", TOPIC)]
