"""The request of a look-up by key: a Fetch with a private field; errors, brokers of an earlier version and malformed responses are distinct errors."""

from __future__ import annotations

from typing import Any

import pytest

from brokerd.wire import messages as m
from brokerd.wire import versioned
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages.key_lookups import KeyLookupRequest, KeyLookupResponse, LookupStop
from controlplane.clients.connection import Declined, NoResponse
from controlplane.clients.key_lookups import look_up

QUESTION = KeyLookupRequest(key=b"k", header_name="", bytes_max=10, duration_ms_max=500)


class Broker:
    host, port = "127.0.0.1", 9092

    def __init__(self, data: bytes = b"", code: int = 0) -> None:
        self.data, self.code = data, code
        self.asked: list[Any] = []

    def call(self, api: int, version: int, body: Any, timeout_s: float) -> Any:
        self.asked.append((body, timeout_s))
        part = m.FetchResponse.PartitionData(
            partition_index=3, error_code=self.code, high_watermark=9, records=b"", key_lookup=self.data
        )
        topic = m.FetchResponse.FetchableTopicResponse(topic="t", partitions=[part])
        return m.FetchResponse(responses=[topic])


def look_up_key(broker: Broker) -> KeyLookupResponse:
    return look_up(broker, "t", 3, QUESTION)  # type: ignore[arg-type]


def test_the_question_is_in_the_request_and_the_deadline_is_above_that_of_the_broker() -> None:
    response = KeyLookupResponse(matches=[], stop=LookupStop.TIME, next_before_offset=7)
    broker = Broker(versioned.encode(response, 0))
    assert look_up_key(broker) == response
    ((body, timeout_s),) = broker.asked
    (part,) = body.topics[0].partitions
    assert (body.topics[0].topic, part.partition, body.isolation_level) == ("t", 3, 1) and timeout_s > 0.5
    assert versioned.decode(KeyLookupRequest, part.key_lookup, 0) == QUESTION


def test_an_error_an_earlier_version_and_a_malformed_response_are_distinct() -> None:
    with pytest.raises(Declined, match="NOT_LEADER_OR_FOLLOWER"):
        look_up_key(Broker(code=ErrorCode.NOT_LEADER_OR_FOLLOWER))
    with pytest.raises(Declined, match="earlier version"):
        look_up_key(Broker())
    with pytest.raises(NoResponse, match="malformed"):
        look_up_key(Broker(b"\0\0\xff\xff"))
