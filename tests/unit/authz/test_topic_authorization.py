"""Authorization of APIs on topics: Metadata, DescribeTopicPartitions, DescribeCluster, ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from brokerd.authz.acls import SUPPORTED, Operation, Resource
from brokerd.cluster.metadata import PartitionChanged, TopicCreated, TopicReady
from brokerd.cluster.model import PartitionState, ReplicaIncarnation
from brokerd.cluster.requests import CreateTopics
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from tests.unit.authz.scene import Broker
from tests.unit.replication.test_relocations import TP

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ALL_TOPIC_OPERATIONS = sum(1 << o for o in SUPPORTED[Resource.TOPIC])
ALL_CLUSTER_OPERATIONS = sum(1 << o for o in SUPPORTED[Resource.CLUSTER])
UNKNOWN = -(2**31)


def broker_with(*names: str, **settings: Any) -> Broker:
    """Also with these topics, of one partition each."""
    broker = Broker(**settings)
    state = PartitionState((1,), (ReplicaIncarnation(1, 11),), 1, 11)
    for name in names:
        topic_id = UUID(int=100 + ord(name[0]))
        for record in (
            TopicCreated(topic_id, name, 1, {}, 1),
            PartitionChanged(topic_id, 0, state),
            TopicReady(topic_id),
        ):
            broker.image.apply(record)
    return broker


def metadata(*names: str, create: bool = False, **more: Any) -> m.MetadataRequest:
    topics = [m.MetadataRequest.MetadataRequestTopic(name=n) for n in names]
    return m.MetadataRequest(topics=topics, allow_auto_topic_creation=create, **more)


def error_codes_by_topic(response: m.MetadataResponse) -> dict[str | None, int]:
    return {t.name: t.error_code for t in response.topics}


# -- metadata --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", [0, 1, 8, 12])
def test_all_topics_are_those_that_the_caller_may_describe(version: int) -> None:
    broker = broker_with("u")
    broker.allow("describe topic t")
    everything = m.MetadataRequest(topics=[] if version == 0 else None)
    assert error_codes_by_topic(broker.send_request(ApiKey.METADATA, version, everything)) == {"t": 0}


@pytest.mark.parametrize("version", [0, 1, 8, 12])
def test_a_caller_that_names_only_unauthorized_topics_does_not_get_all_topics(version: int) -> None:
    assert error_codes_by_topic(broker_with("u").send_request(ApiKey.METADATA, version, metadata("u"))) == {"u": DENIED}


@pytest.mark.parametrize(
    ("rules", "error", "created"),
    [
        ([], DENIED, False),
        (["describe topic new"], DENIED, False),
        (["describe topic new", "create topic new"], ErrorCode.LEADER_NOT_AVAILABLE, True),
        (["describe topic new", "create cluster kafka-cluster"], ErrorCode.LEADER_NOT_AVAILABLE, True),
        (["create cluster kafka-cluster"], DENIED, False),
    ],
)
def test_a_topic_is_created_for_a_caller_that_may_describe_and_create_it(
    rules: list[str], error: int, created: bool
) -> None:
    broker = Broker()
    broker.allow("describe topic t", *rules)
    assert error_codes_by_topic(broker.send_request(ApiKey.METADATA, 9, metadata("new", "t", create=True))) == {
        "new": error,
        "t": 0,
    }
    assert [type(p) for p in broker.forwarded] == [CreateTopics] * created


def test_without_creation_an_absent_topic_needs_describe_only() -> None:
    broker = Broker()
    broker.allow("describe topic new")
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert error_codes_by_topic(broker.send_request(ApiKey.METADATA, 9, metadata("new"))) == {"new": unknown}


def test_a_topic_requested_by_its_id_is_authorized_by_its_name_which_the_error_does_not_contain() -> None:
    broker, topic = Broker(), m.MetadataRequest.MetadataRequestTopic
    body = m.MetadataRequest(topics=[topic(TP.topic_id, None), topic(UUID(int=99), None)])

    def topics_of_metadata() -> list[tuple[UUID, str | None, int]]:
        return [(t.topic_id, t.name, t.error_code) for t in broker.send_request(ApiKey.METADATA, 12, body).topics]

    unknown = (UUID(int=99), None, ErrorCode.UNKNOWN_TOPIC_ID)
    assert topics_of_metadata() == [unknown, (TP.topic_id, None, DENIED)]
    broker.allow("describe topic t")
    assert topics_of_metadata() == [(TP.topic_id, "t", 0), unknown]


@pytest.mark.parametrize(("version", "name"), [(10, "mine"), (11, "mine"), (12, "mine"), (12, None), (10, "")])
def test_a_topic_requested_by_its_id_is_not_authorized_by_another_name_in_the_request(
    version: int, name: str | None
) -> None:
    broker = Broker()
    broker.allow("describe topic mine", "create topic mine")
    requested = m.MetadataRequest.MetadataRequestTopic(TP.topic_id, name)
    (shown,) = broker.send_request(ApiKey.METADATA, version, m.MetadataRequest(topics=[requested])).topics
    assert (shown.error_code, shown.name, shown.partitions) == (DENIED, None if version >= 12 else "", [])
    broker.allow("describe topic t")
    (shown,) = broker.send_request(ApiKey.METADATA, version, m.MetadataRequest(topics=[requested])).topics
    assert (shown.error_code, shown.name, len(shown.partitions)) == (0, "t", 1)


@pytest.mark.parametrize("secured", [True, False])
def test_authorized_operations_are_shown_on_request_with_and_without_an_authorizer(secured: bool) -> None:
    broker = Broker(**({} if secured else {"authorizer.class.name": ""}))
    broker.allow("read topic t", "describe topic t")
    plain = broker.send_request(ApiKey.METADATA, 9, metadata("t"))
    assert (plain.topics[0].topic_authorized_operations, plain.cluster_authorized_operations) == (UNKNOWN, UNKNOWN)
    both = metadata("t", include_topic_authorized_operations=True, include_cluster_authorized_operations=True)
    shown = broker.send_request(ApiKey.METADATA, 9, both)
    operations = 1 << Operation.READ | 1 << Operation.DESCRIBE if secured else ALL_TOPIC_OPERATIONS
    assert shown.topics[0].topic_authorized_operations == operations
    assert shown.cluster_authorized_operations == (0 if secured else ALL_CLUSTER_OPERATIONS)


@pytest.mark.parametrize(
    ("rules", "operations"),
    [
        ([], 0),
        (["create cluster kafka-cluster"], 0),
        (["describe cluster kafka-cluster"], 1 << Operation.DESCRIBE),
        (["alter cluster kafka-cluster"], 1 << Operation.ALTER | 1 << Operation.DESCRIBE),
    ],
)
def test_describe_cluster_shows_the_operations_on_the_cluster(rules: list[str], operations: int) -> None:
    broker = Broker()
    broker.allow(*rules)
    requested = m.DescribeClusterRequest(include_cluster_authorized_operations=True, endpoint_type=1)
    assert broker.send_request(ApiKey.DESCRIBE_CLUSTER, 1, requested).cluster_authorized_operations == operations
    requested.include_cluster_authorized_operations = False
    assert broker.send_request(ApiKey.DESCRIBE_CLUSTER, 1, requested).cluster_authorized_operations == UNKNOWN


# -- DescribeTopicPartitions -----------------------------------------------------------------------------------------------
def describe_topics(broker: Broker, *names: str, limit: int = 100) -> m.DescribeTopicPartitionsResponse:
    r = m.DescribeTopicPartitionsRequest
    body = r([r.TopicRequest(n) for n in names], response_partition_limit=limit)
    return broker.send_request(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body)  # type: ignore[no-any-return]


def test_named_topics_are_sorted_and_unauthorized_ones_have_an_error() -> None:
    broker = broker_with("u")
    assert [(t.name, t.error_code) for t in describe_topics(broker, "u").topics] == [("u", DENIED)]
    broker.allow("describe topic u", "describe topic none")
    shown = describe_topics(broker, "u", "t", "none")
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [(t.name, t.error_code) for t in shown.topics] == [("none", unknown), ("t", DENIED), ("u", 0)]


def test_without_names_pages_contain_authorized_topics_only() -> None:
    """The cursor also names authorized topics only: another name would disclose a topic that the caller may not describe."""
    broker = broker_with("s", "u", "v")
    broker.allow("describe topic t", "read topic v")
    first = describe_topics(broker, limit=1)
    assert [(t.name, t.topic_authorized_operations) for t in first.topics] == [("t", 1 << Operation.DESCRIBE)]
    assert first.next_cursor is not None and first.next_cursor.topic_name == "v"


# -- offsets ---------------------------------------------------------------------------------------------------------------
def epochs(*topics: str) -> m.OffsetForLeaderEpochRequest:
    r = m.OffsetForLeaderEpochRequest
    part = r.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    return r(replica_id=-2, topics=[r.OffsetForLeaderTopic(topic=t, partitions=[part]) for t in topics])


def test_offsets_are_listed_for_authorized_topics() -> None:
    broker, r = Broker(), m.ListOffsetsRequest
    broker.allow("describe topic t")
    part = r.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-2)
    body = r(replica_id=-1, topics=[r.ListOffsetsTopic(name=n, partitions=[part]) for n in ("u", "t")])
    shown = [
        (t.name, p.error_code, p.offset)
        for t in broker.send_request(ApiKey.LIST_OFFSETS, 7, body).topics
        for p in t.partitions
    ]
    assert shown == [("t", 0, 0), ("u", DENIED, -1)]


@pytest.mark.parametrize(
    ("rule", "errors"),
    [
        ("describe topic t", {"t": 0, "u": DENIED}),
        ("cluster_action cluster kafka-cluster", {"t": 0, "u": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}),
    ],
)
def test_leader_epochs_are_for_brokers_and_for_callers_that_may_describe_the_topic(
    rule: str, errors: dict[str, int]
) -> None:
    broker = Broker()
    broker.allow(rule)
    shown = broker.send_request(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, epochs("u", "t")).topics
    assert {t.topic: t.partitions[0].error_code for t in shown} == errors


def test_records_are_deleted_from_authorized_topics_only() -> None:
    broker, r = Broker(), m.DeleteRecordsRequest
    broker.harness.append(3)
    part = r.DeleteRecordsPartition(partition_index=0, offset=2)
    body = r(topics=[r.DeleteRecordsTopic(name=n, partitions=[part]) for n in ("u", "t")], timeout_ms=0)
    shown = broker.send_request(ApiKey.DELETE_RECORDS, 2, body).topics
    assert [(t.name, t.partitions[0].error_code) for t in shown] == [("u", DENIED), ("t", DENIED)]
    assert broker.log.start_offset == 0
    broker.allow("delete topic t")
    broker.send(ApiKey.DELETE_RECORDS, 2, body)  # answered when the log start is flushed
    assert broker.log.start_offset == 2
