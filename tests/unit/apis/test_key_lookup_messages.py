"""Messages of look-ups: invalid queries are error codes, and a response has both tiers."""

from __future__ import annotations

import pytest

from brokerd.apis.key_lookup_messages import KEY_BYTES_MAX, query_of, response_bytes
from brokerd.apis.key_lookups import KeyLookupProgress
from brokerd.storage.key_search import KeyCriteria
from brokerd.wire import versioned
from brokerd.wire.errors import ErrorCode
from brokerd.wire.key_matches import match_of
from brokerd.wire.messages import FetchRequest
from brokerd.wire.messages.key_lookups import KeyLookupRequest, KeyLookupResponse, LookupStop
from brokerd.wire.records import Record


def query(key: bytes = b"k", matches_max: int = 32, bytes_max: int = 1_000) -> KeyLookupRequest:
    return KeyLookupRequest(key=key, header_name="", matches_max=matches_max, bytes_max=bytes_max, duration_ms_max=1)


def partition_request(data: bytes) -> FetchRequest.FetchPartition:
    return FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=0, key_lookup=data)


def test_a_question_survives_the_wire() -> None:
    requested = query()
    assert query_of(partition_request(versioned.encode(requested, 0))) == requested


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"\x00\x09rest", ErrorCode.UNSUPPORTED_VERSION),
        (b"\x00\x00\xff\xff", ErrorCode.INVALID_REQUEST),
        (versioned.encode(query(b"k" * (KEY_BYTES_MAX + 1)), 0), ErrorCode.INVALID_REQUEST),
        (versioned.encode(query(matches_max=0), 0), ErrorCode.INVALID_REQUEST),
        (versioned.encode(query(bytes_max=0), 0), ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_invalid_question_results_in_an_error_code(data: bytes, error: ErrorCode) -> None:
    assert query_of(partition_request(data)) is error


def respond(stop: LookupStop, remote: KeyLookupResponse | None = None) -> KeyLookupResponse:
    lookup = KeyLookupProgress(query(), KeyCriteria(b"k"), 0, 10, 4, 0, matches=[Record(4, 7, b"k", b"v")])
    lookup.log_bytes, lookup.index_bytes, lookup.scanned, lookup.remote = 100, 10, {0}, remote
    return versioned.decode(KeyLookupResponse, response_bytes(lookup, stop, 3), 0)


def test_a_response_says_where_the_search_stopped() -> None:
    found = respond(LookupStop.MATCHES)
    assert (found.stop, found.next_before_offset, found.indexed_end_offset) == (LookupStop.MATCHES, 4, 3)
    assert respond(LookupStop.LOG_START).next_before_offset == -1


def test_a_response_includes_the_matches_and_counts_of_the_remote_store() -> None:
    remote = KeyLookupResponse(
        matches=[match_of(Record(2, 5, b"k", b"old"))],
        stop=LookupStop.LOG_START,
        log_bytes=1_000,
        index_bytes=200,
        segments_indexed=3,
        segments_scanned=1,
    )
    found = respond(LookupStop.LOG_START, remote)
    assert [m.offset for m in found.matches] == [4, 2]
    assert (found.log_bytes, found.index_bytes) == (1_100, 210)
    assert (found.segments_indexed, found.segments_scanned) == (3, 2)
