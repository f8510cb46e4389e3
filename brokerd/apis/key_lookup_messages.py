"""Look-ups by key as messages: `KeyLookupQuestion` and `KeyLookupAnswer` in tagged fields of Fetch.

Invalid bytes lead to an error code. Keys, values and headers of matches are truncated, so that an answer stays small. Does not contain: the look-ups themselves
(`key_lookups`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from brokerd.wire import versioned
from brokerd.wire.errors import ErrorCode
from brokerd.wire.messages import FetchRequest
from brokerd.wire.messages.key_lookups import VERSION, KeyLookupAnswer, KeyLookupQuestion, LookupStop
from brokerd.wire.records import Record

KEY_BYTES_MAX = 64 * 1024
"""Maximum number of bytes of the key in a question."""
SHOWN_BYTES_MAX = 64 * 1024
"""Maximum number of bytes of a key or value in an answer."""
HEADERS_SHOWN_MAX = 100
HEADER_SHOWN_BYTES_MAX = 1024
"""Maximum number of bytes of a header's name or value in an answer."""


class LookupResult(Protocol):
    """The state of a look-up that the answer needs."""

    matches: list[Record]
    below: int
    start_offset: int
    end_offset: int
    log_bytes: int
    index_bytes: int
    indexed: set[int]
    scanned: set[int]


def question_of(part: FetchRequest.FetchPartition) -> KeyLookupQuestion | ErrorCode:
    """The question, or an error code if the bytes are invalid or a value is out of range."""
    try:
        question = versioned.decode(KeyLookupQuestion, part.key_lookup, VERSION)
    except versioned.UnknownVersion:
        return ErrorCode.UNSUPPORTED_VERSION
    except (ValueError, RecursionError):
        return ErrorCode.INVALID_REQUEST
    if len(question.key) > KEY_BYTES_MAX or question.matches_max < 1 or question.bytes_max < 1:
        return ErrorCode.INVALID_REQUEST
    return question


def answer_bytes(result: LookupResult, stop: LookupStop, indexed_end_offset: int) -> bytes:
    answer = KeyLookupAnswer(
        matches=[_match(r) for r in result.matches],
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
    return versioned.encode(answer, VERSION)


def _match(r: Record) -> KeyLookupAnswer.Match:
    return KeyLookupAnswer.Match(
        offset=r.offset,
        timestamp=r.timestamp,
        key=_truncate(r.key, SHOWN_BYTES_MAX),
        key_size=_size(r.key),
        value=_truncate(r.value, SHOWN_BYTES_MAX),
        value_size=_size(r.value),
        headers=_headers(r.headers[:HEADERS_SHOWN_MAX]),
    )


def _headers(headers: Sequence[tuple[str, bytes | None]]) -> list[KeyLookupAnswer.Header]:
    return [
        KeyLookupAnswer.Header(name=name[:HEADER_SHOWN_BYTES_MAX], value=_truncate(value, HEADER_SHOWN_BYTES_MAX))
        for name, value in headers
    ]


def _truncate(data: bytes | None, size: int) -> bytes | None:
    return None if data is None else data[:size]


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)
