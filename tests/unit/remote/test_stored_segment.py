"""The fields of a segment in requests to the helper."""

from __future__ import annotations

from brokerd.remote.stored_segment import StoredSegment


def test_a_segment_is_built_from_its_fields_with_and_without_a_key_index() -> None:
    assert StoredSegment.of(["n", 3, 9, 100, 5, 1, 40, 7]) == StoredSegment("n", 3, 9, 100, 5, 1, 40, 7)
    assert StoredSegment.of(["n", 3, 9, 100]).key_index_bytes == 0
