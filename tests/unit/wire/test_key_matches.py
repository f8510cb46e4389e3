"""Matches of a look-up by key stay small."""

from __future__ import annotations

from brokerd.wire.key_matches import HEADER_SHOWN_BYTES_MAX, HEADERS_SHOWN_MAX, SHOWN_BYTES_MAX, match_of
from brokerd.wire.records import Record


def test_a_match_has_truncated_values_and_headers_and_the_full_sizes() -> None:
    headers = tuple(("n" * 5_000, b"v" * 5_000) for _ in range(HEADERS_SHOWN_MAX + 1))
    match = match_of(Record(4, 7, b"k", b"v" * 100_000, headers))
    assert (match.offset, match.timestamp, match.key, match.key_size, match.value_size) == (4, 7, b"k", 1, 100_000)
    assert len(match.value or b"") == SHOWN_BYTES_MAX and len(match.headers) == HEADERS_SHOWN_MAX
    assert (
        {len(h.name) for h in match.headers} == {HEADER_SHOWN_BYTES_MAX} == {len(h.value or b"") for h in match.headers}
    )


def test_a_missing_key_or_value_has_size_minus_one() -> None:
    match = match_of(Record(0, 0, None, None, (("h", None),)))
    assert (match.key, match.key_size, match.value, match.value_size) == (None, -1, None, -1)
    assert [(h.name, h.value) for h in match.headers] == [("h", None)]
