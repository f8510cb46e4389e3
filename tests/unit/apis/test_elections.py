"""ElectLeaders at a broker: what is asked of the controller, and Kafka's words for what it says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from brokerd.apis.elections import ElectionsApi
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import RequestAnswered
from brokerd.cluster.model import NO_INCARNATION, NO_LEADER, BrokerState, PartitionState, Seat, TopicState
from brokerd.wire.messages import ElectLeadersRequest as Wanted
from brokerd.wire.messages import ElectLeadersResponse as Told


class Broker:
    def __init__(self) -> None:
        self.image = Image()
        self.image.brokers[1] = BrokerState(1, 11, "u", "h", 1)
        seats = (Seat(1, 11), Seat(2, 12))
        topic = TopicState(UUID(int=1), "t", 1, {}, 3, ready=True)
        topic.partitions[0] = PartitionState((1, 2), seats, 1, 11)
        topic.partitions[1] = PartitionState((2, 1), seats, 1, 11)
        topic.partitions[2] = PartitionState((2, 1), (), NO_LEADER, NO_INCARNATION, last_isr=(2,))
        self.image.topics[topic.topic_id], self.image.topic_ids["t"] = topic, topic.topic_id
        self.asked: list[Any] = []
        self.told: list[Told] = []
        self.api = ElectionsApi(lambda: self.image, lambda *question: self.asked.append(question))

    def ask(self, partitions: dict[str, list[int]] | None, kind: int = 0, version: int = 2) -> None:
        wanted = None if partitions is None else [Wanted.TopicPartitions(t, i) for t, i in partitions.items()]
        request = SimpleNamespace(
            body=Wanted(kind, wanted, 5_000), reply=self.told.append, principal="User:ann",
            header=SimpleNamespace(api_version=version),
        )  # fmt: skip
        self.api.elect(request)  # type: ignore[arg-type]

    def answer(self, **result: Any) -> dict[str, list[tuple[int, int]]]:
        _, payload, _, done = self.asked.pop()
        results = [{"name": t["name"], "error": 0, "message": None, **result} for t in payload["topics"]]
        done(RequestAnswered("r", 0, None, {"results": results}))
        return {
            t.topic: [(p.partition_id, p.error_code) for p in t.partition_result]
            for t in self.told.pop().replica_election_results
        }


def test_each_named_partition_gets_the_controllers_verdict() -> None:
    broker = Broker()
    broker.ask({"t": [1, 0, 1]}, kind=1)
    _, payload, timeout_ms, _ = broker.asked[0]
    assert payload == {
        "topics": [{"name": "t", "partitions": [0, 1]}], "validate_only": False, "principal": "User:ann", "unclean": True,
    }  # fmt: skip
    assert timeout_ms == 5_000
    assert broker.answer(partitions=[[0, 84], [1, 0]]) == {"t": [(0, 84), (1, 0)]}


def test_a_controller_that_does_not_answer_is_told_of_each_partition() -> None:
    broker = Broker()
    broker.ask({"t": [0, 1]})
    _, _, _, done = broker.asked.pop()
    done(None)
    assert [p.error_code for p in broker.told[0].replica_election_results[0].partition_result] == [7, 7]


def test_where_all_are_meant_only_those_are_asked_for_that_need_it() -> None:
    broker = Broker()
    broker.ask(None)
    assert broker.asked.pop()[1]["topics"] == [{"name": "t", "partitions": [1, 2]}]
    broker.ask(None, kind=1)
    assert broker.asked.pop()[1]["topics"] == [{"name": "t", "partitions": [2]}]


def test_nothing_to_do_is_answered_at_once() -> None:
    broker = Broker()
    broker.image.topics.clear()
    broker.ask(None)
    assert broker.told == [Told()]
    assert not broker.asked


def test_version_0_knows_preferred_elections_only_and_another_kind_is_refused() -> None:
    broker = Broker()
    broker.ask({"t": [0]}, kind=1, version=0)
    assert broker.asked.pop()[1]["unclean"] is False
    broker.ask({"t": [0]}, kind=7)
    assert broker.told.pop().error_code == 42
    assert not broker.asked
