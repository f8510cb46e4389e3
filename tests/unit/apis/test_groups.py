"""Authorization of the group APIs, with a real group coordinator. Topics `a` and `b` exist."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.authz.acls import Operation
from brokerd.cluster.metadata import PartitionChanged, TopicCreated, TopicReady
from brokerd.cluster.model import PartitionState, ReplicaIncarnation
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from tests.unit.authz.scene import Broker
from tests.unit.coordinator.consumer.test_records import Harness
from tests.unit.coordinator.topics import A, B

TOPIC, GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED


class Groups(Broker):
    def __init__(self, *rules: str) -> None:
        self.coordinator = Harness()
        super().__init__(groups=self.coordinator.groups)
        state = PartitionState((1,), (ReplicaIncarnation(1, 11),), 1, 11)
        for topic_id, name, count in ((A, "a", 4), (B, "b", 3)):
            for record in (
                TopicCreated(topic_id, name, 1, {}, count),
                *(PartitionChanged(topic_id, i, state) for i in range(count)),
                TopicReady(topic_id),
            ):
                self.image.apply(record)
        self.allow(*rules)

    @property
    def offsets(self) -> dict[str, int]:
        group = self.coordinator.group
        return {t: o.offset for (t, _), o in group.commits.offsets.items()} if group else {}


def commit(*topics: str, offset: int = 5) -> m.OffsetCommitRequest:
    r = m.OffsetCommitRequest
    part = r.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    requested = [r.OffsetCommitRequestTopic(name=t, partitions=[part]) for t in topics]
    return r(group_id="g", member_id="", generation_id_or_member_epoch=-1, topics=requested)


def errors(response: Any) -> dict[str, int]:
    return {t.name: p.error_code for t in response.topics for p in t.partitions}


# -- offsets ---------------------------------------------------------------------------------------------------------------


# -- groups ----------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize(("rule", "key_type"), [("describe group g", 0), ("describe transactional_id g", 1)])
def test_a_coordinator_is_found_with_describe_on_the_group_or_transactional_id(
    version: int, rule: str, key_type: int
) -> None:
    denied = (GROUP, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)[key_type]
    body = m.FindCoordinatorRequest(key="g", key_type=key_type, coordinator_keys=["h", "g"])

    def found_coordinators() -> list[tuple[str, int, int]]:
        response = broker.send_request(ApiKey.FIND_COORDINATOR, version, body)
        return [(c.key, c.error_code, c.node_id) for c in response.coordinators] or [
            ("g", response.error_code, response.node_id)
        ]

    broker = Groups()
    assert found_coordinators() == ([("h", denied, -1), ("g", denied, -1)] if version >= 4 else [("g", denied, -1)])
    broker.allow(rule)
    assert found_coordinators() == ([("g", 0, 1), ("h", denied, -1)] if version >= 4 else [("g", 0, 1)])


def test_groups_are_described_listed_and_deleted_with_permission() -> None:
    broker = Groups("describe group g")
    broker.send_request(ApiKey.OFFSET_COMMIT, 8, commit("a"), "User:root")
    requested = m.DescribeGroupsRequest(groups=["h", "g"], include_authorized_operations=True)
    shown = broker.send_request(ApiKey.DESCRIBE_GROUPS, 5, requested).groups
    assert [(g.group_id, g.error_code, g.group_state) for g in shown] == [("g", 0, "Empty"), ("h", GROUP, "")]
    assert [g.authorized_operations for g in shown] == [1 << Operation.DESCRIBE, -(2**31)]
    delete = m.DeleteGroupsRequest(groups_names=["h", "g"])
    rejected = broker.send_request(ApiKey.DELETE_GROUPS, 2, delete).results
    assert [(g.group_id, g.error_code) for g in rejected] == [("h", GROUP), ("g", GROUP)]
    broker.allow("delete group g")
    results = broker.send_request(ApiKey.DELETE_GROUPS, 2, delete).results
    assert [(g.group_id, g.error_code) for g in results] == [("g", 0), ("h", GROUP)]
    assert broker.coordinator.group is None


@pytest.mark.parametrize("version", [5, 6])
def test_a_group_that_does_not_exist_is_dead_and_since_version_6_an_error(version: int) -> None:
    broker = Groups("describe group *")
    (group,) = broker.send_request(ApiKey.DESCRIBE_GROUPS, version, m.DescribeGroupsRequest(groups=["g"])).groups
    assert group.group_state == "Dead"
    assert (group.error_code, group.error_message) == (
        (ErrorCode.GROUP_ID_NOT_FOUND, "group g does not exist") if version == 6 else (0, None)
    )


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        ([], []),
        (["read group g"], ["g"]),
        (["describe group *"], ["g"]),
        (["describe cluster kafka-cluster"], ["g"]),
        (["describe group h"], []),
    ],
)
def test_listing_a_group_needs_describe_permission_for_it_or_the_cluster(rules: list[str], names: list[str]) -> None:
    broker = Groups(*rules)
    broker.send_request(ApiKey.OFFSET_COMMIT, 8, commit("a"), "User:root")
    assert [g.group_id for g in broker.send_request(ApiKey.LIST_GROUPS, 4, m.ListGroupsRequest()).groups] == names


# -- members ---------------------------------------------------------------------------------------------------------------
class Recorder:
    """A group coordinator that keeps the events."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def handle(self, group_id: str, event: Any) -> int:
        self.events.append(event)
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def generate_member_id(self, client_id: str, instance_id: str | None) -> str:
        return "m"


def test_a_join_resolves_patterns_of_members_to_topics_that_the_caller_may_describe_at_that_time() -> None:
    """The group may have members of the consumer protocol. Their regular expressions are resolved in a join."""
    groups = Recorder()
    broker = Broker(groups=groups)
    broker.allow("read group g", "describe topic t")
    body = m.JoinGroupRequest(group_id="g", session_timeout_ms=10_000, member_id="m", protocol_type="consumer")
    broker.send(ApiKey.JOIN_GROUP, 9, body)
    may_describe = groups.events[0].may_describe
    assert [n for n in ("t", "u") if may_describe(n)] == ["t"]
    broker.set_acl("describe topic t", None)
    assert not may_describe("t")
