"""Which partitions a response of a fetch session contains, and what the session remembers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from brokerd.apis.fetch_response import (
    FetchRead,
    build_fetch_response,
    may_pause,
    record_responses,
    regions_of,
    unauthorized_topics,
)
from brokerd.apis.fetch_sessions import CachedPartitionState, PartitionRequest
from brokerd.cluster.model import ReplicaIncarnation
from brokerd.wire.errors import ErrorCode
from brokerd.wire.framing import FileRegion
from brokerd.wire.messages import FetchRequest, FetchResponse


class RecordingSession:
    def __init__(self) -> None:
        self.recorded: list[tuple[bool, bool]] = []

    def record_response(self, key: object, *, served: bool, more: bool) -> None:
        self.recorded.append((served, more))


def recording() -> Any:
    return RecordingSession()


def read(name: str = "t", index: int = 0, *, served: bool = False, **data: Any) -> FetchRead:
    wanted = PartitionRequest(name, UUID(int=1), FetchRequest.FetchPartition(partition=index), None, ErrorCode.NONE)
    fields: dict[str, Any] = {
        "high_watermark": 5,
        "last_stable_offset": 5,
        "log_start_offset": 0,
        "preferred_read_replica": -1,
    }
    part = FetchResponse.PartitionData(partition_index=index, **{**fields, **data})
    wanted.cached = CachedPartitionState(5, 5, 0)
    return FetchRead((UUID(int=1), index), wanted, part, served=served)


@pytest.mark.parametrize(
    ("changes", "sent"),
    [
        ({}, False),
        ({"served": True}, True),
        ({"high_watermark": 6}, True),
        ({"last_stable_offset": 4}, True),
        ({"log_start_offset": 1}, True),
        ({"preferred_read_replica": 2}, True),
        ({"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER}, True),
    ],
)
def test_a_partition_is_sent_when_something_changed(changes: dict[str, Any], sent: bool) -> None:
    session, one = recording(), read(**changes)
    assert record_responses(session, [one]) == ([one] if sent else [])


def test_an_error_is_sent_until_the_next_successful_lookup() -> None:
    session, one = recording(), read(error_code=ErrorCode.UNKNOWN_TOPIC_ID)
    record_responses(session, [one])
    assert one.partition_request.cached is None and one.partition_request.error is ErrorCode.UNKNOWN_TOPIC_ID
    assert session.recorded == [(False, True)], "the partition is read again"
    again = read()
    again.partition_request.cached = None
    assert record_responses(session, [again]) == [again]


def test_partitions_are_grouped_by_topic_in_their_order() -> None:
    found = build_fetch_response([read("b", 1), read("a", 0), read("b", 0)], 9)
    assert found.session_id == 9
    assert [(t.topic, [p.partition_index for p in t.partitions]) for t in found.responses] == [
        ("b", [1, 0]),
        ("a", [0]),
    ]


def test_an_unauthorized_topic_has_no_offsets_and_no_records() -> None:
    topic = FetchRequest.FetchTopic("t", partitions=[FetchRequest.FetchPartition(partition=3)])
    (part,) = unauthorized_topics([topic])[0].partitions
    assert (part.partition_index, part.error_code, part.high_watermark, part.log_start_offset, part.records) == (
        3,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        -1,
        -1,
        b"",
    )


def test_a_single_region_is_sent_without_a_list() -> None:
    file: Any = None
    one, two = FileRegion(file, 0, 1), FileRegion(file, 1, 1)
    assert regions_of([one]) is one and regions_of([one, two]) == [one, two]


FOLLOWER = ReplicaIncarnation(3, 30)


def served_to_follower(*, served: int = 1_000, in_sync: bool = False, isr_size: int = 2) -> FetchRead:
    """A partition with min.insync.replicas 2."""
    one: Any = read()
    isr = frozenset({FOLLOWER} if in_sync else ())
    core = SimpleNamespace(isr_size=isr_size, min_insync=2, maximal_isr=lambda: isr)
    one.served, one.partition_request.replica = served, SimpleNamespace(core=core)
    return one  # type: ignore[no-any-return]


def test_a_follower_may_pause_only_if_nobody_waits_for_its_replicas() -> None:
    assert may_pause([served_to_follower(), served_to_follower(served=0, in_sync=True)], FOLLOWER)
    assert not may_pause([served_to_follower(), served_to_follower(in_sync=True)], FOLLOWER)
    assert not may_pause([served_to_follower(), served_to_follower(isr_size=1)], FOLLOWER)
    assert not may_pause([served_to_follower(served=0)], FOLLOWER), "a response without records waited for new ones"
