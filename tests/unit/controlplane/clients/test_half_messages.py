"""The query for undecided half messages, and the responses that are rejected."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.wire import messages as m
from brokerd.wire import versioned
from brokerd.wire.messages.half_messages import VERSION, HalfMessagesRequest, HalfMessagesResponse
from controlplane.clients.connection import Declined, NoResponse
from controlplane.clients.half_messages import fetch_undecided


class Broker:
    host, port = "h", 9092

    def __init__(self, **part: Any) -> None:
        self.part, self.asked = part, list[Any]()

    def call(self, key: int, version: int, body: Any, timeout_s: float) -> Any:
        self.asked.append(body)
        parts = [m.FetchResponse.PartitionData(partition_index=0, high_watermark=0, **self.part)]
        return m.FetchResponse(responses=[m.FetchResponse.FetchableTopicResponse(topic="t.half", partitions=parts)])


def fetch_undecided_messages(broker: Any) -> HalfMessagesResponse:
    return fetch_undecided(broker, "t.half", 0, 7, 500)


def test_the_response_is_read_back_and_no_records_are_requested() -> None:
    response = HalfMessagesResponse(undecided=3, delivered=7)
    broker = Broker(half_messages=versioned.encode(response, VERSION))
    assert fetch_undecided_messages(broker) == response
    (body,) = broker.asked
    (part,) = body.topics[0].partitions
    assert (body.max_bytes, part.partition_max_bytes) == (0, 0)
    query = versioned.decode(HalfMessagesRequest, part.half_messages, VERSION, 10)
    assert (query.from_offset, query.messages_max) == (7, 500)


def test_errors_and_older_brokers_decline_and_malformed_bytes_are_no_response() -> None:
    with pytest.raises(Declined, match="NOT_LEADER_OR_FOLLOWER"):
        fetch_undecided_messages(Broker(error_code=6))
    with pytest.raises(Declined, match="earlier version"):
        fetch_undecided_messages(Broker(half_messages=b""))
    with pytest.raises(NoResponse, match="malformed"):
        fetch_undecided_messages(Broker(half_messages=b"\xff\xff"))
