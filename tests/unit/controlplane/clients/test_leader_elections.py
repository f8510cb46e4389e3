"""ElectLeaders and the read-back of leaders: what is sent, which broker is asked, and when it ends."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.clients import leader_elections as client
from controlplane.clients.all_brokers import BrokerAddress
from controlplane.clients.connection import Declined, NoResponse

BROKERS = [BrokerAddress(1, "a", 1), BrokerAddress(2, "b", 2)]
ORDERS = [("orders", 0), ("orders", 1)]


class Cluster:
    """`responses`: per host the responses in their order; an exception is raised. The last one is repeated."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **responses: list[Any]) -> None:
        self.responses, self.asked = responses, list[tuple[str, ApiKey, Any]]()
        monkeypatch.setattr(client, "KafkaConnection", lambda host, port: Link(self, host))
        monkeypatch.setattr(client, "RETRY_SECONDS", 0.0)


class Link:
    def __init__(self, cluster: Cluster, host: str) -> None:
        self._cluster, self._host = cluster, host

    def call(self, api: ApiKey, version: int, body: Any, timeout_s: float = 1.0) -> Any:
        self._cluster.asked.append((self._host, api, body))
        given = self._cluster.responses[self._host]
        response = given.pop(0) if len(given) > 1 else given[0]
        if isinstance(response, Exception):
            raise response
        return response

    def close(self) -> None:
        pass


def elect_leaders_response(*codes: ErrorCode, error: ErrorCode = ErrorCode.NONE) -> m.ElectLeadersResponse:
    r = m.ElectLeadersResponse
    results = [r.PartitionResult(partition_id=i, error_code=code) for i, code in enumerate(codes)]
    return r(
        error_code=error,
        replica_election_results=[r.ReplicaElectionResult(topic="orders", partition_result=results)],
    )


def metadata_with_leaders(*leaders: int) -> m.MetadataResponse:
    r = m.MetadataResponse
    partitions = [r.MetadataResponsePartition(partition_index=i, leader_id=b) for i, b in enumerate(leaders)]
    return r(topics=[r.MetadataResponseTopic(name="orders", partitions=partitions)])


def test_one_request_asks_for_a_preferred_election(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, a=[elect_leaders_response(ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED)])
    assert client.elect_preferred(BROKERS, ORDERS) == {
        ("orders", 0): ErrorCode.NONE,
        ("orders", 1): ErrorCode.ELECTION_NOT_NEEDED,
    }
    ((host, api, body),) = cluster.asked
    assert (host, api, body.election_type) == ("a", ApiKey.ELECT_LEADERS, client.PREFERRED)
    assert [(t.topic, t.partitions) for t in body.topic_partitions] == [("orders", [0, 1])]


def test_the_next_broker_is_asked_and_an_error_of_the_request_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, a=[NoResponse("frozen")], b=[elect_leaders_response(ErrorCode.NONE, ErrorCode.NONE)])
    assert len(client.elect_preferred(BROKERS, ORDERS)) == 2 and [c[0] for c in cluster.asked] == ["a", "b"]
    cluster = Cluster(monkeypatch, a=[elect_leaders_response(error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)])
    with pytest.raises(Declined, match="cluster authorization failed"):
        client.elect_preferred(BROKERS, ORDERS)
    assert len(cluster.asked) == 1
    Cluster(monkeypatch, a=[NoResponse("frozen")], b=[NoResponse("gone")])
    with pytest.raises(NoResponse, match="gone"):
        client.elect_preferred(BROKERS, ORDERS)
    with pytest.raises(NoResponse, match="no broker is up"):
        client.elect_preferred([], ORDERS)


def test_leaders_are_read_until_they_are_as_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {("orders", 0): 1, ("orders", 1): 3}
    cluster = Cluster(monkeypatch, a=[metadata_with_leaders(2, 3, 9), metadata_with_leaders(1, 3, 9)])
    assert client.read_back(BROKERS, expected) == expected and len(cluster.asked) == 2
    assert not cluster.asked[0][2].allow_auto_topic_creation
    monkeypatch.setattr(client, "READ_BACK_SECONDS", 0.0)
    Cluster(monkeypatch, a=[metadata_with_leaders(2, -1)])
    assert client.read_back(BROKERS, expected) == {("orders", 0): 2, ("orders", 1): None}


def test_the_read_back_needs_one_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    Cluster(monkeypatch, a=[NoResponse("frozen")], b=[metadata_with_leaders(1)])
    assert client.read_back(BROKERS, {("orders", 0): 1}) == {("orders", 0): 1}
    Cluster(monkeypatch, a=[NoResponse("frozen")], b=[NoResponse("gone")])
    with pytest.raises(NoResponse, match="gone"):
        client.read_back(BROKERS, {("orders", 0): 1})
