"""Messages of look-ups: invalid questions are error codes, and an answer stays small."""

from __future__ import annotations

import pytest

from brokerd.apis.key_lookup_messages import (
    HEADER_SHOWN_BYTES_MAX,
    HEADERS_SHOWN_MAX,
    KEY_BYTES_MAX,
    SHOWN_BYTES_MAX,
    answer_bytes,
    question_of,
)
from brokerd.apis.key_lookups import KeyLookupProgress
from brokerd.storage.key_search import KeyCriteria
from brokerd.wire import versioned
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest
from brokerd.wire.messages.key_lookups import KeyLookupAnswer, KeyLookupQuestion, LookupStop
from brokerd.wire.records import Record


def question(key: bytes = b"k", matches_max: int = 32, bytes_max: int = 1_000) -> KeyLookupQuestion:
    return KeyLookupQuestion(key=key, header_name="", matches_max=matches_max, bytes_max=bytes_max, duration_ms_max=1)


def part(data: bytes) -> FetchRequest.FetchPartition:
    return FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=0, key_lookup=data)


def test_a_question_survives_the_wire() -> None:
    requested = question()
    assert question_of(part(versioned.encode(requested, 0))) == requested


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"\x00\x09rest", ErrorCode.UNSUPPORTED_VERSION),
        (b"\x00\x00\xff\xff", ErrorCode.INVALID_REQUEST),
        (versioned.encode(question(b"k" * (KEY_BYTES_MAX + 1)), 0), ErrorCode.INVALID_REQUEST),
        (versioned.encode(question(matches_max=0), 0), ErrorCode.INVALID_REQUEST),
        (versioned.encode(question(bytes_max=0), 0), ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_invalid_question_results_in_an_error_code(data: bytes, error: ErrorCode) -> None:
    assert question_of(part(data)) is error


def test_an_answer_cuts_long_values_and_headers_and_has_the_full_sizes() -> None:
    headers = tuple(("n" * 5_000, b"v" * 5_000) for _ in range(HEADERS_SHOWN_MAX + 1))
    lookup = KeyLookupProgress(
        question(), KeyCriteria(b"k"), 0, 10, 4, 0, matches=[Record(4, 7, b"k", b"v" * 100_000, headers)]
    )
    answer = versioned.decode(KeyLookupAnswer, answer_bytes(lookup, LookupStop.MATCHES, 3), 0)
    (match,) = answer.matches
    assert (match.key, match.key_size, match.value_size) == (b"k", 1, 100_000)
    assert len(match.value or b"") == SHOWN_BYTES_MAX and len(match.headers) == HEADERS_SHOWN_MAX
    assert (
        {len(h.name) for h in match.headers} == {HEADER_SHOWN_BYTES_MAX} == {len(h.value or b"") for h in match.headers}
    )
    assert (answer.stop, answer.next_before_offset, answer.indexed_end_offset) == (LookupStop.MATCHES, 4, 3)
    done = versioned.decode(KeyLookupAnswer, answer_bytes(lookup, LookupStop.LOG_START, 3), 0)
    assert done.next_before_offset == -1
