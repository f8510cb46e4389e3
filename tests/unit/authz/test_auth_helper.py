"""Authorization inside handlers: AuthHelper, Produce and Fetch. A handler answers unauthorized resources in its own response schema."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import ALLOW_ALL, AuthHelper
from brokerd.net.inter_broker import LoopbackRequest
from brokerd.net.rejections import Denial
from brokerd.wire import framing, records
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.records import Record
from tests.unit.authz.scene import Broker, respond
from tests.unit.replication.test_relocations import TP


def batch() -> memoryview:
    return memoryview(bytearray(records.build([Record(0, 1_000, b"k", b"v")])))


def produce_request(*topics: str | UUID, acks: int = 1, transactional_id: str | None = None) -> m.ProduceRequest:
    r = m.ProduceRequest
    named = [{"topic_id": t} if isinstance(t, UUID) else {"name": t} for t in topics]
    data = [
        r.TopicProduceData(partition_data=[r.PartitionProduceData(index=0, records=batch())], **n)  # type: ignore[arg-type]
        for n in named
    ]
    return r(transactional_id=transactional_id, acks=acks, timeout_ms=1_000, topic_data=data)


def fetch_request(*topics: str, wait_ms: int = 0) -> m.FetchRequest:
    r = m.FetchRequest
    requested = [
        r.FetchTopic(topic=t, partitions=[r.FetchPartition(partition=0, partition_max_bytes=1_000)]) for t in topics
    ]
    return r(replica_id=-1, max_wait_ms=wait_ms, min_bytes=1, max_bytes=1_000, topics=requested, session_epoch=-1)


def errors(response: m.ProduceResponse) -> dict[str, int]:
    return {t.name: p.error_code for t in response.responses for p in t.partition_responses}


def test_a_producer_writes_the_authorized_topics_of_its_request() -> None:
    broker = Broker()
    broker.set_acl("k", "allow User:alice * write topic t")
    reported = respond(broker.send(ApiKey.PRODUCE, 9, produce_request("u", "t")), ApiKey.PRODUCE, 9)
    assert errors(reported) == {"u": ErrorCode.TOPIC_AUTHORIZATION_FAILED, "t": 0}
    assert broker.log.end_offset == 1


def test_with_acks_0_an_unauthorized_topic_closes_the_connection_and_nothing_is_written() -> None:
    broker = Broker()
    broker.set_acl("k", "allow User:alice * write topic t")
    connection = broker.send(ApiKey.PRODUCE, 9, produce_request("t", "u", acks=0))
    assert connection.closed and connection.parts is None and broker.log.end_offset == 0


def test_an_unauthorized_transactional_id_rejects_all_topics() -> None:
    broker = Broker()
    broker.set_acl("k", "allow User:alice * write topic t")
    request = produce_request("t", transactional_id="x")
    reported = respond(broker.send(ApiKey.PRODUCE, 9, request), ApiKey.PRODUCE, 9)
    assert errors(reported) == {"t": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}
    broker.set_acl("l", "allow User:alice * write transactional_id x")
    reported = respond(broker.send(ApiKey.PRODUCE, 9, request), ApiKey.PRODUCE, 9)
    assert errors(reported) == {"t": 0}


def test_topics_named_by_id_are_authorized_by_their_names() -> None:
    broker = Broker()
    ids = (TP.topic_id, UUID(int=99))

    def produce_errors() -> dict[UUID, int]:
        reported = respond(broker.send(ApiKey.PRODUCE, 13, produce_request(*ids)), ApiKey.PRODUCE, 13)
        return {t.topic_id: t.partition_responses[0].error_code for t in reported.responses}

    unknown = ErrorCode.UNKNOWN_TOPIC_ID
    assert produce_errors() == {ids[0]: ErrorCode.TOPIC_AUTHORIZATION_FAILED, ids[1]: unknown}
    broker.set_acl("k", "allow User:alice * write topic t")
    assert produce_errors() == {ids[0]: 0, ids[1]: unknown}


def test_a_fetch_with_an_unauthorized_topic_is_answered_without_waiting() -> None:
    broker = Broker()
    broker.set_acl("k", "allow User:alice * read topic t")
    reported = respond(broker.send(ApiKey.FETCH, 11, fetch_request("t", "u", wait_ms=10_000)), ApiKey.FETCH, 11)
    found = {t.topic: p.error_code for t in reported.responses for p in t.partitions}
    assert found == {"t": 0, "u": ErrorCode.TOPIC_AUTHORIZATION_FAILED}


@pytest.mark.parametrize("revoked", [False, True])
def test_a_waiting_fetch_is_authorized_again_when_it_is_answered(revoked: bool) -> None:
    broker = Broker()
    broker.set_acl("k", "allow User:alice * read topic t")
    connection = broker.send(ApiKey.FETCH, 11, fetch_request("t", wait_ms=10_000))
    assert connection.blocked and connection.parts is None
    if revoked:
        broker.set_acl("k", None)
    broker.harness.append()
    broker.harness.replica_manager.purgatory.expire(1 << 60)
    (shown,) = respond(connection, ApiKey.FETCH, 11).responses[0].partitions
    expected = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1) if revoked else (0, 1)
    assert (shown.error_code, shown.high_watermark) == expected
    assert sum(isinstance(p, framing.FileRegion) for p in connection.parts) == (0 if revoked else 1)


def test_a_follower_needs_cluster_action() -> None:
    broker = Broker()
    body = fetch_request("t")
    body.replica_id = 1
    reported = respond(broker.send(ApiKey.FETCH, 11, body), ApiKey.FETCH, 11)
    assert reported.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    broker.set_acl("k", "allow User:alice * cluster_action cluster kafka-cluster")
    reported = respond(broker.send(ApiKey.FETCH, 11, body), ApiKey.FETCH, 11)
    assert reported.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_handler_that_authorizes_nothing_cannot_respond() -> None:
    broker = Broker()
    broker.handlers[ApiKey.FETCH] = lambda request: request.reply(m.FetchResponse())
    connection = broker.send(ApiKey.FETCH, 11, fetch_request("t"))
    assert connection.closed and connection.parts is None


def test_the_broker_itself_and_a_cluster_without_authorizer_need_no_permission() -> None:
    broker = Broker()
    auth = AuthHelper(broker.authorizer)
    header = framing.RequestHeader(ApiKey.FETCH, 11, 7, "c")
    own: Any = LoopbackRequest(header, None, lambda body: None)
    client: Any = SimpleNamespace(principal=own.principal, client_host="10.0.0.1", from_privileged_listener=False)
    assert auth.authorize(own, Operation.CLUSTER_ACTION, Resource.CLUSTER)
    assert auth.authorized_operations(client, Resource.CLUSTER) == 0 and not hasattr(client, "denial")
    assert not auth.authorize(client, Operation.CLUSTER_ACTION, Resource.CLUSTER)
    assert client.denial == Denial(31, "CLUSTER_ACTION", "CLUSTER", "kafka-cluster")
    assert ALLOW_ALL.authorize(client, Operation.CLUSTER_ACTION, Resource.CLUSTER) and not ALLOW_ALL.enabled


def test_items_without_a_name_are_authorized() -> None:
    broker = Broker()
    broker.set_acl("k", "allow User:alice * read topic t")
    client: Any = SimpleNamespace(principal="User:alice", client_host="10.0.0.1", from_privileged_listener=False)
    auth = AuthHelper(broker.authorizer)
    names = {1: "t", 2: "u", 3: None}
    assert auth.partition_by_authorized(client, Operation.READ, Resource.TOPIC, names, names.get) == ([1, 3], [2])
    assert auth.filter_by_authorized(client, Operation.READ, Resource.TOPIC, names, names.get) == [1, 3]
