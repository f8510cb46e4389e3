"""Pending delayed messages, from the leader of a front partition: a Fetch request with a tagged field that only brokers of Weir read.

A call has a deadline; without a response it raises NoResponse. Does not contain: several partitions (`selectors.delayed_messages`).
"""

from __future__ import annotations

from brokerd.wire import messages as m
from brokerd.wire import versioned
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages.delayed_messages import VERSION, DelayedMessagesRequest, DelayedMessagesResponse
from controlplane.clients.connection import Declined, KafkaConnection, NoResponse

FETCH_VERSION = 12
"""The last one that names topics."""
READ_SECONDS = 3.0
"""Time for the response beyond the time of the look-up itself. A bucket of the schedule is searched to its end."""
ELEMENTS_MAX = 10_000
"""Maximum number of records and counts in one response."""


def fetch_pending(
    broker: KafkaConnection, front_topic: str, partition: int, query: DelayedMessagesRequest
) -> DelayedMessagesResponse:
    """Raises NoResponse, or Declined with the name of the error or when the broker does not know such queries."""
    requested = m.FetchRequest.FetchPartition(
        partition=partition,
        fetch_offset=0,
        partition_max_bytes=0,
        delayed_messages=versioned.encode(query, VERSION),
    )
    body = m.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=0,
        topics=[m.FetchRequest.FetchTopic(topic=front_topic, partitions=[requested])],
    )
    response = broker.call(ApiKey.FETCH, FETCH_VERSION, body, query.duration_ms_max / 1000 + READ_SECONDS)
    parts = [p for t in response.responses for p in t.partitions]
    code = ErrorCode(response.error_code or (parts[0].error_code if parts else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    if code:
        raise Declined(code.name)
    if not parts[0].delayed_messages:
        raise Declined(f"{broker.host}:{broker.port} is a broker of an earlier version, without this query")
    try:
        return versioned.decode(DelayedMessagesResponse, parts[0].delayed_messages, VERSION, ELEMENTS_MAX)
    except ValueError as e:
        raise NoResponse(f"{broker.host}:{broker.port}: malformed response about delayed messages: {e}") from e
