"""Records as the matches of a look-up by key, truncated. Does not contain: the search, the messages (`messages/key_lookups`)."""

from __future__ import annotations

from collections.abc import Sequence

from brokerd.wire.messages.key_lookups import KeyLookupResponse
from brokerd.wire.records import Record

SHOWN_BYTES_MAX = 64 * 1024
"""Maximum number of bytes of a key or value in a response."""
HEADERS_SHOWN_MAX = 100
HEADER_SHOWN_BYTES_MAX = 1024
"""Maximum number of bytes of a header's name or value in a response."""


def match_of(record: Record) -> KeyLookupResponse.Match:
    """The record as a match: its key, value and headers are truncated, so that a response stays small."""
    return KeyLookupResponse.Match(
        offset=record.offset,
        timestamp=record.timestamp,
        key=_truncate(record.key, SHOWN_BYTES_MAX),
        key_size=_size(record.key),
        value=_truncate(record.value, SHOWN_BYTES_MAX),
        value_size=_size(record.value),
        headers=_headers(record.headers[:HEADERS_SHOWN_MAX]),
    )


def _headers(headers: Sequence[tuple[str, bytes | None]]) -> list[KeyLookupResponse.Header]:
    return [
        KeyLookupResponse.Header(name=name[:HEADER_SHOWN_BYTES_MAX], value=_truncate(value, HEADER_SHOWN_BYTES_MAX))
        for name, value in headers
    ]


def _truncate(data: bytes | None, size: int) -> bytes | None:
    return None if data is None else data[:size]


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)
