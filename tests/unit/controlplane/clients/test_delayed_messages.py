"""The query about pending delayed messages, and answers that are no responses."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.wire import messages as m
from brokerd.wire import versioned
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages.delayed_messages import VERSION, DelayedMessagesRequest, DelayedMessagesResponse
from controlplane.clients.connection import Declined, NoResponse
from controlplane.clients.delayed_messages import fetch_pending

RESPONSE = DelayedMessagesResponse(
    pending=3,
    counts=[1, 2],
    delivered=0,
    cancelled=0,
    discarded=0,
    records=[DelayedMessagesResponse.Pending(1, 2, False)],
)


class Leader:
    """A connection that answers each Fetch with these bytes."""

    host, port = "b1", 9092

    def __init__(self, described: bytes, error: ErrorCode = ErrorCode.NONE) -> None:
        self.described, self.error = described, error
        self.asked: list[Any] = []

    def call(self, api: int, version: int, body: m.FetchRequest, seconds: float) -> m.FetchResponse:
        self.asked.append((body, seconds))
        part = m.FetchResponse.PartitionData(
            partition_index=4, error_code=self.error, high_watermark=-1, records=b"", delayed_messages=self.described
        )
        return m.FetchResponse(responses=[m.FetchResponse.FetchableTopicResponse(topic="t.delay", partitions=[part])])


def fetch_pending_messages(leader: Any) -> DelayedMessagesResponse:
    return fetch_pending(leader, "t.delay", 4, DelayedMessagesRequest(bounds_ms=[5], duration_ms_max=2_000))


def test_the_question_names_the_partition_and_the_response_is_decoded() -> None:
    leader = Leader(versioned.encode(RESPONSE, VERSION))
    assert fetch_pending_messages(leader) == RESPONSE
    (body, seconds) = leader.asked[0]
    wanted = body.topics[0].partitions[0]
    assert (body.topics[0].topic, wanted.partition) == ("t.delay", 4) and seconds > 2
    assert versioned.decode(DelayedMessagesRequest, wanted.delayed_messages, VERSION).bounds_ms == [5]


def test_rejections_and_bytes_without_a_meaning_are_errors() -> None:
    with pytest.raises(Declined, match="NOT_LEADER_OR_FOLLOWER"):
        fetch_pending_messages(Leader(b"", ErrorCode.NOT_LEADER_OR_FOLLOWER))
    with pytest.raises(Declined, match="earlier version"):
        fetch_pending_messages(Leader(b""))
    with pytest.raises(NoResponse, match="malformed"):
        fetch_pending_messages(Leader(b"\0\0x"))
