"""ElectLeaders at a broker: the request to the controller, and the Kafka error codes of its results."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from brokerd.apis.elections import ElectionsApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import RequestCompleted
from brokerd.cluster.model import (
    NO_BROKER_EPOCH,
    NO_LEADER,
    BrokerState,
    PartitionState,
    ReplicaIncarnation,
    TopicState,
)
from brokerd.wire.messages import ElectLeadersRequest as Wanted
from brokerd.wire.messages import ElectLeadersResponse as Response
from tests.unit.stored_requests import recorder


class Broker:
    def __init__(self) -> None:
        self.image = Image()
        self.image.brokers[1] = BrokerState(1, 11, "u", "h", 1)
        isr_members = (ReplicaIncarnation(1, 11), ReplicaIncarnation(2, 12))
        topic = TopicState(UUID(int=1), "t", 1, {}, 3, ready=True)
        topic.partitions[0] = PartitionState((1, 2), isr_members, 1, 11)
        topic.partitions[1] = PartitionState((2, 1), isr_members, 1, 11)
        topic.partitions[2] = PartitionState((2, 1), (), NO_LEADER, NO_BROKER_EPOCH, last_isr=(2,))
        self.image.topics[topic.topic_id], self.image.topic_ids["t"] = topic, topic.topic_id
        self.requested: list[Any] = []
        self.reported: list[Response] = []
        self.api = ElectionsApi(lambda: self.image, recorder(self.requested), ALLOW_ALL)

    def send_request(self, partitions: dict[str, list[int]] | None, kind: int = 0, version: int = 2) -> None:
        wanted = None if partitions is None else [Wanted.TopicPartitions(t, i) for t, i in partitions.items()]
        request = SimpleNamespace(
            body=Wanted(kind, wanted, 5_000),
            reply=self.reported.append,
            principal="User:ann",
            header=SimpleNamespace(api_version=version),
        )
        self.api.elect(request)  # type: ignore[arg-type]

    def respond(self, **result: Any) -> dict[str, list[tuple[int, int]]]:
        _, payload, _, done = self.requested.pop()
        results = [{"name": t["name"], "error": 0, "message": None, **result} for t in payload["topics"]]
        done(RequestCompleted("r", 0, None, {"results": results}))
        return {
            t.topic: [(p.partition_id, p.error_code) for p in t.partition_result]
            for t in self.reported.pop().replica_election_results
        }


def test_each_requested_partition_gets_the_controllers_result() -> None:
    broker = Broker()
    broker.send_request({"t": [1, 0, 1]}, kind=1)
    _, payload, timeout_ms, _ = broker.requested[0]
    assert payload == {
        "topics": [{"name": "t", "partitions": [0, 1]}],
        "validate_only": False,
        "principal": "User:ann",
        "unclean": True,
    }
    assert timeout_ms == 5_000
    assert broker.respond(partitions=[[0, 84], [1, 0]]) == {"t": [(0, 84), (1, 0)]}


def test_without_a_controller_response_each_partition_has_an_error() -> None:
    broker = Broker()
    broker.send_request({"t": [0, 1]})
    _, _, _, done = broker.requested.pop()
    done(None)
    assert [p.error_code for p in broker.reported[0].replica_election_results[0].partition_result] == [7, 7]


def test_a_request_for_all_partitions_elects_only_where_needed() -> None:
    broker = Broker()
    broker.send_request(None)
    assert broker.requested.pop()[1]["topics"] == [{"name": "t", "partitions": [1, 2]}]
    broker.send_request(None, kind=1)
    assert broker.requested.pop()[1]["topics"] == [{"name": "t", "partitions": [2]}]


def test_a_request_without_needed_elections_is_answered_immediately() -> None:
    broker = Broker()
    broker.image.topics.clear()
    broker.send_request(None)
    assert broker.reported == [Response()]
    assert not broker.requested


def test_version_0_has_preferred_elections_only_and_an_unknown_type_is_rejected() -> None:
    broker = Broker()
    broker.send_request({"t": [0]}, kind=1, version=0)
    assert broker.requested.pop()[1]["unclean"] is False
    broker.send_request({"t": [0]}, kind=7)
    assert broker.reported.pop().error_code == 42
    assert not broker.requested
