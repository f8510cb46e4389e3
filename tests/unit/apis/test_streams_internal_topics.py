"""Creation of internal topics: once, again after a pause, and only by members that may create topics."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from brokerd.apis.streams_internal_topics import RETRY_MS, StreamsInternalTopics
from brokerd.authz.acls import Operation, Resource
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.cluster.metadata import RequestCompleted
from brokerd.cluster.model import Now
from brokerd.coordinator.streams_group.topology import InternalTopic
from brokerd.wire.errors import ErrorCode

TOPICS = (InternalTopic("g-c", 4), InternalTopic("g-r", 2, 1, (("k", "v"),)))
REQUEST: Any = SimpleNamespace(principal="User:a")


class Creation:
    def __init__(self, auth: Any = ALLOW_ALL) -> None:
        self.now = Now(0, 0)
        self.sent: list[tuple[Any, Any]] = []
        self.topics = StreamsInternalTopics(
            {"default.replication.factor": 3},
            lambda payload, timeout_ms, done: self.sent.append((payload, done)),
            lambda: self.now,
            auth,
        )

    def respond(self, error: int, message: str | None = None) -> None:
        payload, done = self.sent[-1]
        results = [{"name": t.name, "error": int(error), "message": message} for t in payload.items]
        done(RequestCompleted("r", 0, None, {"results": results}))


def test_each_topic_is_requested_once_until_there_is_a_result() -> None:
    creation = Creation()
    assert creation.topics.create(REQUEST, TOPICS) is None
    ((payload, _),) = creation.sent
    assert [(t.name, t.partitions, t.replication_factor) for t in payload.items] == [("g-c", 4, 3), ("g-r", 2, 1)]
    assert payload.principal == "User:a" and payload.items[1].configs == {"k": "v"}
    creation.topics.create(REQUEST, TOPICS)
    assert len(creation.sent) == 1
    creation.respond(ErrorCode.NONE)
    creation.topics.create(REQUEST, TOPICS)
    assert len(creation.sent) == 2, "they were deleted since"
    assert creation.topics.create(REQUEST, ()) is None


def test_a_failure_is_shown_and_tried_again_after_a_pause() -> None:
    creation = Creation()
    creation.topics.create(REQUEST, TOPICS)
    creation.respond(ErrorCode.INVALID_REPLICATION_FACTOR, "3 replicas need 3 brokers")
    reason = creation.topics.create(REQUEST, TOPICS)
    assert reason is not None and "g-c: 3 replicas need 3 brokers" in reason
    assert len(creation.sent) == 1
    creation.now = Now(RETRY_MS, 0)
    creation.topics.create(REQUEST, TOPICS)
    assert len(creation.sent) == 2
    creation.respond(ErrorCode.TOPIC_ALREADY_EXISTS, "it exists")
    assert creation.topics.create(REQUEST, TOPICS) is None


def test_create_on_the_cluster_or_on_each_topic_is_required() -> None:
    asked: list[Any] = []

    def authorize(request: Any, operation: Any, resource: Any, *name: Any) -> bool:
        asked.append((operation, resource))
        return False

    def split(request: Any, operation: Any, resource: Any, items: Any, name: Any) -> tuple[list[Any], list[Any]]:
        asked.append((operation, resource))
        return [t for t in items if name(t) == "g-c"], [t for t in items if name(t) != "g-c"]

    auth: Any = SimpleNamespace(authorize=authorize, partition_by_authorized=split)
    creation = Creation(auth)
    reason = creation.topics.create(REQUEST, TOPICS)
    assert reason == "the member is not authorized to create g-r" and not creation.sent
    assert asked == [(Operation.CREATE, Resource.CLUSTER), (Operation.CREATE, Resource.TOPIC)]
    assert creation.topics.create(REQUEST, TOPICS[:1]) is None and len(creation.sent) == 1
