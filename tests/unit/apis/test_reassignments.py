"""AlterPartitionReassignments and ListPartitionReassignments: shapes and forwarded requests. Their effect is tested
in tests/unit/controlplane/services/test_reassignments.py."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

from brokerd.apis.reassignments import ReassignmentsApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.cluster.image import Image
from brokerd.cluster.metadata import PartitionChanged, RequestCompleted, TopicCreated, TopicReady
from brokerd.cluster.model import PartitionState, ReplicaIncarnation
from brokerd.cluster.requests import AnyPayload
from brokerd.cluster.typed_json import encode
from brokerd.wire.messages import AlterPartitionReassignmentsRequest as Alter
from brokerd.wire.messages import ListPartitionReassignmentsRequest as List

T = UUID(int=3)


def image() -> Image:
    image = Image()
    still = PartitionState((1, 2), (ReplicaIncarnation(1, 11), ReplicaIncarnation(2, 12)), 1, 11)
    moving = PartitionState(
        (3, 2, 1), (ReplicaIncarnation(1, 11), ReplicaIncarnation(2, 12)), 1, 11, 1, 1, adding=(3,), removing=(1,)
    )
    for record in (
        TopicCreated(T, "t", 1, {}, 2),
        PartitionChanged(T, 0, still),
        PartitionChanged(T, 1, moving),
        TopicReady(T),
    ):
        image.apply(record)
    return image


class ControllerStub:
    """The request to the controller, and its response: an error for partition 1."""

    def __init__(self) -> None:
        self.payloads: list[Any] = []
        self.api = ReassignmentsApi(image, self.send_request, ALLOW_ALL)

    def send_request(self, request: AnyPayload, timeout_ms: int, done: Any) -> None:
        payload = encode(request)
        self.payloads.append((request.KIND, payload["topics"], timeout_ms))
        results = [
            {
                "name": t["name"],
                "error": 60 if t["partition"] == 1 else 0,
                "message": "busy" if t["partition"] == 1 else None,
            }
            for t in payload["topics"]
        ]
        done(RequestCompleted("r", 0, None, {"results": results}))

    def reply(self, handler: Any, body: Any) -> Any:
        responses: list[Any] = []
        handler(SimpleNamespace(body=body, reply=responses.append, principal="User:kim"))
        (response,) = responses
        return response


def test_each_reassignment_is_forwarded_and_answered_and_null_cancels() -> None:
    requested = ControllerStub()
    part = Alter.ReassignablePartition
    body = Alter(
        timeout_ms=9_000, topics=[Alter.ReassignableTopic(name="t", partitions=[part(0, [2, 3]), part(1, None)])]
    )
    response = requested.reply(requested.api.alter, body)
    ((kind, items, timeout),) = requested.payloads
    assert (kind, timeout) == ("alter_reassignments", 9_000)
    assert [(i["name"], i["topic"], i["partition"], i["replicas"]) for i in items] == [
        ("t-0", "t", 0, [2, 3]),
        ("t-1", "t", 1, None),
    ]
    (topic,) = response.responses
    assert [(p.partition_index, p.error_code, p.error_message) for p in topic.partitions] == [
        (0, 0, None),
        (1, 60, "busy"),
    ]


def test_a_change_of_the_replication_factor_can_be_disallowed() -> None:
    requested = ControllerStub()
    part = Alter.ReassignablePartition
    topics = [Alter.ReassignableTopic(name="t", partitions=[part(0, [2]), part(1, [3, 1])])]
    response = requested.reply(requested.api.alter, Alter(allow_replication_factor_change=False, topics=topics))
    assert [p.error_code for p in response.responses[0].partitions] == [38, 60]
    assert [i["name"] for i in requested.payloads[0][1]] == ["t-1"]


def test_reassignments_in_progress_are_listed_for_all_or_for_given_topics() -> None:
    requested = ControllerStub()
    (topic,) = requested.reply(requested.api.list, List(topics=None)).topics
    (moving,) = topic.partitions
    assert (topic.name, moving.partition_index) == ("t", 1)
    assert (moving.replicas, moving.adding_replicas, moving.removing_replicas) == ([3, 2, 1], [3], [1])
    named = List.ListPartitionReassignmentsTopics
    assert requested.reply(requested.api.list, List(topics=[named("t", [0]), named("unknown", [0])])).topics == []
    assert len(requested.reply(requested.api.list, List(topics=[named("t", [1, 1, 7])])).topics[0].partitions) == 1
