"""Authorization of the offset APIs, with a real group coordinator. Topics `a` and `b` exist."""

from __future__ import annotations

from uuid import UUID

import pytest

from brokerd.cluster.metadata import TopicDeleted
from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from tests.unit.apis.test_groups import GROUP, TOPIC, Groups, commit, errors
from tests.unit.authz.scene import Broker
from tests.unit.coordinator.topics import A, B


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (["read topic *"], {"b": GROUP, "a": GROUP}),
        (["describe group g", "read topic *"], {"b": GROUP, "a": GROUP}),
        (["read group g"], {"b": TOPIC, "a": TOPIC}),
        (["read group g", "read topic a"], {"a": 0, "b": TOPIC}),
        (["read group g", "describe topic b", "read topic a"], {"a": 0, "b": TOPIC}),
        (["read group g", "read topic *"], {"b": 0, "a": 0}),
    ],
)
def test_offsets_are_committed_with_read_on_the_group_and_on_each_topic(
    rules: list[str], expected: dict[str, int]
) -> None:
    broker = Groups(*rules)
    response = broker.send_request(ApiKey.OFFSET_COMMIT, 8, commit("b", "a"))
    assert list(errors(response).items()) == list(expected.items())
    assert broker.offsets == {t: 5 for t, error in expected.items() if not error}


def fetch_offsets(broker: Broker, version: int, topics: list[str] | None) -> tuple[int, dict[str, tuple[int, int]]]:
    """(error of the group, {topic: (error, offset)})."""
    r = m.OffsetFetchRequest
    if version >= 8:
        named = None if topics is None else [r.OffsetFetchRequestTopics(name=t, partition_indexes=[0]) for t in topics]
        body = r(groups=[r.OffsetFetchRequestGroup(group_id="g", topics=named)])
        response = broker.send_request(ApiKey.OFFSET_FETCH, version, body).groups[0]
    else:
        old = None if topics is None else [r.OffsetFetchRequestTopic(name=t, partition_indexes=[0]) for t in topics]
        response = broker.send_request(ApiKey.OFFSET_FETCH, version, r(group_id="g", topics=old))
    return response.error_code, {
        t.name: (p.error_code, p.committed_offset) for t in response.topics for p in t.partitions
    }


@pytest.mark.parametrize("version", [2, 7, 8, 9])
def test_offsets_are_fetched_with_describe_on_the_group_and_on_each_topic(version: int) -> None:
    broker = Groups()
    broker.send_request(ApiKey.OFFSET_COMMIT, 8, commit("a", "b"), "User:root")
    error, topics = fetch_offsets(broker, version, ["b", "a"])
    assert error == GROUP and topics == ({} if version >= 8 else {"b": (GROUP, -1), "a": (GROUP, -1)})
    broker.allow("describe group g")
    assert fetch_offsets(broker, version, ["b"]) == (0, {"b": (TOPIC, -1)})
    assert fetch_offsets(broker, version, None) == (0, {}), "topics that the request does not name are omitted"
    broker.allow("describe topic a")
    assert fetch_offsets(broker, version, ["b", "a"]) == (0, {"b": (TOPIC, -1), "a": (0, 5)})
    assert fetch_offsets(broker, version, None) == (0, {"a": (0, 5)})


def test_a_group_named_twice_is_answered_with_the_offsets_of_the_last_entry_and_without_topics() -> None:
    broker, r = Groups("describe group g"), m.OffsetFetchRequest
    broker.send_request(ApiKey.OFFSET_COMMIT, 8, commit("a", "b"), "User:root")
    topics = [r.OffsetFetchRequestTopics(name="a", partition_indexes=[0])]
    body = r(groups=[r.OffsetFetchRequestGroup(group_id="g", topics=t) for t in (topics, None)])
    (group,) = broker.send_request(ApiKey.OFFSET_FETCH, 9, body).groups
    assert group.topics == []


