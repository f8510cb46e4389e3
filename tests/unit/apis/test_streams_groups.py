"""StreamsGroupHeartbeat and StreamsGroupDescribe: what is rejected before the group sees it, and what the group answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from brokerd.apis.streams_groups import StreamsGroupsApi
from brokerd.apis.streams_internal_topics import StreamsInternalTopics
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.coordinator.streams_group.events import StatusCode
from brokerd.wire import messages as m
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.streams_group.scene import Scene

M = m.StreamsGroupHeartbeatRequest


def topology(**more: Any) -> M.Topology:
    """A word count. `more`: fields of its second subtopology."""
    fields: dict[str, Any] = {
        "subtopology_id": "1",
        "repartition_source_topics": [M.TopicInfo("g-r", 0, 0, [M.KeyValue("cleanup.policy", "delete")])],
        "state_changelog_topics": [M.TopicInfo("g-c", 0, 0, [])],
        **more,
    }
    first = M.Subtopology("0", ["a"], [], [], ["g-r"], [], [])
    return M.Topology(2, [first, M.Subtopology(**fields)])


class Api:
    def __init__(self, auth: Any = ALLOW_ALL, enabled: bool = True) -> None:
        self.scene = Scene()
        self.sent: list[Any] = []
        image: Any = SimpleNamespace(topic_named=self.topic_state)
        internal_topics = StreamsInternalTopics(
            {"default.replication.factor": 3},
            lambda payload, timeout_ms, done: self.sent.append(payload),
            lambda: self.scene.now,
            auth,
        )
        self.api = StreamsGroupsApi(self.scene.groups, lambda: image, auth, internal_topics, enabled=enabled)

    def topic_state(self, name: str) -> Any:
        found = self.scene.topics.topic_named(name)
        return SimpleNamespace(partition_count=found[1]) if found is not None else None

    def call_api(self, body: Any) -> Any:
        responses: list[Any] = []
        request: Any = SimpleNamespace(
            body=body, reply=responses.append, client_id="c", client_host="h", principal="User:a"
        )
        call = self.api.heartbeat if isinstance(body, M) else self.api.describe
        call(request)
        return responses[0]

    def beat(self, epoch: int, **more: Any) -> Any:
        fields: dict[str, Any] = {"group_id": "g", "member_id": "m", "member_epoch": epoch}
        if epoch == 0:
            fields |= {"rebalance_timeout_ms": 5_000, "topology": topology(), "process_id": "p"}
            fields |= {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        return self.call_api(M(**{**fields, **more}))

    def describe_group(self) -> Any:
        return self.call_api(m.StreamsGroupDescribeRequest(group_ids=["g"])).groups[0]


def test_a_member_joins_creates_its_topics_is_described_and_leaves() -> None:
    api = Api()
    joined = api.beat(0, user_endpoint=M.Endpoint("e", 80), client_tags=[M.KeyValue("zone", "z")], rack_id="r")
    assert [s.status_code for s in joined.status] == [StatusCode.MISSING_INTERNAL_TOPICS]
    (payload,) = api.sent
    assert {(t.name, t.partitions, t.replication_factor) for t in payload.items} == {("g-r", 4, 3), ("g-c", 4, 3)}
    assert {t.name: dict(t.configs) for t in payload.items}["g-r"] == {"cleanup.policy": "delete"}
    api.beat(2)
    assert len(api.sent) == 1, "the creation is requested once"
    api.scene.create_internal_topics()
    found = api.beat(2)
    assert [(t.subtopology_id, t.partitions) for t in found.active_tasks] == [("0", [0, 1, 2, 3]), ("1", [0, 1, 2, 3])]
    (at,) = found.partitions_by_user_endpoint
    assert (at.user_endpoint.host, at.user_endpoint.port) == ("e", 80)
    assert {t.topic: t.partitions for t in at.active_partitions} == {"a": [0, 1, 2, 3], "g-r": [0, 1, 2, 3]}
    group = api.describe_group()
    (member,) = group.members
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 3, 3)
    assert (member.member_id, member.process_id, member.client_host, member.topology_epoch) == ("m", "p", "/h", 2)
    assert member.assignment == member.target_assignment and member.rack_id == "r" and not member.is_classic
    second = group.topology.subtopologies[1]
    assert [(t.name, t.partitions) for t in second.state_changelog_topics] == [("g-c", 4)]
    assert api.beat(-1).member_epoch == -1
    assert api.describe_group().group_state == "Empty"


@pytest.mark.parametrize(
    "more",
    [
        {"group_id": " "},
        {"member_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout_ms": -1},
        {"topology": None},
        {"active_tasks": None},
        {"active_tasks": [M.TaskIds("0", [1])]},
        {"instance_id": "i"},
        {"task_offsets": []},
        {"task_end_offsets": []},
        {"warmup_tasks": [M.TaskIds("0", [1])]},
        {"topology": topology(source_topic_regex=["a.*"])},
        {"member_epoch": -2},
        {"member_epoch": 1},
    ],
)
def test_invalid_requests_are_rejected(more: dict[str, Any]) -> None:
    response = Api().beat(0, **more)
    assert response.error_code == ErrorCode.INVALID_REQUEST and response.error_message


@pytest.mark.parametrize(
    "more",
    [
        {"subtopology_id": "0"},
        {"repartition_source_topics": []},
        {"state_changelog_topics": [M.TopicInfo("g-c", 4, 0, [])]},
        {"copartition_groups": [M.CopartitionGroup([], [], [1])]},
        {"copartition_groups": [M.CopartitionGroup([0], [], [])]},
        {"source_topics": ["__consumer_offsets"]},
        {"source_topics": ["not a topic"]},
    ],
)
def test_impossible_topologies_are_rejected(more: dict[str, Any]) -> None:
    response = Api().beat(0, topology=topology(**more))
    assert response.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY and response.error_message


def test_errors_of_the_group_are_passed_on() -> None:
    api = Api()
    assert api.beat(5).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert api.describe_group().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    api.beat(0)
    assert api.beat(5).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert api.beat(2, member_id="other").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_broker_with_the_protocol_disabled() -> None:
    assert Api(enabled=False).beat(0).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_acls_of_group_and_topics_apply() -> None:
    def split(request: Any, operation: Any, resource: Any, items: Any, name: Any) -> tuple[list[Any], list[Any]]:
        return [], list(items)

    no_group: Any = SimpleNamespace(authorize=lambda *a: False, partition_by_authorized=split)
    assert Api(no_group).beat(0).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    no_topic: Any = SimpleNamespace(
        authorize=lambda *a: True, may_describe_all=lambda *a: False, partition_by_authorized=split
    )
    api = Api(no_topic)
    assert api.beat(0).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert api.describe_group().error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
