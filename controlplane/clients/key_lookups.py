"""Look-ups by key at the leader of a partition: a Fetch request with a tagged field that only brokers of Weir read.

A call has a deadline; without a response it raises NoResponse. Does not contain: several partitions (`selectors.key_lookups`).
"""

from __future__ import annotations

from brokerd.wire import messages as m
from brokerd.wire import versioned
from brokerd.wire.apis import ApiKey
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages.key_lookups import RESPONSE_ELEMENTS_MAX, VERSION, KeyLookupRequest, KeyLookupResponse
from controlplane.clients.connection import Declined, KafkaConnection, NoResponse

FETCH_VERSION = 12
"""The last one that names topics."""
READ_COMMITTED = 1
RESPONSE_SECONDS = 2.0
"""Time for the response beyond the time of the look-up itself."""


def look_up(broker: KafkaConnection, topic: str, partition: int, query: KeyLookupRequest) -> KeyLookupResponse:
    """Raises NoResponse, or Declined with the name of the error or when the broker does not know look-ups."""
    requested = m.FetchRequest.FetchPartition(
        partition=partition,
        fetch_offset=0,
        partition_max_bytes=0,
        key_lookup=versioned.encode(query, VERSION),
    )
    body = m.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=0,
        isolation_level=READ_COMMITTED,
        topics=[m.FetchRequest.FetchTopic(topic=topic, partitions=[requested])],
    )
    response = broker.call(ApiKey.FETCH, FETCH_VERSION, body, query.duration_ms_max / 1000 + RESPONSE_SECONDS)
    parts = [p for t in response.responses for p in t.partitions]
    code = ErrorCode(response.error_code or (parts[0].error_code if parts else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    if code:
        raise Declined(code.name)
    if not parts[0].key_lookup:
        raise Declined(f"{broker.host}:{broker.port} is a broker of an earlier version, without look-ups by key")
    try:
        return versioned.decode(KeyLookupResponse, parts[0].key_lookup, VERSION, RESPONSE_ELEMENTS_MAX)
    except ValueError as e:
        raise NoResponse(f"{broker.host}:{broker.port}: malformed response to a look-up: {e}") from e
