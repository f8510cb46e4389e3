"""Look-ups by key as messages: `KeyLookupRequest` and `KeyLookupResponse` in tagged fields of Fetch.

Invalid bytes lead to an error code. Does not contain: the look-ups themselves (`key_lookups`), the truncation of matches (`wire/key_matches`).
"""

from __future__ import annotations

from typing import Protocol

from brokerd.wire import versioned
from brokerd.wire.errors import ErrorCode
from brokerd.wire.key_matches import match_of
from brokerd.wire.messages import FetchRequest
from brokerd.wire.messages.key_lookups import VERSION, KeyLookupRequest, KeyLookupResponse, LookupStop
from brokerd.wire.records import Record

KEY_BYTES_MAX = 64 * 1024
"""Maximum number of bytes of the key in a query."""


class LookupResult(Protocol):
    """The state of a look-up that the response needs."""

    matches: list[Record]
    below: int
    start_offset: int
    end_offset: int
    log_bytes: int
    index_bytes: int
    indexed: set[int]
    scanned: set[int]
    remote: KeyLookupResponse | None
    """The result of the search in the remote store."""


def query_of(part: FetchRequest.FetchPartition) -> KeyLookupRequest | ErrorCode:
    """The query, or an error code if the bytes are invalid or a value is out of range."""
    try:
        query = versioned.decode(KeyLookupRequest, part.key_lookup, VERSION)
    except versioned.UnknownVersion:
        return ErrorCode.UNSUPPORTED_VERSION
    except (ValueError, RecursionError):
        return ErrorCode.INVALID_REQUEST
    if len(query.key) > KEY_BYTES_MAX or query.matches_max < 1 or query.bytes_max < 1:
        return ErrorCode.INVALID_REQUEST
    return query


def response_bytes(result: LookupResult, stop: LookupStop, indexed_end_offset: int) -> bytes:
    remote = result.remote
    response = KeyLookupResponse(
        matches=[*(match_of(r) for r in result.matches), *(remote.matches if remote is not None else ())],
        stop=stop,
        next_before_offset=-1 if stop is LookupStop.LOG_START else result.below,
        start_offset=result.start_offset,
        end_offset=result.end_offset,
        indexed_end_offset=indexed_end_offset,
        log_bytes=result.log_bytes,
        index_bytes=result.index_bytes,
        segments_indexed=len(result.indexed),
        segments_scanned=len(result.scanned - result.indexed),
    )
    if remote is not None:
        response.log_bytes += remote.log_bytes
        response.index_bytes += remote.index_bytes
        response.segments_indexed += remote.segments_indexed
        response.segments_scanned += remote.segments_scanned
    return versioned.encode(response, VERSION)