def test_offsets_are_deleted_with_delete_on_the_group_and_read_on_each_topic() -> None:
    r = m.OffsetDeleteRequest
    part = r.OffsetDeleteRequestPartition(partition_index=0)
    body = r(group_id="g", topics=[r.OffsetDeleteRequestTopic(name=t, partitions=[part]) for t in ("b", "a")])
    broker = Groups("read topic *")
    broker.send_request(ApiKey.OFFSET_COMMIT, 8, commit("a", "b"), "User:root")
    rejected = broker.send_request(ApiKey.OFFSET_DELETE, 0, body)
    assert (rejected.error_code, rejected.topics) == (GROUP, []) and broker.offsets == {"a": 5, "b": 5}
    broker.set_acl("read topic *", None)
    broker.allow("delete group g", "read topic a")
    assert list(errors(broker.send_request(ApiKey.OFFSET_DELETE, 0, body)).items()) == [("a", 0), ("b", TOPIC)]
    assert broker.offsets == {"b": 5}


# -- topic ids (version 10) ------------------------------------------------------------------------------------------------
NO_ID, GONE = UUID(int=0), UUID(int=404)


def commit_by_id(*topic_ids: UUID) -> m.OffsetCommitRequest:
    body = commit(*("" for _ in topic_ids))
    for topic, topic_id in zip(body.topics, topic_ids, strict=True):
        topic.topic_id = topic_id
    return body


def fetch_by_id(broker: Broker, topic_ids: list[UUID] | None) -> tuple[int, dict[UUID, tuple[int, int]]]:
    """(error of the group, {topic id: (error, offset)})."""
    r = m.OffsetFetchRequest
    named = (
        None
        if topic_ids is None
        else [r.OffsetFetchRequestTopics(topic_id=t, partition_indexes=[0]) for t in topic_ids]
    )
    body = r(groups=[r.OffsetFetchRequestGroup(group_id="g", topics=named)])
    (response,) = broker.send_request(ApiKey.OFFSET_FETCH, 10, body).groups
    assert {t.name for t in response.topics} <= {""}, "a response with ids has no names"
    return response.error_code, {
        t.topic_id: (p.error_code, p.committed_offset) for t in response.topics for p in t.partitions
    }


def test_offsets_are_committed_by_topic_id_and_those_of_unknown_topics_are_rejected() -> None:
    broker = Groups("read group g", "read topic a")
    response = broker.send_request(ApiKey.OFFSET_COMMIT, 10, commit_by_id(GONE, B, A))
    assert {t.topic_id: p.error_code for t in response.topics for p in t.partitions} == {
        A: 0,
        B: TOPIC,
        GONE: ErrorCode.UNKNOWN_TOPIC_ID,
    }
    assert broker.offsets == {"a": 5}


def test_a_commit_of_unknown_topics_only_creates_no_group() -> None:
    broker = Groups("read group g", "read topic *")
    (topic,) = broker.send_request(ApiKey.OFFSET_COMMIT, 10, commit_by_id(GONE)).topics
    assert [p.error_code for p in topic.partitions] == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert broker.coordinator.group is None


def test_offsets_are_fetched_by_topic_id() -> None:
    broker = Groups("describe group g", "describe topic a")
    broker.send_request(ApiKey.OFFSET_COMMIT, 8, commit("a", "b"), "User:root")
    assert fetch_by_id(broker, [B, A, GONE]) == (
        0,
        {B: (TOPIC, -1), A: (0, 5), GONE: (ErrorCode.UNKNOWN_TOPIC_ID, -1)},
    )
    assert fetch_by_id(broker, None) == (0, {A: (0, 5)})


def test_a_topic_that_was_deleted_is_in_no_response_with_topic_ids() -> None:
    broker = Groups("describe group g", "describe topic *")
    broker.send_request(ApiKey.OFFSET_COMMIT, 8, commit("a", "b"), "User:root")
    broker.image.apply(TopicDeleted(A, "a", 1))
    assert fetch_by_id(broker, None) == (0, {B: (0, 5)})
    assert fetch_by_id(broker, [A]) == (0, {A: (ErrorCode.UNKNOWN_TOPIC_ID, -1)})
