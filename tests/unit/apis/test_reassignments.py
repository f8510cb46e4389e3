"""AlterPartitionReassignments and ListPartitionReassignments: shapes, and what is forwarded. What comes of it: tests/unit/controlplane/test_reassignments.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from brokerd.apis.reassignments import ReassignmentsApi
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import PartitionChanged, RequestAnswered, TopicCreated, TopicReady
from brokerd.cluster.model import PartitionState, Seat
from brokerd.wire.messages import AlterPartitionReassignmentsRequest as Alter
from brokerd.wire.messages import ListPartitionReassignmentsRequest as List

T = UUID(int=3)


def image() -> Image:
    image = Image()
    still = PartitionState((1, 2), (Seat(1, 11), Seat(2, 12)), 1, 11)
    moving = PartitionState((3, 2, 1), (Seat(1, 11), Seat(2, 12)), 1, 11, 1, 1, adding=(3,), removing=(1,))
    for record in (
        TopicCreated(T, "t", 1, {}, 2), PartitionChanged(T, 0, still), PartitionChanged(T, 1, moving), TopicReady(T),
    ):  # fmt: skip
        image.apply(record)
    return image


class Asked:
    """What the controller was asked, and its answer: no to partition 1."""

    def __init__(self) -> None:
        self.payloads: list[Any] = []
        self.api = ReassignmentsApi(image, self.ask)

    def ask(self, kind: str, payload: Any, timeout_ms: int, done: Any) -> None:
        self.payloads.append((kind, payload["topics"], timeout_ms))
        results = [
            {"name": t["name"], "error": 60 if t["partition"] == 1 else 0, "message": "busy" if t["partition"] == 1 else None}
            for t in payload["topics"]
        ]  # fmt: skip
        done(RequestAnswered("r", 0, None, {"results": results}))

    def reply(self, handler: Any, body: Any) -> Any:
        answers: list[Any] = []
        handler(SimpleNamespace(body=body, reply=answers.append, principal="User:kim"))
        (answer,) = answers
        return answer


def test_each_partition_is_forwarded_and_answered_and_null_stays_null() -> None:
    asked = Asked()
    part = Alter.ReassignablePartition
    body = Alter(
        timeout_ms=9_000, topics=[Alter.ReassignableTopic(name="t", partitions=[part(0, [2, 3]), part(1, None)])]
    )
    answer = asked.reply(asked.api.alter, body)
    ((kind, items, timeout),) = asked.payloads
    assert (kind, timeout) == ("alter_reassignments", 9_000)
    assert [(i["name"], i["topic"], i["partition"], i["replicas"]) for i in items] == [
        ("t-0", "t", 0, [2, 3]), ("t-1", "t", 1, None),
    ]  # fmt: skip
    (topic,) = answer.responses
    assert [(p.partition_index, p.error_code, p.error_message) for p in topic.partitions] == [
        (0, 0, None),
        (1, 60, "busy"),
    ]


def test_a_change_of_the_number_of_replicas_may_be_forbidden() -> None:
    asked = Asked()
    part = Alter.ReassignablePartition
    topics = [Alter.ReassignableTopic(name="t", partitions=[part(0, [2]), part(1, [3, 1])])]
    answer = asked.reply(asked.api.alter, Alter(allow_replication_factor_change=False, topics=topics))
    assert [p.error_code for p in answer.responses[0].partitions] == [38, 60]
    assert [i["name"] for i in asked.payloads[0][1]] == ["t-1"]


def test_what_is_under_way_is_listed_of_all_topics_or_of_those_named() -> None:
    asked = Asked()
    (topic,) = asked.reply(asked.api.list, List(topics=None)).topics
    (moving,) = topic.partitions
    assert (topic.name, moving.partition_index) == ("t", 1)
    assert (moving.replicas, moving.adding_replicas, moving.removing_replicas) == ([3, 2, 1], [3], [1])
    named = List.ListPartitionReassignmentsTopics
    assert asked.reply(asked.api.list, List(topics=[named("t", [0]), named("unknown", [0])])).topics == []
    assert len(asked.reply(asked.api.list, List(topics=[named("t", [1, 1, 7])])).topics[0].partitions) == 1
