"""Authorization of the administration of topics: only authorized topics are forwarded to the controller, and the others have an error."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from brokerd.authz.auth_helper import MESSAGE
from brokerd.cluster.metadata import RequestCompleted
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from tests.unit.authz.scene import Broker
from tests.unit.replication.test_relocations import TP

TOPIC, CLUSTER = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class Admin(Broker):
    """With a controller that accepts everything."""

    def controller(self, payload: Any, timeout_ms: int, done: Any) -> None:
        super().controller(payload, timeout_ms, done)
        done(RequestCompleted("r", 0, "", {"results": [{"name": i.name, "error": 0} for i in payload.items]}))

    def names(self) -> list[str | None]:
        """The items that the controller received."""
        return [i.name for payload in self.forwarded for i in payload.items]


def create(*names: str) -> m.CreateTopicsRequest:
    r = m.CreateTopicsRequest
    return r([r.CreatableTopic(name=n, num_partitions=1, replication_factor=1) for n in names], timeout_ms=1_000)


@pytest.mark.parametrize(
    ("rule", "created"),
    [
        ("describe topic a", []),
        ("create topic a", ["a"]),
        ("create topic *", ["a", "b"]),
        ("create cluster kafka-cluster", ["a", "b"]),
    ],
)
def test_topics_are_created_with_the_permission_on_the_cluster_or_on_their_names(rule: str, created: list[str]) -> None:
    broker = Admin()
    broker.allow(rule)
    topics = broker.send_request(ApiKey.CREATE_TOPICS, 7, create("b", "a")).topics
    assert sorted(n or "" for n in broker.names()) == created
    assert {t.name: (t.error_code, t.error_message) for t in topics} == {
        n: (0, None) if n in created else (TOPIC, MESSAGE) for n in ("a", "b")
    }
    assert [t.name for t in topics if t.name not in created] == [t.name for t in topics][len(created) :]


@pytest.mark.parametrize("version", [1, 5])
def test_authorized_topics_are_deleted_by_name(version: int) -> None:
    broker = Admin()
    broker.allow("delete topic t")
    body = m.DeleteTopicsRequest(topic_names=["u", "t"], timeout_ms=1_000)
    shown = broker.send_request(ApiKey.DELETE_TOPICS, version, body).responses
    assert [(t.name, t.error_code) for t in shown] == [("t", 0), ("u", TOPIC)] and broker.names() == ["t"]


@pytest.mark.parametrize(
    ("rules", "name", "error"),
    [
        ([], None, TOPIC),
        (["describe topic t"], "t", TOPIC),
        (["delete topic t"], "t", 0),
    ],
)
def test_a_topic_is_deleted_by_id_and_its_name_is_returned_with_describe_permission(
    rules: list[str], name: str | None, error: int
) -> None:
    broker, topic = Admin(), m.DeleteTopicsRequest.DeleteTopicState
    broker.allow(*rules)
    body = m.DeleteTopicsRequest(topics=[topic(None, TP.topic_id), topic(None, UUID(int=99))], timeout_ms=1_000)
    shown = {t.topic_id: (t.name, t.error_code) for t in broker.send_request(ApiKey.DELETE_TOPICS, 6, body).responses}
    assert shown[TP.topic_id] == (name, error)
    assert ("t" in broker.names()) == (not error)


def test_an_unauthorized_topic_given_by_name_is_answered_by_name() -> None:
    broker, topic = Admin(), m.DeleteTopicsRequest.DeleteTopicState
    (shown,) = broker.send_request(ApiKey.DELETE_TOPICS, 6, m.DeleteTopicsRequest(topics=[topic("t")])).responses
    assert (shown.name, shown.error_code) == ("t", TOPIC) and not broker.forwarded


def test_partitions_are_added_to_authorized_topics() -> None:
    broker, r = Admin(), m.CreatePartitionsRequest
    broker.allow("alter topic t")
    body = r([r.CreatePartitionsTopic(n, 5, None) for n in ("u", "t")], timeout_ms=1_000)
    shown = broker.send_request(ApiKey.CREATE_PARTITIONS, 3, body).results
    assert [(t.name, t.error_code) for t in shown] == [("t", 0), ("u", TOPIC)] and broker.names() == ["t"]


def test_reassignments_elections_and_features_need_a_permission_on_the_cluster() -> None:
    broker, moves = Admin(), m.AlterPartitionReassignmentsRequest
    part = moves.ReassignablePartition(0, [1])
    move = moves(1_000, topics=[moves.ReassignableTopic("t", [part])])
    elect = m.ElectLeadersRequest(0, [m.ElectLeadersRequest.TopicPartitions("t", [0])], 1_000)
    update = m.UpdateFeaturesRequest(1_000, [m.UpdateFeaturesRequest.FeatureUpdateKey("transaction.version", 1, 1)])
    shown = m.ListPartitionReassignmentsRequest(topics=None)
    calls: list[tuple[ApiKey, int, Any]] = [
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, move),
        (ApiKey.ELECT_LEADERS, 2, elect),
        (ApiKey.UPDATE_FEATURES, 1, update),
    ]
    for allowed in (False, True):
        for key, version, body in [*calls, (ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, shown)]:
            assert broker.send_request(key, version, body).error_code == (0 if allowed else CLUSTER)
        assert len(broker.forwarded) == (len(calls) if allowed else 0)
        broker.allow("alter cluster kafka-cluster")


def test_each_partition_of_an_unauthorized_election_has_the_error() -> None:
    topics = [m.ElectLeadersRequest.TopicPartitions("t", [0, 3])]
    shown = Admin().send_request(ApiKey.ELECT_LEADERS, 2, m.ElectLeadersRequest(0, topics, 1_000))
    (results,) = [t.partition_result for t in shown.replica_election_results]
    assert [(p.partition_id, p.error_code, p.error_message) for p in results] == [
        (0, CLUSTER, MESSAGE),
        (3, CLUSTER, MESSAGE),
    ]
