"""Undecided half messages, from the leader of a front partition: a Fetch request with a tagged field that only brokers of Weir read.

A call has a deadline; without a response it raises NoResponse. Does not contain: several partitions (`selectors.half_messages`).
"""

from __future__ import annotations

from brokerd.wire import messages as m
from brokerd.wire import versioned
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages.half_messages import VERSION, HalfMessagesRequest, HalfMessagesResponse
from controlplane.clients.connection import Declined, KafkaConnection, NoResponse

FETCH_VERSION = 12
"""The last one that names topics."""
READ_SECONDS = 2.0
ELEMENTS_MAX = 10_000
"""Maximum number of messages in one response."""


def fetch_undecided(
    broker: KafkaConnection, front_topic: str, partition: int, from_offset: int, messages_max: int
) -> HalfMessagesResponse:
    """Raises NoResponse, or Declined with the name of the error or when the broker does not know half messages."""
    query = HalfMessagesRequest(from_offset=from_offset, messages_max=messages_max)
    requested = m.FetchRequest.FetchPartition(
        partition=partition,
        fetch_offset=0,
        partition_max_bytes=0,
        half_messages=versioned.encode(query, VERSION),
    )
    body = m.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=0,
        topics=[m.FetchRequest.FetchTopic(topic=front_topic, partitions=[requested])],
    )
    response = broker.call(ApiKey.FETCH, FETCH_VERSION, body, READ_SECONDS)
    parts = [p for t in response.responses for p in t.partitions]
    code = ErrorCode(response.error_code or (parts[0].error_code if parts else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    if code:
        raise Declined(code.name)
    if not parts[0].half_messages:
        raise Declined(f"{broker.host}:{broker.port} is a broker of an earlier version, without half messages")
    try:
        return versioned.decode(HalfMessagesResponse, parts[0].half_messages, VERSION, ELEMENTS_MAX)
    except ValueError as e:
        raise NoResponse(f"{broker.host}:{broker.port}: malformed response about half messages: {e}") from e
