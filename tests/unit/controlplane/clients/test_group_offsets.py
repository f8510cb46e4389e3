"""The requests of an offset reset: their number, their grouping, and a coordinator that moves."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.clients import group_offsets
from controlplane.clients.connection import Declined, NoResponse
from controlplane.clients.group_offsets import GroupOffsetsClient, MemberStatus
from controlplane.clients.group_samples import GroupType
from controlplane.domain.offset_reset_types import CommittedOffset, LogRange

BROKERS = 3
WIDE = {("wide", i): i % BROKERS + 1 for i in range(1000)}


class Brokers:
    """Three brokers that lead the partitions in turn; broker 2 coordinates. `coordinator_errors` are returned first, one per request. `down`: ports
    without a response."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, ApiKey, Any]] = []
        self.coordinator_errors: list[ErrorCode] = []
        self.committed: dict[tuple[str, int], CommittedOffset] = {}
        self.down: set[int] = set()
        self.group_type: GroupType | None = None

    def connection(self, host: str, port: int) -> BrokerConnection:
        return BrokerConnection(self, port)


class BrokerConnection:
    def __init__(self, brokers: Brokers, port: int) -> None:
        self.brokers, self.port = brokers, port

    def close(self) -> None:
        pass

    def call(self, api: ApiKey, version: int, body: Any, timeout_s: float) -> Any:
        if self.port in self.brokers.down:
            raise NoResponse(f"port {self.port}")
        self.brokers.sent.append((self.port, api, body))
        return getattr(self, api.name.lower())(body)

    def metadata(self, body: Any) -> Any:
        r = m.MetadataResponse
        parts = [
            r.MetadataResponsePartition(0, i, leader, 0, [leader], [leader], []) for (_, i), leader in WIDE.items()
        ]
        brokers = [r.MetadataResponseBroker(b, "h", b) for b in range(1, BROKERS + 1)]
        topics = [r.MetadataResponseTopic(0, t.name, partitions=parts) for t in body.topics if t.name == "wide"]
        return r(brokers=brokers, topics=topics)

    def find_coordinator(self, body: Any) -> Any:
        return m.FindCoordinatorResponse(host="h", port=2)

    def list_offsets(self, body: Any) -> Any:
        r = m.ListOffsetsResponse
        return r(
            topics=[
                r.ListOffsetsTopicResponse(
                    t.name,
                    [
                        r.ListOffsetsPartitionResponse(
                            p.partition_index,
                            0 if WIDE[t.name, p.partition_index] == self.port else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                            offset={-1: 90, -2: 10}.get(p.timestamp, -1),
                        )
                        for p in t.partitions
                    ],
                )
                for t in body.topics
            ]
        )

    def offset_fetch(self, body: Any) -> Any:
        error = self.brokers.coordinator_errors.pop(0) if self.brokers.coordinator_errors else ErrorCode.NONE
        r = m.OffsetFetchResponse
        parts = [
            r.OffsetFetchResponsePartitions(i, o.offset, o.leader_epoch, o.metadata, 0)
            for (_, i), o in self.brokers.committed.items()
        ]
        parts.append(r.OffsetFetchResponsePartitions(7777, -1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT))
        parts.append(r.OffsetFetchResponsePartitions(8888, -1, -1, "", 0))
        topics = [r.OffsetFetchResponseTopics(name="wide", partitions=parts)]
        return r(groups=[r.OffsetFetchResponseGroup(body.groups[0].group_id, topics, error)])

    def offset_commit(self, body: Any) -> Any:
        r = m.OffsetCommitResponse
        error = self.brokers.coordinator_errors.pop(0) if self.brokers.coordinator_errors else ErrorCode.NONE
        assert (body.member_id, body.generation_id_or_member_epoch) == ("", -1)
        for t in body.topics:
            for p in t.partitions:
                self.brokers.committed[t.name, p.partition_index] = CommittedOffset(
                    p.committed_offset, p.committed_leader_epoch, p.committed_metadata
                )
        return r(
            topics=[
                r.OffsetCommitResponseTopic(
                    t.name,
                    partitions=[r.OffsetCommitResponsePartition(p.partition_index, error) for p in t.partitions],
                )
                for t in body.topics
            ]
        )

    def describe_groups(self, body: Any) -> Any:
        r = m.DescribeGroupsResponse
        return r(groups=[r.DescribedGroup(group_id=body.groups[0], group_state="Dead")])

    def consumer_group_describe(self, body: Any) -> Any:
        r = m.ConsumerGroupDescribeResponse
        if self.brokers.group_type is not GroupType.CONSUMER:
            return r(groups=[r.DescribedGroup(ErrorCode.GROUP_ID_NOT_FOUND)])
        return r(
            groups=[
                r.DescribedGroup(
                    0, group_state="Stable", members=[r.Member("m", "i", client_id="c", client_host="/1.2.3.4")]
                )
            ]
        )

    def consumer_group_heartbeat(self, body: Any) -> Any:
        assert (body.member_id, body.member_epoch, body.instance_id) == ("m", -1, "i")
        return m.ConsumerGroupHeartbeatResponse(error_code=0)

    def list_groups(self, body: Any) -> Any:
        r = m.ListGroupsResponse
        types = [t for t in body.types_filter if t == self.brokers.group_type]
        return r(groups=[r.ListedGroup(group_id="g", group_type=t) for t in types])

    def streams_group_describe(self, body: Any) -> Any:
        r = m.StreamsGroupDescribeResponse
        none = r.Assignment()
        member = r.Member(member_id="m", client_id="c", client_host="/1.2.3.4", assignment=none, target_assignment=none)
        return r(groups=[r.DescribedGroup(0, group_state="NotReady", members=[member])])

    def streams_group_heartbeat(self, body: Any) -> Any:
        assert (body.group_id, body.member_id, body.member_epoch) == ("g", "m", -1)
        return m.StreamsGroupHeartbeatResponse(error_code=0)

    def leave_group(self, body: Any) -> Any:
        (member,) = body.members
        assert (member.member_id, member.group_instance_id, member.reason) == ("m", "i", "comment")
        r = m.LeaveGroupResponse
        return r(members=[r.MemberResponse("m", "i", ErrorCode.UNKNOWN_MEMBER_ID)])


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    brokers = Brokers()
    monkeypatch.setattr(group_offsets, "KafkaConnection", brokers.connection)
    monkeypatch.setattr(group_offsets, "RETRY_SECONDS", 0.0)
    return brokers


