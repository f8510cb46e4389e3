"""Groups of both protocols as brokers describe them, and assignments as clients write them."""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

import pytest

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from controlplane.clients.group_samples import DescribedMember, GroupSample, parse_assignment, sample_groups


def test_an_assignment_is_read_as_clients_write_it() -> None:
    data = (
        struct.pack(">hi", 1, 1)
        + struct.pack(">h", 7)
        + b"flights"
        + struct.pack(">i3i", 3, 0, 2, 4)
        + b"\xff\xff\xff\xff"
    )
    assert parse_assignment(data) == (("flights", 0), ("flights", 2), ("flights", 4))


@pytest.mark.parametrize("data", [b"", b"\x00", struct.pack(">hi", 0, 2**31 - 1), struct.pack(">hih", 0, 1, 500)])
def test_a_malformed_assignment_is_empty(data: bytes) -> None:
    assert parse_assignment(data) == ()


def test_an_assignment_with_an_impossible_partition_count_is_empty() -> None:
    assert parse_assignment(struct.pack(">hih", 0, 1, 1) + b"t" + struct.pack(">i", 2**31 - 1)) == ()


def streams_groups(body: m.StreamsGroupDescribeRequest) -> m.StreamsGroupDescribeResponse:
    """Each group has a member with two active tasks and a standby task."""
    r = m.StreamsGroupDescribeResponse
    tasks = r.Assignment([r.TaskIds("0", [0, 2])], [r.TaskIds("0", [1])])
    member = r.Member(member_id="m", client_id="c", client_host="/h", assignment=tasks, target_assignment=tasks)
    topology = r.Topology(1, [r.Subtopology("0", ["t"], repartition_source_topics=[r.TopicInfo("app-r")])])
    return r(
        groups=[
            r.DescribedGroup(group_id=g, group_state="NotReady", topology=topology, members=[member])
            for g in body.group_ids
        ]
    )


def test_groups_of_all_protocols_are_sampled() -> None:
    """Each group type has its own describe API. The newer API is not sent to brokers without such a group, because they may not support it."""
    kinds = {"old": "classic", "new": "consumer", "app": "streams"}
    asked: list[ApiKey] = []

    class Broker:
        def call(self, api: ApiKey, version: int, body: Any) -> Any:
            asked.append(api)
            match api:
                case ApiKey.LIST_GROUPS:
                    listed = m.ListGroupsResponse.ListedGroup
                    return m.ListGroupsResponse(groups=[listed(group_id=g, group_type=k) for g, k in kinds.items()])
                case ApiKey.DESCRIBE_GROUPS:
                    reported = m.DescribeGroupsResponse.DescribedGroup
                    return m.DescribeGroupsResponse(
                        groups=[
                            reported(group_id=g, group_state="Stable", protocol_type="consumer") for g in body.groups
                        ]
                    )
                case ApiKey.CONSUMER_GROUP_DESCRIBE:
                    r = m.ConsumerGroupDescribeResponse
                    has = r.Assignment([r.TopicPartitions(topic_id=UUID(int=1), topic_name="t", partitions=[0, 2])])
                    member = r.Member(
                        member_id="m", client_id="c", client_host="/h", assignment=has, target_assignment=has
                    )
                    return r(
                        groups=[
                            r.DescribedGroup(
                                group_id=g, group_state="Reconciling", assignor_name="uniform", members=[member]
                            )
                            for g in body.group_ids
                        ]
                    )
                case ApiKey.STREAMS_GROUP_DESCRIBE:
                    return streams_groups(body)
            r2 = m.OffsetFetchResponse
            part = r2.OffsetFetchResponsePartitions(partition_index=0, committed_offset=7)
            topics = [r2.OffsetFetchResponseTopics(name="t", partitions=[part])]
            return r2(groups=[r2.OffsetFetchResponseGroup(group_id=g.group_id, topics=topics) for g in body.groups])

    broker: Any = Broker()
    assert sample_groups(broker) == (
        GroupSample("old", "Stable", "consumer", "", (), {("t", 0): 7}),
        GroupSample(
            "new",
            "Reconciling",
            "consumer",
            "uniform",
            (DescribedMember("m", "c", "h", (("t", 0), ("t", 2))),),
            {("t", 0): 7},
        ),
        GroupSample(
            "app",
            "NotReady",
            "streams",
            "sticky",
            (DescribedMember("m", "c", "h", (("t", 0), ("t", 2), ("app-r", 0), ("app-r", 2))),),
            {("t", 0): 7},
        ),
    )
    asked.clear()
    del kinds["new"], kinds["app"]
    assert [g.group_id for g in sample_groups(broker)] == ["old"] and ApiKey.CONSUMER_GROUP_DESCRIBE not in asked
    assert ApiKey.STREAMS_GROUP_DESCRIBE not in asked
