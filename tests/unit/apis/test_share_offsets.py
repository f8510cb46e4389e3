"""Offsets of share groups: describe with lag, alter in a new state epoch, delete with the state."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from brokerd.apis.share_offsets import ShareOffsetsApi
from brokerd.authz.auth_helper import ALLOW_ALL
from brokerd.coordinator.share_state.state import ShareState
from brokerd.wire import messages as m
from brokerd.wire.errors import ErrorCode
from tests.unit.coordinator.share_group.test_group import Scene
from tests.unit.coordinator.topics import A, B


class Api:
    """Share coordinators with a start offset of 10 and two finished records above it, and partitions of 50 records."""

    def __init__(self) -> None:
        self.scene = Scene()
        partition = SimpleNamespace(leader=3)
        topics = {
            A: SimpleNamespace(topic_id=A, name="a", partitions=dict.fromkeys(range(4), partition)),
            B: SimpleNamespace(topic_id=B, name="b", partitions=dict.fromkeys(range(3), partition)),
        }
        image: Any = SimpleNamespace(
            topics=topics, topic_named=lambda name: next((t for t in topics.values() if t.name == name), None)
        )
        self.initialized: list[tuple[int, int, int]] = []
        self.error = 0
        persister: Any = SimpleNamespace(summary=self.summary, initialize=self.initialize, delete=self.delete)
        self.api = ShareOffsetsApi(self.scene.groups, persister, self.send, lambda: image, ALLOW_ALL)

    def summary(self, place: Any, done: Any) -> None:
        done(self.error, ShareState(1, 4, 10, complete_count=2) if not self.error else None)

    def initialize(self, place: Any, epoch: int, start: int, done: Any) -> None:
        self.initialized.append((place.partition, epoch, start))
        done(self.error)

    def delete(self, place: Any, done: Any) -> None:
        done(self.error)

    def send(self, broker_id: int, key: int, version: int, body: Any, done: Any) -> None:
        r = m.ListOffsetsResponse
        part = r.ListOffsetsPartitionResponse(partition_index=0, error_code=0, offset=50)
        done(r(topics=[r.ListOffsetsTopicResponse(name="a", partitions=[part])]))

    def call_api(self, body: Any) -> Any:
        responses: list[Any] = []
        request: Any = SimpleNamespace(body=body, reply=responses.append)
        name = type(body).__name__.split("Share")[0].lower()
        getattr(self.api, name)(request)
        return responses[0]

    def describe_offsets(self, topics: Any = None) -> Any:
        q = m.DescribeShareGroupOffsetsRequest
        group = q.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=topics)
        return self.call_api(q(groups=[group])).groups[0]

    def empty_group(self) -> None:
        found = self.scene.join_and_heartbeat("m")
        self.scene.share_beat("m", -1)
        assert found.assigned


def alter(*starts: tuple[str, int, int]) -> m.AlterShareGroupOffsetsRequest:
    q = m.AlterShareGroupOffsetsRequest
    part = q.AlterShareGroupOffsetsRequestPartition
    topic = q.AlterShareGroupOffsetsRequestTopic
    return q(
        "g", [topic(topic_name=name, partitions=[part(partition_index=p, start_offset=s)]) for name, p, s in starts]
    )


def delete(*names: str) -> m.DeleteShareGroupOffsetsRequest:
    q = m.DeleteShareGroupOffsetsRequest
    return q("g", [q.DeleteShareGroupOffsetsRequestTopic(topic_name=n) for n in names])


def test_start_offsets_and_lag_are_described() -> None:
    api = Api()
    assert api.describe_offsets().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    api.empty_group()
    (topic,) = api.describe_offsets().topics
    assert {(p.start_offset, p.leader_epoch, p.lag, p.error_code) for p in topic.partitions} == {(10, 4, 38, 0)}
    assert len(topic.partitions) == 4
    t = m.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic
    known, unread, missing = api.describe_offsets([t("a", [1]), t("b", [0]), t("none", [0])]).topics
    assert known.partitions[0].start_offset == 10
    assert (unread.partitions[0].start_offset, unread.partitions[0].error_code) == (-1, 0)
    assert missing.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    api.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert api.describe_offsets().topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_offsets_are_altered_in_a_new_state_epoch() -> None:
    api = Api()
    assert api.call_api(alter(("a", 0, 5))).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    api.empty_group()
    before = api.scene.share_group.epoch
    response = api.call_api(alter(("a", 0, 5), ("b", 1, 6), ("none", 0, 1)))
    assert [p.error_code for t in response.responses for p in t.partitions] == [
        0,
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert {(p, s) for p, _, s in api.initialized} == {(0, 5), (1, 6)}
    assert {e for _, e, _ in api.initialized} == {api.scene.share_group.epoch} and api.scene.share_group.epoch > before
    assert api.scene.share_group.state_partitions.initialized[B] == ("b", frozenset({1}))


def test_offsets_of_a_group_with_members_are_not_changed() -> None:
    api = Api()
    api.scene.join_and_heartbeat("m")
    assert api.call_api(alter(("a", 0, 5))).error_code == ErrorCode.NON_EMPTY_GROUP
    rejected = api.call_api(delete("a"))
    assert rejected.error_code == ErrorCode.NON_EMPTY_GROUP and "members" in rejected.error_message
    assert api.initialized == []


def test_offsets_are_deleted_by_topic() -> None:
    api = Api()
    api.empty_group()
    api.error = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert [t.error_code for t in api.call_api(delete("a")).responses] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert api.scene.share_group.state_partitions.initialized
    api.error = 0
    response = api.call_api(delete("a", "b"))
    assert {t.topic_name: t.error_code for t in response.responses} == {
        "b": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "a": 0,
    }
    assert not api.scene.share_group.state_partitions.initialized


def test_all_state_of_a_group_is_deleted_before_the_group() -> None:
    api = Api()
    api.empty_group()
    errors: list[int] = []
    api.error = ErrorCode.NETWORK_EXCEPTION
    api.api.delete_all(api.scene.share_group, errors.append)
    api.error = 0
    api.api.delete_all(api.scene.share_group, errors.append)
    assert errors == [ErrorCode.NETWORK_EXCEPTION, 0]
