"""Single requests to brokers: retried until the deadline, the next address, rejections with Kafka's error."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.wire import messages as m
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from controlplane.clients import kafka
from controlplane.clients.connection import Declined, NoResponse

Elect = m.ElectLeadersResponse
Fetch = m.FetchResponse


class Brokers:
    """Answers by API. An exception in the responses is raised. `calls`: (port, api)."""

    def __init__(self) -> None:
        self.responses: dict[ApiKey, list[Any]] = {}
        self.calls: list[tuple[int, ApiKey]] = []
        self.open = 0

    def connect(self, host: str, port: int) -> Any:
        brokers = self
        brokers.open += 1

        class Connection:
            def call(self, key: ApiKey, version: int, body: Any, timeout_s: float = 1.0) -> Any:
                brokers.calls.append((port, key))
                queue = brokers.responses[key]
                response = queue.pop(0) if len(queue) > 1 else queue[0]
                if isinstance(response, Exception):
                    raise response
                return response

            def close(self) -> None:
                brokers.open -= 1

        return Connection()


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Brokers:
    made = Brokers()
    monkeypatch.setattr(kafka, "KafkaConnection", made.connect)
    monkeypatch.setattr(kafka.time, "sleep", lambda s: None)
    settings.WEIR = type("Settings", (), {"bootstrap": "h:1,h:2"})()
    return made


def delete_groups_response(code: ErrorCode) -> m.DeleteGroupsResponse:
    return m.DeleteGroupsResponse(results=[m.DeleteGroupsResponse.DeletableGroupResult("g", code)])


FOUND = m.FindCoordinatorResponse(host="h", port=9)


def test_a_group_is_deleted_at_its_coordinator_after_retriable_errors(brokers: Brokers) -> None:
    brokers.responses = {
        ApiKey.FIND_COORDINATOR: [NoResponse("down"), m.FindCoordinatorResponse(error_code=15), FOUND],
        ApiKey.DELETE_GROUPS: [
            delete_groups_response(ErrorCode.NOT_COORDINATOR),
            delete_groups_response(ErrorCode.NONE),
        ],
    }
    kafka.delete_group("g")
    assert [port for port, key in brokers.calls if key == ApiKey.DELETE_GROUPS] == [9, 9] and brokers.open == 0


def test_a_group_with_members_is_declined_and_silence_is_no_response(brokers: Brokers) -> None:
    brokers.responses = {
        ApiKey.FIND_COORDINATOR: [FOUND],
        ApiKey.DELETE_GROUPS: [delete_groups_response(ErrorCode.NON_EMPTY_GROUP)],
    }
    with pytest.raises(Declined):
        kafka.delete_group("g")
    brokers.responses = {ApiKey.FIND_COORDINATOR: [NoResponse("h:1 is down")]}
    with pytest.raises(NoResponse, match=r"Group 'g': h:1 is down\."):
        kafka.delete_group("g", timeout_s=0.01)
    assert brokers.open == 0


def elect_leaders_response(code: ErrorCode, message: str = "") -> Elect:
    part = Elect.PartitionResult(0, code, message)
    return Elect(replica_election_results=[Elect.ReplicaElectionResult("t", [part])])


@pytest.mark.parametrize(
    ("responses", "result"),
    [
        ([elect_leaders_response(ErrorCode.NONE)], True),
        ([elect_leaders_response(ErrorCode.ELECTION_NOT_NEEDED)], False),
        ([NoResponse("down"), elect_leaders_response(ErrorCode.NONE)], True),
    ],
)
def test_an_unclean_election_is_requested_from_the_first_broker_that_answers(
    brokers: Brokers, responses: list[Any], result: bool
) -> None:
    brokers.responses = {ApiKey.ELECT_LEADERS: responses}
    assert kafka.elect_uncleanly("t", 0) is result and brokers.open == 0


def test_a_rejected_election_has_the_brokers_message(brokers: Brokers) -> None:
    brokers.responses = {
        ApiKey.ELECT_LEADERS: [elect_leaders_response(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no live replica")]
    }
    with pytest.raises(Declined, match="no live replica"):
        kafka.elect_uncleanly("t", 0)
    brokers.responses = {ApiKey.ELECT_LEADERS: [Elect(error_code=31)]}
    with pytest.raises(Declined):
        kafka.elect_uncleanly("t", 0)
    brokers.responses = {ApiKey.ELECT_LEADERS: [NoResponse("down")]}
    with pytest.raises(NoResponse, match="t-0: down"):
        kafka.elect_uncleanly("t", 0)


def test_the_records_of_one_replica_are_read_from_a_follower_too(brokers: Brokers) -> None:
    part = Fetch.PartitionData(partition_index=0, high_watermark=9, log_start_offset=2, records=b"abc")
    response = Fetch(responses=[Fetch.FetchableTopicResponse(topic="t", partitions=[part])])
    brokers.responses = {ApiKey.FETCH: [response]}
    found = kafka.read_replica("h", 5, "t", 0, 2, 100)
    assert (found.start, found.high_watermark, found.data) == (2, 9, b"abc")
    part.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    with pytest.raises(Declined, match="OFFSET_OUT_OF_RANGE"):
        kafka.read_replica("h", 5, "t", 0, 2, 100)
    brokers.responses = {ApiKey.FETCH: [Fetch()]}
    with pytest.raises(Declined, match="UNKNOWN_TOPIC_OR_PARTITION"):
        kafka.read_replica("h", 5, "t", 0, 2, 100)


def test_bounds_are_those_of_the_leaders_local_log(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    def offsets(broker: Any, topics: Any, at: int) -> Any:
        return {("t", 0): 3 if at == kafka.EARLIEST_LOCAL else 8}

    monkeypatch.setattr(kafka, "list_offsets", offsets)
    assert kafka.bounds("h", 5, "t", 0) == (3, 8)
    monkeypatch.setattr(kafka, "list_offsets", lambda *a: {})
    with pytest.raises(Declined, match="h:5 is not the leader of t-0"):
        kafka.bounds("h", 5, "t", 0)
    assert brokers.open == 0


def test_produce_latency_needs_a_broker_that_reports_it(brokers: Brokers) -> None:
    brokers.responses = {ApiKey.DESCRIBE_LOG_DIRS: [m.DescribeLogDirsResponse(produce_times=[1, 2])]}
    assert kafka.produce_times("h", 5) == [1, 2]
    brokers.responses = {ApiKey.DESCRIBE_LOG_DIRS: [m.DescribeLogDirsResponse()]}
    with pytest.raises(Declined, match="does not report produce latency"):
        kafka.produce_times("h", 5)