def test_a_thousand_partitions_cost_a_bounded_number_of_requests(brokers: Brokers) -> None:
    with GroupOffsetsClient("g") as client:
        leaders = client.leaders(["wide", "absent"])
        assert leaders == WIDE
        assert client.log_ranges(leaders) == dict.fromkeys(WIDE, LogRange(10, 90))
        assert client.offsets_at(leaders, 5) == {}, "no record at or after the time"
        assert client.commit({key: CommittedOffset(3, 4, "mark") for key in WIDE}) == {}
        found, unstable = client.fetch_committed()
        assert found == dict.fromkeys(WIDE, CommittedOffset(3, 4, "mark")) and unstable == {("wide", 7777)}
        assert client.requests == {
            "METADATA": 1,
            "LIST_OFFSETS": 3 * BROKERS,
            "FIND_COORDINATOR": 1,
            "OFFSET_COMMIT": 1,
            "OFFSET_FETCH": 1,
        }
    assert {port for port, api, _ in brokers.sent if api in (ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH)} == {2}


def test_a_broker_without_a_response_costs_only_its_partitions(brokers: Brokers) -> None:
    with GroupOffsetsClient("g") as client:
        leaders = client.leaders(["wide"])
        brokers.down = {3}
        assert client.log_ranges(leaders).keys() == {k for k, b in WIDE.items() if b != 3}


def test_more_than_a_thousand_partitions_are_committed_in_chunks(brokers: Brokers) -> None:
    with GroupOffsetsClient("g") as client:
        client.commit({("wide", i): CommittedOffset(1) for i in range(2500)})
        assert client.requests["OFFSET_COMMIT"] == 3 and len(brokers.committed) == 2500


@pytest.mark.parametrize("error", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_coordinator_that_moves_is_found_again(brokers: Brokers, error: ErrorCode) -> None:
    with GroupOffsetsClient("g") as client:
        brokers.coordinator_errors = [error]
        assert client.commit({("wide", 0): CommittedOffset(1)}) == {}
        brokers.coordinator_errors = [error]
        client.fetch_committed()
        assert (client.requests["FIND_COORDINATOR"], client.requests["OFFSET_COMMIT"]) == (3, 2)


def test_an_error_of_the_coordinator_is_declined_and_retries_end_at_the_deadline(brokers: Brokers) -> None:
    brokers.coordinator_errors = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
    with GroupOffsetsClient("g") as client, pytest.raises(Declined, match="group authorization failed"):
        client.fetch_committed()
    brokers.coordinator_errors = [ErrorCode.NOT_COORDINATOR] * 10_000
    with GroupOffsetsClient("g", deadline_s=0.05) as client, pytest.raises(NoResponse):
        client.fetch_committed()
    brokers.coordinator_errors = [ErrorCode.UNKNOWN_MEMBER_ID]
    with GroupOffsetsClient("g") as client:
        assert client.commit({("wide", 0): CommittedOffset(1)}) == {("wide", 0): ErrorCode.UNKNOWN_MEMBER_ID}


def test_the_status_of_a_streams_group_and_removal_of_a_member(brokers: Brokers) -> None:
    brokers.group_type = GroupType.STREAMS
    with GroupOffsetsClient("g") as client:
        status = client.status()
        assert (status.state, status.type, status.active) == ("NotReady", GroupType.STREAMS, True)
        client.remove_member(status.members[0], status.type, "comment")


def test_the_status_of_a_group_of_either_protocol_and_removal_of_a_member(brokers: Brokers) -> None:
    with GroupOffsetsClient("g") as client:
        assert not client.status().active
        assert not any(api is ApiKey.STREAMS_GROUP_DESCRIBE for _, api, _ in brokers.sent), "no such group is listed"
        brokers.group_type = GroupType.CONSUMER
        status = client.status()
        assert status.active and status.members == (MemberStatus("m", "i", "c", "1.2.3.4"),)
        client.remove_member(status.members[0], status.type, "comment")
        with pytest.raises(Declined, match="unknown member id"):
            client.remove_member(status.members[0], GroupType.CLASSIC, "comment")
